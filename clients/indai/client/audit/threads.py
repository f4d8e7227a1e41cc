"""Replays every thread through the protocol's own state machine, message by message, as its owner holds
it.
"""

from __future__ import annotations

from indai.client.audit.facts import Happened, Held, Ledger, Said, Transcripts
from indai.client.audit.findings import Findings
from indai.client.audit.report import Place, Severity
from indai.client.audit.several import SeveralReplay, between, of_several
from indai.client.audit.signatures import SignatureCheck
from indai.client.exports import OUT, MessageLine
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.group.signing import read
from indai.protocol.header import check_form
from indai.protocol.kinds.table import KINDS, kind_of
from indai.protocol.messages import Message, Move, Payload
from indai.protocol.negotiation import Thread, apply, open_thread
from indai.protocol.wire import strict_parse
from indai.v1 import negotiation_pb2

_PAYLOADS: dict[str, type[Payload]] = {
    "move": negotiation_pb2.Move,
    "commitment": negotiation_pb2.Commitment,
    "receipt": negotiation_pb2.Receipt,
    "event": negotiation_pb2.Event,
}


MEETING = "meet"
ThreadKey = tuple[str, bytes]  # whose copy, and the thread's id


class ThreadReader:
    """Reads the message lines of one export: threads one after the other, each oldest message first."""

    def __init__(
        self, ledger: Ledger, transcripts: Transcripts, signatures: SignatureCheck, findings: Findings
    ) -> None:
        self._ledger, self._transcripts = ledger, transcripts
        self._signatures, self._findings = signatures, findings
        self._current: tuple[str, bytes] = ("", b"")
        self.seen: dict[ThreadKey, Place] = {}
        self._thread: Thread | None = None
        self._several: SeveralReplay | None = None

    def message(self, line: int, record: MessageLine) -> None:
        """The next message line."""
        place = Place(self._ledger.file, line)
        self._transcripts.messages += 1
        if (record.owner, record.thread) != self._current:
            self._begin(record, place)
        try:
            envelope = parse_envelope(record.envelope)
            payload = _payload(envelope)
            message = read(payload, envelope)
            if self._thread is None and self._several is None and of_several(payload):
                self._several = SeveralReplay(record.owner)
            self._check_line(record, envelope, payload)
            if isinstance(payload, negotiation_pb2.Event):
                if self._several is not None:
                    self._several.keep(envelope.mid, envelope.raw)
                # Judged with its commitment, where its signature is checked too.
                happened = Happened(record.owner, message, place, 0, record.envelope)
                self._transcripts.events.append(happened)
                return
            valid = self._check_signatures(envelope, payload, place)
            self._advance(message, payload, envelope)
        except IndaiError as error:
            self._findings.add(Severity.INVALID, "transcript", place, error.message, record.mid)
            return
        if valid:
            self._remember(Said(message, place, record.envelope), record.owner, payload)

    def _begin(self, record: MessageLine, place: Place) -> None:
        self._current, self._thread, self._several = (record.owner, record.thread), None, None
        if self._current in self.seen:
            message = f"The thread {record.thread.hex()} of {record.owner} stands in two places."
            self._findings.add(Severity.INVALID, "transcript", place, message)
        self.seen.setdefault(self._current, place)
        self._transcripts.threads += 1

    def _check_line(self, record: MessageLine, envelope: Envelope, payload: Payload) -> None:
        """What the line says about the message is what the message says."""
        header = payload.header
        check_form(header)
        if envelope.mid != record.mid or header.thread != record.thread:
            raise _wrong("the message is not the one, or not of the thread, that its line names")
        if self._signatures.network not in (None, header.network):
            raise _wrong(f"the message is of network {header.network}")
        who = between(payload, envelope, self._several.parties if self._several else {})
        owners = {who.sender} if record.direction == OUT else who.recipients
        if record.owner not in owners or not self._ledger.shows(record.owner):
            raise _wrong(f"the message is not one of {record.owner} in this direction")

    def _check_signatures(self, envelope: Envelope, payload: Payload, place: Place) -> bool:
        """Whether all signatures count. One of a commitment is judged again at the time of its leaf."""
        header = payload.header
        if isinstance(payload, negotiation_pb2.Commitment):
            faults = self._signatures.commitment(envelope, payload, header.issued_at_ms)
        else:
            faults = self._signatures.message(envelope, header, header.issued_at_ms, self._intent(payload))
        for fault in faults:
            self._findings.add(
                Severity.INVALID, fault.check, place, f"In a thread: {fault.words}.", envelope.mid
            )
        return all(fault.contested for fault in faults)

    def _intent(self, payload: Payload) -> str:
        """The kind of intent that the thread is about, by its first message."""
        if self._thread is not None:
            return kind_of(self._thread.subject_matter).intent
        if self._several is not None:
            return MEETING if self._several.offer is not None else ""
        name = None
        if isinstance(payload, negotiation_pb2.Move):
            name = payload.propose.WhichOneof("terms")
        return KINDS[name].intent if name else ""

    def _advance(self, message: Message, payload: Payload, envelope: Envelope) -> None:
        if self._several is not None:
            self._several.take(message, payload, envelope)
        elif self._thread is None:
            self._thread = open_thread(message)
        elif self._thread.find(*message.identity):
            raise _wrong("the message stands twice in its thread")
        else:
            # When it arrived is nobody's signed word; an ACCEPT's time is judged by the leaf that
            # followed it.
            self._thread = apply(self._thread, message, message.expires_at_ms)

    def _remember(self, said: Said, owner: str, payload: Payload) -> None:
        message = said.message
        held = Held(owner, message.mid, said.place, message.issued_at_ms, said.raw)
        if isinstance(payload, negotiation_pb2.Commitment) and message.move is Move.ACCEPT:
            voted = len(payload.parties) > 2 and owner != payload.parties[0].handle
            (self._transcripts.votes if voted else self._transcripts.accepted)[message.mid].append(held)
        elif said.receipt is not None:
            self._transcripts.receipts[said.receipt.mid].append(said)
            if said.receipt.commitment:
                carried = Held(owner, said.receipt.mid, said.place, held.time_ms, said.receipt.commitment)
                self._transcripts.accepted[said.receipt.mid].append(carried)
        elif (offer := self._refused(message)) is not None:
            self._transcripts.refusals[offer.mid].append(said)

    def _refused(self, message: Message) -> Message | None:
        """The offer that its own offerer refuses to keep: by a REJECT or, of several, by the release."""
        if self._several is not None:
            offer, word = self._several.offer, Move.WITHDRAW
        else:
            offer, word = self._thread.offer if self._thread else None, Move.REJECT
        refused = offer is not None and message.move is word and offer.sender == message.sender
        return offer if refused else None


def _payload(envelope: Envelope) -> Payload:
    payload_class = _PAYLOADS.get(envelope.kind)
    if payload_class is None:
        raise _wrong(f"a {envelope.kind} is no message of a thread")
    return strict_parse(payload_class, envelope.payload)


def _wrong(why: str) -> ProtocolError:
    return ProtocolError(Reason.ILLEGAL_MOVE, why[:1].upper() + why[1:] + ".")
