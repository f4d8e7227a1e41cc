"""What happens to a commitment after the deed: the rules of its events, the same for every party.

    COMMIT -> FULFIL (1) | CANCEL (1 while the terms allow, else all) | SUPERSEDE (all) | OVERDUE | EXPIRE
    a pending amount (pay): -> POST (1) | VOID (as CANCEL) | EXPIRE, once
    DISPUTE (1) may follow anything and changes no state
    OMIT (as CANCEL) leaves out one time of a meeting that repeats: the others stand

The first party of the commitment, who offered it, numbers the events: `seq` goes up by one and `prev` is the
mid of the event before, so both parties' ledgers hold one chain. Another party signs a *request* (`seq` 0);
the first party's event that names it carries the word of both. A first party that is silent can't keep a
DISPUTE out of the record: that alone the other may sign itself, beside the last event it knows.

Times are judged by the event's own `issued_at_ms`, so that everybody who reads the chain later comes to the
same answer; a receiver refuses what comes from the future. Pure: nothing here knows a clock or a database.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from indai.protocol.copies import replace
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.header import GRACE_MS, MAX_SKEW_MS
from indai.protocol.messages import DAY_MS, EventBody, EventKind, Message, Terms, Wish

OVERDUE_GRACE_MS = DAY_MS
EXPIRES_AFTER_MS = 30 * DAY_MS
MAX_REQUESTS = 8


class State(Enum):
    """Where a commitment is in its life."""

    COMMITTED = "COMMITTED"
    PENDING = "PENDING"
    OVERDUE = "OVERDUE"
    FULFILLED = "FULFILLED"
    CANCELLED = "CANCELLED"
    SUPERSEDED = "SUPERSEDED"
    EXPIRED = "EXPIRED"
    POSTED = "POSTED"
    VOIDED = "VOIDED"

    @property
    def ended(self) -> bool:
        """Whether nothing changes it any more."""
        return self not in (State.COMMITTED, State.PENDING, State.OVERDUE)


@dataclass(frozen=True, slots=True)
class Deed:
    """What a commitment's terms say about its life; times in ms, parties by subject, the first one numbers.

    `pending_minor` is not 0 for a two-phase commitment: the amount in minor units that waits to be posted,
    and `payee` then whose word it is that it arrived, empty for anybody's. `begins_ms` is what owners are
    reminded of, 0 for nothing; `done` says that nothing is left to do at the deed; `times_ms` are the starts
    of what takes place several times.
    """

    mid: bytes
    parties: tuple[str, ...]
    cancel_until_ms: int
    fulfil_from_ms: int
    due_ms: int
    pending_minor: int = 0
    payee: str = ""
    begins_ms: int = 0
    done: bool = False
    times_ms: tuple[int, ...] = ()

    def alone_until_ms(self, time_ms: int) -> int:
        """Until when one party alone may call off: all of it (0), or the time that begins then. What the
        terms say of the first time holds of each."""
        return self.cancel_until_ms + (time_ms - self.times_ms[0] if time_ms and self.times_ms else 0)


@dataclass(frozen=True, slots=True)
class History:
    """A commitment's life. `messages` in order of arrival; the rest follows from them.

    `chain` holds the numbered events, `disputed` the subjects that object, `successors` the mids of
    commitments that name this one as what they replace, `instead` those that replace one time alone, with
    its start; `omitted` are the times that were left out.
    """

    deed: Deed
    state: State
    messages: tuple[Message, ...] = ()
    chain: tuple[Message, ...] = ()
    disputed: frozenset[str] = field(default_factory=frozenset)
    successors: frozenset[bytes] = field(default_factory=frozenset)
    instead: frozenset[tuple[bytes, int]] = field(default_factory=frozenset)
    omitted: frozenset[int] = field(default_factory=frozenset)

    def may_omit(self, time_ms: int) -> bool:
        """Whether that time stands, and another one beside it: the last is called off with the whole."""
        standing = set(self.deed.times_ms) - self.omitted
        return not self.state.ended and time_ms in standing and len(standing) > 1

    @property
    def sequencer(self) -> str:
        """The party that numbers the events."""
        return self.deed.parties[0]

    @property
    def last(self) -> bytes:
        """The mid that the next event names as `prev`."""
        return self.chain[-1].mid if self.chain else self.deed.mid

    def find(self, mid: bytes) -> Message | None:
        """The event or request with this mid."""
        return next((message for message in self.messages if message.mid == mid), None)

    def requested(self, subject: str, kind: EventKind, time_ms: int = 0) -> Message | None:
        """The newest request of `subject` for an event of this kind (of that time) that was not granted
        yet."""
        granted = {mid for event in self.chain for mid in body_of(event).requests}
        own = (m for m in reversed(self.messages) if m.sender == subject and m.mid not in granted)
        wanted = (0, kind, time_ms)
        said = ((m, body_of(m)) for m in own)
        return next((m for m, body in said if (body.seq, body.kind, body.time_ms) == wanted), None)


def deed_of(mid: bytes, parties: tuple[str, ...], terms: Terms) -> Deed:
    """The life that these terms give the commitment `mid` of `parties`, the offerer first."""
    life = terms.life()
    return Deed(
        mid,
        parties,
        life.cancel_until_ms,
        life.fulfil_from_ms,
        life.due_ms,
        life.pending_minor,
        parties[1] if life.pending_minor else "",
        life.begins_ms,
        life.done,
        life.times_ms,
    )


def committed(deed: Deed) -> History:
    """The life of a commitment at the deed."""
    if deed.done:
        return History(deed, State.FULFILLED)
    return History(deed, State.PENDING if deed.pending_minor else State.COMMITTED)


def check_successor(old: Message, new: Message) -> None:
    """The wish or offer `new` may take the place of what `old`, an OFFER, has agreed; raises ProtocolError
    with LIF-16.
    """
    before, after = old.body, new.body
    if not isinstance(before, Terms) or not isinstance(after, Wish | Terms) or new.supersedes != old.mid:
        raise _error("LIF-16", "The message does not take the place of this commitment")
    if before.life().pending_minor or before.life().done:
        raise _error("LIF-16", f"The {before.kind} is not superseded: it is over, or to be voided first")
    if before.kind != after.kind:
        raise _error("LIF-16", f"A {before.kind} is not superseded by a {after.kind}")
    if set(old.parties or (old.sender, old.recipient)) != set(new.parties or (new.sender, new.recipient)):
        raise _error("LIF-16", "A commitment is superseded between its own parties only")
    if after.replaces_ms and after.replaces_ms not in before.life().times_ms:
        raise _error("LIF-16", "The message takes the place of a time that this commitment has not")


def named_by(history: History, successor: bytes, time_ms: int = 0) -> History:
    """Another commitment, signed by the same parties, names this one (or that time of it): a SUPERSEDE (an
    OMIT of that time) may now name it."""
    if time_ms:
        return replace(history, instead=history.instead | {(successor, time_ms)})
    return replace(history, successors=history.successors | {successor})


def apply(history: History, message: Message, now_ms: int) -> History:
    """The life after `message`, or the same object for one it has already; raises ProtocolError.

    OUT_OF_ORDER alone is transient: something that it builds on has not arrived.
    """
    if history.find(message.mid):
        return history
    body = message.body
    parties = history.deed.parties
    if not isinstance(body, EventBody) or body.commitment != history.deed.mid:
        raise _error("LIF-02", "The message is no event of this commitment")
    if message.sender not in parties or message.recipient not in parties:
        raise _error("LIF-02", "The event is not between parties of its commitment")
    if message.issued_at_ms > now_ms + MAX_SKEW_MS:
        raise ProtocolError(Reason.FROM_FUTURE, "The event was issued ahead of this clock.", rule="HDR-04")
    if body.seq == 0:
        _check_request(history, message, body)
        return replace(history, messages=(*history.messages, message))
    if message.sender == history.sequencer:
        return _next(history, message, body)
    return _beside(history, message, body)


def body_of(message: Message) -> EventBody:
    """What an event says; raises TypeError for any other message."""
    if not isinstance(message.body, EventBody):
        raise TypeError(f"{message.move.name} is no event")
    return message.body


def may_alone(deed: Deed, kind: EventKind, at_ms: int, time_ms: int = 0) -> bool:
    """Whether one party's word is enough for this kind at that time (a POST: the payee's, LIF-15)."""
    if kind in (EventKind.CANCEL, EventKind.VOID, EventKind.OMIT):
        return at_ms <= deed.alone_until_ms(time_ms)
    return kind is not EventKind.SUPERSEDE


def _check_request(history: History, message: Message, body: EventBody) -> None:
    if body.kind in _FIRST_PARTYS:
        raise _error("LIF-09", f"Nobody asks for {body.kind.value}")
    pending_minor = history.deed.pending_minor
    if body.kind is not EventKind.DISPUTE and bool(pending_minor) != (body.kind in _TWO_PHASE):
        raise _error("LIF-11", f"Nobody asks for {body.kind.value} of such a commitment")
    if body.kind is EventKind.POST:
        _check_post(history.deed, body, {message.sender})
    if body.kind is EventKind.OMIT and body.time_ms not in history.deed.times_ms:
        raise _error("LIF-17", "The commitment has no such time")
    _check_known(history, body.prev)
    made = [m for m in history.messages if m.sender == message.sender and body_of(m).seq == 0]
    if len(made) >= MAX_REQUESTS + len(history.deed.times_ms):
        what = f"A party has at most {MAX_REQUESTS} requests, and one for each time, of one commitment."
        raise ProtocolError(Reason.TOO_MANY_MOVES, what, rule="LIF-14")


def _beside(history: History, message: Message, body: EventBody) -> History:
    """A DISPUTE that its party signed itself, beside what the first party may have numbered meanwhile."""
    if body.kind is not EventKind.DISPUTE or body.requests:
        raise _error("LIF-04", f"A {body.kind.value} of another party than the first is a request")
    _check_known(history, body.prev)
    before = [history.deed.mid, *(event.mid for event in history.chain)].index(body.prev)
    if body.seq != before + 1:
        raise _error("LIF-03", f"After event {before} comes {before + 1}, not {body.seq}")
    if any(body_of(m).seq and m.sender == message.sender for m in history.messages):
        raise _error("LIF-10", "A party disputes a commitment once")
    # The first party may have numbered this party's request meanwhile: both stand, and say the same.
    return _dispute(history, message, message.sender)


def _next(history: History, message: Message, body: EventBody) -> History:
    expected = len(history.chain) + 1
    if body.seq > expected:
        what = f"Event {body.seq} came before event {expected}."
        raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-03")
    if body.seq < expected or body.prev != history.last:
        raise _error("LIF-03", f"Event {body.seq} is not the one that follows what it names")
    asked = _granted(history, body)
    if history.state.ended and body.kind is not EventKind.DISPUTE:
        raise _error("LIF-05", f"The commitment is {history.state.value} already")
    if body.kind is EventKind.DISPUTE:
        if len(asked) > 1:
            raise _error("LIF-10", "A DISPUTE is the word of one party")
        subject = asked[0].sender if asked else message.sender
        if any(_objector(history, event) == subject for event in history.chain):
            raise _error("LIF-10", "A party disputes a commitment once")
        return replace(_dispute(history, message, subject), chain=(*history.chain, message))
    pending = history.state is State.PENDING
    if body.kind is not EventKind.EXPIRE and pending != (body.kind in _TWO_PHASE):
        raise _error("LIF-11", f"A {body.kind.value} does not resolve what is {history.state.value}")
    _RULES[body.kind](history, message, asked)
    return replace(
        history,
        state=_STATES.get(body.kind, history.state),
        messages=(*history.messages, message),
        chain=(*history.chain, message),
        omitted=history.omitted | ({body.time_ms} if body.kind is EventKind.OMIT else set()),
    )


def _granted(history: History, body: EventBody) -> list[Message]:
    """The requests an event names: known, of its kind, each of another party, none granted before."""
    before = {mid for event in history.chain for mid in body_of(event).requests}
    asked = []
    for mid in body.requests:
        request = history.find(mid)
        if request is None:
            what = "The event grants a request that has not arrived."
            raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-12")
        wanted = body_of(request)
        same = (wanted.kind, wanted.superseded_by, wanted.posted_minor, wanted.time_ms) == (
            body.kind,
            body.superseded_by,
            body.posted_minor,
            body.time_ms,
        )
        if wanted.seq or not same or mid in before or request.sender == history.sequencer:
            raise _error("LIF-12", "The event grants what was not asked for, or was granted before")
        asked.append(request)
    if len({request.sender for request in asked}) != len(asked):
        raise _error("LIF-12", "The event grants two requests of one party")
    return asked


def _fulfil(history: History, message: Message, asked: list[Message]) -> None:
    if message.issued_at_ms < history.deed.fulfil_from_ms:
        raise _error("LIF-06", "It cannot be fulfilled before its time has come")


def _cancel(history: History, message: Message, asked: list[Message]) -> None:
    """One party's word: its own time counts, and the first party numbers it within the grace."""
    if len(asked) == len(history.deed.parties) - 1:
        return  # with the first party's own signature, all have agreed
    spoken_ms = min([request.issued_at_ms for request in asked], default=message.issued_at_ms)
    until_ms = history.deed.alone_until_ms(body_of(message).time_ms)
    if spoken_ms > until_ms or message.issued_at_ms > until_ms + (GRACE_MS if asked else 0):
        raise _error("LIF-07", "One party alone may no longer cancel")


def _omit(history: History, message: Message, asked: list[Message]) -> None:
    body = body_of(message)
    if not history.may_omit(body.time_ms):
        raise _error("LIF-17", "There is no such time, or none beside it would be left")
    if not body.superseded_by:
        _cancel(history, message, asked)
    elif (body.superseded_by, body.time_ms) not in history.instead:
        what = "No commitment of these parties is known that takes the place of this time."
        raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-08")


def _supersede(history: History, message: Message, asked: list[Message]) -> None:
    if body_of(message).superseded_by not in history.successors:
        # The other commitment may still be on its way to whoever reads this.
        what = "No commitment of these parties is known that replaces this one."
        raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-08")


def _overdue(history: History, message: Message, asked: list[Message]) -> None:
    if asked or history.state is not State.COMMITTED:
        raise _error("LIF-09", "OVERDUE is said once, and asked for by nobody")
    if message.issued_at_ms < history.deed.due_ms + OVERDUE_GRACE_MS:
        raise _error("LIF-09", "It is not overdue before its due time and a day of grace")


def _expire(history: History, message: Message, asked: list[Message]) -> None:
    if asked:
        raise _error("LIF-09", "EXPIRE is asked for by nobody")
    if message.issued_at_ms < expires_ms(history):
        raise _error("LIF-09", "It does not expire before its time")


def _post(history: History, message: Message, asked: list[Message]) -> None:
    _check_post(history.deed, body_of(message), {message.sender, *(request.sender for request in asked)})


def _check_post(deed: Deed, body: EventBody, signers: set[str]) -> None:
    if not 0 < body.posted_minor <= deed.pending_minor:
        raise _error("LIF-11", "A POST is of at most what is pending")
    if deed.payee and deed.payee not in signers:
        raise _error("LIF-15", "What was paid is the payee's word")


def expires_ms(history: History) -> int:
    """When it may expire, ms: what is pending when it is due, anything else 30 days later."""
    later = 0 if history.state is State.PENDING else EXPIRES_AFTER_MS
    return history.deed.due_ms + later


def _objector(history: History, event: Message) -> str:
    """Whose DISPUTE a numbered event is; "" for any other."""
    body = body_of(event)
    if body.kind is not EventKind.DISPUTE:
        return ""
    request = history.find(body.requests[0]) if body.requests else None
    return request.sender if request else event.sender


def _dispute(history: History, message: Message, subject: str) -> History:
    return replace(history, messages=(*history.messages, message), disputed=history.disputed | {subject})


def _check_known(history: History, mid: bytes) -> None:
    if mid != history.deed.mid and all(event.mid != mid for event in history.chain):
        what = "The event before this one has not arrived."
        raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-03")


def _error(rule: str, what: str) -> ProtocolError:
    return ProtocolError(Reason.ILLEGAL_MOVE, what + ".", rule=rule)


_FIRST_PARTYS = (EventKind.EXPIRE, EventKind.OVERDUE)
_TWO_PHASE = (EventKind.POST, EventKind.VOID)
_STATES = {
    EventKind.FULFIL: State.FULFILLED,
    EventKind.CANCEL: State.CANCELLED,
    EventKind.SUPERSEDE: State.SUPERSEDED,
    EventKind.EXPIRE: State.EXPIRED,
    EventKind.OVERDUE: State.OVERDUE,
    EventKind.POST: State.POSTED,
    EventKind.VOID: State.VOIDED,
}
_RULES: dict[EventKind, Callable[[History, Message, list[Message]], None]] = {
    EventKind.FULFIL: _fulfil,
    EventKind.CANCEL: _cancel,
    EventKind.SUPERSEDE: _supersede,
    EventKind.EXPIRE: _expire,
    EventKind.OVERDUE: _overdue,
    EventKind.POST: _post,
    EventKind.VOID: _cancel,
    EventKind.OMIT: _omit,
}
