"""What a witness is asked, and what it must answer (C2SP tlog-witness, `add-checkpoint`): the pure part.

The order of checks is the specification's: a malformed request is 400, an unknown log 404, a head that its
log did not sign 403, an old size above the head's 400, an old size that is not the last one cosigned 409, a
second root for one size 409, and a proof that does not lead from the last head to this one 422.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

from indai.protocol.checkpoint import Checkpoint, open_checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.merkle import EMPTY_ROOT, HASH_SIZE, verify_consistency
from indai.protocol.note import Verifier, decode_base64

MAX_HASHES = 63
MAX_REQUEST = 64 * 1024
SIZE_TYPE = "text/x.tlog.size"

_OLD = re.compile(rb"old (0|[1-9][0-9]{0,18})")
_SIZE_BODY = re.compile(rb"(0|[1-9][0-9]{0,18})\n")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request: the size the log believes the witness has, the proof from there, and the signed head."""

    old_size: int
    proof: tuple[bytes, ...]
    note: bytes

    def encode(self) -> bytes:
        """The body of the request."""
        lines = [b"old %d" % self.old_size, *(base64.b64encode(hashed) for hashed in self.proof)]
        return b"".join(line + b"\n" for line in lines) + b"\n" + self.note

    @classmethod
    def parse(cls, raw: bytes) -> AddCheckpoint:
        """Read a body, verifying nothing; raises ProtocolError(MALFORMED or TOO_LARGE)."""
        if len(raw) > MAX_REQUEST:
            message = f"A request to a witness has at most {MAX_REQUEST} bytes."
            raise ProtocolError(Reason.TOO_LARGE, message, rule="WIT-01")
        head, separator, note = raw.partition(b"\n\n")
        first, *hashes = head.split(b"\n")
        old = _OLD.fullmatch(first)
        if old is None or not separator or not note:
            raise _malformed("it lacks the line with the old size, the empty line or the checkpoint")
        if len(hashes) > MAX_HASHES:
            raise _malformed(f"it has more than {MAX_HASHES} hashes")
        proof = tuple(decode_base64(line.decode("utf-8", "replace")) or b"" for line in hashes)
        if any(len(hashed) != HASH_SIZE for hashed in proof):
            raise _malformed("a line of the proof is not a hash in base64")
        return cls(int(old[1]), proof, note)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is cosigned: the HTTP status, a sentence, and with 409 the size that was cosigned last."""

    status: int
    why: str
    size: int | None = None

    @property
    def body(self) -> bytes:
        """The answer's body: of a 409 the size alone."""
        return f"{self.why if self.size is None else self.size}\n".encode()


UNKNOWN_LOG = Refusal(404, "This witness does not know the log.")


def judge(
    request: AddCheckpoint, logs: Mapping[str, Verifier], cosigned: Mapping[str, Checkpoint]
) -> Checkpoint | Refusal:
    """The head to cosign, or the refusal. `logs` are keys, `cosigned` the last heads, both by origin."""
    try:
        origin = read_checkpoint(request.note).origin
    except IndaiError as error:
        return Refusal(400, error.message)
    if origin not in logs:
        return UNKNOWN_LOG
    try:
        head, _ = open_checkpoint(request.note, logs[origin])
    except IndaiError as error:
        return Refusal(403, error.message)
    if request.old_size > head.size:
        return Refusal(400, "The old size is larger than the checkpoint's.")
    last = cosigned.get(origin)
    newest = last.size if last else 0
    if request.old_size != newest:
        return Refusal(409, "The old size is not the last one cosigned.", newest)
    if last is not None and last.size == head.size and last.root != head.root:
        return Refusal(409, "There are two roots for one size.", newest)
    try:
        _check_extends(last, head, request)
    except ProtocolError as error:
        return Refusal(422, error.message)
    return head


def read_size(body: bytes) -> int | None:
    """The size in the body of a 409; None for anything else."""
    match = _SIZE_BODY.fullmatch(body)
    return int(match[1]) if match else None


def _check_extends(last: Checkpoint | None, head: Checkpoint, request: AddCheckpoint) -> None:
    if last is not None and last.size > 0:
        verify_consistency(last.size, last.root, head.size, head.root, request.proof)
    elif request.proof or (head.size == 0 and head.root != EMPTY_ROOT):
        raise ProtocolError(
            Reason.BAD_PROOF, "From an empty tree there is no proof, and it has one root.", rule="WIT-02"
        )


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"This is no request to a witness: {why}.", rule="WIT-01")
