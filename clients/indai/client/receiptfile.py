"""A receipt as one file that is checked without a node: `indai-receipt/v1`.

It holds what a ledger says about one leaf: the inclusion receipt in one or both encodings (C2SP tlog-proof,
COSE of RFC 9942), the leaf, and, unless the content is erased or withheld, what opens it to the exact signed
bytes. An export holds every leaf under a signed head, so a receipt can be cut out of one with no node at
all.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from pathlib import Path

from indai.client.exports import CheckpointLine, ErasedLeafLine, LeafLine, OpenLeafLine, read_export
from indai.protocol.checkpoint import read_checkpoint
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.protocol.merkle import inclusion_proof, leaf_hash
from indai.protocol.quoting import quoted
from indai.protocol.tlogproof import TlogProof

FORMAT = "indai-receipt/v1"
MAX_FILE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReceiptFile:
    """One receipt. `leaf` has 42 bytes; whatever is absent is empty, and one encoding at least is there."""

    leaf: bytes
    tlog_proof: bytes = b""
    cose: bytes = b""
    opening: bytes = field(default=b"", repr=False)
    envelope: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """The file's bytes; one encoding for each value."""
        shown = {name: base64.b64encode(getattr(self, name)).decode("ascii") for name in _PARTS}
        return json.dumps({"format": FORMAT} | shown, indent=1).encode("ascii") + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> ReceiptFile:
        """Read a file, verifying nothing; raises InvalidInput."""
        try:
            values = json.loads(raw)
            receipt = cls(**{name: base64.b64decode(values[name], validate=True) for name in _PARTS})
            same = receipt.encode() == raw and bool(receipt.tlog_proof or receipt.cose)
        except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
            same = False
        if not same:
            message = f"This is not a receipt of the form {FORMAT}."
            raise InvalidInput(Reason.INVALID_ARGUMENT, message, hint="make one with: indai receipt get")
        return receipt


_PARTS = ("leaf", "tlog_proof", "cose", "opening", "envelope")


def receipt_in_export(path: Path, mid: bytes) -> ReceiptFile:
    """The receipt for the commitment, or event of one, with this id, as the export's newest head proves it.

    Nothing is verified that the receipt's own check does not verify. Raises
    InvalidInput(INVALID_EXPORT) for a file that cannot be read, NotFound when it does not open such a leaf.
    """
    note, hashes, found = "", list[bytes](), None
    for _, record in read_export(path):
        if isinstance(record, CheckpointLine):
            note = record.note
        elif isinstance(record, LeafLine | ErasedLeafLine | OpenLeafLine):
            hashes.append(leaf_hash(record.leaf))
            if found is None and isinstance(record, OpenLeafLine) and record.mid == mid and _is_deed(record):
                found = record
    if found is None:
        message = f"The export {quoted(path.name)} opens no commitment or event {mid.hex()[:12]}."
        raise NotFound(Reason.NOT_FOUND, message, hint="indai audit lists what an export holds")
    size = read_checkpoint(note.encode()).size
    if not found.index < size <= len(hashes):
        message = f"No signed head in {quoted(path.name)} covers leaf {found.index}."
        raise InvalidInput(Reason.INVALID_EXPORT, message, hint="export it again from the node")
    path_up = tuple(inclusion_proof(hashes[:size], found.index))
    proof = TlogProof(found.index, path_up, note.encode(), found.opening)
    return ReceiptFile(found.leaf, proof.encode(), b"", found.opening, found.envelope)


def _is_deed(record: OpenLeafLine) -> bool:
    return LedgerLeaf.parse(record.leaf).kind is LeafKind.COMMITMENT
