"""What a receipt file shows, judged by a mirror of the registry alone: at any later time, without a node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from indai.client.audit.findings import Findings
from indai.client.audit.registry import KeyHistory, replay_registry
from indai.client.audit.report import Severity
from indai.client.audit.signatures import Fault, SignatureCheck
from indai.client.exports import ledger_node
from indai.client.receiptfile import ReceiptFile
from indai.client.receipts import Proved, verify_receipt
from indai.protocol.checkpoint import read_checkpoint
from indai.protocol.cosereceipt import CoseReceipt
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.tlogpolicy import TlogPolicy
from indai.protocol.tlogproof import TlogProof
from indai.protocol.wire import strict_parse
from indai.v1 import negotiation_pb2


@dataclass(frozen=True, slots=True)
class Shown:
    """A receipt that holds. `what` is `commitment`, `event`, or empty when its content is not shown.

    `parties` are those of a commitment, in their order, or sender and recipient of an event; `contested` says
    whose key was ended by an operation that reaches back to it, and is empty for most.
    """

    proved: Proved
    what: str = ""
    mid: bytes = b""
    parties: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()


def key_history(mirror: Path, trust: TlogPolicy | None) -> KeyHistory:
    """The keys that a mirror of the registry shows; raises InvalidInput when the mirror can't be believed."""
    findings = Findings()
    history, _ = replay_registry(mirror, trust, findings, lambda file, done: None)
    wrong = next((one for one in findings.found if one.severity is not Severity.NOTE), None)
    if history is None or wrong is not None:
        why = wrong.message if wrong else "It has no signed head."
        message = f"The mirror {mirror.name} cannot be believed: {why}"
        raise InvalidInput(Reason.INVALID_EXPORT, message, hint="make another: indai registry export")
    return history


def check_receipt(receipt: ReceiptFile, history: KeyHistory) -> Shown:
    """Verify everything in the file; raises ProtocolError (as `verify_receipt`, BAD_PROOF, BAD_SIGNATURE)."""
    proofs = [raw for raw in (receipt.tlog_proof, receipt.cose) if raw]
    proved = [verify_receipt(raw, receipt.leaf, history.ledgers(ledger_node(_log_of(raw)))) for raw in proofs]
    if len({(one.log, one.index) for one in proved}) != 1:
        raise ProtocolError(Reason.BAD_PROOF, "The two encodings are of different places.")
    if not receipt.envelope:
        return Shown(proved[0])
    if not proved[0].leaf.opens(receipt.opening, receipt.envelope):
        raise ProtocolError(Reason.BAD_PROOF, "The content shown is not the one that this leaf stands for.")
    return _signed(receipt, proved[0], history)


def _signed(receipt: ReceiptFile, proved: Proved, history: KeyHistory) -> Shown:
    envelope, check = parse_envelope(receipt.envelope), SignatureCheck(history)
    payload: negotiation_pb2.Commitment | negotiation_pb2.Event
    parties: tuple[str, ...]
    if envelope.kind == "event":
        payload = strict_parse(negotiation_pb2.Event, envelope.payload)
        parties = (payload.header.sender, payload.header.recipient)
        faults = check.message(envelope, payload.header, payload.header.issued_at_ms)
    else:
        payload = strict_parse(negotiation_pb2.Commitment, envelope.payload)
        parties = tuple(party.handle for party in payload.parties)
        faults = check.commitment(envelope, payload, proved.leaf.time_ms)
        if len(envelope.signatures) != len(parties):
            faults.append(Fault("parties", "not every party has signed"))
    if payload.header.network != history.network:
        faults.append(Fault("parties", f"it is of another network, {payload.header.network}"))
    broken = next((fault for fault in faults if not fault.contested), None)
    if broken is not None:
        raise ProtocolError(Reason.BAD_SIGNATURE, f"The {envelope.kind} does not hold: {broken.words}.")
    contested = tuple(fault.words for fault in faults)
    return Shown(proved, envelope.kind, envelope.mid, parties, contested)


def _log_of(raw: bytes) -> str:
    if raw.startswith(b"c2sp.org/tlog-proof@"):
        return read_checkpoint(TlogProof.parse(raw).checkpoint).origin
    return CoseReceipt.parse(raw).log
