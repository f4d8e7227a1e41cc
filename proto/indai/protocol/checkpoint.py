"""Checkpoints: the signed heads of logs (C2SP tlog-checkpoint).

The text is the origin, the size and the root, each on a line. Checkpoints carry no time; the time of a head
is that of its cosignatures.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.merkle import HASH_SIZE, MAX_SIZE
from indai.protocol.note import (
    ED25519,
    Signer,
    VerifiedSignature,
    Verifier,
    decode_base64,
    open_note,
    parse_note,
    parse_vkey,
    sign_note,
)
from indai.protocol.quoting import quoted

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log: its origin, number of leaves, 32-byte root and, rarely, extension lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lines = (self.origin, *self.extensions)
        if any(not line or "\n" in line for line in lines):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "A checkpoint's lines are not empty and hold no newline."
            )
        if not 0 <= self.size < MAX_SIZE or len(self.root) != HASH_SIZE:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "A checkpoint has a size below 2^63 and a 32-byte root."
            )

    def format(self) -> str:
        """The text that is signed; it ends in a newline."""
        root = base64.b64encode(self.root).decode("ascii")
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), root, *self.extensions))

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read a checkpoint's text; raises ProtocolError(BAD_CHECKPOINT)."""
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() or not all(lines):
            raise _bad(f"{quoted(text)} is not at least three lines")
        origin, size, root, *extensions = lines
        hashed = decode_base64(root)
        if not _SIZE.fullmatch(size) or int(size) >= MAX_SIZE:
            raise _bad(f"{quoted(size)} is not the size of a tree")
        if hashed is None or len(hashed) != HASH_SIZE:
            raise _bad(f"{quoted(root)} is not a root in base64")
        return cls(origin, int(size), hashed, tuple(extensions))


def sign_checkpoint(checkpoint: Checkpoint, signers: Iterable[Signer]) -> bytes:
    """The signed note of a checkpoint. The log signs first, under the name of its origin."""
    return sign_note(checkpoint.format(), signers)


def open_checkpoint(
    raw: bytes, vkey: str | Verifier, witnesses: Sequence[Verifier] = ()
) -> tuple[Checkpoint, tuple[VerifiedSignature, ...]]:
    """Verify a log's checkpoint; returns it with the cosignatures of known witnesses.

    `vkey` is the log's key, whose name is the log's origin. Raises ProtocolError: MALFORMED, BAD_SIGNATURE
    if the log did not sign or any known signature fails, BAD_CHECKPOINT for a text that is no checkpoint or
    of another log.
    """
    log = parse_vkey(vkey) if isinstance(vkey, str) else vkey
    note = open_note(raw, [log, *witnesses])
    if all(signature.verifier != log for signature in note.verified):
        message = f"The checkpoint is not signed by its log {quoted(log.name)}."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="LOG-04")
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != log.name:
        raise _bad(f"it is of log {quoted(checkpoint.origin)}, not of {quoted(log.name)}")
    return checkpoint, tuple(
        s for s in note.verified if s.verifier != log and s.verifier.algorithm != ED25519
    )


def read_checkpoint(raw: bytes) -> Checkpoint:
    """The checkpoint in a note nobody has verified yet: for choosing which log's key to open it with."""
    text, _ = parse_note(raw)
    return Checkpoint.parse(text)


def _bad(why: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_CHECKPOINT, f"This is not a usable checkpoint: {why}.", rule="LOG-04")
