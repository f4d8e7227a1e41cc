"""Receipts to check offline: an entry's inclusion path and a checkpoint (C2SP tlog-proof v1)."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.merkle import HASH_SIZE, leaf_hash, verify_inclusion
from indai.protocol.note import MAX_NOTE, VerifiedSignature, Verifier, decode_base64
from indai.protocol.quoting import quoted

_HEADER = b"c2sp.org/tlog-proof@v1"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})", re.ASCII)
_MAX_PROOF = MAX_NOTE + 131_072
_MAX_HASHES = 63


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A receipt: `checkpoint` is the signed note; `extra` (the leaf's opening) is not authenticated."""

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def encode(self) -> bytes:
        """The text of the receipt."""
        lines = [_HEADER]
        if self.extra is not None:
            lines.append(b"extra " + base64.b64encode(self.extra))
        lines.append(b"index %d" % self.index)
        lines += [base64.b64encode(hashed) for hashed in self.hashes]
        return b"\n".join((*lines, b"", self.checkpoint))

    @classmethod
    def parse(cls, raw: bytes) -> TlogProof:
        """Read a receipt, verifying nothing; raises ProtocolError(MALFORMED)."""
        if len(raw) > _MAX_PROOF:
            raise ProtocolError(Reason.TOO_LARGE, f"A receipt has at most {_MAX_PROOF} bytes.", rule="LOG-05")
        head, separator, checkpoint = raw.partition(b"\n\n")
        lines = head.split(b"\n")
        if lines.pop(0) != _HEADER or not separator or not checkpoint:
            raise _malformed("it lacks the first line or the checkpoint")
        extra = None
        if lines and lines[0].startswith(b"extra "):
            extra = _base64(lines.pop(0)[len(b"extra ") :])
        index = _INDEX.fullmatch(lines.pop(0).decode("utf-8", "replace")) if lines else None
        if index is None:
            raise _malformed("it has no index")
        hashes = tuple(_base64(line) for line in lines)
        if len(hashes) > _MAX_HASHES or any(len(hashed) != HASH_SIZE for hashed in hashes):
            raise _malformed("its path is not a list of hashes")
        return cls(int(index[1]), hashes, checkpoint, extra)

    def verify(
        self, entry: bytes, log: str | Verifier, witnesses: Sequence[Verifier] = ()
    ) -> tuple[Checkpoint, tuple[VerifiedSignature, ...]]:
        """Check that `entry` is in the log; returns the checkpoint and the cosignatures on it.

        Raises ProtocolError as `open_checkpoint` does, or BAD_PROOF. Whether the cosignatures suffice is
        for a policy to say (`indai.protocol.tlogpolicy`).
        """
        checkpoint, cosignatures = open_checkpoint(self.checkpoint, log, witnesses)
        verify_inclusion(leaf_hash(entry), self.index, checkpoint.size, self.hashes, checkpoint.root)
        return checkpoint, cosignatures


def _base64(line: bytes) -> bytes:
    data = decode_base64(line.decode("utf-8", "replace"))
    if data is None:
        raise _malformed(f"{quoted(line)} is not base64")
    return data


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"This is not a tlog-proof: {why}.", rule="LOG-05")
