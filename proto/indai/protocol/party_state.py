"""The types `party.step` works on: the state of one side, the events it takes, the effects it asks for.

A `Side` is stored as JSON between transactions. Only the messages of its thread are stored, in order of
arrival: the rules fold them into the same thread again, so a stored state can't contradict its own
transcript.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from indai.protocol import lifecycle
from indai.protocol.lifecycle import History, deed_of_meeting
from indai.protocol.messages import (
    END_OF_TIME_MS,
    MAX_OFFER_LIFE_MS,
    Body,
    EventBody,
    EventKind,
    HoldBody,
    MeetTerms,
    MeetWish,
    Message,
    Move,
    ReceiptBody,
    RejectBody,
    Window,
    WithdrawBody,
)
from indai.protocol.negotiation import OfferState, Thread, apply, open_thread


class Role(Enum):
    """Who began the thread."""

    INITIATOR = "INITIATOR"
    RESPONDER = "RESPONDER"


class Phase(Enum):
    """Where our side is: the names of the owner service's ThreadState."""

    NEGOTIATING = "NEGOTIATING"
    ASKING_OWNER = "ASKING_OWNER"
    ON_HOLD = "ON_HOLD"
    AWAITING_RECEIPT = "AWAITING_RECEIPT"
    COMMITTED = "COMMITTED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"
    LAPSED = "LAPSED"
    IN_DOUBT = "IN_DOUBT"

    @property
    def ended(self) -> bool:
        """Whether the phase is final."""
        return self in (Phase.COMMITTED, Phase.REJECTED, Phase.WITHDRAWN, Phase.LAPSED)


class Question(Enum):
    """What the host is asked: may this be proposed, which slot fits, may these terms be signed."""

    PROPOSE_WISH = "PROPOSE_WISH"
    CHOOSE_SLOT = "CHOOSE_SLOT"
    SIGN_TERMS = "SIGN_TERMS"


class Outcome(Enum):
    """What policy and calendar say."""

    PERMIT = "PERMIT"
    ASK = "ASK"
    REFUSE = "REFUSE"


@dataclass(frozen=True, slots=True)
class OwnerStarts:
    """Our owner wants a meeting: a wish, or concrete terms for a single round trip. `thread` is a fresh
    UUIDv7."""

    wish: MeetWish | MeetTerms
    thread: bytes
    owner: str
    peer: str


@dataclass(frozen=True, slots=True)
class Received:
    """A verified message of the peer."""

    message: Message


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """The answer to a Consult.

    `terms`: the slot chosen, or a wish to counter with; None means exactly what was consulted about.
    `reason` and `sentence` go to the peer when the outcome is REFUSE, so neither may tell the rule behind
    it.
    """

    outcome: Outcome
    terms: MeetWish | MeetTerms | None = None
    reason: str = "POLICY_DENIED"
    sentence: str = ""
    offer_life_ms: int = MAX_OFFER_LIFE_MS


@dataclass(frozen=True, slots=True)
class OwnerAnswers:
    """Our owner's word on the AskOwner that is open."""

    approved: bool


@dataclass(frozen=True, slots=True)
class OwnerWithdraws:
    """Our owner takes the matter back."""


@dataclass(frozen=True, slots=True)
class OwnerActs:
    """Our owner says FULFIL, CANCEL or DISPUTE of what was agreed; `reason` is a name in capitals or
    empty."""

    kind: EventKind
    reason: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A Send has been built, signed and put in the outbox; this is what it says."""

    message: Message


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; due at `party.wakes_at`."""


Event: TypeAlias = (
    OwnerStarts | Received | HostAnswers | OwnerAnswers | OwnerWithdraws | OwnerActs | Sent | Tick
)


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask policy and calendar, and feed HostAnswers back in the same transaction. `approved`: our owner
    said yes."""

    question: Question
    terms: MeetWish | MeetTerms
    approved: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Build, sign and queue a message, and feed Sent back in the same transaction.

    An ACCEPT is a cosignature on the stored OFFER `in_reply_to`. The body of a RECEIPT is None: the host
    knows log, index and leaf time once it has carried out the Commit before it.
    """

    move: Move
    body: Body | None
    in_reply_to: bytes
    expires_in_ms: int


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Put exactly these terms before our owner, in place of an earlier question of the thread.

    The question is void once the phase is no longer ASKING_OWNER.
    """

    terms: MeetWish | MeetTerms
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """Hold the slot for this thread; the transaction fails when it is taken."""

    terms: MeetTerms


@dataclass(frozen=True, slots=True)
class Consume:
    """The reservation has become a meeting."""

    terms: MeetTerms


@dataclass(frozen=True, slots=True)
class Release:
    """Give the reservation back."""

    terms: MeetTerms


@dataclass(frozen=True, slots=True)
class Commit:
    """Append the COMMIT leaf of this commitment to our own ledger."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class WriteCalendar:
    """Write the event, idempotent by its UID, after the transaction."""

    terms: MeetTerms


@dataclass(frozen=True, slots=True)
class Tell:
    """A sentence for our owner."""

    words: str


@dataclass(frozen=True, slots=True)
class Resend:
    """Queue the stored message `mid` of ours once more, byte-identical."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """Append the leaf of this event, just stored, to our own ledger."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class Unbook:
    """The slot of a meeting that was agreed is free again."""

    terms: MeetTerms


@dataclass(frozen=True, slots=True)
class CancelCalendar:
    """Mark the event as cancelled, idempotent by its UID, after the transaction."""

    terms: MeetTerms


@dataclass(frozen=True, slots=True)
class Remind:
    """Tell our owner that this begins soon."""

    terms: MeetTerms


Effect: TypeAlias = (
    Consult
    | Send
    | AskOwner
    | Reserve
    | Consume
    | Release
    | Commit
    | WriteCalendar
    | Tell
    | Resend
    | Record
    | Unbook
    | CancelCalendar
    | Remind
)


@dataclass(frozen=True, slots=True)
class Side:
    """One party's state. `thread` is None until our first message is signed.

    `terms` is what the host or our owner was last asked about, `reserved` the slot we hold, `offer` the
    decision about our own offer, `deadline_ms` our owner's,
    `life` what has happened since the deed. `question`, `approved` and `sending` are set
    only between the steps of one transaction, never in a stored state.
    """

    role: Role
    owner: str
    peer: str
    thread_id: bytes
    phase: Phase
    thread: Thread | None = None
    terms: MeetWish | MeetTerms | None = None
    reserved: MeetTerms | None = None
    offer: OfferState | None = None
    deadline_ms: int = 0
    reason: str = ""
    life: History | None = None
    reminded: bool = False
    question: Question | None = None
    approved: bool = False
    sending: Move | None = None

    def to_json(self) -> str:
        """The state as JSON with sorted keys; raises RuntimeError in the middle of a transaction's steps."""
        if self.question is not None or self.sending is not None:
            raise RuntimeError("a Consult or a Send is still unanswered")
        fields = {
            "version": 1,
            "role": self.role.value,
            "owner": self.owner,
            "peer": self.peer,
            "thread_id": self.thread_id.hex(),
            "phase": self.phase.value,
            "messages": [_message_to_json(message) for message in self.thread.messages]
            if self.thread
            else [],
            "terms": _body_to_json(self.terms),
            "reserved": _body_to_json(self.reserved),
            "offer": self.offer.value if self.offer else None,
            "deadline_ms": self.deadline_ms,
            "reason": self.reason,
            "events": [_message_to_json(message) for message in self.life.messages] if self.life else [],
            "reminded": self.reminded,
        }
        return json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Side:
        """The state that `to_json` wrote (or the same JSON after a round through jsonb)."""
        fields = json.loads(text)
        reserved = _body_from_json(fields["reserved"])
        terms = _body_from_json(fields["terms"])
        thread = _fold([_message_from_json(message) for message in fields["messages"]])
        return cls(
            role=Role(fields["role"]),
            owner=fields["owner"],
            peer=fields["peer"],
            thread_id=bytes.fromhex(fields["thread_id"]),
            phase=Phase(fields["phase"]),
            thread=thread,
            terms=terms if isinstance(terms, MeetWish | MeetTerms) else None,
            reserved=reserved if isinstance(reserved, MeetTerms) else None,
            offer=OfferState(fields["offer"]) if fields["offer"] else None,
            deadline_ms=fields["deadline_ms"],
            reason=fields["reason"],
            life=_relive(thread, fields.get("events", []))
            if fields["phase"] == Phase.COMMITTED.value
            else None,
            reminded=fields.get("reminded", False),
        )

    def knows(self, message: Message) -> bool:
        """Whether the message is part of what is stored."""
        if message.move is Move.EVENT:
            return self.life is not None and self.life.find(message.mid) is not None
        return self.thread is not None and self.thread.find(*message.identity) is not None


def begin_life(thread: Thread) -> History:
    """The life of what the thread has agreed; raises RuntimeError if nothing was."""
    offer = thread.offer
    if offer is None or not isinstance(offer.body, MeetTerms):
        raise RuntimeError("nothing was agreed")
    return lifecycle.committed(deed_of_meeting(offer.mid, offer.sender, offer.recipient, offer.body))


def _relive(thread: Thread | None, events: list[dict[str, Any]]) -> History:
    """The life again. Nothing is from the future here: it was judged when it came."""
    if thread is None:
        raise RuntimeError("nothing was agreed")
    history = begin_life(thread)
    for fields in events:
        history = lifecycle.apply(history, _message_from_json(fields), END_OF_TIME_MS)
    return history


def _fold(messages: list[Message]) -> Thread | None:
    """The thread again. No ACCEPT is late here: whether it was, has been decided and is stored."""
    if not messages:
        return None
    thread = open_thread(messages[0])
    for message in messages[1:]:
        thread = apply(thread, message, 0)
    return thread


_BODIES: dict[str, type[Any]] = {
    "wish": MeetWish,
    "terms": MeetTerms,
    "receipt": ReceiptBody,
    "hold": HoldBody,
    "reject": RejectBody,
    "withdraw": WithdrawBody,
}
_NAMES = {body: name for name, body in _BODIES.items()}


def _body_to_json(body: Body | None) -> dict[str, Any] | None:
    if body is None:
        return None
    if isinstance(body, EventBody):
        return _event_to_json(body)
    fields: dict[str, Any] = {"kind": _NAMES[type(body)]}
    for name in body.__match_args__:
        value = getattr(body, name)
        if isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, tuple):
            value = [[window.start_ms, window.end_ms] for window in value]
        fields[name] = value
    return fields


def _event_to_json(body: EventBody) -> dict[str, Any]:
    return {
        "kind": "event",
        "event": body.kind.value,
        "commitment": body.commitment.hex(),
        "seq": body.seq,
        "prev": body.prev.hex(),
        "requests": [mid.hex() for mid in body.requests],
        "reason": body.reason,
        "sentence": body.sentence,
        "superseded_by": body.superseded_by.hex(),
        "posted_minor": body.posted_minor,
    }


def _event_from_json(fields: dict[str, Any]) -> EventBody:
    return EventBody(
        commitment=bytes.fromhex(fields["commitment"]),
        kind=EventKind(fields["event"]),
        seq=fields["seq"],
        prev=bytes.fromhex(fields["prev"]),
        requests=tuple(bytes.fromhex(mid) for mid in fields["requests"]),
        reason=fields["reason"],
        sentence=fields["sentence"],
        superseded_by=bytes.fromhex(fields["superseded_by"]),
        posted_minor=fields["posted_minor"],
    )


def _body_from_json(fields: dict[str, Any] | None) -> Body | None:
    if fields is None:
        return None
    if fields["kind"] == "event":
        return _event_from_json(fields)
    values = {name: value for name, value in fields.items() if name != "kind"}
    if "windows" in values:
        values["windows"] = tuple(Window(*window) for window in values["windows"])
    if "mid" in values:
        values["mid"] = bytes.fromhex(values["mid"])
    body: Body = _BODIES[fields["kind"]](**values)
    return body


def _message_to_json(message: Message) -> dict[str, Any]:
    return {
        "mid": message.mid.hex(),
        "move": message.move.value,
        "sender": message.sender,
        "recipient": message.recipient,
        "thread": message.thread.hex(),
        "in_reply_to": message.in_reply_to.hex(),
        "issued_at_ms": message.issued_at_ms,
        "expires_at_ms": message.expires_at_ms,
        "body": _body_to_json(message.body),
    }


def _message_from_json(fields: dict[str, Any]) -> Message:
    body = _body_from_json(fields["body"])
    if body is None:
        raise RuntimeError("a stored message has no body")
    return Message(
        mid=bytes.fromhex(fields["mid"]),
        move=Move(fields["move"]),
        sender=fields["sender"],
        recipient=fields["recipient"],
        thread=bytes.fromhex(fields["thread"]),
        in_reply_to=bytes.fromhex(fields["in_reply_to"]),
        issued_at_ms=fields["issued_at_ms"],
        expires_at_ms=fields["expires_at_ms"],
        body=body,
    )
