"""What an owner does with their own agent. Every call is scoped to the owner that the token names."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace
from typing import Any

from indai.node import named, succession, views
from indai.node.agents import Agents
from indai.node.approvals import Approvals
from indai.node.auth import caller
from indai.node.effects import Effects
from indai.node.engine import Engine
from indai.node.exporting import Exporter
from indai.node.paging import MAX_NUMBER, after, next_token, page_size
from indai.node.policies import Policies
from indai.node.store import Store
from indai.node.thread_views import THREAD
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason, Refused
from indai.protocol.handles import Handle
from indai.protocol.header import MID_BYTES
from indai.protocol.kinds.meet import MEET
from indai.protocol.kinds.table import KINDS, read_wish
from indai.protocol.messages import END_OF_TIME_MS, EventKind, MeetWish, Terms, Window, Wish, check_said
from indai.protocol.party_state import OwnerActs, Phase
from indai.v1 import owner_pb2, owner_pb2_grpc

DAY_MS = 86_400_000
WATCH_S = 15.0  # a watcher looks again at least this often, also without news

_Saying = (
    owner_pb2.CancelCommitmentRequest | owner_pb2.FulfilCommitmentRequest | owner_pb2.DisputeCommitmentRequest
)


class OwnerServicer(owner_pb2_grpc.OwnerServiceServicer):
    """OwnerService."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        engine: Engine,
        effects: Effects,
        policies: Policies,
        exporter: Exporter,
        ledger: str,
        clock: Callable[[], int],
        kinds: Collection[str],
    ) -> None:
        self._store = store
        self._agents = agents
        self._engine = engine
        self._effects = effects
        self._policies = policies
        self._exporter = exporter
        self._ledger, self._started_ms = ledger, clock()
        self._approvals = Approvals(store, clock)
        self._kinds = kinds

    async def StartMeet(
        self, request: owner_pb2.StartMeetRequest, context: Any
    ) -> owner_pb2.StartMeetResponse:
        """Ask a peer's agent for a meeting."""
        owner = caller(context).owner
        request_id = request_uuid(request.request_id)
        peer = str(Handle.parse(request.peer))
        window = Window(views.milliseconds(request.start_time), views.milliseconds(request.end_time))
        wish = MeetWish(request.title, request.duration_minutes, (window,), request.place)
        wish.check()
        because = await self._find(owner, request.passes_on) if request.passes_on else b""
        thread = await self._engine.start(owner, peer, wish, request_id, passes_on=because)
        return owner_pb2.StartMeetResponse(thread=await self._thread(owner, thread))

    async def StartIntent(
        self, request: owner_pb2.StartIntentRequest, context: Any
    ) -> owner_pb2.StartIntentResponse:
        """Begin with a wish of any kind that is served, or with terms that the owner offers."""
        owner = caller(context).owner
        request_id = request_uuid(request.request_id)
        peer = str(Handle.parse(request.peer))
        said = _intent(request)
        if said.kind not in self._kinds:
            what = f"This node does not do {said.kind} yet."
            raise Refused(Reason.UNSUPPORTED, what, hint=f"it does: {', '.join(self._kinds)}")
        if request.wish.supersedes:
            what = "What was agreed is not moved by beginning anew."
            raise Refused(Reason.UNSUPPORTED, what, hint="a meeting is moved by its own call")
        because = await self._find(owner, request.passes_on) if request.passes_on else b""
        thread = await self._engine.start(owner, peer, said, request_id, passes_on=because)
        return owner_pb2.StartIntentResponse(thread=await self._thread(owner, thread))

    async def GetThread(
        self, request: owner_pb2.GetThreadRequest, context: Any
    ) -> owner_pb2.GetThreadResponse:
        """A thread with every message."""
        owner = caller(context).owner
        thread = await self._find(owner, request.thread_id)
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT * FROM node.messages WHERE owner = $1 AND thread = $2 ORDER BY position",
                owner,
                thread,
            )
        zone = self._agents.get(owner).zone
        messages = [views.message(row, zone) for row in rows]
        return owner_pb2.GetThreadResponse(thread=await self._thread(owner, thread), messages=messages)

    async def ListThreads(
        self, request: owner_pb2.ListThreadsRequest, context: Any
    ) -> owner_pb2.ListThreadsResponse:
        """Newest first."""
        owner, size = caller(context).owner, page_size(request.page_size, 50)
        before, last = after(request.page_token, (MAX_NUMBER, "00" * 16))
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                THREAD
                + "AND (t.created_ms, t.thread) < ($2, $3) AND ($5 IS FALSE OR t.phase = 'IN_DOUBT')"
                + " ORDER BY t.created_ms DESC, t.thread DESC LIMIT $4",
                owner,
                before,
                bytes.fromhex(last),
                size + 1,
                request.in_doubt,
            )
        token = next_token(rows, size, lambda row: (row["created_ms"], row["thread"].hex()))
        threads = [views.thread(row, self._ledger) for row in rows[:size]]
        return owner_pb2.ListThreadsResponse(threads=threads, next_page_token=token)

    async def WatchThread(
        self, request: owner_pb2.WatchThreadRequest, context: Any
    ) -> AsyncIterator[owner_pb2.WatchThreadResponse]:
        """The thread now, and at each change until it has ended and its effects are done."""
        owner = caller(context).owner
        thread = await self._find(owner, request.thread_id)
        last: bytes | None = None
        with self._engine.changes(owner, thread) as changed:
            while True:
                changed.clear()
                seen = await self._thread(owner, thread)
                text = seen.SerializeToString(deterministic=True)
                if text != last:
                    last = text
                    yield owner_pb2.WatchThreadResponse(thread=seen)
                if _is_over(seen):
                    return
                try:
                    async with asyncio.timeout(WATCH_S):
                        await changed.wait()
                except TimeoutError:
                    continue

    async def ListInbox(
        self, request: owner_pb2.ListInboxRequest, context: Any
    ) -> owner_pb2.ListInboxResponse:
        """Questions that wait, the most urgent first, or those that were answered."""
        return await self._approvals.waiting(caller(context).owner, request)

    async def AnswerApproval(
        self, request: owner_pb2.AnswerApprovalRequest, context: Any
    ) -> owner_pb2.AnswerApprovalResponse:
        """The owner's yes or no to exactly what was shown."""
        owner = caller(context).owner
        thread, action_hash = await self._approvals.find(owner, request.code)
        if not await self._approvals.stands(owner, action_hash, approved=request.approve):
            await self._engine.answer(owner, thread, action_hash, request.approve)
            await self._approvals.note(owner, action_hash, request.channel)
        return owner_pb2.AnswerApprovalResponse(thread=await self._thread(owner, thread))

    async def WithdrawThread(
        self, request: owner_pb2.WithdrawThreadRequest, context: Any
    ) -> owner_pb2.WithdrawThreadResponse:
        """Take the matter back, as far as the protocol still allows."""
        owner = caller(context).owner
        thread = await self._find(owner, request.thread_id)
        await self._engine.withdraw(owner, thread)
        return owner_pb2.WithdrawThreadResponse(thread=await self._thread(owner, thread))

    async def ListEvents(
        self, request: owner_pb2.ListEventsRequest, context: Any
    ) -> owner_pb2.ListEventsResponse:
        """Events of the owner's calendars."""
        agent = self._agents.get(caller(context).owner)
        start, end = views.milliseconds(request.start_time), views.milliseconds(request.end_time)
        if not 0 <= start < end <= min(start + 366 * DAY_MS, END_OF_TIME_MS):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "The range must end after it starts, within 366 days, between 1970 and 9999.",
            )
        await agent.calendar.refresh()
        found = await agent.calendar.events(start, end)
        events = [
            owner_pb2.CalendarEvent(
                uid=event.uid,
                summary=event.summary,
                start_time=views.timestamp(event.start_ms),
                end_time=views.timestamp(event.end_ms),
                all_day=event.all_day,
                agreed=event.ours,
            )
            for event in found
        ]
        return owner_pb2.ListEventsResponse(events=events, time_zone=agent.zone.key)

    async def ActivatePolicy(
        self, request: owner_pb2.ActivatePolicyRequest, context: Any
    ) -> owner_pb2.ActivatePolicyResponse:
        """Compile, store, activate; the activation is a leaf of the ledger."""
        owner = caller(context).owner
        answer = await self._policies.activate(owner, request.yaml, request.layer, request.session)
        return owner_pb2.ActivatePolicyResponse(version=answer.version, changed=answer.changed)

    async def GetActivePolicy(
        self, request: owner_pb2.GetActivePolicyRequest, context: Any
    ) -> owner_pb2.GetActivePolicyResponse:
        """All layers that decide now, with every rule in words."""
        answer = await self._policies.active(caller(context).owner, request.session)
        return owner_pb2.GetActivePolicyResponse(version=answer.version, rules=answer.rules)

    async def ListJournal(
        self, request: owner_pb2.ListJournalRequest, context: Any
    ) -> owner_pb2.ListJournalResponse:
        """The owner's private log, newest first."""
        owner, size = caller(context).owner, page_size(request.page_size, 100)
        thread = await self._find(owner, request.thread_id) if request.thread_id else None
        before, _ = after(request.page_token, (MAX_NUMBER, ""))
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT * FROM node.journal"
                " WHERE owner = $1 AND id < $2 AND ($3::bytea IS NULL OR thread = $3)"
                " ORDER BY id DESC LIMIT $4",
                owner,
                before,
                thread,
                size + 1,
            )
        token = next_token(rows, size, lambda row: (row["id"], ""))
        entries = [views.journal_entry(row) for row in rows[:size]]
        return owner_pb2.ListJournalResponse(entries=entries, next_page_token=token)

    async def ExportOwner(
        self, request: owner_pb2.ExportOwnerRequest, context: Any
    ) -> AsyncIterator[owner_pb2.ExportOwnerResponse]:
        """The owner's part of the ledger, with the threads."""
        async for lines in self._exporter.lines(caller(context).owner, request.ledger):
            yield owner_pb2.ExportOwnerResponse(lines=lines)

    async def GetReceipt(
        self, request: owner_pb2.GetReceiptRequest, context: Any
    ) -> owner_pb2.GetReceiptResponse:
        """The proof of the commitment's leaf, or of one event's."""
        owner = caller(context).owner
        thread = await self._find(owner, request.thread_id)
        text = request.mid or (await self._thread(owner, thread)).commitment_mid
        return await self._exporter.receipt(owner, _mid(text))

    async def ListCommitments(
        self, request: owner_pb2.ListCommitmentsRequest, context: Any
    ) -> owner_pb2.ListCommitmentsResponse:
        """What was agreed, the latest end first."""
        owner, size = caller(context).owner, page_size(request.page_size, 50)
        before, last = after(request.page_token, (MAX_NUMBER, "00" * 16))
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                THREAD
                + "AND t.phase = 'COMMITTED' AND t.end_ms IS NOT NULL AND (t.end_ms, t.thread) < ($2, $3)"
                + " ORDER BY t.end_ms DESC, t.thread DESC LIMIT $4",
                owner,
                before,
                bytes.fromhex(last),
                size + 1,
            )
        token = next_token(rows, size, lambda row: (row["end_ms"], row["thread"].hex()))
        threads = [views.thread(row, self._ledger) for row in rows[:size]]
        return owner_pb2.ListCommitmentsResponse(threads=threads, next_page_token=token)

    async def CancelCommitment(
        self, request: owner_pb2.CancelCommitmentRequest, context: Any
    ) -> owner_pb2.CancelCommitmentResponse:
        """Call it off, or ask for that."""
        thread = await self._act(caller(context).owner, request, EventKind.CANCEL)
        return owner_pb2.CancelCommitmentResponse(thread=thread)

    async def RescheduleCommitment(
        self, request: owner_pb2.RescheduleCommitmentRequest, context: Any
    ) -> owner_pb2.RescheduleCommitmentResponse:
        """A meeting in this one's place, at another time."""
        owner = caller(context).owner
        request_id = request_uuid(request.request_id)
        if again := await self._store.thread_of_request(owner, request_id):
            return owner_pb2.RescheduleCommitmentResponse(thread=await self._thread(owner, again))
        thread = await self._find(owner, request.thread_id)
        window = Window(views.milliseconds(request.start_time), views.milliseconds(request.end_time))
        state = await self._engine.state(owner, thread)
        only_ms = views.milliseconds(request.only_time) if request.HasField("only_time") else 0
        wish = succession.moved(state, window, request.duration_minutes, only_ms)
        wish.check()
        new = await self._engine.move(owner, thread, wish, request_id)
        return owner_pb2.RescheduleCommitmentResponse(thread=await self._thread(owner, new))

    async def FulfilCommitment(
        self, request: owner_pb2.FulfilCommitmentRequest, context: Any
    ) -> owner_pb2.FulfilCommitmentResponse:
        """Say that it was kept."""
        thread = await self._act(caller(context).owner, request, EventKind.FULFIL)
        return owner_pb2.FulfilCommitmentResponse(thread=thread)

    async def DisputeCommitment(
        self, request: owner_pb2.DisputeCommitmentRequest, context: Any
    ) -> owner_pb2.DisputeCommitmentResponse:
        """Object, for the record."""
        thread = await self._act(caller(context).owner, request, EventKind.DISPUTE)
        return owner_pb2.DisputeCommitmentResponse(thread=thread)

    async def _act(self, owner: str, request: _Saying, kind: EventKind) -> owner_pb2.Thread:
        said = OwnerActs(kind, request.reason, request.sentence)
        if isinstance(request, owner_pb2.CancelCommitmentRequest) and request.HasField("only_time"):
            said = replace(said, kind=EventKind.OMIT, time_ms=views.milliseconds(request.only_time))
        check_said(said.reason, said.sentence)
        thread = await self._find(owner, request.thread_id)
        await self._engine.act(owner, thread, said)
        return await self._thread(owner, thread)

    async def EraseContent(
        self, request: owner_pb2.EraseContentRequest, context: Any
    ) -> owner_pb2.EraseContentResponse:
        """What an ended thread says is gone; its leaves stay."""
        owner = caller(context).owner
        thread = await self._find(owner, request.thread_id)
        erased = await self._engine.erase(owner, thread)
        return owner_pb2.EraseContentResponse(thread=await self._thread(owner, thread), erased_entries=erased)

    async def _thread(self, owner: str, thread: bytes) -> owner_pb2.Thread:
        """From memory where all of it is known, else from the tables."""
        row = self._remembered(owner, thread)
        if row is None:
            async with self._store.scope(owner) as connection:
                row = await connection.fetchrow(THREAD + "AND t.thread = $2", owner, thread)
        if row is None:
            raise _no_thread(thread.hex())
        return views.thread(row, self._ledger)

    def _remembered(self, owner: str, thread: bytes) -> views.Row | None:
        state = self._engine.seen(owner, thread)
        # Of before this start, it may be in an earlier ledger, which the tables know.
        if state is None or state.columns["created_ms"] < self._started_ms:
            return None
        if state.side.phase is not Phase.COMMITTED:
            return state.view() | {"in_calendar": False, "life": None}
        done = self._effects.is_done(owner, thread)
        return None if done is None else state.view() | {"in_calendar": done, "life": state.side.life}

    async def _find(self, owner: str, prefix: str) -> bytes:
        """A thread by its id or the beginning of it."""
        text = prefix.strip().lower()
        if not 6 <= len(text) <= 32 or set(text) - set("0123456789abcdef"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A thread is named by 6 to 32 hexadecimal digits of its id.",
                hint="indai threads lists them",
            )
        if len(text) == 32 and self._engine.seen(owner, bytes.fromhex(text)) is not None:
            return bytes.fromhex(text)
        found = await named.threads(self._store, owner, text)
        if len(found) > 1:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"Several threads begin with {text}.", hint="give more digits"
            )
        if not found:
            raise _no_thread(text)
        return found[0]


def _no_thread(text: str) -> NotFound:
    return NotFound(Reason.NOT_FOUND, f"There is no thread {text}.", hint="indai threads lists yours")


def _is_over(thread: owner_pb2.Thread) -> bool:
    if thread.state == owner_pb2.THREAD_STATE_COMMITTED:
        gone = (owner_pb2.COMMITMENT_STATE_CANCELLED, owner_pb2.COMMITMENT_STATE_SUPERSEDED)
        return thread.kind != MEET.name or thread.in_calendar or thread.commitment_state in gone
    return thread.state in (
        owner_pb2.THREAD_STATE_REJECTED,
        owner_pb2.THREAD_STATE_WITHDRAWN,
        owner_pb2.THREAD_STATE_LAPSED,
    )


def request_uuid(text: str) -> str:
    """A request id in its one form; raises InvalidInput."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "request_id must be a UUID.", fields={"request_id": "not a UUID"}
        ) from None


def _intent(request: owner_pb2.StartIntentRequest) -> Wish | Terms:
    """What the owner wants, checked as a peer's would be."""
    name = request.WhichOneof("intent")
    if name is None:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The request names no intent.")
    try:
        if name == "wish":
            return read_wish(request.wish)
        terms = KINDS[name].terms.from_pb(getattr(request, name))
        terms.check()
    except ProtocolError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
    return terms


def _mid(text: str) -> bytes:
    try:
        mid = bytes.fromhex(text)
    except ValueError:
        mid = b""
    if len(mid) != MID_BYTES:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "There is no commitment in this thread yet." if not text else "A mid has 64 hexadecimal digits.",
            hint="indai commitments lists what is agreed",
        )
    return mid
