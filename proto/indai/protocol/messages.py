"""What a verified message says: small typed values out of the generated messages, and back.

`describe` reads a payload whose envelope and signatures were checked already, and refuses fields out of
range; `compose` is its inverse for the party that is about to sign. OFFER and ACCEPT are one payload, a
Commitment, with one signature and with all of them: they share one mid, so a message is identified by (mid,
move). What a kind of intent may say is in `indai.protocol.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from indai.protocol import queries
from indai.protocol.bodies import (
    MAX_SENTENCE,
    EventBody,
    EventKind,
    HoldBody,
    Move,
    ReceiptBody,
    RejectBody,
    RelayBody,
    WithdrawBody,
    check_said,
)
from indai.protocol.forms import (
    DAY_MS,
    END_OF_TIME_MS,
    HOUR_MS,
    MINUTE_MS,
    check_ids,
    check_span,
    check_text,
    malformed,
)
from indai.protocol.kinds.base import Terms, Window, Wish
from indai.protocol.kinds.meet import (
    MAX_MINUTES,
    MAX_PLACE,
    MAX_TITLE,
    MAX_UID,
    MAX_WINDOWS,
    MeetTerms,
    MeetWish,
)
from indai.protocol.kinds.table import kind_of, read_terms, read_wish
from indai.protocol.queries import AnswerBody, QueryBody
from indai.v1 import envelope_pb2, negotiation_pb2

__all__ = [
    "DAY_MS",
    "END_OF_TIME_MS",
    "HOUR_MS",
    "MAX_LOG",
    "MAX_MINUTES",
    "MAX_OFFER_LIFE_MS",
    "MAX_PARTIES",
    "MAX_PLACE",
    "MAX_SENTENCE",
    "MAX_TITLE",
    "MAX_UID",
    "MAX_WINDOWS",
    "MINUTE_MS",
    "AnswerBody",
    "Body",
    "EventBody",
    "EventKind",
    "HoldBody",
    "MeetTerms",
    "MeetWish",
    "Message",
    "Move",
    "Payload",
    "QueryBody",
    "ReceiptBody",
    "RejectBody",
    "RelayBody",
    "Terms",
    "Window",
    "Wish",
    "WithdrawBody",
    "check_said",
    "compose",
    "describe",
]

MAX_LOG = 255
MAX_PARTIES = 20
MAX_OFFER_LIFE_MS = DAY_MS
MAX_HOLD_MS = 7 * DAY_MS

_EVENT_KINDS = frozenset(negotiation_pb2.EventKind.values()) - {negotiation_pb2.EVENT_KIND_UNSPECIFIED}

Body: TypeAlias = (
    Wish
    | Terms
    | ReceiptBody
    | HoldBody
    | RejectBody
    | WithdrawBody
    | EventBody
    | QueryBody
    | AnswerBody
    | RelayBody
)
Payload: TypeAlias = (
    negotiation_pb2.Move | negotiation_pb2.Commitment | negotiation_pb2.Receipt | negotiation_pb2.Event
)


@dataclass(frozen=True, slots=True)
class Message:
    """What the rules need of one verified message.

    `sender` and `recipient` are subject ids. For an ACCEPT they are the acceptor and the offerer,
    `in_reply_to` is the commitment's own mid, and the two times are the offer's, since its bytes are the
    offer's. `supersedes`, of a wish or an offer, is the mid of the commitment whose place it takes. `parties`
    is empty but for a commitment of more than two, whose parties it lists, offerer first. `hops`, of a
    thread's first message: how many agents have passed on what led to it.
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
    supersedes: bytes = b""
    parties: tuple[str, ...] = ()
    hops: int = 0

    @property
    def identity(self) -> tuple[bytes, Move]:
        """(mid, move): equal for a retransmission, different for an OFFER and its ACCEPT."""
        return self.mid, self.move


def describe(payload: Payload, *, mid: bytes, signatures: int, signer: int | None = None) -> Message:
    """Read one parsed payload that `signatures` parties signed; raises ProtocolError(MALFORMED).

    Of a commitment with more than two parties, `signer` says which of them (1 for the second) signed beside
    the offerer: with its one signature the message is that party's ACCEPT, its vote; with all signatures, and
    no `signer`, it is the complete commitment, as the ACCEPT of the second party.
    """
    if isinstance(payload, negotiation_pb2.Commitment):
        return _describe_commitment(payload, mid, signatures, signer)
    if signatures != 1:
        raise malformed(
            "NEG-01", f"Only a commitment is signed by more than its sender, not by {signatures} parties"
        )
    if isinstance(payload, negotiation_pb2.Receipt):
        return _message(Move.RECEIPT, payload.header, mid, _read_receipt(payload))
    if isinstance(payload, negotiation_pb2.Event):
        return _message(Move.EVENT, payload.header, mid, _read_event(payload))
    step = payload.WhichOneof("step")
    if step is None:
        raise malformed("NEG-01", "The message has no step")
    move = Move[step.upper()]
    supersedes = b""
    if move in (Move.PROPOSE, Move.COUNTER):
        supersedes = _read_superseded(getattr(payload, step).supersedes)
    return _message(move, payload.header, mid, _read_step(move, payload), supersedes)


def compose(
    move: Move,
    body: Body,
    header: envelope_pb2.Header,
    parties: tuple[negotiation_pb2.Party, ...] = (),
    supersedes: bytes = b"",
) -> Payload:
    """The payload to sign. `parties`, offerer first, is for an OFFER; an ACCEPT is a cosignature, never
    composed."""
    pb = negotiation_pb2
    match move, body:
        case (Move.PROPOSE, Wish()):
            propose = pb.Propose(supersedes=supersedes)
            getattr(propose, body.kind).CopyFrom(body.to_pb())
            return pb.Move(header=header, propose=propose)
        case (Move.COUNTER, Wish()):
            counter = pb.Counter(supersedes=supersedes)
            getattr(counter, body.kind).CopyFrom(body.to_pb())
            return pb.Move(header=header, counter=counter)
        case (Move.OFFER, Terms()):
            commitment = pb.Commitment(header=header, parties=parties, supersedes=supersedes)
            getattr(commitment, body.kind).CopyFrom(body.to_pb())
            return commitment
        case (Move.RECEIPT, ReceiptBody()):
            return pb.Receipt(
                header=header,
                mid=body.mid,
                log=body.log,
                index=body.index,
                leaf_time_ms=body.leaf_time_ms,
                commitment=body.commitment,
            )
        case (Move.HOLD, HoldBody()):
            return pb.Move(header=header, hold=pb.Hold(deadline_ms=body.deadline_ms))
        case (Move.REJECT, RejectBody()):
            return pb.Move(header=header, reject=pb.Reject(reason=body.reason, sentence=body.sentence))
        case (Move.EVENT, EventBody()):
            return _event_to_pb(header, body)
        case (Move.WITHDRAW, WithdrawBody()):
            return pb.Move(header=header, withdraw=pb.Withdraw(mid=body.mid))
        case (Move.QUERY, QueryBody()):
            return pb.Move(header=header, query=queries.query_to_pb(body))
        case (Move.ANSWER, AnswerBody()):
            return pb.Move(header=header, answer=queries.answer_to_pb(body))
        case (Move.RELAY, RelayBody()):
            return pb.Move(header=header, relay=pb.Relay(envelope=body.envelope))
    raise TypeError(f"{move.name} is not composed from a {type(body).__name__}")


def _describe_commitment(
    payload: negotiation_pb2.Commitment, mid: bytes, signatures: int, signer: int | None
) -> Message:
    subjects = tuple(party.subject_id for party in payload.parties)
    if not 2 <= len(subjects) <= MAX_PARTIES or len(set(subjects)) != len(subjects):
        raise malformed("NEG-06", f"A commitment has 2 to {MAX_PARTIES} different parties")
    if (payload.header.sender_subject, payload.header.recipient_subject) != subjects[:2]:
        raise malformed("NEG-06", "The offerer is the first party and sends to the second")
    terms = read_terms(payload)
    if len(subjects) > kind_of(terms).parties:
        raise malformed("NEG-06", f"A {kind_of(terms).noun} is between {kind_of(terms).parties} parties")
    supersedes = _read_superseded(payload.supersedes)
    parties = subjects if len(subjects) > 2 else ()
    offer = _message(Move.OFFER, payload.header, mid, terms, supersedes, parties)
    if offer.expires_at_ms - offer.issued_at_ms > MAX_OFFER_LIFE_MS:
        raise malformed("NEG-05", "An offer lives at most 24 hours")
    if signatures == 1 and signer is None:
        return offer
    acceptor = _acceptor(subjects, signatures, signer)
    return Message(
        mid,
        Move.ACCEPT,
        acceptor,
        offer.sender,
        offer.thread,
        mid,
        offer.issued_at_ms,
        offer.expires_at_ms,
        terms,
        supersedes,
        parties,
    )


def _acceptor(subjects: tuple[str, ...], signatures: int, signer: int | None) -> str:
    """Whose ACCEPT it is (NEG-08): that of the one party that signed beside the offerer, or of all."""
    if signer is None and signatures == len(subjects):
        return subjects[1]
    if signer is not None and signatures == 2 and 1 <= signer < len(subjects):
        return subjects[signer]
    rule = "NEG-08" if len(subjects) > 2 else "NEG-01"
    raise malformed(rule, f"A commitment of {len(subjects)} is not signed by {signatures} of them")


def _message(
    move: Move,
    header: envelope_pb2.Header,
    mid: bytes,
    body: Body,
    supersedes: bytes = b"",
    parties: tuple[str, ...] = (),
) -> Message:
    if not header.sender_subject or not header.recipient_subject:
        raise malformed("NEG-06", "The message does not name both its subjects")
    if header.sender_subject == header.recipient_subject:
        raise malformed("NEG-06", "Nobody negotiates with themselves")
    if header.hops and move not in (Move.PROPOSE, Move.OFFER, Move.QUERY):
        raise malformed("HDR-07", "Only what begins a thread counts hops")
    if len(header.thread) != 16 or len(header.in_reply_to) not in (0, 32) or len(mid) != 32:
        raise malformed("NEG-01", "A thread id has 16 bytes and a message id 32")
    check_span("NEG-05", "The message's life", header.issued_at_ms, header.expires_at_ms)
    if isinstance(body, HoldBody):
        check_span("NEG-07", "The hold", header.issued_at_ms, body.deadline_ms)
        if body.deadline_ms - header.issued_at_ms > MAX_HOLD_MS:
            raise malformed("NEG-07", "A hold lasts at most 7 days")
    if move in (Move.QUERY, Move.ANSWER) and (move is Move.ANSWER) != bool(header.in_reply_to):
        raise malformed("QRY-02", "A query answers nothing, and an answer one query")
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
        supersedes=supersedes,
        parties=parties,
        hops=header.hops,
    )


def _read_step(move: Move, payload: negotiation_pb2.Move) -> Body:
    match move:
        case Move.PROPOSE:
            return read_wish(payload.propose)
        case Move.COUNTER:
            return read_wish(payload.counter)
        case Move.HOLD:
            return HoldBody(payload.hold.deadline_ms)
        case Move.REJECT:
            refusal = RejectBody(payload.reject.reason, payload.reject.sentence)
            refusal.check()
            return refusal
        case Move.QUERY:
            return queries.read_query(payload.query)
        case Move.ANSWER:
            return queries.read_answer(payload.answer)
        case Move.RELAY:
            return RelayBody(payload.relay.envelope)
        case _:
            check_ids("NEG-01", payload.withdraw.mid)
            return WithdrawBody(payload.withdraw.mid)


def _read_superseded(mid: bytes) -> bytes:
    if mid:
        check_ids("NEG-01", mid)
    return mid


def _read_receipt(payload: negotiation_pb2.Receipt) -> ReceiptBody:
    check_text("ledger's origin", payload.log, MAX_LOG, required=True)
    if not 0 < payload.leaf_time_ms < END_OF_TIME_MS:
        raise malformed("NEG-01", "The receipt has no leaf time")
    check_ids("NEG-01", payload.mid)
    return ReceiptBody(payload.mid, payload.log, payload.index, payload.leaf_time_ms, payload.commitment)


def _read_event(payload: negotiation_pb2.Event) -> EventBody:
    name = negotiation_pb2.EventKind.Name(payload.kind) if payload.kind in _EVENT_KINDS else ""
    if not name:
        raise malformed("LIF-01", f"Kind {payload.kind} of event is not known")
    kind = EventKind(name.removeprefix("EVENT_KIND_"))
    check_ids("LIF-01", payload.commitment, payload.prev, *payload.requests)
    if payload.header.in_reply_to != payload.prev:
        raise malformed("LIF-01", "An event answers the event before it")
    if len(payload.requests) >= MAX_PARTIES or (payload.requests and not payload.seq):
        raise malformed("LIF-01", f"An event grants fewer than {MAX_PARTIES} requests, a request none")
    named = {EventKind.SUPERSEDE: (32,), EventKind.OMIT: (0, 32)}.get(kind, (0,))
    if len(payload.superseded_by) not in named:
        raise malformed("LIF-01", "A SUPERSEDE or OMIT, and nothing else, names the commitment that follows")
    if (kind is EventKind.OMIT) != bool(payload.time_ms):
        raise malformed("LIF-01", "An OMIT, and nothing else, has a time")
    if (kind is EventKind.POST) != bool(payload.posted_minor):
        raise malformed("LIF-01", "A POST, and nothing else, has an amount")
    if payload.outcome and kind is not EventKind.FULFIL:
        raise malformed("LIF-01", "Nothing but a FULFIL has an outcome")
    check_said(payload.reason, payload.sentence, payload.outcome)
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
        payload.outcome,
        payload.time_ms,
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
        outcome=body.outcome,
        time_ms=body.time_ms,
    )
