"""Reads one ledger's leaves: opens every content shown, and takes note of what it says."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message
from indai.client.audit.facts import Decided, Erased, Happened, Held, Ledger, Successor
from indai.client.audit.findings import Findings
from indai.client.audit.policies import PolicyReplay
from indai.client.audit.report import Place, Severity
from indai.client.exports import ErasedLeafLine, LeafLine, OpenLeafLine
from indai.protocol.envelope import Envelope, message_id, parse_envelope, payload_type
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.header import MAX_SKEW_MS, check_form
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.protocol.messages import describe
from indai.protocol.wire import strict_parse
from indai.v1 import envelope_pb2, negotiation_pb2, policy_pb2

MAX_CONTENT = 1024 * 1024

M = TypeVar("M", bound=Message)


class ContentReader:
    """Fills a `Ledger` leaf by leaf, in the order of the log."""

    def __init__(
        self, ledger: Ledger, findings: Findings, policies: PolicyReplay, newest_ms: int = 0
    ) -> None:
        self._ledger, self._findings = ledger, findings
        self._policies = policies
        self._newest_ms = newest_ms

    def take(self, line: int, record: LeafLine | ErasedLeafLine | OpenLeafLine) -> None:
        """The next leaf."""
        if isinstance(record, OpenLeafLine):
            self.opened(line, record)
        elif isinstance(record, ErasedLeafLine):
            self.erased(line, record)
        else:
            self.closed(line, record)

    def erased(self, line: int, record: ErasedLeafLine) -> None:
        """A leaf whose content is said to be erased."""
        self.closed(line, record)
        self._ledger.erased[record.index] = Erased(record.owner, record.mid, record.about)
        if record.about:
            self._ledger.erasures.setdefault((record.owner, record.mid), record.index)

    def closed(self, line: int, record: LeafLine | ErasedLeafLine) -> None:
        """A leaf without its content."""
        if self._leaf(Place(self._ledger.file, line, record.index), record.leaf) is not None:
            self._ledger.closed.add(record.index)

    def opened(self, line: int, record: OpenLeafLine) -> None:
        """A leaf with its content."""
        place = Place(self._ledger.file, line, record.index)
        leaf = self._leaf(place, record.leaf)
        if leaf is None:
            return
        if len(record.opening) != 32 or not leaf.opens(record.opening, record.envelope):
            self._invalid("opening", place, "The content shown is not the one this leaf stands for.", record)
            return
        try:
            if not self._ledger.shows(record.owner):
                raise _wrong(f"It is of {record.owner}, whose export this is not")
            self._read(leaf, record, place)
        except IndaiError as error:
            # What lies about itself is not used for anything else.
            self._invalid("content", place, f"The content does not belong here: {error.message}", record)
            return
        self._ledger.at[record.index] = (record.owner, record.mid)

    def _leaf(self, place: Place, data: bytes) -> LedgerLeaf | None:
        """The parsed leaf; kind 0 and time 0 stand for one that cannot be parsed."""
        try:
            leaf = LedgerLeaf.parse(data)
        except IndaiError as error:
            self._findings.add(Severity.INVALID, "leaf", place, error.message)
            leaf = None
        self._ledger.kinds.append(leaf.kind if leaf else 0)
        self._ledger.times.append(leaf.time_ms if leaf else 0)
        if leaf and leaf.time_ms < self._newest_ms - MAX_SKEW_MS:
            message = "The leaf's time lies more than two minutes before that of a leaf in front of it."
            self._findings.add(Severity.INVALID, "leaf", place, message)
        self._newest_ms = max(self._newest_ms, leaf.time_ms if leaf else 0)
        return leaf

    def _read(self, leaf: LedgerLeaf, record: OpenLeafLine, place: Place) -> None:
        if leaf.kind is LeafKind.COMMITMENT:
            self._hold(leaf, record, place)
        elif leaf.kind is LeafKind.DECISION:
            decision = _unsigned(policy_pb2.DecisionRecord, "decision", record.envelope)
            _check_named(record, decision.owner, decision.mid)
            self._decided(self._policies.decide(decision, place))
        elif leaf.kind is LeafKind.POLICY_VERSION:
            activation = _unsigned(policy_pb2.PolicyActivation, "policy-version", record.envelope)
            mid = message_id(payload_type("policy-version"), _payload(record.envelope))
            _check_named(record, activation.owner, mid)
            self._policies.activate(activation, place)
        else:
            raise _wrong(f"Leaves of kind {leaf.kind} do not stand in a ledger")

    def _hold(self, leaf: LedgerLeaf, record: OpenLeafLine, place: Place) -> None:
        envelope = parse_envelope(record.envelope)
        if envelope.kind == "event":
            self._happen(envelope, leaf, record, place)
            return
        if envelope.kind != "commitment":
            raise _wrong(f"It is a {envelope.kind}, no commitment")
        commitment = strict_parse(negotiation_pb2.Commitment, envelope.payload)
        _check_named(record, record.owner, envelope.mid)
        if record.owner not in [party.handle for party in commitment.parties]:
            raise _wrong(f"{record.owner} is no party of the commitment")
        key = (record.owner, envelope.mid)
        if key in self._ledger.held:
            self._twice(record.owner, place, self._ledger.held[key].place, record.mid)
            return
        if commitment.supersedes and len(envelope.signatures) == len(commitment.parties):
            parties = frozenset(party.subject_id for party in commitment.parties)
            self._ledger.successors.setdefault(commitment.supersedes, set()).add(
                Successor(envelope.mid, parties, record.owner, place, commitment.meet.instead_of_ms)
            )
        self._ledger.held[key] = Held(record.owner, envelope.mid, place, leaf.time_ms, record.envelope)

    def _happen(self, envelope: Envelope, leaf: LedgerLeaf, record: OpenLeafLine, place: Place) -> None:
        event = strict_parse(negotiation_pb2.Event, envelope.payload)
        message = describe(event, mid=envelope.mid, signatures=len(envelope.signatures))
        check_form(event.header)
        _check_named(record, record.owner, envelope.mid)
        if not event.seq:
            raise _wrong("A request is no event of a ledger")
        key = (record.owner, envelope.mid)
        if key in self._ledger.events:
            self._twice(record.owner, place, self._ledger.events[key].place, record.mid)
            return
        if record.owner not in (event.header.sender, event.header.recipient):
            self._ledger.bystanders.add(key)  # of several, perhaps: judged with the commitment
        self._ledger.events[key] = Happened(record.owner, message, place, leaf.time_ms, record.envelope)

    def _decided(self, decided: Decided) -> None:
        known = self._ledger.decided.setdefault((decided.owner, decided.mid), decided)
        if known is not decided:
            self._twice(decided.owner, decided.place, known.place, decided.mid)

    def _twice(self, owner: str, place: Place, first: Place, mid: bytes) -> None:
        message = f"{owner} has a second leaf of this kind for this message; the first is in {first}."
        self._findings.add(Severity.INVALID, "twice", place, message, mid)

    def _invalid(self, check: str, place: Place, message: str, record: OpenLeafLine) -> None:
        self._findings.add(Severity.INVALID, check, place, message, record.mid)


def _payload(raw: bytes) -> bytes:
    return strict_parse(envelope_pb2.Envelope, raw, limit=MAX_CONTENT).payload


def _unsigned(message_class: type[M], kind: str, raw: bytes) -> M:
    """The payload of an envelope that nobody signs; raises ProtocolError."""
    envelope = strict_parse(envelope_pb2.Envelope, raw, limit=MAX_CONTENT)
    if envelope.payload_type != payload_type(kind) or envelope.signatures:
        raise _wrong(f"It is not an unsigned {kind}")
    return strict_parse(message_class, envelope.payload, limit=MAX_CONTENT)


def _check_named(record: OpenLeafLine, owner: str, mid: bytes) -> None:
    if (owner, mid) != (record.owner, record.mid):
        raise _wrong("The line's owner or mid is not the content's own")


def _wrong(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, why + ".")
