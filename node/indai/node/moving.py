"""What is agreed in the place of something that stands: it makes way, once, and for one (LIF-24 to LIF-26).

`indai.protocol.contest` says which of several threads may have its place. Here stands what that needs: the
threads that ask for it are noted with what was agreed, looked at before an item is decided, and ended in the
transaction in which another one has won.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from indai.node import several, succession
from indai.node.book import Book
from indai.node.context import Context
from indai.node.draft import Contest, Draft, ThreadState
from indai.node.items import Convene, Start
from indai.node.store import Key
from indai.protocol import contest
from indai.protocol.contest import OVERTAKEN, Bid, Stake
from indai.protocol.copies import replace
from indai.protocol.errors import IndaiError, ProtocolError, Reason, Refused
from indai.protocol.messages import Body, Message, Move, Terms, Wish
from indai.protocol.party_state import OwnerWithdraws, Side, Succeeded

log = structlog.get_logger(__name__)


class Moves:
    """Of one batch, whose book it reads and writes."""

    def __init__(self, book: Book, context: Context) -> None:
        self._book = book
        self._context = context

    async def begin(self, draft: Draft, item: Start | Convene) -> ThreadState | None:
        """Before our owner begins: what it is to take the place of, if anything; Refused(THREAD_CLOSED) where
        that has been moved or has ended."""
        await self.prepare(draft, item.thread, item.supersedes, item.wish)
        if draft.contest.is_taken:
            what = "What it is to take the place of has been moved, or has ended."
            raise Refused(Reason.THREAD_CLOSED, what, hint="see: indai commitments")
        return await self._agreed(item.owner, item.supersedes) if item.supersedes else None

    async def hear(self, draft: Draft, message: Message) -> None:
        """Before a peer's message is taken in a thread that is open, or new: raises ProtocolError, LIF-16
        where a first message may not name what it does, LIF-27 (OUT_OF_ORDER) where an offer has to wait for
        what becomes of another one."""
        side = draft.state.side if draft.state else None
        supersedes = side.supersedes if side else message.supersedes
        if not supersedes:
            return
        if side is None:
            succession.check(await self._agreed(draft.owner, supersedes), message)
        said = message.body if isinstance(message.body, Wish | Terms) else side.terms if side else None
        bid = Bid.of(message) if message.move is Move.OFFER else None
        await self.prepare(draft, message.thread, supersedes, said, bid)
        if bid and draft.contest.accepting.waits:
            what = "Another change of the same is signed here, and not decided yet."
            raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-27")

    async def answer(self, draft: Draft, said: Body | None, *, approved: bool) -> None:
        """Before our owner's answer to a question is taken; raises Refused(THREAD_OPEN), and the question
        stays, where a yes has to wait (LIF-27)."""
        side = draft.thread.side
        offer = side.thread.offer if side.thread else None
        bid = Bid.of(offer) if offer and offer.sender != side.owner else None
        await self.prepare(draft, side.thread_id, side.supersedes, said, bid)
        if approved and bid and draft.contest.accepting.waits:
            what = "You have agreed to another change of the same, and not everybody has signed that yet."
            raise Refused(Reason.THREAD_OPEN, what, hint="say no, or answer again once that is decided")

    async def prepare(
        self, draft: Draft, thread: bytes, supersedes: bytes, said: Body | None, bid: Bid | None = None
    ) -> None:
        """What makes way for what `thread` agrees on, and whether our signature may be given there: on `bid`,
        the peer's offer, if there is one."""
        if not supersedes:
            return
        old = await self._agreed(draft.owner, supersedes)
        draft.leaving = succession.leaving(old, said)
        if old is None:
            draft.contest = Contest(is_taken=True)
            return
        others = await self._threads(draft.owner, [each for each in old.side.contenders if each != thread])
        time_ms = said.replaces_ms if isinstance(said, Wish | Terms) else 0
        draft.contest = _contest(old, time_ms, others, bid)

    async def finish(self, draft: Draft) -> None:
        """Keep what an item has changed. What was agreed in another's place ends that one in this batch, and
        every other thread that asked for the same place."""
        side = draft.state.side if draft.state else None
        if side is None or not (side.supersedes or side.contenders):
            self._book.merge(draft)
            return
        before, was = self._book.mark(), self._book.state(*draft.thread.key)
        self._book.merge(draft)
        try:
            await self._follow(draft, was)
        except Exception:
            self._book.return_to(before)
            raise

    async def _follow(self, draft: Draft, was: ThreadState | None) -> None:
        side = draft.thread.side
        if side.contenders:
            await self._clear(draft.thread.key)
        old = await self._agreed(draft.owner, side.supersedes) if side.supersedes else None
        if old is None:
            return
        self._note(old, contest.noted(old.side, side))
        bound = contest.rival(side)
        if bound and bound.stake is Stake.ACCEPTED and not (was and was.side.reserved):
            for thread in draft.contest.accepting.gives_way:
                await self._overtake(draft.owner, thread)
        if draft.succeeded is not None:
            _, mid, time_ms = draft.succeeded
            ending = self._book.draft(*old.key)
            peer = old.columns["peer"]
            await several.conversation(self._context, ending, peer).run(Succeeded(mid, time_ms))
            self._book.merge(ending)
        await self._clear(old.key)

    async def _clear(self, key: Key) -> None:
        """End the threads that ask for the place of what has been moved, or has ended. An acceptance stands
        until its offerer's word."""
        old = self._book.state(*key)
        if old is None or old.side.life is None:
            return
        for thread, state in (await self._threads(key[0], old.side.contenders)).items():
            bound = contest.rival(state.side)
            if not bound or bound.stake is Stake.ACCEPTED:
                continue
            if contest.is_taken(old.side.life, bound.time_ms):
                await self._try_to_end(key[0], thread)

    async def _try_to_end(self, owner: str, thread: bytes) -> None:
        """What can't be told of now, for want of a key or a record, must not hold up what has been agreed: it
        will never be signed in any case, and ends with its time."""
        before = self._book.mark()
        try:
            await self._overtake(owner, thread)
        except IndaiError as error:
            self._book.return_to(before)
            log.warning(
                "overtaken thread left open", owner=owner, reason=error.reason.name, error=error.message
            )

    async def _overtake(self, owner: str, thread: bytes) -> None:
        state = (await self._threads(owner, [thread])).get(thread)
        if state is None or state.side.phase.ended:
            return
        draft = self._book.draft(owner, thread)
        ending = several.conversation(self._context, draft, state.columns["peer"])
        await ending.run(OwnerWithdraws(OVERTAKEN))
        await self.finish(draft)

    def _note(self, old: ThreadState, side: Side) -> None:
        if side is not old.side:
            self._book.threads[old.key] = replace(old, side=side)

    async def _threads(self, owner: str, threads: Sequence[bytes]) -> dict[bytes, ThreadState]:
        """Those threads as this batch has them, read if memory lacks them, but for what is erased."""
        unknown = [(owner, thread) for thread in threads if self._book.state(owner, thread) is None]
        if unknown:
            now_ms = self._context.clock()
            self._book.keep(await self._context.store.load([owner], unknown, [], now_ms))
        found = {thread: self._book.state(owner, thread) for thread in threads}
        return {thread: state for thread, state in found.items() if state is not None}

    async def _agreed(self, owner: str, mid: bytes) -> ThreadState | None:
        """The owner's thread with this commitment, or with what may yet become one; None where there is none,
        or none any more."""
        thread = await self._context.store.thread_of_offer(owner, mid)
        return (await self._threads(owner, [thread])).get(thread) if thread else None


def _contest(old: ThreadState, time_ms: int, others: Mapping[bytes, ThreadState], bid: Bid | None) -> Contest:
    life = old.side.life
    rivals = [found for state in others.values() if (found := contest.rival(state.side))]
    offering = contest.ruling(life, time_ms, rivals)
    accepting = contest.ruling(life, time_ms, rivals, bid, succession.signatures(old)) if bid else offering
    rows = frozenset(row for each in accepting.gives_way for row in succession.reserved(others[each]))
    is_taken = life is None or contest.is_taken(life, time_ms)
    return Contest(offering, accepting, rows, is_taken)
