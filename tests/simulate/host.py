"""One node with one owner, as the simulation of the pure machine sees it: it carries out the effects of
`indai.protocol.party.step` inside a transaction on its store.

`mutation` of the world breaks one guard on purpose; the tests show that each breach is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from indai.protocol.contest import FREE, OVERTAKEN
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.header import GRACE_MS
from indai.protocol.lifecycle import body_of
from indai.protocol.messages import MINUTE_MS, EventKind, MeetWish, Message, Move, ReceiptBody, Terms, Wish
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
    Succeeded,
    Tell,
    Unbook,
)

from tests.simulate import moves
from tests.simulate.checks import check_always
from tests.simulate.store import Store, Violation
from tests.unit.wants import another, offers

if TYPE_CHECKING:
    from tests.simulate.world import World

START_MS = 1_800_000_000_000
_CALLED_OFF = (EventKind.CANCEL, EventKind.VOID, EventKind.OMIT)
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
    "omit-all",
    "signs-twice",
    "old-stays",
)


class Host:
    """One node with one owner: carries out effects inside a transaction on its store."""

    def __init__(self, world: World, subject: str, peer: str, skew_ms: int) -> None:
        self.world, self.subject, self.peer, self.skew_ms = world, subject, peer, skew_ms
        self.store = Store()
        self.dead: dict[bytes, Reason] = {}
        self.gives_way: tuple[bytes, ...] = ()  # what is taken back if what we are asked about is signed

    @property
    def now_ms(self) -> int:
        return self.world.now_ms + self.skew_ms

    def take(self, thread: bytes, event: Event) -> None:
        """One event from the owner, the clock or the host itself, in one transaction."""
        store = self.store.copy()
        self._run(store, thread, event)
        self._commit(store)
        self.world.note(self, thread, type(event).__name__)

    def receive(self, message: Message) -> tuple[Message, ...]:
        """A delivery: the stored outcome of a known message, else its effect; raises ProtocolError."""
        known = self.store.replays.get(message.identity)
        if known is not None and self.world.mutation != "forget-replay":
            return known
        if message.move is not Move.ACCEPT and self.now_ms > message.expires_at_ms + GRACE_MS:
            raise ProtocolError(Reason.EXPIRED, "The message expired.", rule="HDR-05")
        store = self.store.copy()
        if message.thread not in store.sides and message.supersedes:
            moves.check_first(store, message)
        replies = self._run(store, message.thread, Received(message))
        store.replays[message.identity] = replies
        self._commit(store)
        self.world.note(self, message.thread, f"took {message.move.name} of {message.sender}")
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
        events, replies, was = [event], [], side
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
        if side is not None:
            self._follow(store, was, side)
        return tuple(replies)

    def _follow(self, store: Store, was: Side | None, side: Side) -> None:
        """In the same transaction: what a signature takes back elsewhere, what it has replaced, and what asks
        in vain from now on."""
        accepted = side.reserved is not None and side.offer is None and not (was and was.reserved)
        for thread in self.gives_way if accepted else ():
            self._run(store, thread, OwnerWithdraws(OVERTAKEN))
        self.gives_way = ()
        old = moves.agreed(store, side.supersedes)
        replaced = side.life is not None and not (was and was.life)
        if old and side.life and replaced and self.world.mutation != "old-stays":
            time_ms = side.terms.replaces_ms if side.terms else 0
            self._run(store, old.thread_id, Succeeded(side.life.deed.mid, time_ms))
        if side.life is not None:
            for thread in moves.ended_by(store, side.life.deed.mid):
                self._run(store, thread, OwnerWithdraws(OVERTAKEN))

    def _step(self, side: Side | None, event: Event) -> tuple[Side, tuple[Effect, ...]]:
        after, effects = step(side, event, self.now_ms)
        if self.world.mutation == "release-on-expiry" and after.phase is Phase.IN_DOUBT and after.reserved:
            return replace(after, phase=Phase.LAPSED, reserved=None), (Release(after.reserved),)
        if self.world.mutation == "omit-all":  # one time that is called off frees all of them
            effects = tuple(Unbook(e.terms) if isinstance(e, Unbook) else e for e in effects)
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
                called_off = event is not None and body_of(event).kind in _CALLED_OFF
                if self.world.mutation != "cancel-without-leaf" or self.subject == "A" or not called_off:
                    store.ledger = (*store.ledger, mid)
            case Unbook(_, time_ms):
                if time_ms:
                    store.omitted |= {(thread, time_ms)}
                else:
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
        ruled = moves.ruling(store, side, asked.terms.replaces_ms)
        if self.world.mutation == "signs-twice":
            ruled = FREE
        self.gives_way = ruled.gives_way
        answer = self._decide(store, side, asked)
        said = answer.terms or asked.terms
        if isinstance(said, Terms) and not ruled.may_sign and answer.outcome is not Outcome.REFUSE:
            return HostAnswers(Outcome.REFUSE, reason=OVERTAKEN)
        return answer

    def _decide(self, store: Store, side: Side, asked: Consult) -> HostAnswers:
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
        if not self._is_free(store, side, asked.terms, first=first) or dice < 0.05:
            return HostAnswers(Outcome.REFUSE, reason="NOT_AVAILABLE")
        if dice < 0.1 and not asked.approved and side.thread is not None:
            return HostAnswers(Outcome.PERMIT, another)
        return HostAnswers(Outcome.ASK if dice < 0.3 and not asked.approved else Outcome.PERMIT)

    def _another(self, side: Side, said: Wish | Terms) -> Wish:
        """Something else that this side could want instead."""
        gives = side.thread is not None and side.thread.giver == self.subject
        wish = another(said.kind, self.world.random, START_MS, gives=gives)
        if said.replaces_ms and isinstance(wish, MeetWish):  # one time of a meeting is moved as such
            return replace(wish, repeats=None, instead_of_ms=said.replaces_ms)
        return wish

    def _free(self, store: Store, side: Side, wish: Wish) -> Terms | Wish | None:
        """What answers a wish: terms that are to be had; the wish again where the other side is to offer."""
        if side.thread is not None and side.thread.giver not in ("", self.subject):
            return wish
        for terms in offers(wish, START_MS, self.world.new_id().hex()):
            if self._is_free(store, side, terms, first=True):
                return terms
        return None

    def _is_free(self, store: Store, side: Side, terms: Terms, *, first: bool) -> bool:
        leaving = moves.leaving(store, replace(side, terms=terms))
        way = self.gives_way
        return store.is_free(side.thread_id, terms, first=first, leaving=leaving, gives_way=way)

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
        supersedes = send.supersedes
        if send.move is Move.ACCEPT and side.thread:
            supersedes = side.thread.standing.supersedes
        return Message(mid, send.move, *names, issued_ms, expires_ms, body, supersedes)

    def _commit(self, store: Store) -> None:
        self.world.crash_point()
        if self.world.through_json:
            store.sides = {thread: Side.from_json(side.to_json()) for thread, side in store.sides.items()}
        self.store = store
        check_always(self.world, self)
        self.world.crash_point()


def _forget(side: Side | None, message: Message) -> Side | None:
    """What a receiver knows that keeps no record of what it has received."""
    first = side is not None and side.thread is not None and side.thread.messages[0] == message
    return None if first else side
