"""What other nodes may ask of this one: deliver signed messages.

Each envelope of a batch stands for itself: a bad one gets its error and the others go on. A stranger, whose
key we could not tie to a registered node, gets one uniform error whatever was wrong; the owner's journal has
the reason. What is refused is counted against its caller (`indai.node.quota`), so that a flood of bad
signatures doesn't slow good peers. What is wrong on our own side (a calendar that can't be read, a database
that is away) is no answer: the caller only learns to come again, and the owner's journal says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from indai.client.resolver import Resolver
from indai.client.tls import caller_spki
from indai.node.engine import Engine
from indai.node.handshakes import Handshakes
from indai.node.inbound import Gate, Inbound
from indai.node.peer_heads import PeerHeads
from indai.node.quota import Quota
from indai.node.refusals import Refusals
from indai.protocol import hello
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, ProtocolError, Reason, Unavailable
from indai.v1 import peer_pb2, peer_pb2_grpc

MAX_BATCH = 64
STREAMS = 16  # calls at once on one connection; a peer's outbox makes four
HOLD_S = 2.0
MAX_HELD = 512  # half of what the server takes at once

Taken = tuple[peer_pb2.DeliverResult, bool, bool]
"""The result, whether it counts against the caller, and whether it was good and proven."""
TurnedAway = dict[tuple[str, str], IndaiError]

log = structlog.get_logger(__name__)


class PeerServicer(peer_pb2_grpc.PeerServiceServicer):
    """PeerService, over the gate (signatures) and the engine (state)."""

    def __init__(
        self,
        gate: Gate,
        engine: Engine,
        refusals: Refusals,
        resolver: Resolver,
        handshakes: Handshakes,
        heads: PeerHeads,
        clock: Callable[[], int],
        web: Callable[[], str],
    ) -> None:
        """`web`: where this node's pages are; empty where it has none."""
        self._handshakes = handshakes
        self._heads = heads
        self._gate = gate
        self._engine = engine
        self._refusals = refusals
        self._resolver = resolver
        self._clock = clock
        self._web = web
        self._quota = Quota(clock)
        self._held = 0

    async def GetRegistryHead(
        self, request: peer_pb2.GetRegistryHeadRequest, context: Any
    ) -> peer_pb2.GetRegistryHeadResponse:
        """A head that this node has verified lately, with the registry's signature."""
        head = self._resolver.head_at(request.size)
        if head is None:
            message = f"This node has no registry head of size {request.size} any more."
            raise NotFound(Reason.NOT_FOUND, message)
        return peer_pb2.GetRegistryHeadResponse(checkpoint=head.note)

    async def GetWebAddress(
        self, request: peer_pb2.GetWebAddressRequest, context: Any
    ) -> peer_pb2.GetWebAddressResponse:
        """Where people meet this node's agents."""
        url = self._web()
        if not url:
            raise NotFound(Reason.NOT_FOUND, "This node has no pages.")
        return peer_pb2.GetWebAddressResponse(url=url)

    async def Deliver(self, request: peer_pb2.DeliverRequest, context: Any) -> peer_pb2.DeliverResponse:
        """One result for each envelope and each HELLO, in order."""
        if not 1 <= len(request.envelopes) <= MAX_BATCH or len(request.hellos) > MAX_BATCH:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"A delivery holds 1 to {MAX_BATCH} envelopes, not {len(request.envelopes)}.",
                fields={"envelopes": "wrong number"},
            )
        spki = caller_spki(context)
        self._heads.hear(request.ledger_head)
        caller, count = spki or b"", len(request.envelopes) + len(request.hellos)
        try:
            self._quota.enter(caller, count)
        except Unavailable:
            await self._hold()
            raise
        turned_away: TurnedAway = {}
        greeted = [await self._hello(raw, spki, turned_away) for raw in request.hellos]
        taken = await asyncio.gather(*(self._one(raw, spki, turned_away) for raw in request.envelopes))
        bad = sum(is_bad for _, is_bad, _ in (*greeted, *taken))
        proven = any(is_proven for _, _, is_proven in taken)
        self._quota.leave(caller, count - bad, bad, proven=proven)
        return peer_pb2.DeliverResponse(
            results=[result for result, _, _ in taken],
            hellos=[result for result, _, _ in greeted],
            ledger_head=self._heads.newest(),
        )

    async def _hello(self, raw: bytes, spki: bytes | None, turned_away: TurnedAway) -> Taken:
        """Take a HELLO, and answer it to its sender's own node. A sender whose HELLO is refused is turned
        away with the messages that came along."""
        said: hello.Hello | None = None
        proven = False
        try:
            said, proven = await self._gate.check_hello(raw, spki, self._clock())
            await self._handshakes.take(said)
        except IndaiError as error:
            if said is not None and isinstance(error, ProtocolError):
                turned_away[said.header.recipient, said.header.sender] = error
            await self._refusals.note(raw, None, error)
            refusal = told(error, None)
            if proven and isinstance(error, ProtocolError):
                refusal = peer_pb2.DeliverError(reason=error.reason.name, message=error.message)
            return peer_pb2.DeliverResult(error=refusal), said is None, False
        if not proven:
            return peer_pb2.DeliverResult(), False, False
        answer = await self._handshakes.say(said.header.recipient, said.header.sender)
        return peer_pb2.DeliverResult(replies=[answer] if answer else []), False, True

    async def _hold(self) -> None:
        """Let a limited caller wait for its refusal. Even a call that is refused unread costs a third of a
        millisecond; a connection has few streams, so a flood over it now makes a few calls a second."""
        if self._held < MAX_HELD:
            self._held += 1
            try:
                await asyncio.sleep(HOLD_S)
            finally:
                self._held -= 1

    async def _one(self, raw: bytes, spki: bytes | None, turned_away: TurnedAway) -> Taken:
        inbound: Inbound | None = None
        try:
            inbound = await self._gate.check(raw, spki, self._clock())
            if (inbound.owner, inbound.peer) in turned_away:
                raise turned_away[inbound.owner, inbound.peer]
            replies = await self._engine.deliver(inbound)
        except IndaiError as error:
            await self._refusals.note(raw, inbound, error)
            return peer_pb2.DeliverResult(error=told(error, inbound)), _is_bad(error, inbound), False
        if not inbound.proven:
            return peer_pb2.DeliverResult(), False, False
        return peer_pb2.DeliverResult(replies=replies), False, True


def _is_bad(error: IndaiError, inbound: Inbound | None) -> bool:
    """Whether the caller is to blame: nothing verified, or against the rules of its thread."""
    if inbound is None:
        return True
    return isinstance(error, ProtocolError) and error.reason is not Reason.OUT_OF_ORDER


def told(error: IndaiError, inbound: Inbound | None) -> peer_pb2.DeliverError:
    """What the caller learns: a proven peer the reason, a stranger only that it was refused or may come
    back."""
    proven = inbound is not None and inbound.proven
    about_message = isinstance(error, ProtocolError | NotFound) and error.reason.status.grpc != "DATA_LOSS"
    if not about_message and not (proven and error.reason is Reason.RATE_LIMITED):
        return peer_pb2.DeliverError(
            reason=Reason.UNREACHABLE.name, message="This node cannot take the message now."
        )
    if not proven:
        return peer_pb2.DeliverError(reason="REFUSED", message="The message was refused.")
    return peer_pb2.DeliverError(reason=error.reason.name, message=error.message)
