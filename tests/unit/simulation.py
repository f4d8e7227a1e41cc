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
from collections import Counter
from dataclasses import dataclass, field, replace

from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.header import GRACE_MS
from indai.protocol.kinds.base import Holding, Money, Slot, Stock
from indai.protocol.kinds.table import KINDS
from indai.protocol.lifecycle import body_of
from indai.protocol.messages import (
    HOUR_MS,
    MINUTE_MS,
    EventKind,
    Message,
    Move,
    ReceiptBody,
    Terms,
    Wish,
)
from indai.protocol.negotiation import OfferState, Status, apply, open_thread, transcript
from indai.protocol.party import step, wakes_at
from indai.protocol.party_state import (
    AskOwner,
    Commit,
    Consult,
    Consume,
    Effect,
    Enact,
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
)

from tests.unit.wants import another, offers

START_MS = 1_800_000_000_000
SLOT_MS = 30 * MINUTE_MS
STOCK = 2  # units of each item that a host has
MONEY = 120_000  # what a host may spend
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
    reserved: dict[bytes, Terms] = field(default_factory=dict)
    booked: dict[bytes, Terms] = field(default_factory=dict)
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

    def is_free(self, thread: bytes, terms: Terms, *, first: bool) -> bool:
        """Whether what a signature under `terms` needs is there, beside what other threads hold."""
        held = [one for other, one in self.holdings() if other != thread]
        return fits([*held, *terms.holdings(first=first)])

    def holdings(self) -> list[tuple[bytes, Holding]]:
        """What is promised or agreed, and not cancelled."""
        booked = [(thread, terms) for thread, terms in self.booked.items() if thread not in self.freed]
        held: list[tuple[bytes, Holding]] = []
        for thread, terms in (*self.reserved.items(), *booked):
            first = self.sides[thread].offer is not None if thread in self.sides else True
            held += [(thread, one) for one in terms.holdings(first=first)]
        return held


def fits(held: list[Holding]) -> bool:
    """No two slots overlap, and no more units or money are given than there are."""
    slots = sorted((one for one in held if isinstance(one, Slot)), key=lambda slot: slot.start_ms)
    if any(b.start_ms < a.end_ms for a, b in itertools.pairwise(slots)):
        return False
    units: Counter[str] = Counter()
    for one in held:
        if isinstance(one, Stock):
            units[one.item] += one.quantity
    money = sum(one.amount_minor for one in held if isinstance(one, Money))
    return all(count <= STOCK for count in units.values()) and money <= MONEY


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
            case Reserve(terms, _):
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
                event = side.life.find(mid) if side.life else None
                called_off = event is not None and body_of(event).kind in (EventKind.CANCEL, EventKind.VOID)
                if self.world.mutation != "cancel-without-leaf" or self.subject == "A" or not called_off:
                    store.ledger = (*store.ledger, mid)
            case Unbook():
                store.freed |= {thread}
            case Tell(words):
                store.told = (*store.told, (thread, words))
            case Resend(mid):
                again = store.sent[mid]
                store.outbox[again.identity] = again
            case AskOwner() | Enact():
                pass
        return None

    def _answer(self, store: Store, side: Side, asked: Consult) -> HostAnswers:
        dice, life_ms = self.world.random.random(), self.world.random.choice((5, 60, 24 * 60)) * MINUTE_MS
        if asked.question is Question.PROPOSE_WISH:
            return HostAnswers(Outcome.ASK if dice < 0.1 and not asked.approved else Outcome.PERMIT)
        another = self._another(side, asked.terms)
        if isinstance(asked.terms, Wish):
            free = self._free(store, side, asked.terms)
            if free is None:
                return HostAnswers(Outcome.REFUSE, reason="NOT_AVAILABLE")
            if dice < 0.1 or isinstance(free, Wish):
                return HostAnswers(Outcome.PERMIT, another)
            outcome = Outcome.ASK if dice < 0.3 else Outcome.PERMIT
            return HostAnswers(outcome, free, offer_life_ms=life_ms)
        first = side.thread is None or side.thread.offer is None
        if not store.is_free(side.thread_id, asked.terms, first=first) or dice < 0.05:
            return HostAnswers(Outcome.REFUSE, reason="NOT_AVAILABLE")
        if dice < 0.1 and not asked.approved and side.thread is not None:
            return HostAnswers(Outcome.PERMIT, another)
        return HostAnswers(Outcome.ASK if dice < 0.3 and not asked.approved else Outcome.PERMIT)

    def _another(self, side: Side, said: Wish | Terms) -> Wish:
        """Something else that this side could want instead."""
        gives = side.thread is not None and side.thread.giver == self.subject
        return another(said.kind, self.world.random, START_MS, gives=gives)

    def _free(self, store: Store, side: Side, wish: Wish) -> Terms | Wish | None:
        """What answers a wish: terms that are to be had; the wish again where the other side is to offer."""
        if side.thread is not None and side.thread.giver not in ("", self.subject):
            return wish
        for terms in offers(wish, START_MS, self.world.new_id().hex()):
            if store.is_free(side.thread_id, terms, first=True):
                return terms
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
        self,
        seed: int,
        *,
        mutation: str = "",
        crash_rate: float = 0.02,
        crash_at: int = 0,
        loss: float = 0.2,
        kinds: tuple[str, ...] = tuple(KINDS),
    ) -> None:
        self.kinds = kinds
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
            thread = self.random.choice(agreed)
            life = host.store.sides[thread].life
            pending_minor = life.deed.pending_minor if life else 0
            kinds = (EventKind.CANCEL, EventKind.FULFIL, EventKind.DISPUTE)
            if pending_minor:
                kinds = (EventKind.VOID, EventKind.POST, EventKind.DISPUTE)
            kind = self.random.choices(kinds, (5, 3, 2))[0]
            posted_minor = pending_minor if kind is EventKind.POST else 0
            with contextlib.suppress(Refused):
                host.take(thread, OwnerActs(kind, posted_minor=posted_minor))

    def _clock(self) -> None:
        self.now_ms += self.random.choice((1_000, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 12 * HOUR_MS))

    def _tick(self) -> None:
        host = self.hosts[self.random.choice("AB")]
        for thread in host.due():
            host.take(thread, Tick())

    # Invariants

    def check_always(self, host: Host) -> None:
        """After every commit."""
        if not fits([held for _, held in host.store.holdings()]):
            raise Violation("more is promised than there is")
        if len(set(host.store.ledger)) != len(host.store.ledger):
            raise Violation("a commitment stands twice in one ledger")
        for thread, side in host.store.sides.items():
            self._check_side(host, thread, side)

    def _check_side(self, host: Host, thread: bytes, side: Side) -> None:
        told = any(words.endswith("is confirmed.") for told, words in host.store.told if told == thread)
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
