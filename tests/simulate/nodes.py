"""Two nodes, three owners, a bad network, crashes and lost connections, all from one seed.

What runs is the node's own code: gate, engine, batches, conversations, signatures. Simulated are its tables
(`tests.simulate.tables`), the registry, clocks, what owners want, and the network, which takes its messages
from the tables' outbox as the node's outbox does.

`mutation` breaks one guard, in the tables or in the answers; the tests show that each breach is found.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, cast
from unittest.mock import patch

from indai.ledger.vault import Vault
from indai.node.context import Context
from indai.node.engine import Engine
from indai.node.inbound import Gate, Inbound
from indai.node.items import Act, Answered, Approval, Deliver, Item, Start, Wake, Withdrawal
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.outbox import PASSING, Outgoing
from indai.node.reminders import Likes
from indai.protocol import contest
from indai.protocol.contest import FREE
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import Repeats
from indai.protocol.kinds.table import KINDS
from indai.protocol.messages import DAY_MS, HOUR_MS, MINUTE_MS, EventKind, MeetTerms, MeetWish, Wish
from indai.protocol.party_state import OwnerActs, Side

from tests.simulate import nodechecks
from tests.simulate.cast import HOMES, NODES, Household, Registry, spki
from tests.simulate.host import START_MS
from tests.simulate.store import Violation
from tests.simulate.tables import MemoryStore
from tests.simulate.trade import Trade
from tests.unit.wants import another

STEPS = 60
MUTATIONS = (
    "two-transactions",  # a write is not one transaction
    "forgets-promises+no-constraints",  # neither memory nor the tables know what is promised
    "acks",  # what was delivered is never taken from the outbox
    "threads",  # what becomes of a thread is not stored
    "release",  # what is not agreed is never given back
    "consume",  # what is agreed is never made firm
    "signs-twice",  # two threads may take the place of one commitment
    "forgets-hops",  # what is passed on counts as if its owner had asked for it
    "keeps-memory",  # what a failed write had in memory is trusted
)


class PowerCut(BaseException):
    """The process is gone: nothing in it may catch that."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One delivery on the wire, and who waits for its answer."""

    sender: str
    to: str
    batch: tuple[Outgoing, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What the peer's node answered for one message."""

    replies: tuple[bytes, ...] = ()
    reason: str = ""
    sentence: str = ""


class _Clock:
    def __init__(self, world: NodeWorld, skew_ms: int) -> None:
        self._world, self._skew_ms = world, skew_ms

    def __call__(self) -> int:
        return self._world.now_ms + self._skew_ms

    def asking(self) -> int:
        """Nothing takes any time here."""
        return 0

    def read(self, reading_ms: int, asked_ms: int | None = None) -> None:
        """The database's clock is this one."""


class _Host:
    async def check_hands(self, *_: object) -> None:
        """No handle changes hands."""

    def reminding(self, _: str) -> Likes:
        return Likes(15 * MINUTE_MS, 480)


class _After:
    """Outbox and effects, as the engine sees them: whatever they need stands in the tables."""

    def recall(self, _: object) -> None:
        """Everything is read from the tables anyway."""

    add = send = drop = recall


class Machine:
    """One node: tables that last, and a process that may be gone at any moment."""

    def __init__(self, world: NodeWorld, name: str, skew_ms: int) -> None:
        self.world, self.name = world, name
        self.clock = _Clock(world, skew_ms)
        broken = world.mutation
        self.store = MemoryStore(world.trouble, "" if broken == "keeps-memory" else broken)
        self.start()

    def start(self) -> None:
        """A new process over what is stored."""
        world, registry, household = self.world, cast(Any, Registry()), cast(Any, Household(self.name))
        blind = "no-constraints" in world.mutation
        kinds = {name: Trade(kind, lambda: world.random, blind=blind) for name, kind in KINDS.items()}
        clock, store, vault = cast(Any, self.clock), cast(Any, self.store), Vault(b"v" * 32)
        ledger, nobody_asks = f"{self.name}/ledger/2026", cast(Any, None)
        context = Context(
            household,
            registry,
            cast(Any, _Host()),
            kinds,
            clock,
            ledger,
            store,
            vault,
            Acquaintances(store),
            queries=nobody_asks,
        )
        self.context = context
        self.gate = Gate(registry, household, self.clock, lambda _: None, _no_check)
        self.engine = Engine(store, context, 1, len(self.store.tables.ledger))
        after = cast(Any, _After())
        self.engine._outbox = self.engine._effects = after
        if world.mutation == "keeps-memory":
            self.engine._forget = lambda: None  # type: ignore[method-assign]

    @property
    def owners(self) -> list[str]:
        """Who lives here."""
        return [owner for owner, home in HOMES.items() if home == self.name]

    async def take(self, *items: Item) -> list[Any]:
        """One batch, and what each of its items came to."""
        try:
            await self.engine._settle(list(items))
        except PowerCut:
            self.world.say(f"  {self.name} is gone, and starts again")
            self.start()
            raise
        finally:
            for item in items:
                if item.future.done():
                    item.future.exception()
        self.world.events += len(items)
        nodechecks.always(self.world, self)
        return [item.future.exception() or item.future.result() for item in items]

    async def deliver(self, parcel: Parcel) -> list[Result]:
        """As the peer service does it: each envelope by itself through the gate, all of them in one batch."""
        taken: list[Item | IndaiError] = []
        for message in parcel.batch:
            try:
                inbound = await self.gate.check(message.envelope, spki(parcel.sender), self.clock())
                taken.append(Deliver(inbound.owner, inbound.message.thread, inbound=inbound))
            except IndaiError as error:
                taken.append(error)
        items = [each for each in taken if isinstance(each, Item)]
        outcomes = iter(await self.take(*items) if items else ())
        return [_result(next(outcomes) if isinstance(each, Item) else each) for each in taken]

    async def answered(self, parcel: Parcel, results: list[Result]) -> None:
        """As the outbox does it: passing refusals are tried again, everything else is stored."""
        items: list[Item] = []
        for message, result in zip(parcel.batch, results, strict=True):
            known = Reason.__members__.get(result.reason)
            if known not in (None, Reason.OUT_OF_ORDER) and known.status.grpc in PASSING:
                continue
            replies: list[Inbound] = []
            for raw in result.replies:
                try:
                    replies.append(await self.gate.check(raw, None, self.clock()))
                except IndaiError as error:
                    raise Violation(f"an honest reply was refused: {error}") from error
            items.append(
                Answered(
                    message.owner,
                    message.thread,
                    outgoing=message,
                    replies=replies,
                    reason=result.reason,
                    sentence=result.sentence,
                )
            )
        if items:
            await self.take(*items)

    def outbox(self) -> list[Outgoing]:
        """What waits to be delivered, oldest first."""
        tables, waiting = self.store.tables, []
        for key, row in tables.messages.items():
            if key in tables.outbox:
                mid, thread = (bytes.fromhex(row[name][2:]) for name in ("mid", "thread"))
                envelope = bytes.fromhex(row["envelope"][2:])
                to = tables.outbox[key]["recipient"]
                waiting.append(Outgoing(row["owner"], thread, mid, row["move"], to, envelope))
        return waiting

    def due(self) -> list[Item]:
        """Threads whose time has come."""
        rows = self.store.tables.threads.items()
        now = self.clock()
        return [Wake(o, bytes.fromhex(t)) for (o, t), row in rows if row["wake_ms"] and row["wake_ms"] <= now]


async def _no_check(*_: object) -> None:
    """No rule of an owner's was set for a former subject."""


def _result(outcome: object) -> Result:
    if isinstance(outcome, list):
        return Result(tuple(outcome))
    if isinstance(outcome, ProtocolError | NotFound) and outcome.reason.status.grpc != "DATA_LOSS":
        return Result((), outcome.reason.name, str(outcome))
    if isinstance(outcome, IndaiError):
        return Result((), Reason.UNREACHABLE.name, str(outcome))
    raise AssertionError(f"a delivery came to {outcome!r}")


class NodeWorld:
    """Both nodes, the wire between them, and the clock."""

    def __init__(
        self,
        seed: int,
        *,
        mutation: str = "",
        crash_rate: float = 0.03,
        loss: float = 0.2,
        keep: Collection[int] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.seed, self.mutation, self.crash_rate, self.loss = seed, mutation, crash_rate, loss
        self.keep, self.tell = keep, tell
        self.random = random.Random(seed)
        self.moving = seed % 4 == 3  # everybody wants a meeting at another time
        self.now_ms, self.events, self.healed = START_MS, 0, False
        self.wire: list[Parcel] = []
        self.because: dict[tuple[str, str], str] = {}  # (owner, thread): the thread that it passes on
        self.nodes = {
            name: Machine(self, name, self.random.randrange(-MINUTE_MS, MINUTE_MS)) for name in NODES
        }

    def say(self, line: str) -> None:
        """One line of the trace."""
        if self.tell is not None:
            self.tell(f"+{(self.now_ms - START_MS) / 1000:.0f}s {line}")

    def trouble(self, point: str) -> None:
        """Where a store may fail: the process dies, or only its connection."""
        if self.healed:
            return
        dice = self.random.random()
        if dice < self.crash_rate:
            raise PowerCut(point)
        if dice < self.crash_rate * 1.5:
            raise IndaiErrorOf(point)

    async def run(self, steps: int = STEPS) -> NodeWorld:
        """`steps` of trouble, then none; every invariant is checked after each write and at the end."""
        actions = [self._carry, self._arrive, self._owner, self._clock, self._tick]
        blind = patch.object(contest, "ruling", lambda *_, **__: FREE)
        randomness = patch("os.urandom", lambda count: self.random.randbytes(count))
        with randomness, blind if self.mutation == "signs-twice" else contextlib.nullcontext():
            if self.moving:
                await self._agree()
            for number in range(steps):
                if self.keep is not None and number not in self.keep:
                    continue
                self.random.seed(self.seed << 16 | number)
                action = self.random.choices(actions, (35, 35, 18, 6, 8))[0]
                self.say(f"step {number}: {action.__name__.strip('_')}")
                try:
                    await action()
                except PowerCut:
                    continue
            self.random.seed(self.seed << 16 | 0xFFFF)
            await self._heal()
        return self

    async def _agree(self) -> None:
        """Owners of two nodes agree on a meeting before anything goes wrong, and both want to move it."""
        self.healed, node = True, self.nodes[NODES[0]]
        owner, peer = node.owners[0], self.nodes[NODES[1]].owners[0]
        windows = (Window(START_MS + DAY_MS, START_MS + DAY_MS + 8 * HOUR_MS),)
        repeats = Repeats(1, 3, "UTC") if self.random.random() < 0.5 else None
        wish = MeetWish("Lunch", 30, windows, repeats=repeats)
        await node.take(Start(owner, node.context.new_id(), peer=peer, wish=wish, request_id="first"))
        await self._settle()
        for each, who in ((node, owner), (self.nodes[NODES[1]], peer)):
            rows = each.store.tables.threads.items()
            agreed = [bytes.fromhex(t) for (of, t), row in rows if of == who and row["phase"] == "COMMITTED"]
            if agreed and (move := self._move(each, who, agreed[0])):
                await each.take(move)
        self.healed = False

    async def _heal(self) -> None:
        self.healed = True
        self.say("the network heals")
        for node in self.nodes.values():
            node.start()
        for _ in range(8):
            await self._settle()
            self.now_ms += 12 * HOUR_MS
            for node in self.nodes.values():
                due = node.due()
                if due:
                    await node.take(*due)
        await self._settle()
        nodechecks.at_the_end(self)

    async def _settle(self) -> None:
        for _ in range(40):
            for name, node in self.nodes.items():
                self._send(name, node.outbox())
            if not self.wire:
                return
            while self.wire:
                await self._arrive()
        raise Violation("the network never comes to rest")

    def _send(self, name: str, messages: list[Outgoing]) -> None:
        other = next(each for each in NODES if each != name)
        remote = tuple(message for message in messages if HOMES[message.recipient] != name)[:64]
        local = tuple(message for message in messages if HOMES[message.recipient] == name)[:64]
        for to, batch in ((other, remote), (name, local)):
            copies = 1 if self.healed else self.random.choices((0, 1, 2), (self.loss, 0.7, 0.1))[0]
            if batch:
                self.wire.extend([Parcel(name, to, batch)] * copies)

    async def _carry(self) -> None:
        name = self.random.choice(NODES)
        waiting = self.nodes[name].outbox()
        self._send(name, self.random.sample(waiting, self.random.randint(0, len(waiting))))

    async def _arrive(self) -> None:
        if not self.wire:
            return
        parcel = self.wire.pop(self.random.randrange(len(self.wire)))
        self.say(f"  {parcel.sender} to {parcel.to}: {', '.join(one.move for one in parcel.batch)}")
        results = await self.nodes[parcel.to].deliver(parcel)
        nodechecks.no_honest_refusal(parcel, results)
        if self.healed or self.random.random() > self.loss:
            await self.nodes[parcel.sender].answered(parcel, results)

    async def _owner(self) -> None:
        """Owners of one node say several things at once."""
        node = self.nodes[self.random.choice(NODES)]
        items = [self._said(node) for _ in range(self.random.choice((1, 1, 2, 4)))]
        await node.take(*(item for item in items if item is not None))

    def _said(self, node: Machine) -> Item | None:
        owner, dice = self.random.choice(node.owners), self.random.random()
        tables = node.store.tables
        asked = [
            row for row in tables.approvals.values() if (row["owner"], row["state"]) == (owner, "pending")
        ]
        rows = [(bytes.fromhex(t), row["phase"]) for (of, t), row in tables.threads.items() if of == owner]
        if asked and dice < 0.6:
            row = self.random.choice(asked)
            thread, digest = (bytes.fromhex(row[name][2:]) for name in ("thread", "action_hash"))
            return Approval(owner, thread, action_hash=digest, approved=self.random.random() < 0.8)
        if rows and dice < 0.15:
            return Withdrawal(owner, self.random.choice(rows)[0])
        agreed = [thread for thread, phase in rows if phase == "COMMITTED"]
        if agreed and self.moving and dice < 0.7 and (start := self._move(node, owner, agreed[0])):
            return start
        if agreed and dice < 0.35:
            kind = self.random.choice((EventKind.CANCEL, EventKind.FULFIL, EventKind.DISPUTE))
            thread = self.random.choice(agreed)
            life = Side.from_json(tables.threads[owner, thread.hex()]["side"]).life
            if life is not None and life.deed.times_ms and self.random.random() < 0.5:
                omit = OwnerActs(EventKind.OMIT, time_ms=self.random.choice(life.deed.times_ms))
                return Act(owner, thread, said=omit)
            return Act(owner, thread, said=OwnerActs(kind))
        return self._start(node, owner)

    def _move(self, node: Machine, owner: str, thread: bytes) -> Item | None:
        """The owner wants another time for what was agreed there, or for one of its times."""
        side = Side.from_json(node.store.tables.threads[owner, thread.hex()]["side"])
        if not isinstance(side.terms, MeetTerms) or side.life is None:
            return None
        later_ms = START_MS + self.random.randrange(2 * DAY_MS, 4 * DAY_MS, 2 * HOUR_MS)
        wish = another("meet", self.random, later_ms, gives=False)
        times_ms = side.life.deed.times_ms
        if isinstance(wish, MeetWish) and times_ms and self.random.random() < 0.6:
            wish = replace(wish, repeats=None, instead_of_ms=self.random.choice(times_ms))
        peer = node.store.tables.threads[owner, thread.hex()]["peer"]
        number, mid = str(uuid.UUID(bytes=self.random.randbytes(16))), side.life.deed.mid
        new = node.context.new_id()
        return Start(owner, new, peer=peer, wish=wish, request_id=number, supersedes=mid)

    def _start(self, node: Machine, owner: str) -> Item:
        peer = self.random.choice([each for each in HOMES if each != owner])
        gives = self.random.random() < 0.3
        wish: Wish = another(self.random.choice(tuple(KINDS)), self.random, START_MS, gives=gives)
        number = str(uuid.UUID(bytes=self.random.randbytes(16)))
        start = Start(owner, node.context.new_id(), peer=peer, wish=wish, request_id=number)
        mine = [bytes.fromhex(thread) for of, thread in node.store.tables.threads if of == owner]
        if mine and self.random.random() < 0.5:
            because = self.random.choice(mine)
            self.because[owner, start.thread.hex()] = because.hex()
            start.passes_on = () if self.mutation == "forgets-hops" else (because,)
        return start

    async def _clock(self) -> None:
        self.now_ms += self.random.choice((1_000, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 12 * HOUR_MS))

    async def _tick(self) -> None:
        node = self.nodes[self.random.choice(NODES)]
        due = node.due()
        if due:
            await node.take(*due)


class IndaiErrorOf(IndaiError):
    """The connection was lost at this point, and with it the knowledge whether the write was done."""

    def __init__(self, point: str) -> None:
        super().__init__(Reason.DATABASE_UNAVAILABLE, f"The connection was lost ({point}).")
