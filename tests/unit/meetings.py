"""A coordinator and its members, a bad network and crashes, all from one seed: a deterministic simulation.

Every host's state goes through JSON at each commit. A crash loses what was not committed; a message stays in
its sender's outbox until it is acknowledged, and goes out again byte for byte. `mutation` breaks one guard
on purpose: the tests show that each breach is found.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from indai.protocol.ballots import BallotAnswer, BallotQuery, CallQuery, Ordinal
from indai.protocol.contest import FREE, LOST, OVERTAKEN, Bid, Ruling, rival, ruling
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.group.state import Group, Member
from indai.protocol.header import GRACE_MS
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetTerms, MeetWish
from indai.protocol.lifecycle import check_successor
from indai.protocol.messages import (
    HOUR_MS,
    MINUTE_MS,
    AnswerBody,
    Message,
    Move,
    QueryBody,
    ReceiptBody,
    RejectBody,
)
from indai.protocol.party import step, wakes_at
from indai.protocol.party_state import (
    AskOwner,
    Commit,
    Consult,
    Consume,
    Event,
    Forward,
    HostAnswers,
    Outcome,
    OwnerActs,
    OwnerAnswers,
    OwnerConvenes,
    OwnerWithdraws,
    Phase,
    Received,
    Release,
    Reserve,
    Send,
    Sent,
    Side,
    Succeeded,
    Tell,
    Tick,
    Unbook,
)
from indai.protocol.queries import WindowsAnswer

from tests.unit import meeting_checks

START_MS = 1_800_000_000_000
LENGTH_MS = 30 * MINUTE_MS
MUTATIONS = ("commit-on-most", "release-and-receipt", "keep-on-release", "two-transactions")
MOVING = (
    "old-stays",
    "old-goes-first",
    "anything-makes-way",
    "signs-twice",
)  # found on days on which a meeting is moved
BEHAVIOURS = ("good", "good", "good", "good", "no", "silent", "slow", "withholds", "asks")


class Crash(Exception):
    """The process is gone."""


@dataclass
class Store:
    """What survives a crash."""

    sides: dict[bytes, Side] = field(default_factory=dict)
    outbox: dict[tuple[bytes, Move, str], Message] = field(default_factory=dict)
    sent: dict[bytes, Message] = field(default_factory=dict)
    reserved: dict[bytes, Window] = field(default_factory=dict)
    booked: dict[bytes, Window] = field(default_factory=dict)
    ledger: tuple[bytes, ...] = ()
    told: tuple[str, ...] = ()

    def copy(self) -> Store:
        return replace(
            self,
            sides=dict(self.sides),
            outbox=dict(self.outbox),
            sent=dict(self.sent),
            reserved=dict(self.reserved),
            booked=dict(self.booked),
        )


class Host:
    """One node with one owner."""

    def __init__(self, world: World, subject: str, free: frozenset[int], behaviour: str) -> None:
        self.world, self.subject, self.free, self.behaviour = world, subject, free, behaviour
        self.store = Store()
        self.dead: set[bytes] = set()
        self.ruled = FREE  # what was said of the thread that is consulted about

    def take(self, thread: bytes, event: Event) -> None:
        store = self.store.copy()
        self._run(store, thread, event)
        self._commit(store)

    def receive(self, message: Message) -> list[Message]:
        """A delivery; answers to a query ride back."""
        if isinstance(message.body, QueryBody):
            return self._answer_query(message)
        side = self.store.sides.get(message.thread)
        if side is not None and side.knows(message):
            return []
        if message.move is not Move.ACCEPT and self.world.now_ms > message.expires_at_ms + GRACE_MS:
            raise ProtocolError(Reason.EXPIRED, "The message expired.", rule="HDR-05")
        signature = self.subject.encode() if message.move is Move.ACCEPT else b""
        store = self.store.copy()
        store.sent[message.mid] = message
        if side is None and message.supersedes:
            self._check_successor(message)
            if self.ruling(store, message.thread, message.supersedes, message).waits:
                raise ProtocolError(Reason.OUT_OF_ORDER, "Another is signed.", rule="LIF-27")
        self._run(store, message.thread, Received(message, signature))
        self._commit(store)
        return []

    def acknowledged(self, key: tuple[bytes, Move, str]) -> None:
        store = self.store.copy()
        store.outbox.pop(key, None)
        self._commit(store)

    def due(self) -> list[bytes]:
        wakes = ((thread, wakes_at(side)) for thread, side in self.store.sides.items())
        return [thread for thread, due_ms in wakes if due_ms is not None and due_ms <= self.world.now_ms]

    def _check_successor(self, message: Message) -> None:
        old = self.store.sides.get(self.thread_of(message.supersedes))
        offer = (old.group.offer if old.group else old.thread.offer if old.thread else None) if old else None
        if old is None or old.life is None or offer is None:
            raise ProtocolError(Reason.ILLEGAL_MOVE, "That does not stand.", rule="LIF-16")
        check_successor(offer, message)

    def thread_of(self, mid: bytes) -> bytes:
        """In which this commitment was agreed; empty for none."""
        lives = ((thread, side.life) for thread, side in self.store.sides.items())
        return next((thread for thread, life in lives if life and mid and life.deed.mid == mid), b"")

    def ruling(self, store: Store, thread: bytes, supersedes: bytes, offer: Message | None) -> Ruling:
        """Whether our signature may be given in a thread that would move something (LIF-25), on that offer of
        another's or on one of ours."""
        if not supersedes or self.world.mutation == "signs-twice":
            return FREE
        life = store.sides[self.thread_of(supersedes)].life
        others = (each for number, each in store.sides.items() if number != thread)
        rivals = [found for each in others if each.supersedes == supersedes and (found := rival(each))]
        ruled = ruling(life, 0, rivals, Bid.of(offer) if offer else None, (b"what all have signed",))
        return LOST if ruled.waits and self.world.mutation == "never-waits" else ruled

    def waits(self, thread: bytes) -> bool:
        """Whether our owner's yes has to wait for what becomes of another (LIF-27)."""
        side = self.store.sides.get(thread)  # none, where a crash took the question
        offer = side.thread.offer if side and side.thread else None
        return bool(side and self.ruling(self.store, thread, side.supersedes, offer).waits)

    def suits(
        self,
        window: Window,
        store: Store,
        thread: bytes,
        supersedes: bytes = b"",
        gives_way: tuple[bytes, ...] = (),
    ) -> bool:
        own = (thread, self.thread_of(supersedes), *gives_way)
        held = [w for other, w in (*store.reserved.items(), *store.booked.items()) if other not in own]
        if self.world.mutation == "anything-makes-way" and supersedes:
            held = []
        if any(w.start_ms < window.end_ms and window.start_ms < w.end_ms for w in held):
            return False
        first = (window.start_ms - START_MS) // LENGTH_MS
        last = -(-(window.end_ms - START_MS) // LENGTH_MS)
        return all(half in self.free for half in range(first, last))

    def _answer_query(self, message: Message) -> list[Message]:
        if self.behaviour in ("silent", "withholds"):
            return []
        about = message.body.about if isinstance(message.body, QueryBody) else None
        told: WindowsAnswer | BallotAnswer | RejectBody = RejectBody("POLICY_DENIED")
        halves = [Window(START_MS + h * LENGTH_MS, START_MS + (h + 1) * LENGTH_MS) for h in sorted(self.free)]
        if isinstance(about, CallQuery) and self.behaviour != "no":
            moved = about.supersedes
            good = [h for h in halves if self.suits(h, self.store, b"", moved) and _inside(h, about.wish)]
            told = WindowsAnswer(tuple(good[:5]))
        elif isinstance(about, BallotQuery):
            suits = [self.suits(slot, self.store, b"", about.supersedes) for slot in about.slots]
            told = BallotAnswer(tuple(Ordinal.YES if one else Ordinal.NO for one in suits))
        names = self.subject, message.sender, message.thread, message.mid
        expires_ms = self.world.now_ms + HOUR_MS
        mid = self.world.new_id()
        return [Message(mid, Move.ANSWER, *names, self.world.now_ms, expires_ms, AnswerBody(told))]

    def _run(self, store: Store, thread: bytes, event: Event) -> None:
        side, agreed, self.ruled = store.sides.get(thread), b"", FREE
        events = [event]
        while events:
            side, effects = step(side, events.pop(0), self.world.now_ms)
            if self.world.mutation == "commit-on-most" and side.group and len(side.group.votes) == 1:
                side = replace(side, group=self._stuffed(side))
            for effect in effects:
                self.world.crash_point()
                match effect:
                    case Consult():
                        events.append(self._consult(store, side, effect))
                    case Send():
                        events.append(self._send(store, side, effect))
                    case Forward(mid):
                        message = store.sent[mid]
                        others = {member for member in self._members(side) if member != message.sender}
                        self._post(store, message, others)
                    case Reserve(terms, _):
                        store.reserved[thread] = _slot(terms)
                        if self.world.mutation == "old-goes-first" and side.supersedes:
                            store.booked.pop(self.thread_of(side.supersedes), None)
                    case Release():
                        if self.world.mutation != "keep-on-release":
                            store.reserved.pop(thread, None)
                    case Consume(terms):
                        store.reserved.pop(thread, None)
                        store.booked[thread] = _slot(terms)
                    case Unbook():
                        store.booked.pop(thread, None)
                    case Commit(mid):
                        store.ledger, agreed = (*store.ledger, mid), mid
                        if self.world.mutation == "two-transactions":
                            self.store = store.copy()
                            if self.world.random.random() < 0.5:
                                raise Crash
                            if self.world.random.random() < 0.5:
                                raise Crash
                    case Tell(words):
                        store.told = (*store.told, words)
                    case AskOwner():
                        self.world.questions.append((self, thread))
            store.sides[thread] = side
        if agreed and side and side.supersedes and self.world.mutation != "old-stays":
            self._run(store, self.thread_of(side.supersedes), Succeeded(agreed))
        for other in self.ruled.gives_way if side and side.phase is Phase.AWAITING_RECEIPT else ():
            if not store.sides[other].phase.ended:
                self._run(store, other, OwnerWithdraws(OVERTAKEN))

    def _stuffed(self, side: Side) -> Group:
        """A coordinator that makes up the votes that are missing."""
        group = side.group
        assert group is not None
        signed = {subject for subject, _ in group.votes}
        made_up = [(subject, b"forged") for subject in group.subjects if subject not in signed][:-1]
        return replace(group, votes=(*group.votes, *made_up))

    def _members(self, side: Side) -> set[str]:
        return set(side.group.subjects) if side.group else set()

    def _consult(self, store: Store, side: Side, asked: Consult) -> HostAnswers:
        if isinstance(asked.terms, MeetWish):
            return HostAnswers(Outcome.PERMIT)
        offer = side.thread.offer if side.thread else None
        slot, self.ruled = _slot(asked.terms), self.ruling(store, side.thread_id, side.supersedes, offer)
        if not self.ruled.may_sign:
            return HostAnswers(Outcome.REFUSE, reason=OVERTAKEN)
        if not self.suits(slot, store, side.thread_id, side.supersedes, self.ruled.gives_way):
            return HostAnswers(Outcome.REFUSE, reason="NO_COMMON_SLOT")
        if self.behaviour in ("no", "withholds") and side.group is None:
            return HostAnswers(Outcome.REFUSE, reason="POLICY_DENIED")
        asks = self.behaviour in ("asks", "slow") and side.group is None and not asked.approved
        life_ms = self.world.random.choice(self.world.offer_lives) * MINUTE_MS
        return HostAnswers(Outcome.ASK if asks else Outcome.PERMIT, offer_life_ms=life_ms)

    def _send(self, store: Store, side: Side, send: Send) -> Sent:
        world, group = self.world, side.group
        mid = send.in_reply_to if send.move is Move.ACCEPT else world.new_id()
        body, issued_ms, expires_ms = send.body, world.now_ms, world.now_ms + send.expires_in_ms
        parties: tuple[str, ...] = ()
        recipient = send.to or side.peer
        if send.move is Move.OFFER and group:
            parties = (self.subject, *group.subjects)
        if send.move is Move.ACCEPT and side.thread:
            offer = side.thread.standing
            issued_ms, expires_ms, parties = offer.issued_at_ms, offer.expires_at_ms, offer.parties
            body = offer.body
        if body is None:
            votes = sum(signature != b"forged" for _, signature in group.votes) if group else 0
            world.receipts.add(send.in_reply_to)
            world.votes[send.in_reply_to] = votes
            body = ReceiptBody(send.in_reply_to, "ledger", len(store.ledger), world.now_ms, b"all signatures")
        names = self.subject, recipient, side.thread_id, send.in_reply_to
        message = Message(mid, send.move, *names, issued_ms, expires_ms, body, send.supersedes, parties)
        store.sent[mid] = message
        to = {send.to} if send.to else set(group.subjects) if group else {side.peer}
        self._post(store, message, to)
        if self.world.mutation == "release-and-receipt" and send.move is Move.RECEIPT:
            self.world.releases.add(send.in_reply_to)
        if send.move is Move.WITHDRAW and group:
            self.world.pending_releases[mid] = send.in_reply_to
        return Sent(message)

    def _post(self, store: Store, message: Message, to: set[str]) -> None:
        for member in sorted(to):  # a seed is one run, whatever the order of a set
            own = message if message.move is Move.EVENT else replace(message, recipient=member)
            store.outbox[message.mid, message.move, member] = own

    def _commit(self, store: Store) -> None:
        self.world.crash_point()
        store.sides = {thread: Side.from_json(side.to_json()) for thread, side in store.sides.items()}
        self.store = store
        meeting_checks.always(self.world, self)
        self.world.crash_point()


def _inside(window: Window, wish: MeetWish) -> bool:
    return any(w.start_ms <= window.start_ms and window.end_ms <= w.end_ms for w in wish.windows)


def _slot(terms: object) -> Window:
    assert isinstance(terms, MeetTerms)
    return Window(terms.start_ms, terms.end_ms)


class World:
    """A coordinator `M0`, members `M1`..., the network between them, and the clock."""

    def __init__(
        self,
        seed: int,
        free: list[frozenset[int]],
        behaviours: list[str] | None = None,
        *,
        trouble: float = 0.0,
        mutation: str = "",
        crash_at: int = -1,
    ) -> None:
        self.random = random.Random(seed)
        self.mutation, self.trouble, self.crash_at = mutation, trouble, crash_at
        self.now_ms = START_MS - 48 * HOUR_MS
        self.counter = itertools.count(1)
        self.points = 0
        self.offer_lives: tuple[int, ...] = (10, 60, 600)  # minutes
        self.calm = False
        self.receipts: set[bytes] = set()
        self.votes: dict[bytes, int] = {}
        self.pending_releases: dict[bytes, bytes] = {}
        self.releases: set[bytes] = set()
        self.questions: list[tuple[Host, bytes]] = []
        behaviours = behaviours or ["good"] * len(free)
        self.hosts = [Host(self, f"M{n}", free[n], behaviours[n]) for n in range(len(free))]
        self.exchanges: dict[str, int] = {}
        self.moves: list[tuple[int, bytes, bytes, MeetWish]] = []

    def new_id(self) -> bytes:
        return next(self.counter).to_bytes(32, "big")

    def host(self, subject: str) -> Host:
        return self.hosts[int(subject[1:])]

    def crash_point(self) -> None:
        self.points += 1
        if self.points == self.crash_at or (not self.calm and self.random.random() < self.trouble / 20):
            raise Crash

    def convene(
        self,
        thread: bytes,
        wish: MeetWish,
        algorithm: str = "windows",
        coordinator: int = 0,
        supersedes: bytes = b"",
    ) -> None:
        own = self.hosts[coordinator]
        members = tuple(Member(h.subject, f"ind.ai/{h.subject.lower()}") for h in self.hosts if h is not own)
        while thread not in own.store.sides:
            with contextlib.suppress(Crash):
                handle = f"ind.ai/{own.subject.lower()}"
                names = own.subject, handle, members, algorithm
                own.take(thread, OwnerConvenes(wish, thread, *names, supersedes=supersedes))

    def move(self, by: int, old: bytes, thread: bytes, wish: MeetWish) -> bool:
        """One who agreed the meeting in `old` wants it at another time; whether it stands there."""
        side = self.hosts[by].store.sides.get(old)
        if side is None or side.life is None or side.life.state.ended:
            return False
        self.convene(thread, wish, coordinator=by, supersedes=side.life.deed.mid)
        return True

    def coincide(self, old: bytes, moves: Sequence[tuple[int, bytes, MeetWish]]) -> None:
        """These all want it moved before anybody has heard of another."""
        for by, thread, wish in moves:
            assert self.move(by, old, thread, wish)

    def owner(self, number: int, thread: bytes, event: OwnerWithdraws | OwnerActs) -> None:
        self.hosts[number].take(thread, event)

    def turn(self) -> None:
        """One thing that can happen, happens."""
        dice = self.random.random()
        if self.moves and dice < 0.1 and self.move(*self.moves[0]):
            self.moves.pop(0)
            return
        waiting = [(host, key) for host in self.hosts for key in host.store.outbox]
        if waiting and dice < 0.85:
            self._deliver(*self.random.choice(waiting))
        elif self.questions and dice < 0.92:
            host, thread = self.questions.pop(self.random.randrange(len(self.questions)))
            if host.waits(thread):
                self.questions.append((host, thread))
                self._tick()
                return
            if host.behaviour == "slow":
                self.now_ms += 30 * MINUTE_MS
            with contextlib.suppress(Crash, Exception):
                host.take(thread, OwnerAnswers(True))
        else:
            self._tick()

    def _tick(self) -> None:
        self.now_ms += self.random.choice((1_000, 1_000, 1_000, 20_000, 200_000))
        for host in self.hosts:
            for thread in host.due():
                with contextlib.suppress(Crash):
                    host.take(thread, Tick())

    def _deliver(self, sender: Host, key: tuple[bytes, Move, str]) -> None:
        message, receiver = sender.store.outbox[key], self.host(key[2])
        if receiver.behaviour == "silent" and message.move is Move.QUERY:
            return  # never takes a question
        if not self.calm and self.random.random() < self.trouble:
            return
        self.exchanges[message.move.value] = self.exchanges.get(message.move.value, 0) + 1
        try:
            replies = receiver.receive(message)
            if self.random.random() < self.trouble and not self.calm:
                return  # the answer is lost
            for reply in replies:
                sender.receive(reply)
            sender.acknowledged(key)
        except Crash:
            return
        except ProtocolError as error:
            if error.reason is not Reason.OUT_OF_ORDER or message.in_reply_to in sender.dead:
                sender.dead.add(message.mid)
                with contextlib.suppress(Crash):
                    sender.acknowledged(key)

    def run(self, turns: int = 400) -> None:
        """Some bad days, then good ones until nothing is left to happen."""
        for _ in range(turns):
            self.turn()
        self.calm = True
        for _ in range(40):
            for _ in range(60):
                self.turn()
            if self._quiet():
                break
            self.now_ms += 2 * HOUR_MS
        meeting_checks.at_the_end(self)

    def _quiet(self) -> bool:
        sides = [side for host in self.hosts for side in host.store.sides.values()]
        idle = not any(host.store.outbox for host in self.hosts)
        return idle and not self._movable() and all(side.phase.ended for side in sides)

    def _movable(self) -> bool:
        sides = (self.hosts[by].store.sides.get(old) for by, old, *_ in self.moves[:1])
        return any(side and side.life and not side.life.state.ended for side in sides)


def wish(*halves: int) -> MeetWish:
    """Thirty minutes within these half hours after START_MS, each a window of its own."""
    return MeetWish(
        "Plan", 30, tuple(Window(START_MS + h * LENGTH_MS, START_MS + (h + 1) * LENGTH_MS) for h in halves)
    )
