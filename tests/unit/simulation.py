"""Two parties, a bad network and crashes, all from one seed: a deterministic simulation of
`indai.protocol.party`.

Each `Host` has a durable store that changes only at a commit. Between two commits it may crash at any point,
which loses everything since the last one. The network drops, repeats, delays and reorders; a message stays in
the outbox until its delivery was acknowledged, and is sent again byte for byte. Clocks run up to a minute
apart.

`mutation` breaks one guard on purpose; the tests show that each breach is found.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from dataclasses import dataclass, field, replace

from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.header import GRACE_MS
from indai.protocol.messages import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    EventKind,
    MeetTerms,
    MeetWish,
    Message,
    Move,
    ReceiptBody,
    Window,
)
from indai.protocol.negotiation import OfferState, Status, apply, open_thread, transcript
from indai.protocol.party import step, wakes_at
from indai.protocol.party_state import (
    AskOwner,
    Commit,
    Consult,
    Consume,
    Effect,
    Event,
    HostAnswers,
    Outcome,
    OwnerActs,
    OwnerAnswers,
    OwnerStarts,
    OwnerWithdraws,
    Phase,
    Question,
    Received,
    Record,
    Release,
    Resend,
    Reserve,
    Send,
    Sent,
    Side,
    Tell,
    Tick,
    Unbook,
    WriteCalendar,
)

START_MS = 1_800_000_000_000
SLOT_MS = 30 * MINUTE_MS
MUTATIONS = (
    "answer-before-commit",
    "two-transactions",
    "forget-replay",
    "release-on-expiry",
    "confirm-at-acceptance",
    "reserve-nothing",
    "new-bytes-on-retry",
    "cancel-without-leaf",
    "number-twice",
)

Identity = tuple[bytes, Move]


class Crash(Exception):
    """The process is gone."""


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass
class Store:
    """What survives a crash."""

    sides: dict[bytes, Side] = field(default_factory=dict)
    outbox: dict[Identity, Message] = field(default_factory=dict)
    sent: dict[bytes, Message] = field(default_factory=dict)
    replays: dict[Identity, tuple[Message, ...]] = field(default_factory=dict)
    reserved: dict[bytes, MeetTerms] = field(default_factory=dict)
    booked: dict[bytes, MeetTerms] = field(default_factory=dict)
    freed: frozenset[bytes] = frozenset()
    ledger: tuple[bytes, ...] = ()
    told: tuple[tuple[bytes, str], ...] = ()

    def copy(self) -> Store:
        return Store(
            dict(self.sides),
            dict(self.outbox),
            dict(self.sent),
            dict(self.replays),
            dict(self.reserved),
            dict(self.booked),
            self.freed,
            self.ledger,
            self.told,
        )

    def is_free(self, thread: bytes, start_ms: int, end_ms: int) -> bool:
        taken = [s for t, s in self.slots() if t != thread]
        return all(end_ms <= slot.start_ms or slot.end_ms <= start_ms for slot in taken)

    def slots(self) -> list[tuple[bytes, MeetTerms]]:
        """What is promised or agreed, and not cancelled."""
        booked = [(thread, slot) for thread, slot in self.booked.items() if thread not in self.freed]
        return [*self.reserved.items(), *booked]


class Host:
    """One node with one owner: carries out effects inside a transaction on its store."""

    def __init__(self, world: World, subject: str, peer: str, skew_ms: int) -> None:
        self.world, self.subject, self.peer, self.skew_ms = world, subject, peer, skew_ms
        self.store = Store()
        self.dead: dict[bytes, Reason] = {}

    @property
    def now_ms(self) -> int:
        return self.world.now_ms + self.skew_ms

    def take(self, thread: bytes, event: Event) -> None:
        """One event from the owner, the clock or the host itself, in one transaction."""
        store = self.store.copy()
        self._run(store, thread, event)
        self._commit(store)

    def receive(self, message: Message) -> tuple[Message, ...]:
        """A delivery: the stored outcome of a known message, else its effect; raises ProtocolError."""
        known = self.store.replays.get(message.identity)
        if known is not None and self.world.mutation != "forget-replay":
            return known
        if message.move is not Move.ACCEPT and self.now_ms > message.expires_at_ms + GRACE_MS:
            raise ProtocolError(Reason.EXPIRED, "The message expired.", rule="HDR-05")
        store = self.store.copy()
        replies = self._run(store, message.thread, Received(message))
        store.replays[message.identity] = replies
        self._commit(store)
        return replies

    def acknowledged(self, message: Message) -> None:
        store = self.store.copy()
        store.outbox.pop(message.identity, None)
        self._commit(store)

    def refused(self, message: Message, reason: Reason) -> None:
        """Never to be delivered, and neither is what answers it."""
        self.dead[message.mid] = reason
        self.acknowledged(message)

    def due(self) -> list[bytes]:
        wakes = ((thread, wakes_at(side)) for thread, side in self.store.sides.items())
        return [thread for thread, due_ms in wakes if due_ms is not None and due_ms <= self.now_ms]

    def _run(self, store: Store, thread: bytes, event: Event) -> tuple[Message, ...]:
        side = store.sides.get(thread)
        if self.world.mutation == "forget-replay" and isinstance(event, Received):
            side = _forget(side, event.message)
        events, replies = [event], []
        while events:
            side, effects = self._step(side, events.pop(0))
            if any(isinstance(effect, Consult | Send) for effect in effects[:-1]) and not self.world.mutation:
                raise Violation("what needs an answer is not the last effect of its step")
            for effect in effects:
                self.world.crash_point()
                follow_up = self._carry_out(store, side, effect)
                if follow_up is not None:
                    events.append(follow_up)
                    if isinstance(follow_up, Sent):
                        replies.append(follow_up.message)
            if side is not None:
                store.sides[thread] = side
                if self.world.mutation == "two-transactions" and any(isinstance(e, Commit) for e in effects):
                    store.sides[thread] = self.store.sides.get(thread, side)
                    self._commit(store)
                    store.sides[thread] = side
        return tuple(replies)

    def _step(self, side: Side | None, event: Event) -> tuple[Side, tuple[Effect, ...]]:
        after, effects = step(side, event, self.now_ms)
        if self.world.mutation == "release-on-expiry" and after.phase is Phase.IN_DOUBT and after.reserved:
            return replace(after, phase=Phase.LAPSED, reserved=None), (Release(after.reserved),)
        accepted = isinstance(event, Sent) and event.message.move is Move.ACCEPT
        if self.world.mutation == "confirm-at-acceptance" and accepted and after.reserved:
            return after, (*effects, Consume(after.reserved), Tell("The meeting is confirmed."))
        return after, effects

    def _carry_out(self, store: Store, side: Side, effect: Effect) -> Event | None:
        thread = side.thread_id
        match effect:
            case Consult():
                return self._answer(store, side, effect)
            case Send():
                return self._send(store, side, effect)
            case Reserve(terms):
                if self.world.mutation != "reserve-nothing":
                    store.reserved[thread] = terms
            case Release():
                store.reserved.pop(thread, None)
            case Consume(terms):
                store.reserved.pop(thread, None)
                store.booked[thread] = terms
            case Commit(mid):
                store.ledger = (*store.ledger, mid)
            case Record(mid):
                if self.world.mutation != "cancel-without-leaf" or thread not in store.freed:
                    store.ledger = (*store.ledger, mid)
            case Unbook():
                store.freed |= {thread}
            case Tell(words):
                store.told = (*store.told, (thread, words))
            case Resend(mid):
                again = store.sent[mid]
                store.outbox[again.identity] = again
            case AskOwner() | WriteCalendar():
                pass
        return None

    def _answer(self, store: Store, side: Side, asked: Consult) -> HostAnswers:
        dice, life_ms = self.world.random.random(), self.world.random.choice((5, 60, 24 * 60)) * MINUTE_MS
        if asked.question is Question.PROPOSE_WISH:
            return HostAnswers(Outcome.ASK if dice < 0.1 and not asked.approved else Outcome.PERMIT)
        if isinstance(asked.terms, MeetWish):
            free = self._free_slot(store, side, asked.terms)
            if free is None:
                return HostAnswers(Outcome.REFUSE, reason="NO_COMMON_SLOT")
            if dice < 0.1:
                return HostAnswers(Outcome.PERMIT, self.world.some_wish())
            outcome = Outcome.ASK if dice < 0.3 else Outcome.PERMIT
            return HostAnswers(outcome, free, offer_life_ms=life_ms)
        if not store.is_free(side.thread_id, asked.terms.start_ms, asked.terms.end_ms) or dice < 0.05:
            return HostAnswers(Outcome.REFUSE, reason="NO_COMMON_SLOT")
        if dice < 0.1 and not asked.approved:
            return HostAnswers(Outcome.PERMIT, self.world.some_wish())
        return HostAnswers(Outcome.ASK if dice < 0.3 and not asked.approved else Outcome.PERMIT)

    def _free_slot(self, store: Store, side: Side, wish: MeetWish) -> MeetTerms | None:
        for window in wish.windows:
            for start_ms in range(window.start_ms, window.end_ms - SLOT_MS + 1, SLOT_MS):
                if store.is_free(side.thread_id, start_ms, start_ms + SLOT_MS):
                    return MeetTerms(start_ms, start_ms + SLOT_MS, wish.title, "", self.world.new_id().hex())
        return None

    def _send(self, store: Store, side: Side, send: Send) -> Sent:
        mid = send.in_reply_to if send.move is Move.ACCEPT else self.world.new_id()
        if self.world.mutation == "number-twice" and send.move is Move.EVENT:
            other = replace(send, expires_in_ms=send.expires_in_ms - 1)
            self.world.put_on_wire(self.peer, self._message(store, side, other, self.world.new_id()))
        message = self._message(store, side, send, mid)
        store.outbox[message.identity] = store.sent[mid] = message
        if self.world.mutation == "answer-before-commit":
            self.world.put_on_wire(self.peer, message)
        return Sent(message)

    def _message(self, store: Store, side: Side, send: Send, mid: bytes) -> Message:
        body = send.body or ReceiptBody(send.in_reply_to, "ledger", len(store.ledger) - 1, self.now_ms)
        issued_ms, expires_ms = self.now_ms, self.now_ms + send.expires_in_ms
        if send.move is Move.ACCEPT and side.thread:
            issued_ms, expires_ms = side.thread.standing.issued_at_ms, side.thread.standing.expires_at_ms
        names = self.subject, self.peer, side.thread_id, send.in_reply_to
        return Message(mid, send.move, *names, issued_ms, expires_ms, body)

    def _commit(self, store: Store) -> None:
        self.world.crash_point()
        if self.world.through_json:
            store.sides = {thread: Side.from_json(side.to_json()) for thread, side in store.sides.items()}
        self.store = store
        self.world.check_always(self)
        self.world.crash_point()


def _forget(side: Side | None, message: Message) -> Side | None:
    """What a receiver knows that keeps no record of what it has received."""
    first = side is not None and side.thread is not None and side.thread.messages[0] == message
    return None if first else side


class World:
    """Both hosts, the network between them, and the clock."""

    def __init__(
        self, seed: int, *, mutation: str = "", crash_rate: float = 0.02, crash_at: int = 0, loss: float = 0.2
    ) -> None:
        self.random = random.Random(seed)
        self.mutation, self.crash_rate, self.crash_at, self.loss = mutation, crash_rate, crash_at, loss
        self.through_json = seed % 16 == 0
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

    def some_wish(self) -> MeetWish:
        start_ms = START_MS + DAY_MS + self.random.randrange(4) * SLOT_MS
        return MeetWish("Lunch", 30, (Window(start_ms, start_ms + self.random.choice((1, 2, 4)) * SLOT_MS),))

    def crash_point(self) -> None:
        if self.healed:
            return
        self.crash_points += 1
        if self.crash_points == self.crash_at or self.random.random() < self.crash_rate:
            raise Crash

    def put_on_wire(self, to: str, message: Message) -> None:
        self.signed[message.identity] = message
        copies = 1 if self.healed else self.random.choices((0, 1, 2), (self.loss, 0.7, 0.1))[0]
        self.wire.extend([(to, message)] * copies)

    def run(self, steps: int = 60) -> World:
        """`steps` of trouble, then a network that heals; every invariant is checked on the way and at the
        end.
        """
        actions = [self._deliver, self._pump, self._owner, self._clock, self._tick]
        weights = (40, 40, 8, 6, 10)
        self._start()
        for _ in range(steps):
            try:
                self.random.choices(actions, weights)[0]()
            except Crash:
                continue
        self.heal()
        return self

    def heal(self) -> None:
        self.healed = True
        for _ in range(8):
            self._settle()
            self.now_ms += 12 * HOUR_MS
            for host in self.hosts.values():
                for thread in host.due():
                    host.take(thread, Tick())
        self._settle()
        self._check_end()

    def _settle(self) -> None:
        for _ in range(50):
            for host in self.hosts.values():
                for message in tuple(host.store.outbox.values()):
                    self._transmit(host, message)
            if not self.wire:
                return
            while self.wire:
                self._deliver()
        raise Violation("the network never comes to rest")

    def _start(self) -> None:
        subject = self.random.choice("AB")
        host = self.hosts[subject]
        wish: MeetWish | MeetTerms = self.some_wish()
        if self.random.random() < 0.2 and isinstance(wish, MeetWish):
            start_ms = wish.windows[0].start_ms
            if host.store.is_free(b"", start_ms, start_ms + SLOT_MS):
                wish = MeetTerms(start_ms, start_ms + SLOT_MS, "Lunch", "", self.new_id().hex())
        try:
            thread = self.new_id()[-16:]
            host.take(thread, OwnerStarts(wish, thread, subject, host.peer))
        except Crash:
            return

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
            if error.reason is Reason.EXPIRED:
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
            kinds = (EventKind.CANCEL, EventKind.FULFIL, EventKind.DISPUTE)
            kind = self.random.choices(kinds, (5, 3, 2))[0]
            with contextlib.suppress(Refused):
                host.take(self.random.choice(agreed), OwnerActs(kind))

    def _clock(self) -> None:
        self.now_ms += self.random.choice((1_000, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 12 * HOUR_MS))

    def _tick(self) -> None:
        host = self.hosts[self.random.choice("AB")]
        for thread in host.due():
            host.take(thread, Tick())

    # Invariants

    def check_always(self, host: Host) -> None:
        """After every commit."""
        slots = sorted((slot for _, slot in host.store.slots()), key=lambda terms: terms.start_ms)
        if any(b.start_ms < a.end_ms for a, b in itertools.pairwise(slots)):
            raise Violation("two reservations overlap")
        if len(set(host.store.ledger)) != len(host.store.ledger):
            raise Violation("a commitment stands twice in one ledger")
        for thread, side in host.store.sides.items():
            self._check_side(host, thread, side)

    def _check_side(self, host: Host, thread: bytes, side: Side) -> None:
        told = (thread, "The meeting is confirmed.") in host.store.told
        receipt = side.thread is not None and side.thread.status is Status.COMMITTED
        if not (told == receipt == (side.phase is Phase.COMMITTED) == (thread in host.store.booked)):
            raise Violation("confirmed without a RECEIPT, or the reverse")
        if side.phase is Phase.COMMITTED and side.offer is None:
            offerer = self.hosts[host.peer].store.sides.get(thread)
            if offerer is None or offerer.offer is not OfferState.COMMITTED:
                raise Violation("the acceptor holds a commitment that its offerer does not know")

    def _check_end(self) -> None:
        for message in tuple(self.signed.values()):
            if message.move is Move.RECEIPT and any(
                other.move is Move.REJECT and other.in_reply_to == message.in_reply_to
                for other in self.signed.values()
                if other.sender == message.sender
            ):
                raise Violation("one offerer signed both RECEIPT and REJECT for one commitment")
        ours, theirs = self.hosts["A"], self.hosts["B"]
        if ours.store.reserved or theirs.store.reserved:
            raise Violation("a reservation outlives its thread")
        if ours.store.booked != theirs.store.booked or set(ours.store.ledger) != set(theirs.store.ledger):
            raise Violation("the two sides hold different commitments")
        if ours.store.freed != theirs.store.freed:
            raise Violation("a meeting is cancelled on one side only")
        for host in self.hosts.values():
            if any(not side.phase.ended for side in host.store.sides.values()):
                raise Violation("a thread never ends")
            for thread, side in host.store.sides.items():
                self._check_transcript(host, thread, side)
                self._check_life(host, thread, side)

    def _check_life(self, host: Host, thread: bytes, side: Side) -> None:
        peer = self.hosts[host.peer].store.sides.get(thread)
        if side.life is None or peer is None or peer.life is None:
            return
        ours, theirs = side.life, peer.life
        if (ours.chain, ours.state, ours.disputed) != (theirs.chain, theirs.state, theirs.disputed):
            raise Violation("the two sides tell two lives of one commitment")

    def _check_transcript(self, host: Host, thread: bytes, side: Side) -> None:
        if side.thread is None:
            return
        peer = self.hosts[host.peer].store.sides.get(thread)
        known = {m.identity for m in peer.thread.messages} if peer and peer.thread else set()
        missing = [m for m in side.thread.messages if m.identity not in known]
        if any(m.mid not in host.dead for m in missing) or (missing and side.phase is Phase.COMMITTED):
            raise Violation("a message is in one transcript only")
        ordered = transcript(side.thread)
        same = peer is not None and known == {m.identity for m in ordered}
        if same and peer and peer.thread and ordered != transcript(peer.thread):
            raise Violation("one set of messages, two transcripts")
        replayed = open_thread(ordered[0])
        for message in ordered[1:]:
            replayed = apply(replayed, message, message.issued_at_ms)
        if (replayed.status is Status.COMMITTED) != (side.phase is Phase.COMMITTED):
            raise Violation("the transcript replays to another outcome")
