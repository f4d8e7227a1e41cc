"""This node's agents behind A2A: a task is a thread, and its messages are the same signed envelopes.

The extension `https://ind.ai/ext/intent/v1` carries one envelope as a data part, `{"envelope": "<base64>"}`.
It is checked by the same gate and taken by the same engine as one that a peer's node delivers; A2A adds no
trust and takes none away. The task follows the thread:

    negotiating          INPUT_REQUIRED  the peer's move, or ours on its way
    our owner is asked   AUTH_REQUIRED   a signal; no answer over A2A ever authorises anything
    receipt awaited      WORKING
    committed            COMPLETED       commitment and receipt as artifacts
    refused, lapsed      REJECTED
    withdrawn            CANCELED

Replies ride in the answer only if mutual TLS shows the sender's registered node; else they go to its
registered address, so a replayed envelope is no oracle.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Final

from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format, struct_pb2
from indai.a2a.agents import Agent, TaskEvent, Turn, artifact, status
from indai.a2a.calls import Call
from indai.client.resolver import Resolver
from indai.node.a2a_extended import extend
from indai.node.agents import Agents
from indai.node.draft import ThreadState
from indai.node.engine import Engine
from indai.node.inbound import Gate, Inbound
from indai.node.kinds.served import INTENTS
from indai.node.peer_service import told
from indai.node.refusals import Refusals
from indai.node.store import Store
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.protocol.party_state import Phase

EXTENSION: Final = "https://ind.ai/ext/intent/v1"
MEDIA_TYPE: Final = "application/vnd.ind.envelope+json"

Asker = Callable[[str, str], Awaitable[str]]
"""Answers a stranger's question to a handle, from its public slice alone."""

_STATES: Final = {
    Phase.NEGOTIATING: pb.TASK_STATE_INPUT_REQUIRED,
    Phase.ASKING_OWNER: pb.TASK_STATE_AUTH_REQUIRED,
    Phase.ON_HOLD: pb.TASK_STATE_INPUT_REQUIRED,
    Phase.AWAITING_RECEIPT: pb.TASK_STATE_WORKING,
    Phase.COMMITTED: pb.TASK_STATE_COMPLETED,
    Phase.REJECTED: pb.TASK_STATE_REJECTED,
    Phase.WITHDRAWN: pb.TASK_STATE_CANCELED,
    Phase.LAPSED: pb.TASK_STATE_REJECTED,
    Phase.IN_DOUBT: pb.TASK_STATE_WORKING,
}
_WORDS: Final = {
    Phase.NEGOTIATING: "The negotiation goes on: send the next signed message.",
    Phase.ASKING_OWNER: "The owner is being asked. Nothing sent here answers for them.",
    Phase.ON_HOLD: "Your owner is being asked, by your own word.",
    Phase.AWAITING_RECEIPT: "Signed by all; the receipt is awaited.",
    Phase.COMMITTED: "Agreed.",
    Phase.REJECTED: "Refused.",
    Phase.WITHDRAWN: "Withdrawn.",
    Phase.LAPSED: "It ran out of time.",
    Phase.IN_DOUBT: "The outcome isn't known yet.",
}
_SKILLS: Final = {
    "meet": ("Arrange a meeting", "Finds a time that is free on both sides and books it in both calendars."),
    "share": ("Share", "Releases a profile field or document to you, if its owner's rules allow it."),
    "ask": ("Ask", "Answers a question from what you may know, with its sources."),
    "pay": ("Pay", "Requests or offers a payment within its owner's limits."),
    "book": ("Book", "Books a service or thing that is in stock."),
}


class NodeAgents:
    """The agents that live here, by handle or by their name under the node's authority.

    `authority` is the part that names share; `asker` answers unsigned questions.
    """

    def __init__(
        self,
        agents: Agents,
        gate: Gate,
        engine: Engine,
        store: Store,
        refusals: Refusals,
        clock: Callable[[], int],
        authority: str,
        resolver: Resolver,
        asker: Asker | None = None,
    ) -> None:
        self._agents, self._gate, self._engine = agents, gate, engine
        self._store, self._refusals, self._clock = store, refusals, clock
        self._authority, self._asker = authority, asker
        self.resolver = resolver

    async def find(self, tenant: str) -> Agent | None:
        """The agent of a tenant. Without one, the only agent that lives here."""
        names = [tenant, f"{self._authority}/{tenant}"] if tenant else list(self._agents)
        found = [name for name in names if name in self._agents]
        return HandleAgent(found[0], self) if found and (tenant or len(found) == 1) else None

    async def take(self, owner: str, raw: bytes, spki: bytes) -> tuple[Inbound, list[bytes]]:
        """Give an envelope to the engine. Raises IndaiError; what is refused is in the owner's journal."""
        inbound: Inbound | None = None
        try:
            inbound = await self._gate.check(raw, spki or None, self._clock())
            if inbound.owner != owner:
                raise IndaiError(Reason.WRONG_AUDIENCE, f"The envelope is not for {owner}.")
            replies = await self._engine.deliver(inbound)
        except IndaiError as error:
            await self._refusals.note(raw, inbound, error)
            said = told(error, inbound)
            if said.reason == Reason.UNREACHABLE.name:
                raise Unavailable(Reason.UNREACHABLE, said.message) from None
            raise IndaiError(error.reason, said.message) from None
        return inbound, replies if inbound.proven else []

    async def follow(self, owner: str, thread: bytes) -> AsyncGenerator[ThreadState, None]:
        """The thread now and at each change, until it has ended."""
        with self._engine.changes(owner, thread) as changed:
            while True:
                changed.clear()
                state = await self._engine.state(owner, thread)
                if state is None:
                    return
                yield state
                if state.side.phase.ended:
                    return
                await changed.wait()

    async def proofs(self, owner: str, thread: bytes) -> list[tuple[str, bytes]]:
        """Commitment with all signatures, and receipt, as they are stored."""
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT move, envelope FROM node.messages"
                " WHERE owner = $1 AND thread = $2 AND move IN ('ACCEPT', 'RECEIPT') ORDER BY move",
                owner,
                thread,
            )
        names = {"ACCEPT": "commitment", "RECEIPT": "receipt"}
        return [(names[row["move"]], row["envelope"]) for row in rows if row["envelope"]]

    async def answer(self, owner: str, text: str) -> str | None:
        """The answer to a stranger's question, or None where unsigned questions aren't answered."""
        return await self._asker(owner, text) if self._asker else None


class HandleAgent:
    """One handle's agent behind A2A."""

    def __init__(self, handle: str, node: NodeAgents) -> None:
        self.handle = handle
        self._node = node

    @property
    def card(self) -> pb.AgentCard:
        """What it can do, in the words of A2A."""
        card = pb.AgentCard(
            name=self.handle,
            description=f"The agent of {self.handle}: deals with other agents under its owner's policy.",
            version="1",
            default_input_modes=["text/plain", "application/json", MEDIA_TYPE],
            default_output_modes=["text/plain", "application/json", MEDIA_TYPE],
            capabilities=pb.AgentCapabilities(
                streaming=True, push_notifications=True, extended_agent_card=True
            ),
        )
        extension = card.capabilities.extensions.add(
            uri=EXTENSION, description="Signed intents: one DSSE envelope as a data part.", required=False
        )
        extension.params.update({"handle": self.handle, "intents": list(INTENTS)})
        for kind in INTENTS:
            name, what = _SKILLS[kind]
            card.skills.add(id=kind, name=name, description=what, tags=["ind.ai", kind])
        return card

    async def extended(self) -> pb.AgentCard:
        """See `indai.node.a2a_extended`."""
        return await extend(self.card, self.handle, self._node.resolver)

    def message_key(self, message: pb.Message) -> bytes | None:
        """The envelope's digest."""
        raw = envelope_of(message)
        return hashlib.sha256(raw).digest() if raw else None

    async def reply(self, message: pb.Message, call: Call) -> pb.Message | None:
        """Everything is a task."""
        return None

    async def work(self, turn: Turn) -> AsyncIterator[TaskEvent]:
        """A signed envelope goes to the engine; plain text is a stranger's question."""
        raw = envelope_of(turn.message)
        if raw is None:
            yield await self._answered(turn)
            return
        try:
            inbound, replies = await self._node.take(self.handle, raw, turn.call.spki)
        except Unavailable as error:
            yield status(pb.TASK_STATE_INPUT_REQUIRED, f"{error.message} Send it again.")
            return
        except IndaiError as error:
            yield status(pb.TASK_STATE_REJECTED, error.message)
            return
        thread = inbound.message.thread
        async for event in self._events(thread, replies):
            yield event

    def resume(self, turn: Turn) -> AsyncIterator[TaskEvent] | None:
        """The thread goes on without us: what became of it is told again."""
        thread = _thread_of(turn.task)
        return self._events(thread, []) if thread else None

    async def cancel(self, task: pb.Task, call: Call) -> bool:
        """Only a signed WITHDRAW takes a signed proposal back; what has no thread may go."""
        return _thread_of(task) is None

    async def _answered(self, turn: Turn) -> TaskEvent:
        text = "\n".join(part.text for part in turn.message.parts if part.text).strip()
        if not text:
            return status(pb.TASK_STATE_REJECTED, "Send a question as text, or a signed envelope.")
        answer = await self._node.answer(self.handle, text)
        if answer is None:
            return status(pb.TASK_STATE_REJECTED, "This agent takes signed intents only.")
        return status(pb.TASK_STATE_COMPLETED, answer)

    async def _events(self, thread: bytes, replies: list[bytes]) -> AsyncIterator[TaskEvent]:
        last: Phase | None = None
        async with contextlib.aclosing(self._node.follow(self.handle, thread)) as states:
            async for state in states:
                phase = state.side.phase
                if phase is last:
                    continue
                if phase is Phase.COMMITTED:
                    for name, raw in await self._node.proofs(self.handle, thread):
                        yield artifact(_envelope_part(raw), name=name, artifact_id=name)
                event = status(_STATES[phase], _told(state, phase))
                event.metadata.update({EXTENSION: {"handle": self.handle, "thread": thread.hex()}})
                if last is None:
                    event.status.message.parts.extend(_envelope_part(raw) for raw in replies)
                last = phase
                yield event


def envelope_of(message: pb.Message) -> bytes | None:
    """The envelope in a message's data part; None if there is none. Raises nothing: what is no base64 is no
    envelope, and the text beside it is then what was said."""
    for part in message.parts:
        if part.HasField("data") and part.data.HasField("struct_value"):
            value = part.data.struct_value.fields.get("envelope")
            if value is not None and value.string_value:
                try:
                    return base64.b64decode(value.string_value, validate=True)
                except (binascii.Error, ValueError):
                    return b""
    return None


def _envelope_part(raw: bytes) -> pb.Part:
    value = struct_pb2.Value()
    json_format.ParseDict({"envelope": base64.b64encode(raw).decode()}, value)
    return pb.Part(data=value, media_type=MEDIA_TYPE)


def _thread_of(task: pb.Task) -> bytes | None:
    known = json_format.MessageToDict(task.metadata).get(EXTENSION)
    try:
        return bytes.fromhex(known["thread"]) if known else None
    except (KeyError, TypeError, ValueError):
        return None


def _told(state: ThreadState, phase: Phase) -> str:
    """Words for a person. Why we refused is for the owner alone: the peer has the signed reason."""
    if phase is Phase.COMMITTED:
        row = state.view()
        return f"Agreed: {row['title']}." if row.get("title") else _WORDS[phase]
    return _WORDS[phase]
