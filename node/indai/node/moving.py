"""What is agreed in the place of something that stands: it makes way, once, and for one (LIF-24 to LIF-26).

`indai.protocol.contest` says which of several threads may have its place. Here stands what that needs: the
threads that ask for it are noted with what was agreed, looked at before an item is decided, and ended in the
transaction in which another one has won.
"""

from __future__ import annotations

from indai.node import several, succession
from indai.node.book import Book
from indai.node.context import Context
from indai.node.draft import Contest, Draft, ThreadState
from indai.node.items import Convene, Start
from indai.node.store import Key
from indai.protocol import contest
from indai.protocol.contest import OVERTAKEN, Rival, Stake
from indai.protocol.copies import replace
from indai.protocol.errors import Reason, Refused
from indai.protocol.messages import Body, Message, Terms, Wish
from indai.protocol.party_state import OwnerWithdraws, Side, Succeeded


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
        """Before a peer's message is taken in a thread that is open, or new: raises ProtocolError (LIF-16)
        where a first message may not name what it does."""
        side = draft.state.side if draft.state else None
        supersedes = side.supersedes if side else message.supersedes
        if not supersedes:
            return
        if side is None:
            succession.check(await self._agreed(draft.owner, supersedes), message)
        said = message.body if isinstance(message.body, Wish | Terms) else side.terms if side else None
        await self.prepare(draft, message.thread, supersedes, said)

    async def prepare(self, draft: Draft, thread: bytes, supersedes: bytes, said: Body | None) -> None:
        """What makes way for what `thread` agrees on, and whether our signature may be given there."""
        if not supersedes:
            return
        old = await self._agreed(draft.owner, supersedes)
        draft.leaving = succession.leaving(old, said)
        if old is None:
            draft.contest = Contest(is_taken=True)
            return
        states = [await self._thread(draft.owner, each) for each in old.side.contenders if each != thread]
        open_states = {state.side.thread_id: state for state in states if state is not None}
        rivals = [each for state in open_states.values() if (each := contest.rival(state.side))]
        time_ms = said.replaces_ms if isinstance(said, Wish | Terms) else 0
        draft.contest = _contest(old, thread, time_ms, rivals, open_states)

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
        for thread in old.side.contenders:
            state = await self._thread(key[0], thread)
            bound = contest.rival(state.side) if state else None
            if bound and bound.stake is not Stake.ACCEPTED and contest.is_taken(old.side.life, bound.time_ms):
                await self._overtake(key[0], thread)

    async def _overtake(self, owner: str, thread: bytes) -> None:
        state = await self._thread(owner, thread)
        if state is None or state.side.phase.ended:
            return
        draft = self._book.draft(owner, thread)
        ending = several.conversation(self._context, draft, state.columns["peer"])
        await ending.run(OwnerWithdraws(OVERTAKEN))
        await self.finish(draft)

    def _note(self, old: ThreadState, side: Side) -> None:
        if side is not old.side:
            self._book.threads[old.key] = replace(old, side=side)

    async def _thread(self, owner: str, thread: bytes) -> ThreadState | None:
        """The thread as this batch has it, read if memory lacks it; None once it is erased."""
        if self._book.state(owner, thread) is None:
            now_ms = self._context.clock()
            self._book.keep(await self._context.store.load([owner], [(owner, thread)], [], now_ms))
        return self._book.state(owner, thread)

    async def _agreed(self, owner: str, mid: bytes) -> ThreadState | None:
        """The owner's thread with this commitment, or with what may yet become one; None where there is none,
        or none any more."""
        thread = await self._context.store.thread_of_offer(owner, mid)
        return await self._thread(owner, thread) if thread else None


def _contest(
    old: ThreadState, thread: bytes, time_ms: int, rivals: list[Rival], states: dict[bytes, ThreadState]
) -> Contest:
    life = old.side.life
    offering, accepting = (
        contest.ruling(life, thread, time_ms, rivals, accepting=accepting) for accepting in (False, True)
    )
    rows = frozenset(row for each in accepting.gives_way for row in succession.reserved(states[each]))
    is_taken = life is None or contest.is_taken(life, time_ms)
    return Contest(offering, accepting, rows, is_taken)
