"""What a verified message says: small typed values out of the generated messages, and back.

`describe` reads a payload whose envelope and signatures were checked already, and refuses fields out of
range; `compose` is its inverse for the party that is about to sign. OFFER and ACCEPT are one payload, a
Commitment, with one signature and with all of them: they share one mid, so a message is identified by (mid,
move).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.quoting import quoted
from indai.v1 import envelope_pb2, negotiation_pb2

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

MAX_TITLE = 200
MAX_PLACE = 200
MAX_SENTENCE = 300
MAX_UID = 255
MAX_LOG = 255
MAX_PARTIES = 32
MAX_MINUTES = 1_440
MAX_WINDOWS = 32
MAX_OFFER_LIFE_MS = DAY_MS
MAX_HOLD_MS = 7 * DAY_MS
MAX_DUE_MS = 366 * DAY_MS
END_OF_TIME_MS = (
    253_370_764_800_000  # the year 9999: the last in which no zone and no day added leaves any calendar
)

_EVENT_KINDS = frozenset(negotiation_pb2.EventKind.values()) - {negotiation_pb2.EVENT_KIND_UNSPECIFIED}
_REASON = re.compile(r"[A-Z][A-Z_]{0,39}")
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Move(Enum):
    """One step of a thread."""

    PROPOSE = "PROPOSE"
    COUNTER = "COUNTER"
    OFFER = "OFFER"
    ACCEPT = "ACCEPT"
    RECEIPT = "RECEIPT"
    HOLD = "HOLD"
    REJECT = "REJECT"
    WITHDRAW = "WITHDRAW"
    EVENT = "EVENT"  # after the deed; `indai.protocol.lifecycle` has its rules


class EventKind(Enum):
    """What happens to a commitment after the deed."""

    FULFIL = "FULFIL"
    CANCEL = "CANCEL"
    SUPERSEDE = "SUPERSEDE"
    EXPIRE = "EXPIRE"
    OVERDUE = "OVERDUE"
    DISPUTE = "DISPUTE"
    POST = "POST"
    VOID = "VOID"


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open interval [start_ms, end_ms), milliseconds since the epoch."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class MeetWish:
    """A meeting with room for choice: `windows` best first, 1 to 32."""

    title: str
    duration_minutes: int
    windows: tuple[Window, ...]
    place: str = ""

    def admits(self, terms: MeetTerms) -> bool:
        """Whether the slot of `terms` has this wish's length and lies inside one of its windows."""
        if terms.end_ms - terms.start_ms != self.duration_minutes * MINUTE_MS:
            return False
        return any(
            window.start_ms <= terms.start_ms and terms.end_ms <= window.end_ms for window in self.windows
        )


@dataclass(frozen=True, slots=True)
class MeetTerms:
    """A concrete meeting, [start_ms, end_ms), with the UID of the iCalendar event both sides write.

    `cancel_until_ms` 0: either party may cancel alone until the start; `due_ms` 0: due at the end.
    """

    start_ms: int
    end_ms: int
    title: str
    place: str
    ical_uid: str
    cancel_until_ms: int = 0
    due_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReceiptBody:
    """The commitment `mid` stands at `index` of the offerer's ledger `log`; times in ms."""

    mid: bytes
    log: str
    index: int
    leaf_time_ms: int


@dataclass(frozen=True, slots=True)
class HoldBody:
    """After `deadline_ms` the silence is a refusal."""

    deadline_ms: int


@dataclass(frozen=True, slots=True)
class RejectBody:
    """A reason for machines and a sentence for a person."""

    reason: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class WithdrawBody:
    """The mid of the sender's own message that is taken back."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class EventBody:
    """One event of `commitment`, or with `seq` 0 the request for one.

    `prev` is the mid of the event before it or of the commitment, `requests` the mids of what the other
    parties asked for and this event grants.
    """

    commitment: bytes
    kind: EventKind
    seq: int
    prev: bytes
    requests: tuple[bytes, ...] = ()
    reason: str = ""
    sentence: str = ""
    superseded_by: bytes = b""
    posted_minor: int = 0


Body: TypeAlias = MeetWish | MeetTerms | ReceiptBody | HoldBody | RejectBody | WithdrawBody | EventBody
Payload: TypeAlias = (
    negotiation_pb2.Move | negotiation_pb2.Commitment | negotiation_pb2.Receipt | negotiation_pb2.Event
)


@dataclass(frozen=True, slots=True)
class Message:
    """What the rules need of one verified message.

    `sender` and `recipient` are subject ids. For an ACCEPT they are the acceptor and the offerer,
    `in_reply_to` is the commitment's own mid, and the two times are the offer's, since its bytes are the
    offer's.
    """

    mid: bytes
    move: Move
    sender: str
    recipient: str
    thread: bytes
    in_reply_to: bytes
    issued_at_ms: int
    expires_at_ms: int
    body: Body

    @property
    def identity(self) -> tuple[bytes, Move]:
        """(mid, move): equal for a retransmission, different for an OFFER and its ACCEPT."""
        return self.mid, self.move


def describe(payload: Payload, *, mid: bytes, signatures: int) -> Message:
    """Read one parsed payload that `signatures` parties signed; raises ProtocolError(MALFORMED) with NEG-01
    to NEG-07 or LIF-01."""
    if isinstance(payload, negotiation_pb2.Commitment):
        return _describe_commitment(payload, mid, signatures)
    if signatures != 1:
        raise _malformed(
            "NEG-01", f"Only a commitment is signed by more than its sender, not by {signatures} parties"
        )
    if isinstance(payload, negotiation_pb2.Receipt):
        return _message(Move.RECEIPT, payload.header, mid, _read_receipt(payload))
    if isinstance(payload, negotiation_pb2.Event):
        return _message(Move.EVENT, payload.header, mid, _read_event(payload))
    step = payload.WhichOneof("step")
    if step is None:
        raise _malformed("NEG-01", "The message has no step")
    move = Move[step.upper()]
    return _message(move, payload.header, mid, _read_step(move, payload))


def compose(
    move: Move, body: Body, header: envelope_pb2.Header, parties: tuple[negotiation_pb2.Party, ...] = ()
) -> Payload:
    """The payload to sign. `parties`, offerer first, is for an OFFER; an ACCEPT is a cosignature, never
    composed."""
    pb = negotiation_pb2
    match move, body:
        case (Move.PROPOSE, MeetWish()):
            return pb.Move(header=header, propose=pb.Propose(meet=_wish_to_pb(body)))
        case (Move.COUNTER, MeetWish()):
            return pb.Move(header=header, counter=pb.Counter(meet=_wish_to_pb(body)))
        case (Move.OFFER, MeetTerms()):
            return pb.Commitment(header=header, parties=parties, meet=_terms_to_pb(body))
        case (Move.RECEIPT, ReceiptBody()):
            return pb.Receipt(
                header=header, mid=body.mid, log=body.log, index=body.index, leaf_time_ms=body.leaf_time_ms
            )
        case (Move.HOLD, HoldBody()):
            return pb.Move(header=header, hold=pb.Hold(deadline_ms=body.deadline_ms))
        case (Move.REJECT, RejectBody()):
            return pb.Move(header=header, reject=pb.Reject(reason=body.reason, sentence=body.sentence))
        case (Move.EVENT, EventBody()):
            return _event_to_pb(header, body)
        case (Move.WITHDRAW, WithdrawBody()):
            return pb.Move(header=header, withdraw=pb.Withdraw(mid=body.mid))
    raise TypeError(f"{move.name} is not composed from a {type(body).__name__}")


def check_wish(wish: MeetWish) -> None:
    """Refuse a wish out of range; raises ProtocolError(MALFORMED) with NEG-02 or NEG-03."""
    _check_text("title", wish.title, MAX_TITLE, required=True)
    _check_text("place", wish.place, MAX_PLACE)
    if not 1 <= wish.duration_minutes <= MAX_MINUTES:
        raise _malformed("NEG-03", f"A meeting lasts 1 to {MAX_MINUTES} minutes, not {wish.duration_minutes}")
    if not 1 <= len(wish.windows) <= MAX_WINDOWS:
        raise _malformed("NEG-03", f"A wish has 1 to {MAX_WINDOWS} windows, not {len(wish.windows)}")
    for number, window in enumerate(wish.windows, 1):
        _check_span("NEG-03", f"Window {number}", window.start_ms, window.end_ms)
        if window.end_ms - window.start_ms < wish.duration_minutes * MINUTE_MS:
            raise _malformed("NEG-03", f"Window {number} is shorter than the meeting")


def check_terms(terms: MeetTerms) -> None:
    """Refuse terms out of range; raises ProtocolError(MALFORMED) with NEG-02 or NEG-04."""
    _check_text("title", terms.title, MAX_TITLE, required=True)
    _check_text("place", terms.place, MAX_PLACE)
    _check_text("iCalendar UID", terms.ical_uid, MAX_UID, required=True)
    _check_span("NEG-04", "The slot", terms.start_ms, terms.end_ms)
    if terms.end_ms - terms.start_ms > MAX_MINUTES * MINUTE_MS:
        raise _malformed("NEG-04", f"The slot is longer than {MAX_MINUTES} minutes")
    if not 0 <= terms.cancel_until_ms <= terms.end_ms:
        raise _malformed("NEG-04", "The time for cancelling alone lies after the meeting")
    if terms.due_ms and not terms.end_ms <= terms.due_ms <= terms.end_ms + MAX_DUE_MS:
        raise _malformed("NEG-04", "The meeting is due before its end or more than 366 days after it")


def check_said(reason: str, sentence: str) -> None:
    """Refuse what may not stand in an event; raises ProtocolError(MALFORMED) with LIF-01 or NEG-02."""
    if reason and not _REASON.fullmatch(reason):
        raise _malformed("LIF-01", f"A reason is a name in capitals, not {quoted(reason)}")
    _check_text("sentence", sentence, MAX_SENTENCE)


def _describe_commitment(payload: negotiation_pb2.Commitment, mid: bytes, signatures: int) -> Message:
    subjects = tuple(party.subject_id for party in payload.parties)
    if len(subjects) != 2 or len(set(subjects)) != 2:
        raise _malformed("NEG-06", "A meeting's commitment has two different parties")
    if (payload.header.sender_subject, payload.header.recipient_subject) != subjects:
        raise _malformed("NEG-06", "The offerer is the first party and sends to the second")
    if signatures not in (1, len(subjects)):
        raise _malformed("NEG-01", f"A commitment has 1 or {len(subjects)} signatures, not {signatures}")
    if payload.WhichOneof("terms") != "meet":
        raise _malformed("NEG-01", "The commitment has no terms")
    meet = payload.meet
    terms = MeetTerms(
        meet.start_ms,
        meet.end_ms,
        meet.title,
        meet.place,
        meet.ical_uid,
        meet.cancel_until_ms,
        meet.due_ms,
    )
    check_terms(terms)
    offer = _message(Move.OFFER, payload.header, mid, terms)
    if offer.expires_at_ms - offer.issued_at_ms > MAX_OFFER_LIFE_MS:
        raise _malformed("NEG-05", "An offer lives at most 24 hours")
    if signatures == 1:
        return offer
    times = offer.issued_at_ms, offer.expires_at_ms
    return Message(mid, Move.ACCEPT, offer.recipient, offer.sender, offer.thread, mid, *times, terms)


def _message(move: Move, header: envelope_pb2.Header, mid: bytes, body: Body) -> Message:
    if not header.sender_subject or not header.recipient_subject:
        raise _malformed("NEG-06", "The message does not name both its subjects")
    if header.sender_subject == header.recipient_subject:
        raise _malformed("NEG-06", "Nobody negotiates with themselves")
    if len(header.thread) != 16 or len(header.in_reply_to) not in (0, 32) or len(mid) != 32:
        raise _malformed("NEG-01", "A thread id has 16 bytes and a message id 32")
    _check_span("NEG-05", "The message's life", header.issued_at_ms, header.expires_at_ms)
    if isinstance(body, HoldBody):
        _check_span("NEG-07", "The hold", header.issued_at_ms, body.deadline_ms)
        if body.deadline_ms - header.issued_at_ms > MAX_HOLD_MS:
            raise _malformed("NEG-07", "A hold lasts at most 7 days")
    return Message(
        mid=mid,
        move=move,
        sender=header.sender_subject,
        recipient=header.recipient_subject,
        thread=header.thread,
        in_reply_to=header.in_reply_to,
        issued_at_ms=header.issued_at_ms,
        expires_at_ms=header.expires_at_ms,
        body=body,
    )


def _read_step(move: Move, payload: negotiation_pb2.Move) -> Body:
    match move:
        case Move.PROPOSE:
            return _read_wish(payload.propose)
        case Move.COUNTER:
            return _read_wish(payload.counter)
        case Move.HOLD:
            return HoldBody(payload.hold.deadline_ms)
        case Move.REJECT:
            return _read_reject(payload.reject)
        case _:
            return WithdrawBody(_check_mid(payload.withdraw.mid))


def _read_wish(step: negotiation_pb2.Propose | negotiation_pb2.Counter) -> MeetWish:
    if step.WhichOneof("terms") != "meet":
        raise _malformed("NEG-01", "The proposal has no terms")
    meet = step.meet
    windows = tuple(Window(window.start_ms, window.end_ms) for window in meet.windows)
    wish = MeetWish(meet.title, meet.duration_minutes, windows, meet.place)
    check_wish(wish)
    return wish


def _read_reject(reject: negotiation_pb2.Reject) -> RejectBody:
    if not _REASON.fullmatch(reject.reason):
        raise _malformed("NEG-02", f"A refusal's reason is a name in capitals, not {quoted(reject.reason)}")
    _check_text("sentence", reject.sentence, MAX_SENTENCE)
    return RejectBody(reject.reason, reject.sentence)


def _read_receipt(payload: negotiation_pb2.Receipt) -> ReceiptBody:
    _check_text("ledger's origin", payload.log, MAX_LOG, required=True)
    if not 0 < payload.leaf_time_ms < END_OF_TIME_MS:
        raise _malformed("NEG-01", "The receipt has no leaf time")
    return ReceiptBody(_check_mid(payload.mid), payload.log, payload.index, payload.leaf_time_ms)


def _read_event(payload: negotiation_pb2.Event) -> EventBody:
    name = negotiation_pb2.EventKind.Name(payload.kind) if payload.kind in _EVENT_KINDS else ""
    if not name:
        raise _malformed("LIF-01", f"Kind {payload.kind} of event is not known")
    kind = EventKind(name.removeprefix("EVENT_KIND_"))
    _check_ids("LIF-01", payload.commitment, payload.prev, *payload.requests)
    if payload.header.in_reply_to != payload.prev:
        raise _malformed("LIF-01", "An event answers the event before it")
    if len(payload.requests) >= MAX_PARTIES or (payload.requests and not payload.seq):
        raise _malformed("LIF-01", f"An event grants fewer than {MAX_PARTIES} requests, a request none")
    if len(payload.superseded_by) != (32 if kind is EventKind.SUPERSEDE else 0):
        raise _malformed("LIF-01", "A SUPERSEDE, and nothing else, names the commitment that follows")
    if (kind is EventKind.POST) != bool(payload.posted_minor):
        raise _malformed("LIF-01", "A POST, and nothing else, has an amount")
    check_said(payload.reason, payload.sentence)
    return EventBody(
        payload.commitment,
        kind,
        payload.seq,
        payload.prev,
        tuple(payload.requests),
        payload.reason,
        payload.sentence,
        payload.superseded_by,
        payload.posted_minor,
    )


def _wish_to_pb(wish: MeetWish) -> negotiation_pb2.MeetWish:
    windows = [
        negotiation_pb2.Window(start_ms=window.start_ms, end_ms=window.end_ms) for window in wish.windows
    ]
    return negotiation_pb2.MeetWish(
        title=wish.title, duration_minutes=wish.duration_minutes, windows=windows, place=wish.place
    )


def _terms_to_pb(terms: MeetTerms) -> negotiation_pb2.MeetTerms:
    return negotiation_pb2.MeetTerms(
        start_ms=terms.start_ms,
        end_ms=terms.end_ms,
        title=terms.title,
        place=terms.place,
        ical_uid=terms.ical_uid,
        cancel_until_ms=terms.cancel_until_ms,
        due_ms=terms.due_ms,
    )


def _event_to_pb(header: envelope_pb2.Header, body: EventBody) -> negotiation_pb2.Event:
    return negotiation_pb2.Event(
        header=header,
        commitment=body.commitment,
        kind=negotiation_pb2.EventKind.Value(f"EVENT_KIND_{body.kind.value}"),
        seq=body.seq,
        prev=body.prev,
        requests=body.requests,
        reason=body.reason,
        sentence=body.sentence,
        superseded_by=body.superseded_by,
        posted_minor=body.posted_minor,
    )


def _check_mid(mid: bytes) -> bytes:
    _check_ids("NEG-01", mid)
    return mid


def _check_ids(rule: str, *mids: bytes) -> None:
    for mid in mids:
        if len(mid) != 32:
            raise _malformed(rule, f"A message id has 32 bytes, not {len(mid)}")


def _check_text(name: str, text: str, limit: int, *, required: bool = False) -> None:
    if required and not text.strip():
        raise _malformed("NEG-02", f"The {name} is empty")
    if len(text) > limit:
        raise _malformed("NEG-02", f"The {name} has {len(text)} characters, over the limit of {limit}")
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in _BIDI_CONTROLS for char in text):
        raise _malformed("NEG-02", f"The {name} {quoted(text)} holds control characters")


def _check_span(rule: str, what: str, start_ms: int, end_ms: int) -> None:
    if not 0 < start_ms < end_ms < END_OF_TIME_MS:
        raise _malformed(rule, f"{what} does not end after it begins")


def _malformed(rule: str, what: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, what + ".", rule=rule)
