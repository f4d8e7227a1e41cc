"""Two parties, a bad network and crashes, all from one seed: a deterministic simulation of
`indai.protocol.party`.

Each `Host` has a durable store that changes only at a commit. Between two commits it may crash at any point,
which loses everything since the last one. The network drops, repeats, delays and reorders; a message stays in
the outbox until its delivery was acknowledged, and is sent again byte for byte. Clocks run up to a minute
apart. Where `malice` is named, B says something else than its machine has decided (`tests.simulate.malice`).

Every step has dice of its own, made of the seed and its number, so a step that is left out (`keep`) changes
no other one's: that is how a failing run is made short (`tests.simulate.shrink`).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection
from dataclasses import replace

from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetWish, Repeats
from indai.protocol.kinds.table import KINDS
from indai.protocol.messages import DAY_MS, HOUR_MS, MINUTE_MS, EventKind, Message, Move, Terms, Wish
from indai.protocol.party_state import OwnerActs, OwnerAnswers, OwnerStarts, OwnerWithdraws, Phase, Tick

from tests.simulate import checks, moves
from tests.simulate.host import START_MS, Host
from tests.simulate.malice import MALICE
from tests.simulate.store import Crash, Identity, Violation
from tests.unit.wants import another, offers

STEPS = 60


class World:
    """Both hosts, the network between them, and the clock."""

    def __init__(
        self,
        seed: int,
        *,
        mutation: str = "",
        crash_rate: float = 0.02,
        crash_at: int = 0,
        loss: float = 0.2,
        kinds: tuple[str, ...] = tuple(KINDS),
        malice: str = "",
        keep: Collection[int] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.seed, self.kinds, self.malice, self.keep, self.tell = seed, kinds, malice, keep, tell
        self.random = random.Random(seed)
        self.steps = 0  # events taken by either machine
        self.mutation, self.crash_rate, self.crash_at, self.loss = mutation, crash_rate, crash_at, loss
        self.through_json = seed % 16 == 0
        self.moving = seed % 4 == 3 and not malice and "meet" in kinds  # both want a meeting elsewhere
        self.now_ms = START_MS
        self.ids = 0
        self.crash_points = 0
        self.healed = False
        self.wire: list[tuple[str, Message]] = []
        self.signed: dict[Identity, Message] = {}
        skew_ms = self.random.randrange(-MINUTE_MS, MINUTE_MS)
        self.hosts = {"A": Host(self, "A", "B", 0), "B": Host(self, "B", "A", skew_ms)}

    def new_id(self) -> bytes:
        self.ids += 1
        return self.random.randbytes(28) + self.ids.to_bytes(4, "big")

    def crash_point(self) -> None:
        if self.healed:
            return
        self.crash_points += 1
        if self.crash_points == self.crash_at or self.random.random() < self.crash_rate:
            raise Crash

    def put_on_wire(self, to: str, message: Message) -> None:
        """The network takes a message, as its sender lets it out."""
        said = MALICE[self.malice](self, message) if message.sender == "B" else [message]
        for each in said:
            self.signed[each.identity] = each
            copies = 1 if self.healed else self.random.choices((0, 1, 2), (self.loss, 0.7, 0.1))[0]
            self.wire.extend([(to, each)] * copies)

    def run(self, steps: int = STEPS) -> World:
        """`steps` of trouble, then a network that heals; every invariant is checked on the way and at the
        end.
        """
        actions = [self._deliver, self._pump, self._owner, self._clock, self._tick]
        weights = (40, 40, 8, 6, 10)
        if self.moving:
            self._agree()
        else:
            self._start()
        for number in range(steps):
            if self.keep is not None and number not in self.keep:
                continue
            self.random.seed(self.seed << 16 | number)
            try:
                action = self.random.choices(actions, weights)[0]
                self._say(f"step {number}: {action.__name__.strip('_')}")
                action()
            except Crash:
                self._say("  crash: what was not committed is lost")
        self.random.seed(self.seed << 16 | 0xFFFF)
        self.heal()
        return self

    def _say(self, line: str) -> None:
        if self.tell is not None:
            self.tell(f"+{(self.now_ms - START_MS) / 1000:.0f}s {line}")

    def note(self, host: Host, thread: bytes, what: object) -> None:
        """For the trace: what a host has committed."""
        self.steps += 1
        if self.tell is not None:
            side = host.store.sides.get(thread)
            self._say(
                f"  {host.subject} {thread.hex()[-4:]} {what}: {side.phase.value if side else 'nothing'}"
            )

    def heal(self) -> None:
        """No more trouble: everything is delivered, and every timer goes off."""
        self.healed = True
        self._say("the network heals")
        for _ in range(8):
            self._settle()
            self.now_ms += 12 * HOUR_MS
            for host in self.hosts.values():
                for thread in host.due():
                    host.take(thread, Tick())
        self._settle()
        checks.check_end(self)

    def _settle(self) -> None:
        for _ in range(5 if self.malice else 50):
            for host in self.hosts.values():
                for message in tuple(host.store.outbox.values()):
                    self._transmit(host, message)
            if not self.wire:
                return
            while self.wire:
                self._deliver()
        if not self.malice:  # what a liar leaves unsaid, its peer waits for
            raise Violation("the network never comes to rest")

    def _start(self) -> None:
        subject = self.random.choice("AB")
        host = self.hosts[subject]
        kind = self.random.choice(self.kinds)
        wish: Wish | Terms = another(kind, self.random, START_MS, gives=self.random.random() < 0.3)
        if self.random.random() < 0.2 and isinstance(wish, Wish) and KINDS[kind].opens:
            terms = next(iter(offers(wish, START_MS, self.new_id().hex())))
            if host.store.is_free(b"", terms, first=True):
                wish = terms
        try:
            thread = self.new_id()[-16:]
            host.take(thread, OwnerStarts(wish, thread, subject, host.peer))
        except Crash:
            return

    def _agree(self) -> None:
        """They agree on a meeting before anything goes wrong, and both want to move it."""
        self.healed = True
        for day in range(1, 9):  # an owner who is asked does not answer here: then for another day
            begins_ms = START_MS + day * DAY_MS
            repeats = Repeats(1, 3, "UTC") if self.random.random() < 0.5 else None
            wish = MeetWish("Lunch", 30, (Window(begins_ms, begins_ms + HOUR_MS),), repeats=repeats)
            self.hosts["A"].take(thread := self.new_id()[-16:], OwnerStarts(wish, thread, "A", "B"))
            self._settle()
            if thread in self.hosts["A"].store.booked:
                break
        self.healed = False
        for host in self.hosts.values():
            self._move(host, thread)

    def _move(self, host: Host, thread: bytes) -> None:
        start = moves.wanted(host, thread, self.new_id()[-16:], self.random, START_MS)
        if start is not None:
            with contextlib.suppress(Crash):
                host.take(start.thread, start)

    def _pump(self) -> None:
        host = self.hosts[self.random.choice("AB")]
        if host.store.outbox:
            self._transmit(host, self.random.choice(list(host.store.outbox.values())))

    def _transmit(self, host: Host, message: Message) -> None:
        if message.in_reply_to in host.dead and message.move is not Move.ACCEPT:
            host.refused(message, host.dead[message.in_reply_to])
            return
        if self.mutation == "new-bytes-on-retry" and message.identity in self.signed:
            message = replace(message, mid=self.new_id())
        self.put_on_wire(host.peer, message)

    def _deliver(self) -> None:
        if not self.wire:
            return
        to, message = self.wire.pop(self.random.randrange(len(self.wire)))
        receiver, sender = self.hosts[to], self.hosts[message.sender]
        try:
            replies = receiver.receive(message)
        except ProtocolError as error:
            if error.reason is Reason.EXPIRED or (self.malice and error.reason is not Reason.OUT_OF_ORDER):
                sender.refused(message, error.reason)
            elif error.reason is not Reason.OUT_OF_ORDER:
                raise Violation(
                    f"an honest {message.move.name} was refused: {error} [{error.rule}]"
                ) from error
            return
        if self.healed or self.random.random() > self.loss:
            sender.acknowledged(message)
            for reply in replies:
                if reply.identity in receiver.store.outbox:
                    self.put_on_wire(message.sender, reply)

    def _owner(self) -> None:
        host = self.hosts[self.random.choice("AB")]
        asking = [t for t, side in host.store.sides.items() if side.phase is Phase.ASKING_OWNER]
        open_threads = [t for t, side in host.store.sides.items() if not side.phase.ended]
        dice = self.random.random()
        if asking:
            host.take(self.random.choice(asking), OwnerAnswers(dice < 0.8))
        elif open_threads and dice < 0.15:
            host.take(self.random.choice(open_threads), OwnerWithdraws())
        elif dice > 0.7:
            self._start()
        else:
            self._act(host)

    def _act(self, host: Host) -> None:
        """The owner says something about what was agreed."""
        agreed = [t for t, side in host.store.sides.items() if side.life is not None]
        if agreed:
            thread = self.random.choice(agreed)
            if self.moving and self.random.random() < 0.5:
                self._move(host, thread)
                return
            life = host.store.sides[thread].life
            pending_minor = life.deed.pending_minor if life else 0
            kinds = (EventKind.CANCEL, EventKind.FULFIL, EventKind.DISPUTE)
            if pending_minor:
                kinds = (EventKind.VOID, EventKind.POST, EventKind.DISPUTE)
            kind = self.random.choices(kinds, (5, 3, 2))[0]
            posted_minor = pending_minor if kind is EventKind.POST else 0
            times_ms = life.deed.times_ms if life else ()
            said = OwnerActs(kind, posted_minor=posted_minor)
            if times_ms and self.random.random() < 0.5:
                said = OwnerActs(EventKind.OMIT, time_ms=self.random.choice(times_ms))
            with contextlib.suppress(Refused):
                host.take(thread, said)

    def _clock(self) -> None:
        self.now_ms += self.random.choice((1_000, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 12 * HOUR_MS))

    def _tick(self) -> None:
        host = self.hosts[self.random.choice("AB")]
        for thread in host.due():
            host.take(thread, Tick())
