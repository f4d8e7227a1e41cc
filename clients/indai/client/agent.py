"""One's own agent, from a program: begin a negotiation, await its outcome, decide what policy leaves open.

    async with Agent.local("ind.ai/alice") as me:
        outcome = await me.meet("ind.ai/bob", minutes=30, within=timedelta(days=7), about="Lunch")

It speaks the owner's RPCs of the agent's node and presents the owner's token. Keys, policy and calendar stay
on the node: whatever a program asks for, the node signs only what the owner's policy allows or the owner has
approved. Everything that goes wrong is an `IndaiError`, whose `hint` says what to do next.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.because import acting_on
from indai.client.channels import CheckedChannel, bearer, plain_channel
from indai.client.outcomes import Outcome, Question
from indai.client.tls import pinned_channel
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.protocol.kinds.base import Wish
from indai.protocol.kinds.table import KINDS
from indai.v1 import negotiation_pb2, owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub

if TYPE_CHECKING:
    from indai.v1.owner_pb2_grpc import OwnerServiceAsyncStub

POLL_S = 0.5  # between two looks at the inbox

Handler = Callable[[Question], "bool | Awaitable[bool | None] | None"]
"""True signs exactly what is shown, False declines it, None leaves it to the owner."""

log = structlog.get_logger(__name__)


class Agent:
    """See the module. One event loop owns an object."""

    def __init__(self, channel: CheckedChannel) -> None:
        self.channel = channel  # for the stubs of the node's other services; it carries hops, too
        self.stub: OwnerServiceAsyncStub = OwnerServiceStub(channel)
        self._handlers: dict[str, Handler] = {}
        self._left: set[str] = set()

    @staticmethod
    @asynccontextmanager
    async def connect(address: str, token: str, *, pin: str = "") -> AsyncIterator[Agent]:
        """The agent whose owner's token this is, at the owner's port `address` of its node.

        `pin` (hex) is the hash of the port's TLS key, as `run.json` names it; without it the port must be on
        this machine. Raises Unavailable(UNREACHABLE), Refused(PIN_MISMATCH), InvalidInput.
        """
        if pin:
            channel = await pinned_channel(address, bytes.fromhex(pin), metadata=bearer(token), carries=True)
        else:
            channel = plain_channel(address, token=token, carries=True)
        async with channel:
            yield Agent(channel)

    @staticmethod
    @asynccontextmanager
    async def local(handle: str, data: Path | str = "") -> AsyncIterator[Agent]:
        """The agent of `handle`, claimed here with `indai handle claim`; `data` is the node's data directory
        (else INDAI_DATA, else where `indai up` puts it). Raises NotFound when no node runs there, or the
        handle is another's."""
        usual = Path("/var/lib/indai/home") if os.geteuid() == 0 else Path.home() / ".indai"
        home = Path(data or os.environ.get("INDAI_DATA", "") or usual)
        token_file = home / "tokens" / f"{handle.replace('/', '_')}.token"
        try:
            run = json.loads((home / "run.json").read_text("utf-8"))
            address = run["roles"]["owner"]
        except (OSError, ValueError, KeyError):
            what = f"No node is running on {home}."
            raise NotFound(Reason.NOT_FOUND, what, hint="start one: indai up") from None
        try:
            token = token_file.read_text("utf-8").strip()
        except OSError:
            hint = f"claim the handle here: indai handle claim {handle}"
            raise NotFound(Reason.NOT_FOUND, f"There is no token of {handle} in {home}.", hint=hint) from None
        async with Agent.connect(address, token, pin=run.get("tls", "")) as agent:
            yield agent

    async def meet(
        self,
        peer: str,
        *,
        minutes: int,
        within: timedelta | tuple[datetime, datetime],
        about: str = "Meeting",
        place: str = "",
        passes_on: str = "",
    ) -> Outcome:
        """Ask for a meeting and await what comes of it; see `outcome`. `within` is how far ahead, or from
        when to when (aware times); `passes_on` as in `propose`."""
        start, end = _span(within)
        request = owner_pb2.StartMeetRequest(
            request_id=str(uuid.uuid4()),
            peer=peer,
            title=about,
            duration_minutes=minutes,
            start_time=_stamp(start),
            end_time=_stamp(end),
            place=place,
            passes_on=passes_on,
        )
        started = await self.stub.StartMeet(request)
        return await self.outcome(started.thread.thread_id)

    async def propose(self, peer: str, wish: Wish, *, passes_on: str = "") -> Outcome:
        """Begin with a wish of any kind (see `indai.protocol.kinds`) and await what comes of it.

        `passes_on`: the thread because of which this one begins, so that what is asked runs round no ring of
        agents; within a handler the one that the question is about is named by itself. Raises
        ProtocolError(TOO_MANY_HOPS) when two agents have passed it on already.
        """
        request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()), peer=peer, passes_on=passes_on)
        proposed = negotiation_pb2.Propose()
        getattr(proposed, wish.kind).CopyFrom(wish.to_pb())
        request.wish.CopyFrom(proposed)
        started = await self.stub.StartIntent(request)
        return await self.outcome(started.thread.thread_id)

    async def outcome(self, thread: str) -> Outcome:
        """The negotiation once it is settled: it has ended, or is in doubt.

        That takes as long as the owners do. Waiting may be given up (`asyncio.timeout`), and taken up again;
        the negotiation goes on meanwhile.
        """
        while True:
            seen = await self._watch(thread)
            if seen is not None and seen.settled:
                return seen

    async def threads(self, *, doubt: bool = False) -> list[Outcome]:
        """The owner's newest negotiations; with `doubt` those that the other side has left in doubt."""
        request = owner_pb2.ListThreadsRequest(page_size=500, in_doubt=doubt)
        return [Outcome.of(each) for each in (await self.stub.ListThreads(request)).threads]

    async def withdraw(self, thread: str) -> Outcome:
        """Take the matter back, as far as the protocol still allows; how it stands then.

        What is in doubt ends only with the other side's word: REJECT if its offer lapsed, else the receipt,
        and then this counts as a request to cancel.
        """
        answer = await self.stub.WithdrawThread(owner_pb2.WithdrawThreadRequest(thread_id=thread))
        return Outcome.of(answer.thread)

    def on(self, kind: str) -> Callable[[Handler], Handler]:
        """Decorates what decides questions of this kind ("meet", "book", …, or "*" for any other) while
        `serve` runs."""
        if kind != "*" and kind not in KINDS:
            known = ", ".join(KINDS)
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"There is no kind {kind}.", hint=f"one of {known}")

        def keep(handler: Handler) -> Handler:
            self._handlers[kind] = handler
            return handler

        return keep

    async def serve(self) -> None:
        """Put each question that waits for the owner to its handler, until cancelled. A node that is away is
        waited for; an error of a handler's ends it, and what it did not answer is a no in the end."""
        while True:
            try:
                for question in await self.questions():
                    await self._decide(question)
            except Unavailable as error:
                log.warning("the node is away", reason=error.reason.name, error=error.message)
            await asyncio.sleep(POLL_S)

    async def questions(self) -> list[Question]:
        """What waits for the owner, the most urgent first."""
        waiting = (await self.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
        found = []
        for approval in waiting:
            request = owner_pb2.GetThreadRequest(thread_id=approval.thread_id)
            thread = (await self.stub.GetThread(request)).thread
            found.append(Question.of(approval, Outcome.of(thread)))
        return found

    async def answer(self, question: Question, *, approve: bool) -> Outcome:
        """The owner's word on exactly what was shown; how the negotiation stands then. Raises
        Refused(THREAD_CLOSED) when it came too late."""
        request = owner_pb2.AnswerApprovalRequest(code=question.code, approve=approve)
        return Outcome.of((await self.stub.AnswerApproval(request)).thread)

    async def _decide(self, question: Question) -> None:
        handler = self._handlers.get(question.kind, self._handlers.get("*"))
        if handler is None or question.code in self._left:
            return
        with acting_on(question.thread.thread):
            word = handler(question)
            approve = await word if inspect.isawaitable(word) else word
        if approve is None:
            self._left.add(question.code)
            return
        try:
            await self.answer(question, approve=approve)
        except (Refused, NotFound) as error:
            log.info("a question had run out", peer=question.peer, reason=error.reason.name)

    async def _watch(self, thread: str) -> Outcome | None:
        """The thread when it is settled, or when the watch has ended."""
        seen = None
        try:
            async for update in self.stub.WatchThread(owner_pb2.WatchThreadRequest(thread_id=thread)):
                seen = Outcome.of(update.thread)
                if seen.settled:
                    break
        except Unavailable as error:
            log.info("watching again", thread=thread, reason=error.reason.name)
            await asyncio.sleep(POLL_S)
        return seen


def _span(within: timedelta | tuple[datetime, datetime]) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    start, end = (now, now + within) if isinstance(within, timedelta) else within
    if start.tzinfo is None or end.tzinfo is None:
        what, hint = "A time without a zone is nobody's time.", "say datetime(..., tzinfo=ZoneInfo(...))"
        raise InvalidInput(Reason.INVALID_ARGUMENT, what, hint=hint)
    return start, end


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
