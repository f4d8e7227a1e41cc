"""The node's one writer: takes what is ready, decides, signs, and commits it in batches.

Ownership: only the engine changes threads, messages, outbox, reservations, offers, approvals and the
ledger, so what it has committed may be kept in memory (`_threads`, `_reserved`) and most batches cost one
round trip to the database. The ledger's epoch fences a second engine out; whatever a failed batch had in
memory is forgotten.

Commit point: the return of `Store.apply`. Answers, deliveries and effects come after it and never before.
When the connection is lost there, the outcome is unknown: callers get UNAVAILABLE and come again, and find
what was stored by message id or request id; outbox and effects read again what may have been stored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg
import structlog
from indai.client import because
from indai.client.tasks import end_tasks
from indai.node import faults, succession
from indai.node.batch import Batch
from indai.node.context import Context
from indai.node.crowd import Crowd
from indai.node.draft import ThreadState, states_of
from indai.node.effects import Effects
from indai.node.following import Follower
from indai.node.holdings import Holdings
from indai.node.inbound import Inbound
from indai.node.items import Act, Answered, Approval, Convene, Deliver, Erasure, Item, Start, Wake, Withdrawal
from indai.node.outbox import Outbox, Outgoing
from indai.node.store import Key, Store
from indai.protocol.copies import replace
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason, Refused, Unavailable
from indai.protocol.group.algorithms import DEFAULT
from indai.protocol.messages import MeetWish, Move, Terms, Wish
from indai.protocol.party_state import OwnerActs

MAX_BATCH = 64
MAX_QUEUE = 1024
MAX_THREADS = 20_000  # kept in memory; the least recently used go first
MAX_REQUESTS = 20_000
EVERY_THREAD = b""  # who watches a desk sees all of an owner's
SIZE_CHANGED = "TL002"
ATTEMPTS = 5

log = structlog.get_logger(__name__)


class Engine:
    """Everything that changes a thread goes through `_submit`."""

    def __init__(self, store: Store, context: Context, epoch: int, size: int) -> None:
        self._store = store
        self._context = context
        self._epoch = epoch
        self._size = size
        self._queue: asyncio.Queue[Item] = asyncio.Queue(MAX_QUEUE)
        self._threads: OrderedDict[Key, ThreadState] = OrderedDict()
        self._reserved: dict[str, Holdings] = {}
        self._crowds: dict[str, Crowd] = {}
        self._requests: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._watchers: dict[Key, set[asyncio.Event]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._outbox: Outbox | None = None
        self._effects: Effects | None = None
        self._followers: tuple[Follower, ...] = ()

    def start_work(self, outbox: Outbox, effects: Effects, followers: Sequence[Follower] = ()) -> None:
        """Begin; what is committed is handed to `outbox` and `effects`, and told to `followers`."""
        self._outbox, self._effects, self._followers = outbox, effects, tuple(followers)
        self._worker = asyncio.create_task(self._run())

    def follow(self, follower: Follower) -> None:
        """One more that is told of what is committed."""
        self._followers = (*self._followers, follower)

    async def close(self) -> None:
        """Finish the batch at hand and stop."""
        await end_tasks(self._worker)

    async def deliver(self, inbound: Inbound) -> list[bytes]:
        """Take a verified message; the replies that may ride in the response."""
        if inbound.message.move is Move.QUERY:
            return await self._context.queries.answer(inbound)
        await self._look(inbound.owner)
        await self._prepare(inbound)
        result: list[bytes] = await self._submit(
            Deliver(inbound.owner, inbound.message.thread, inbound=inbound)
        )
        return result

    async def start(
        self,
        owner: str,
        peer: str,
        wish: Wish | Terms,
        request_id: str,
        supersedes: bytes = b"",
        passes_on: bytes = b"",
    ) -> bytes:
        """Begin a negotiation; its thread id, also when the request was made before.

        `supersedes`: mid of the commitment whose place the new one is to take; `passes_on`: the owner's
        thread because of which this one begins, beside those that the call names (`indai.client.because`).
        """
        item = Start(
            owner,
            self._context.new_id(),
            peer=peer,
            wish=wish,
            request_id=request_id,
            supersedes=supersedes,
            passes_on=_because(passes_on),
        )
        return await self._begin(item)

    async def convene(
        self,
        owner: str,
        peers: tuple[str, ...],
        wish: MeetWish,
        request_id: str,
        algorithm: str,
        passes_on: bytes = b"",
    ) -> bytes:
        """Begin a meeting of several; its thread id, also when the request was made before."""
        item = Convene(
            owner,
            self._context.new_id(),
            peers=peers,
            wish=wish,
            request_id=request_id,
            algorithm=algorithm,
            passes_on=_because(passes_on),
        )
        return await self._begin(item)

    async def move(self, owner: str, thread: bytes, wish: MeetWish, request_id: str) -> bytes:
        """Ask everybody who agreed the meeting in `thread` for one in its place; the new one's thread id."""
        state = await self.state(owner, thread)
        life = state.side.life if state else None
        if state is None or life is None:
            raise NotFound(Reason.NOT_FOUND, "There is no meeting in this thread.", hint="indai commitments")
        peers, mid = succession.others(state), life.deed.mid
        if len(peers) == 1:
            return await self.start(owner, peers[0], wish, request_id, supersedes=mid)
        item = Convene(
            owner,
            self._context.new_id(),
            peers=peers,
            wish=wish,
            request_id=request_id,
            algorithm=DEFAULT,
            supersedes=mid,
            passes_on=_because(b""),
        )
        return await self._begin(item)

    async def _begin(self, item: Start | Convene) -> bytes:
        owner, request_id = item.owner, item.request_id
        known = self._requests.get((owner, request_id))
        if known is not None:
            return known
        if not item.passes_on:
            peers = item.peers if isinstance(item, Convene) else (item.peer,)
            self._context.echoes.begin(owner, peers, self._context.clock())
        await self._look(owner)
        # The table refuses a request that was made before; only then is it looked up.
        try:
            await self._submit(item)
        except IndaiError as error:
            if error.reason is not Reason.ID_REUSE:
                raise
            again = await self._store.thread_of_request(owner, request_id)
            if again is None:
                raise
            return again
        self._requests[owner, request_id] = item.thread
        if len(self._requests) > MAX_REQUESTS:
            self._requests.popitem(last=False)
        return item.thread

    def seen(self, owner: str, thread: bytes) -> ThreadState | None:
        """The thread as it was last committed, if memory has it."""
        return self._threads.get((owner, thread))

    async def state(self, owner: str, thread: bytes) -> ThreadState | None:
        """The thread from memory, else from the tables; None once it is erased."""
        known = self.seen(owner, thread)
        if known is not None:
            return known
        loaded = await self._store.load([owner], [(owner, thread)], [], self._context.clock())
        return next(iter(states_of(loaded).values()), None)

    async def answer(self, owner: str, thread: bytes, action_hash: bytes, approved: bool) -> None:
        """The owner's word on a question."""
        await self._look(owner)
        await self._submit(Approval(owner, thread, action_hash=action_hash, approved=approved))

    async def counter(self, owner: str, thread: bytes, action_hash: bytes, instead: Wish | Terms) -> None:
        """What the owner wants in the place of what they are asked."""
        await self._look(owner)
        answer = Approval(owner, thread, action_hash=action_hash, approved=False, instead=instead)
        await self._submit(answer)

    async def withdraw(self, owner: str, thread: bytes) -> None:
        """The owner takes the matter back."""
        await self._submit(Withdrawal(owner, thread))

    async def act(self, owner: str, thread: bytes, said: OwnerActs) -> None:
        """The owner's word on what was agreed: FULFIL, CANCEL or DISPUTE."""
        await self._submit(Act(owner, thread, said=said))

    async def erase(self, owner: str, thread: bytes) -> int:
        """Erase what an ended thread says; how many ledger entries that were. Refused(THREAD_OPEN) while it
        goes on.
        """
        erased: int = await self._submit(Erasure(owner, thread))
        return erased

    def forget(self, owner: str) -> None:
        """Keep nothing of an owner who has left in memory."""
        for key in [key for key in self._threads if key[0] == owner]:
            del self._threads[key]
        self._reserved.pop(owner, None)

    async def take(self, outgoing: Outgoing, replies: Sequence[Inbound], reason: str, sentence: str) -> None:
        """A peer took, or refused, a message of ours; its answers are taken in the same transaction."""
        if replies:
            await self._look(outgoing.owner)
        await self._submit(
            Answered(
                outgoing.owner,
                outgoing.thread,
                outgoing=outgoing,
                replies=replies,
                reason=reason,
                sentence=sentence,
            )
        )

    async def wake(self, owner: str, thread: bytes) -> None:
        """A timer of this thread is due."""
        await self._submit(Wake(owner, thread))

    @contextlib.contextmanager
    def changes(self, owner: str, thread: bytes) -> Iterator[asyncio.Event]:
        """An event that is set at each change of the thread; of any of the owner's for `EVERY_THREAD`."""
        event, key = asyncio.Event(), (owner, thread)
        self._watchers.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            self._watchers[key].discard(event)
            if not self._watchers[key]:
                del self._watchers[key]

    def changed(self, owner: str, thread: bytes) -> None:
        """Tell those who watch."""
        for key in ((owner, thread), (owner, EVERY_THREAD)):
            for event in self._watchers.get(key, ()):
                event.set()

    async def _look(self, owner: str) -> None:
        """Bring what is known of the owner's calendars up to date, before and not within a batch: a slow
        server delays its owner's messages and no others."""
        await self._context.agents.get(owner).calendar.refresh()

    async def _prepare(self, inbound: Inbound) -> None:
        """Let the kind of a wish that is new here look up what a batch must not wait for."""
        said = inbound.message.body
        module = self._context.kinds.get(said.kind) if isinstance(said, Wish) else None
        if module is not None and self.seen(inbound.owner, inbound.message.thread) is None:
            await module.prepare(inbound.owner, inbound.peer, inbound.message)

    async def _submit(self, item: Item) -> Any:
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            raise Unavailable(Reason.RATE_LIMITED, "This node is busy; try again shortly.") from None
        return await item.future

    async def _run(self) -> None:
        while True:
            items = [await self._queue.get()]
            while len(items) < MAX_BATCH and not self._queue.empty():
                items.append(self._queue.get_nowait())
            faults.reach("before-load")
            erasures = [item for item in items if isinstance(item, Erasure)]
            if len(erasures) < len(items):
                await self._settle([item for item in items if item not in erasures])
            for item in erasures:
                await self._erase(item)

    async def _settle(self, items: list[Item]) -> None:
        """Commit these items, or find the one that can't be and commit the others."""
        try:
            await self._attempt(items)
        except asyncpg.PostgresError as error:
            self._forget()
            if len(items) > 1:
                half = len(items) // 2
                await self._settle(items[:half])
                await self._settle(items[half:])
            elif items[0].retried:
                items[0].fail(_meaning(error))
            else:
                items[0].retried = True
                await self._settle(items)
        except IndaiError as error:
            self._doubt(items)
            for item in items:
                item.fail(error)
        except Exception as error:
            self._doubt(items)
            log.exception("batch failed")
            for item in items:
                item.fail(IndaiError(Reason.INTERNAL, f"The node failed: {type(error).__name__}."))

    async def _attempt(self, items: list[Item]) -> None:
        for _ in range(ATTEMPTS):
            self._context.acquaintances.undo()
            batch = Batch(self._context, self._threads, self._reserved, self._crowds, self._size)
            await batch.load(self._store, items)
            for item in items:
                await batch.take(item)
            faults.reach("before-apply")
            for point in batch.points:
                faults.reach(point)
            doc = batch.document()
            try:
                if doc:
                    asked = self._context.clock.asking()
                    clock = await self._store.apply(batch.owners, doc, self._epoch, self._size)
                    self._context.clock.read(clock, asked)
            except asyncpg.PostgresError as error:
                if error.sqlstate != SIZE_CHANGED:
                    raise
                # Somebody else's entry came in between; the indexes in our receipts are wrong. Sign again.
                self._size = await self._context.ledger_size()
                continue
            self._committed(batch)
            return
        raise Unavailable(
            Reason.LOG_FENCED, "The ledger keeps changing under this node.", hint="is a second node running?"
        )

    def _committed(self, batch: Batch) -> None:
        """After the commit point: memory, answers, deliveries, effects."""
        faults.reach("after-apply")
        for point in batch.points_after:
            faults.reach(point)
        self._size += batch.appended
        self._context.acquaintances.stored()
        self._reserved.update(batch.reserved)
        self._crowds.update(batch.crowds)
        for key, state in batch.threads.items():
            self._threads[key] = replace(state, is_new=False)
            self._threads.move_to_end(key)
        while len(self._threads) > MAX_THREADS:
            self._threads.popitem(last=False)
        batch.answer()
        outbox, effects = self._work()
        for outgoing in batch.sends:
            outbox.send(outgoing)
        outbox.drop(batch.dropped)
        outbox.recall(batch.resends)
        effects.add(batch.effects)
        for owner, thread in batch.threads:
            self.changed(owner, thread)
        for follower in self._followers:
            follower.committed(batch.threads.values())

    async def _erase(self, item: Erasure) -> None:
        """In a transaction of its own: nothing else changes a thread that has ended."""
        try:
            erased = await self._store.erase(item.owner, item.thread, self._context.clock())
        except IndaiError as error:
            item.fail(error)
            return
        self._threads.pop((item.owner, item.thread), None)
        self._reserved.pop(item.owner, None)
        if erased is None:
            message = "What still goes on, or still has to be delivered, is not erased."
            item.fail(Refused(Reason.THREAD_OPEN, message, hint="withdraw it, or wait until it has ended"))
            return
        item.succeed(erased)
        self.changed(item.owner, item.thread)
        for follower in self._followers:
            follower.doubted([item.owner])

    def _doubt(self, items: Sequence[Item]) -> None:
        """Whether these items were stored is unknown: what they may have left to do is read from the
        tables."""
        self._forget()
        outbox, effects = self._work()
        owners = {item.owner for item in items}
        outbox.recall(owners)
        effects.recall(owners)
        for follower in self._followers:
            follower.doubted(owners)

    def _work(self) -> tuple[Outbox, Effects]:
        if self._outbox is None or self._effects is None:
            raise RuntimeError("the engine was not started")
        return self._outbox, self._effects

    def _forget(self) -> None:
        """Nothing in memory is trusted after a failure."""
        self._threads.clear()
        self._reserved.clear()
        self._crowds.clear()
        self._context.acquaintances.undo()


def _because(passes_on: bytes) -> tuple[bytes, ...]:
    """What a call that begins a thread says it begins because of: its own word, and that of its metadata."""
    said = *((passes_on,) if passes_on else ()), *map(bytes.fromhex, because.threads())
    return tuple(dict.fromkeys(said))


def _meaning(error: asyncpg.PostgresError) -> IndaiError:
    """What a violated constraint says about the one item that violates it."""
    name = getattr(error, "constraint_name", "") or ""
    if name == "messages_id_reuse" or name.startswith("threads_"):
        return ProtocolError(Reason.ID_REUSE, "The id was used before with other bytes.", rule="HDR-06")
    if error.sqlstate in ("IND11", "IND12"):
        return IndaiError(Reason.THREAD_CLOSED, "This was decided before.")
    if error.sqlstate == "IND15":
        words = "More would be promised than was delegated: the sub-agent's budget is used up."
        return ProtocolError(Reason.PERMISSION_DENIED, words, rule="REG-37")
    log.error("a batch of one can't be stored", sqlstate=error.sqlstate, constraint=name)
    return IndaiError(Reason.INTERNAL, "The node could not store this.")
