"""One batch: its items' drafts, merged in order, as the document that one statement applies.

A batch reads memory (threads, reservations) but writes none of it: the engine takes `threads` and
`reserved` over after COMMIT, and drops the batch otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import structlog
from indai.ledger.entries import Entry
from indai.node import several, succession
from indai.node.context import Context
from indai.node.conversation import Conversation
from indai.node.crowd import Crowd
from indai.node.desk import Cause
from indai.node.draft import Draft, ThreadState, intent_of, ledger_rows, states_of
from indai.node.effects import CalendarWrite
from indai.node.holdings import Holdings
from indai.node.inbound import MAX_HEAD_AGE_MS, Inbound
from indai.node.items import Act, Answered, Approval, Convene, Deliver, Item, Start, Wake, Withdrawal
from indai.node.kinds.acquaintance import Note
from indai.node.late import begins, is_hopeless
from indai.node.outbox import Outgoing
from indai.node.store import Key, Loaded, Row, Store, hexed
from indai.protocol import header
from indai.protocol.copies import replace
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason, Refused, Unavailable
from indai.protocol.leaf import LeafKind
from indai.protocol.messages import Body, Message, Move
from indai.protocol.party_state import (
    Event,
    OwnerAnswers,
    OwnerStarts,
    OwnerWithdraws,
    Phase,
    Succeeded,
    Tick,
)

DAY_MS = 86_400_000

# Sections that give back, and those that have taken what they give back.
_OPPOSITES = (
    ("unbook", ("reserve", "consume")),
    ("release", ("reserve",)),
    ("free_holds", ("holds", "consume_holds")),
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A batch before an item, to return to. `rows`: each section's list and how long it was; lists only
    grow, what is taken out makes a new one."""

    rows: dict[str, tuple[list[Row], int]]
    entries: list[Entry]
    threads: dict[Key, ThreadState]
    reserved: dict[str, Holdings]
    crowds: dict[str, Crowd]
    sends: list[Outgoing]
    resends: set[str]
    effects: list[CalendarWrite]
    points: list[str]
    points_after: list[str]
    notes: Mapping[tuple[str, str], Sequence[Note]]


class Batch:
    """Takes items one after the other."""

    def __init__(
        self,
        context: Context,
        threads: Mapping[Key, ThreadState],
        reserved: Mapping[str, Holdings],
        crowds: Mapping[str, Crowd],
        size: int,
    ) -> None:
        self._context = context
        self._known_threads = threads
        self._known_reserved = reserved
        self._known_crowds = crowds
        self._size = size
        self._rows: dict[str, list[Row]] = {}
        self._entries: list[Entry] = []
        self._outcomes: list[tuple[Item, Any]] = []
        self.threads: dict[Key, ThreadState] = {}
        self._loaded_threads: dict[Key, ThreadState] = {}
        self._erased: set[Key] = set()
        self.reserved: dict[str, Holdings] = {}
        self.crowds: dict[str, Crowd] = {}
        self._counted: set[str] = set()  # owners whose counts are a copy that no mark shares
        self.sends: list[Outgoing] = []
        self.resends: set[str] = set()  # owners of stored messages that are to be sent once more
        self.dropped: list[tuple[str, bytes, str]] = []  # (owner, mid, move) that can't be delivered any more
        self.effects: list[CalendarWrite] = []
        self.points: list[str] = []
        self.points_after: list[str] = []

    @property
    def owners(self) -> set[str]:
        """Whose rows the batch touches."""
        return (
            {owner for owner, _ in self.threads}
            | {row["owner"] for rows in self._rows.values() for row in rows}
            | {entry.owner for entry in self._entries}
        )

    @property
    def appended(self) -> int:
        """Ledger entries of this batch."""
        return len(self._entries)

    def document(self) -> dict[str, list[Row]]:
        """The document for `node.apply_batch`."""
        now = self._context.clock()
        self.threads = {key: state.updated(now) for key, state in self.threads.items()}
        doc = dict(self._rows)
        for state in self.threads.values():
            doc.setdefault("new_threads" if state.is_new else "threads", []).append(state.row())
        if self._entries:
            doc["ledger"] = ledger_rows(self._entries, self._context.vault)
        return doc

    async def load(self, store: Store, items: list[Item]) -> None:
        """Read what memory lacks. A first message is taken for new; the table refuses it if it is not."""
        threads = [
            (item.owner, item.thread)
            for item in items
            if (item.owner, item.thread) not in self._known_threads
            and not begins(item, self._context.clock())
        ]
        busy = sorted({item.owner for item in items} - set(self._known_reserved))
        if not threads and not busy:
            return
        owners = {owner for owner, _ in threads} | set(busy)
        loaded = await store.load(
            owners, list(dict.fromkeys(threads)), busy, self._context.clock() - 2 * DAY_MS
        )
        self._context.clock.read(loaded.clock_ms)
        self._keep(loaded)
        self.reserved.update(loaded.reserved)
        self.crowds.update({owner: Crowd() for owner in busy})
        for owner, peer, is_open, asked in await store.crowds(busy) if busy else ():
            self.crowds[owner].open[peer], self.crowds[owner].asked[peer] = is_open, asked

    def _keep(self, loaded: Loaded) -> None:
        self._loaded_threads |= states_of(loaded)
        self._erased |= loaded.threads.keys() - self._loaded_threads.keys()

    async def take(self, item: Item) -> None:
        """Decide one item; what it changes is kept only if it succeeds."""
        try:
            result: Any = await self._process(item)
        except IndaiError as error:
            result = error
        except asyncpg.PostgresError:
            raise  # the batch's transaction, not this item
        except Exception as error:
            # A fault of ours that one message uncovers must not fail the others beside it.
            log.exception("item failed", owner=item.owner, thread=item.thread.hex())
            result = IndaiError(Reason.INTERNAL, f"The node failed: {type(error).__name__}.")
        self._outcomes.append((item, result))

    def answer(self) -> None:
        """Tell everybody who waits. Called after COMMIT."""
        for item, result in self._outcomes:
            if isinstance(result, IndaiError):
                item.fail(result)
            else:
                item.succeed(result)

    async def _process(self, item: Item) -> Any:
        if (item.owner, item.thread) in self._erased:
            raise Refused(Reason.THREAD_CLOSED, "This has ended, and its owner has erased it.")
        match item:
            case Deliver():
                return await self._deliver(item.inbound)
            case Answered():
                return await self._answered(item)
            case Start():
                return await self._start(item)
            case Convene():
                await self._convene(item)
            case Approval():
                return await self._approval(item)
            case Act():
                await self._step(item, item.said)
            case Withdrawal():
                await self._step(item, OwnerWithdraws())
            case Wake():
                await self._step(item, Tick())
        return None

    async def _step(self, item: Item, event: Event) -> None:
        """An event of a thread that exists; nothing for one that does not."""
        if self._state(item.owner, item.thread) is not None:
            draft = self._draft(item.owner, item.thread)
            await self._conversation(draft, draft.thread.columns["peer"]).run(event)
            await self._finish(draft)

    async def _deliver(self, inbound: Inbound) -> list[bytes]:
        message = inbound.message
        state = self._state(inbound.owner, message.thread)
        if state is not None and state.side.knows(message):
            if not inbound.proven:
                raise ProtocolError(
                    Reason.REPLAYED,
                    "The message was taken before; what was answered then stands.",
                    rule="HDR-06",
                )
            return await self._replies(inbound.owner, message)
        now_ms = self._context.clock()
        self._context.budget.take(inbound.owner, inbound.peer, now_ms, begins=state is None)
        if state is not None:
            inbound.check_scope(intent_of(state), self._context.clock())
        # An acceptance has the offer's times, and how late it may be the offerer decides.
        if message.move is not Move.ACCEPT:
            header.check_time(message.issued_at_ms, message.expires_at_ms, self._context.clock())
        if state is None:
            self._context.echoes.hear(inbound.owner, inbound.peer, now_ms)
        draft = self._draft(inbound.owner, message.thread)
        if state is None and message.supersedes:
            old = await self._agreed(inbound.owner, message.supersedes)
            succession.check(old, message)
            draft.leaving = succession.leaving(old, message.body)
        elif state is not None and not state.side.phase.ended:
            await self._leave(draft, state.side.supersedes, state.side.terms)
        await self._receive(draft, inbound)
        if state is None or state.side.thread is None or draft.thread.side.phase is Phase.ASKING_OWNER:
            crowd = self._crowd(inbound.owner).copy()
            crowd.move(state, draft.thread)
            crowd.check(inbound.peer)
        await self._finish(draft)
        return draft.replies

    async def _replies(self, owner: str, message: Message) -> list[bytes]:
        """What was answered to a known message at once, be it earlier in this very batch."""
        cause = (owner, hexed(message.mid), message.move.value)
        fresh = [
            bytes.fromhex(row["envelope"].removeprefix("\\x"))
            for row in self._rows.get("messages", ())
            if (row["owner"], row["cause_mid"], row["cause_move"]) == cause
        ]
        return fresh or await self._context.store.replies(owner, message.mid, message.move.value)

    async def _receive(self, draft: Draft, inbound: Inbound) -> None:
        message = inbound.message
        if message.move is Move.ACCEPT:
            self.points.append("before-receipt")
        cause = Cause(message.mid, message.move.value, inbound.proven)
        conversation = self._conversation(draft, inbound.peer, cause)
        await conversation.receive(inbound)

    async def _answered(self, item: Answered) -> None:
        """The row leaves the outbox with the peer's answer; each reply stands for itself.

        Only what the reply itself did wrong is final. When our own side can't take it now, or it came before
        what it follows, the whole item is taken back, and the outbox brings it again: it comes no other way.
        """
        known = self._state(item.owner, item.thread)
        if item.reason == Reason.OUT_OF_ORDER.name and not is_hopeless(item, known, self._context.clock()):
            raise Unavailable(Reason.UNREACHABLE, "What the message follows is still on its way.")
        before = self._mark()
        draft = self._draft(item.owner, item.thread)
        draft.add("acks", mid=item.outgoing.mid, move=item.outgoing.move)
        if item.reason and item.reason != Reason.REPLAYED.name:
            draft.journal(
                "refused-by-peer", item.reason, f"{item.outgoing.recipient}'s node: {item.sentence}"
            )
            self._refused(draft, item)
            self._drop_answers(draft, item)
            await several.refused(self._context, draft, item)
        self._merge(draft)
        for reply in item.replies:
            try:
                await self._deliver(replace(reply, proven=False))
            except ProtocolError as error:
                if error.reason is Reason.OUT_OF_ORDER:
                    self._return_to(before)
                    raise
                if error.reason is not Reason.REPLAYED:
                    self._note_refused(item, reply, error)
            except Exception:
                self._return_to(before)
                raise

    def _note_refused(self, item: Answered, reply: Inbound, error: ProtocolError) -> None:
        """The owner sees on the thread itself why the peer's answer does not count."""
        log.warning("reply refused", owner=item.owner, reason=error.reason.name, error=error.message)
        noted = self._draft(item.owner, item.thread)
        noted.journal("refused-message", error.reason.name, error.message, reply.message.mid)
        hint = f" ({error.hint})" if error.hint else ""
        noted.set(words=f"The answer of {reply.peer} was refused: {error.message}{hint}")
        self._merge(noted)

    def _refused(self, draft: Draft, item: Answered) -> None:
        """Our first message was refused as such: there is nobody to negotiate with."""
        side = draft.thread.side
        first = side.thread.messages[0].mid if side.thread else None
        if item.outgoing.mid == first and item.outgoing.move == Move.PROPOSE.value and not side.phase.ended:
            ended = replace(side, phase=Phase.REJECTED, reason=item.reason)
            draft.state = replace(draft.thread, side=ended)
            draft.set(words=f"{item.outgoing.recipient}'s node refused the message: {item.sentence}")

    def _drop_answers(self, draft: Draft, item: Answered) -> None:
        """What follows a message of ours that never arrives can't arrive either."""
        thread = draft.thread.side.thread
        for message in thread.messages if thread else ():
            own = message.sender == draft.thread.side.owner and message.move is not Move.ACCEPT
            if own and message.in_reply_to == item.outgoing.mid:
                draft.add("acks", mid=message.mid, move=message.move.value)
                self.dropped.append((draft.owner, message.mid, message.move.value))

    async def _start(self, item: Start) -> None:
        own = await self._context.resolver.resolve(item.owner, max_age_ms=MAX_HEAD_AGE_MS)
        peer = await self._context.resolver.resolve(item.peer, max_age_ms=MAX_HEAD_AGE_MS)
        await self._context.host.check_hands(item.owner, peer.chain)
        draft = self._draft(item.owner, item.thread)
        await self._leave(draft, item.supersedes, item.wish)
        conversation = self._conversation(draft, item.peer, request_id=item.request_id)
        subjects, hops = (own.subject_id, peer.subject_id), await self._hops(item)
        await conversation.run(OwnerStarts(item.wish, item.thread, *subjects, item.supersedes, hops))
        await self._finish(draft)

    async def _convene(self, item: Convene) -> None:
        draft = self._draft(item.owner, item.thread)
        await self._leave(draft, item.supersedes, item.wish)
        old = await self._agreed(item.owner, item.supersedes) if item.supersedes else None
        await several.convene(self._context, draft, item, await self._hops(item), old)
        await self._finish(draft)

    async def _leave(self, draft: Draft, supersedes: bytes, said: Body | None) -> None:
        """What was agreed makes way for what is to take its place."""
        if supersedes:
            draft.leaving = succession.leaving(await self._agreed(draft.owner, supersedes), said)

    async def _hops(self, item: Start | Convene) -> int:
        """How many agents have passed on what leads to the new thread: one more than to the one
        it names that has the most."""
        keys = [(item.owner, thread) for thread in item.passes_on]
        unknown = [key for key in keys if self._state(*key) is None]
        if unknown:
            self._keep(await self._context.store.load([item.owner], unknown, [], self._context.clock()))
        hops = 0
        for key in keys:
            because = self._state(*key)
            if because is None:
                raise NotFound(Reason.NOT_FOUND, "There is no such thread to pass on.", hint="indai threads")
            hops = max(hops, because.side.hops + 1)
        header.check_hops(hops)
        return hops

    async def _approval(self, item: Approval) -> Refused | None:
        if self._state(item.owner, item.thread) is None:
            raise NotFound(Reason.NOT_FOUND, "There is no such question.", hint="indai inbox")
        draft = self._draft(item.owner, item.thread)
        side = draft.thread.side
        if side.phase is Phase.ASKING_OWNER and draft.now_ms >= side.deadline_ms:
            # Silence until the deadline was the answer; it is given now, and the owner told after COMMIT.
            await self._step(item, Tick())
            return Refused(Reason.THREAD_CLOSED, "The question had run out before your answer came.")
        state = "countered" if item.instead else "approved" if item.approved else "declined"
        # The table's compare-and-set makes it single-use, whatever memory says.
        draft.add("answers", action_hash=item.action_hash, state=state)
        draft.journal("approval", state.upper(), f"You {state} this.")
        await self._leave(draft, side.supersedes, item.instead or side.terms)
        conversation = self._conversation(draft, draft.thread.columns["peer"])
        await conversation.run(OwnerAnswers(item.approved, item.instead))
        await self._finish(draft)
        return None

    async def _finish(self, draft: Draft) -> None:
        """Keep what an item has changed; what was agreed in another's place ends that one in this batch."""
        if draft.succeeded is None:
            self._merge(draft)
            return
        before, (old_mid, new_mid, time_ms) = self._mark(), draft.succeeded
        old = await self._agreed(draft.owner, old_mid)
        self._merge(draft)
        if old is None or old.side.life is None:
            return
        try:
            ending = self._draft(*old.key)
            await self._conversation(ending, old.columns["peer"]).run(Succeeded(new_mid, time_ms))
        except Exception:
            self._return_to(before)
            raise
        self._merge(ending)

    async def _agreed(self, owner: str, mid: bytes) -> ThreadState | None:
        """The owner's thread with this commitment, read if memory lacks it; None once it is erased."""
        key = await succession.find(self._context.store, owner, mid)
        if self._state(*key) is None:
            self._keep(await self._context.store.load([owner], [key], [], self._context.clock()))
        return self._state(*key)

    def _conversation(
        self, draft: Draft, peer: str, cause: Cause | None = None, request_id: str | None = None
    ) -> Conversation:
        return several.conversation(self._context, draft, peer, cause, request_id)

    def _state(self, owner: str, thread: bytes) -> ThreadState | None:
        key = (owner, thread)
        for states in (self.threads, self._loaded_threads, self._known_threads):
            if key in states:
                return states[key]
        return None

    def _draft(self, owner: str, thread: bytes) -> Draft:
        reserved = self.reserved.get(owner)
        if reserved is None:
            reserved = self._known_reserved.get(owner, Holdings())
        state = self._state(owner, thread)
        now = self._context.clock()
        return Draft(owner, state, now, self._size + len(self._entries), reserved.copy())

    def _merge(self, draft: Draft) -> None:
        # A question raised earlier in this batch that this item has made idle is never asked.
        idle = {(row["owner"], row["thread"]) for row in draft.doc.get("void", ())}
        if idle and (asked := self._rows.get("approvals")):
            self._rows["approvals"] = [row for row in asked if (row["owner"], row["thread"]) not in idle]
        for section, rows in draft.doc.items():
            self._rows.setdefault(section, []).extend(rows)
        self._cancel_out()
        self._entries.extend(draft.entries)
        self.sends.extend(draft.sends)
        if draft.resends:
            self.resends.add(draft.owner)
        self.reserved[draft.owner] = draft.reserved
        if draft.state is not None:
            before = self._state(*draft.state.key)
            self._crowd(draft.owner).move(before, draft.state)
            self._context.acquaintances.note(
                draft.state.columns, before.side if before else None, draft.state.side
            )
            self.threads[draft.state.key] = draft.state
        self.effects.extend(draft.effects)
        if "offers" in draft.doc:
            self.points_after.append("after-offer")
        if any(entry.kind is LeafKind.COMMITMENT for entry in draft.entries):
            self.points_after.append("after-commit")

    def _crowd(self, owner: str) -> Crowd:
        """This batch's own copy of the owner's counts, since the last mark."""
        if owner not in self._counted:
            self.crowds[owner] = (self.crowds.get(owner) or self._known_crowds[owner]).copy()
            self._counted.add(owner)
        return self.crowds[owner]

    def _mark(self) -> _Mark:
        rows = {section: (rows, len(rows)) for section, rows in self._rows.items()}
        self._counted.clear()
        return _Mark(
            rows,
            list(self._entries),
            dict(self.threads),
            dict(self.reserved),
            dict(self.crowds),
            list(self.sends),
            set(self.resends),
            list(self.effects),
            list(self.points),
            list(self.points_after),
            self._context.acquaintances.mark(),
        )

    def _return_to(self, mark: _Mark) -> None:
        self._context.acquaintances.undo(mark.notes)
        self._rows = {section: rows[:length] for section, (rows, length) in mark.rows.items()}
        self._entries = mark.entries
        self._counted.clear()
        self.threads, self.reserved, self.crowds = mark.threads, mark.reserved, mark.crowds
        self.sends, self.resends, self.effects = mark.sends, mark.resends, mark.effects
        self.points, self.points_after = mark.points, mark.points_after

    def _cancel_out(self) -> None:
        """What is reserved and given back within one batch never reaches the table."""
        for given_back, taken in _OPPOSITES:
            gone = {(row["owner"], row["mid"]) for row in self._rows.get(given_back, ())}
            for section in taken if gone else ():
                rows = self._rows.get(section, [])
                self._rows[section] = [row for row in rows if (row["owner"], row["mid"]) not in gone]
