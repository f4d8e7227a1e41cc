"""Replays one owner's copy of a thread of several (`docs/groups.md`): questions, the one offer, votes, word.

The coordinator's copy is as many threads of two as there are members, and each is replayed as what the
member sees; a member's copy is one of them. What was elected follows from the answers (GRP-05), and what was
relayed is, byte for byte, what stands in the thread (GRP-01).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from indai.protocol.ballots import BallotAnswer, BallotQuery, CallQuery
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.group.board import Ask, Board, Said, Settle, elect
from indai.protocol.group.signing import check_complete, signer_of
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetTerms
from indai.protocol.messages import (
    AnswerBody,
    Message,
    Move,
    Payload,
    QueryBody,
    RejectBody,
    RelayBody,
    describe,
)
from indai.protocol.negotiation import Thread, apply, open_thread
from indai.protocol.queries import WindowsAnswer, answers
from indai.v1 import negotiation_pb2 as pb

Question: TypeAlias = CallQuery | BallotQuery


@dataclass(frozen=True, slots=True)
class Between:
    """Handles: whose word a message is, and whom it may have reached."""

    sender: str
    recipients: frozenset[str]


def of_several(payload: Payload) -> bool:
    """Whether a thread that begins with this message is one of several."""
    if isinstance(payload, pb.Commitment):
        return len(payload.parties) > 2
    return isinstance(payload, pb.Move) and payload.WhichOneof("step") in ("query", "answer")


def between(payload: Payload, envelope: Envelope, parties: Mapping[str, str]) -> Between:
    """Who speaks to whom. `parties`: subjects by handle, of the offer to several that stands in this thread;
    raises ProtocolError for a RECEIPT that carries no whole commitment."""
    header = payload.header
    named = Between(header.sender, frozenset({header.recipient}))
    if isinstance(payload, pb.Commitment):
        if len(payload.parties) == 2:
            swapped = Between(header.recipient, frozenset({header.sender}))
            return swapped if len(envelope.signatures) > 1 else named
        if len(envelope.signatures) == 1:
            return Between(header.sender, frozenset(party.handle for party in payload.parties[1:]))
        voter = payload.parties[signer_of(payload, envelope) or 1]
        return Between(voter.handle, frozenset({header.sender}))
    if isinstance(payload, pb.Receipt) and payload.commitment:
        whole = check_complete(parse_envelope(payload.commitment), payload.mid, header.sender_subject)
        return Between(header.sender, frozenset(party.handle for party in whole.parties[1:]))
    released = isinstance(payload, pb.Move) and payload.WhichOneof("step") == "withdraw"
    if (released and header.sender == next(iter(parties), "")) or isinstance(payload, pb.Event):
        return replace(named, recipients=named.recipients | (parties.keys() - {header.sender}))
    return named


@dataclass(slots=True)
class SeveralReplay:
    """One thread as `owner`, a handle, holds it. `take` raises ProtocolError for what is not legal."""

    owner: str
    parties: dict[str, str] = field(default_factory=dict)  # subjects by handle, the coordinator first
    offer: Message | None = None
    _questions: dict[bytes, tuple[str, str, Question]] = field(default_factory=dict)  # whom: subject, handle
    _said: dict[bytes, Said | None] = field(default_factory=dict)  # by question; None: refused
    _threads: dict[str, Thread] = field(default_factory=dict)  # by the member's subject
    _raw: dict[bytes, bytes] = field(default_factory=dict)

    def take(self, message: Message, payload: Payload, envelope: Envelope) -> None:
        """The next message. One that is not legal is known all the same: what follows is not to blame."""
        if message.move is not Move.ACCEPT:
            self._raw[message.mid] = envelope.raw
        match message.move:
            case Move.QUERY:
                self._ask(message, payload)
            case Move.ANSWER:
                self._answer(message)
            case Move.RELAY:
                self._relay(message, payload)
            case Move.OFFER:
                self._begin(message, payload)
            case Move.ACCEPT if len(envelope.signatures) > 2:
                self._all_signed(message, payload)
            case _:
                self._advance(message)

    def keep(self, mid: bytes, raw: bytes) -> None:
        """An event: it is judged with its commitment, and may be relayed."""
        self._raw[mid] = raw

    # Questions, which only the coordinator's copy has

    def _ask(self, message: Message, payload: Payload) -> None:
        about = message.body.about if isinstance(message.body, QueryBody) else None
        if not isinstance(about, CallQuery | BallotQuery) or self.offer is not None:
            raise _wrong("QRY-02", "The question is none for a meeting of several")
        handle = payload.header.recipient
        first = next(iter(self._questions.values()), None)
        if about.attendees[0] != self.owner or handle not in about.attendees[1:]:
            raise _wrong("QRY-01", "A coordinator names itself first, and whom it asks among the others")
        if first is not None and first[2].attendees != about.attendees:
            raise _wrong("QRY-01", "Not all were asked about the same meeting")
        self._questions[message.mid] = (message.recipient, handle, about)

    def _answer(self, message: Message) -> None:
        asked = self._questions.get(message.in_reply_to)
        if asked is None or message.in_reply_to in self._said or self.offer is not None:
            raise _wrong("QRY-03", "The answer is to no question that is open")
        subject, _, about = asked
        body = message.body
        if (
            subject != message.sender
            or not isinstance(body, AnswerBody)
            or not answers(QueryBody(about), body)
        ):
            raise _wrong("QRY-03", "The answer is not to what was asked")
        said = Said(Ask(subject, isinstance(about, BallotQuery), about.wish.windows), message.mid)
        match body.told:
            case WindowsAnswer(windows):
                self._said[message.in_reply_to] = replace(said, windows=windows)
            case BallotAnswer(ordinals):
                self._said[message.in_reply_to] = replace(said, ordinals=ordinals)
            case RejectBody():
                self._said[message.in_reply_to] = None

    def _check_elected(self, message: Message) -> None:
        """The slot offered is the one that the answers elect; where no question is shown, nothing."""
        if not self._questions:
            return
        asked = {handle: subject for subject, handle, _ in self._questions.values()}
        said = [one for one in self._said.values() if one is not None]
        if len(said) != len(self._questions) or asked.keys() != self.parties.keys() - {self.owner}:
            raise _wrong("GRP-05", "The offer was made before everybody had answered")
        terms, wish = message.body, next(iter(self._questions.values()))[2].wish
        if not isinstance(terms, MeetTerms):
            raise _wrong("GRP-01", "What is offered to several is a meeting")
        slot = Window(terms.start_ms, terms.end_ms)
        board = Board(message.thread, wish, tuple(asked.values()), tuple(said))
        if board.voted():
            elected = elect(board) == Settle(slot)
        else:
            elected = all(any(_inside(slot, window) for window in one.windows) for one in said)
        if not elected:
            raise _wrong("GRP-05", "What is offered is not what the answers elect")

    # The offer and what follows

    def _begin(self, message: Message, payload: Payload) -> None:
        if self.offer is not None or not isinstance(payload, pb.Commitment) or not message.parties:
            raise _wrong("GRP-01", "There is one offer to several in a thread")
        self.parties = {party.handle: party.subject_id for party in payload.parties}
        members = [self.parties[handle] for handle in self._members()]
        self._threads = {member: open_thread(replace(message, recipient=member)) for member in members}
        self.offer = message
        if self.owner == payload.parties[0].handle:
            self._check_elected(message)

    def _members(self) -> list[str]:
        """The members whose threads this copy shows."""
        others = list(self.parties)[1:]
        return [self.owner] if self.owner in others else others

    def _all_signed(self, message: Message, payload: Payload) -> None:
        """Each member's vote, out of the commitment with all signatures."""
        for place in range(1, len(message.parties)):
            self._advance(describe(payload, mid=message.mid, signatures=2, signer=place))

    def _advance(self, message: Message) -> None:
        """In the member's thread or, what the coordinator says, in all."""
        if self.offer is None:
            raise _wrong(
                "NEG-10", f"The {message.move.name} answers a thread unknown here", Reason.OUT_OF_ORDER
            )
        from_coordinator = message.sender == self.offer.sender
        members = list(self._threads) if from_coordinator else [message.sender]
        for member in members:
            if member not in self._threads:
                raise _wrong("GRP-01", "The message is of nobody who was asked")
            thread, said = self._threads[member], message
            if from_coordinator:
                said = replace(message, recipient=member)
            if thread.find(*said.identity):
                raise _wrong("NEG-22", "The message stands twice in its thread")
            # When it arrived is nobody's signed word: the leaf that followed judges an ACCEPT's time.
            self._threads[member] = apply(thread, said, said.expires_at_ms)

    def _relay(self, message: Message, payload: Payload) -> None:
        header = payload.header
        carried = parse_envelope(message.body.envelope) if isinstance(message.body, RelayBody) else None
        if carried is None or self._raw.get(carried.mid) != carried.raw:
            raise _wrong("GRP-01", "What is relayed does not stand in the thread")
        if self.parties.get(header.recipient) != message.recipient or header.recipient == header.sender:
            raise _wrong("GRP-01", "It is relayed to nobody whom it concerns")


def _inside(slot: Window, window: Window) -> bool:
    return window.start_ms <= slot.start_ms and slot.end_ms <= window.end_ms


def _wrong(rule: str, what: str, reason: Reason = Reason.ILLEGAL_MOVE) -> ProtocolError:
    return ProtocolError(reason, what + ".", rule=rule)
