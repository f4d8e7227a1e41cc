"""Evidence that a log has signed two histories, as a file that anyone can check: `indai-fraud/v1` of one key,
`indai-fraud/v2` of two keys that the log had one after the other.

JSON lines: the header (the log's key), two notes that the log signed, smaller first, and for notes of
different sizes the *prefix*: a consistency proof by which the larger tree begins with another tree than the
smaller note says; with two keys, what ties them (`indai.client.keytie`). Two notes of one size with
different roots prove the fraud by themselves; so does a pair with a valid prefix. Without it, two sizes are
only a pair that somebody could not reconcile: a mirror of the log tells (`indai.client.audit`). Nothing else
counts: without the log's own two signatures there is no evidence, so nobody can frame a log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from indai.client.keytie import KeyTie
from indai.client.statefile import replace_file
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.merkle import HASH_SIZE, prefix_root, verify_consistency
from indai.protocol.note import Verifier, decode_base64, parse_note, parse_vkey
from indai.protocol.quoting import quoted

FORMAT = "indai-fraud/v1"
TWO_KEYS = "indai-fraud/v2"
MAX_FILE = 8 * 1024 * 1024
"""Bytes. The longest history of a handle (`MAX_CHAIN` operations of `MAX_OPERATION` bytes each, and its end)
is 4.4 MiB in base64."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """`root` of the first leaves of the larger tree, as many as the smaller note has, and its proof."""

    root: bytes
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Two notes of the log with this key that were seen to exclude each other; with `tie`, one of
    them is by the log's later key."""

    log: Verifier
    smaller: bytes
    larger: bytes
    prefix: Prefix | None = None
    tie: KeyTie | None = None

    @classmethod
    def of(
        cls,
        log: Verifier,
        one: bytes,
        other: bytes,
        proof: Sequence[bytes] = (),
        tie: KeyTie | None = None,
    ) -> Evidence:
        """Evidence from two notes, and the consistency proof that failed between them, if there was one.

        Raises ProtocolError when either note is not the log's, or when the two do not exclude each other.
        """
        both = cls(log, one, other, None, tie)
        smaller, larger = sorted((one, other), key=lambda note: both.opened(note).size)
        small, large = both.opened(smaller), both.opened(larger)
        root = prefix_root(small.size, large.size, large.root, proof)
        prefix = Prefix(root, tuple(proof)) if root is not None and root != small.root else None
        evidence = cls(log, smaller, larger, prefix, tie)
        evidence.heads()
        return evidence

    def key_of(self, note: bytes) -> Verifier:
        """Which key claims to have signed a note: the log's, or the later one of two."""
        if self.tie is None:
            return self.log
        later = self.tie.later
        signed = {(one.name, one.key_hash) for one in parse_note(note)[1]}
        return later if (later.name, later.key_hash) in signed else self.log

    def opened(self, note: bytes) -> Checkpoint:
        """The head in a note, verified; raises ProtocolError."""
        return open_checkpoint(note, self.key_of(note))[0]

    def heads(self) -> tuple[Checkpoint, Checkpoint]:
        """Both heads, verified; raises ProtocolError when this is evidence of nothing."""
        small, large = self.opened(self.smaller), self.opened(self.larger)
        if self.tie is not None:
            if self.key_of(self.smaller) == self.key_of(self.larger):
                raise _nothing("both notes are by one of the two keys")
            self.tie.check(self.log)
        if small.size > large.size or (small.size, small.root) == (large.size, large.root):
            raise _nothing("the two notes do not contradict each other")
        if small.size == large.size and self.prefix is not None:
            raise _nothing("two notes of one size need no proof between them")
        if self.prefix is not None:
            verify_consistency(small.size, self.prefix.root, large.size, large.root, self.prefix.hashes)
            if self.prefix.root == small.root:
                raise _nothing("the larger tree begins with the smaller one")
        return small, large

    @property
    def is_proof(self) -> bool:
        """Whether the file alone proves the fraud; raises as `heads`."""
        small, large = self.heads()
        return small.size == large.size or self.prefix is not None

    def encode(self) -> bytes:
        """The file's bytes; one encoding for each value. Raises InvalidInput(TOO_LARGE)."""
        header = {"type": "header", "format": FORMAT, "log": self.log.name, "vkey": self.log.vkey}
        if self.tie is not None:
            header |= {"format": TWO_KEYS, "later_vkey": self.tie.later.vkey}
        lines: list[dict[str, Any]] = [
            header,
            {"type": "note", "note": self.smaller.decode("utf-8")},
            {"type": "note", "note": self.larger.decode("utf-8")},
        ]
        if self.prefix is not None:
            hashes = [_text(hashed) for hashed in self.prefix.hashes]
            lines.append({"type": "prefix", "root": _text(self.prefix.root), "hashes": hashes})
        lines += self.tie.lines() if self.tie else []
        text = [json.dumps(line, separators=(",", ":")) for line in lines]
        raw = "".join(f"{line}\n" for line in text).encode("ascii")
        _bound(len(raw))
        return raw

    @classmethod
    def parse(cls, raw: bytes) -> Evidence:
        """Read a file, verifying nothing; raises InvalidInput(INVALID_EXPORT)."""
        try:
            header, one, other, *rest = [json.loads(line) for line in raw.splitlines()]
            evidence = cls(parse_vkey(header["vkey"]), one["note"].encode(), other["note"].encode())
            if rest and rest[0]["type"] == "prefix":
                hashes = tuple(_bytes(hashed) for hashed in rest[0]["hashes"])
                evidence = replace(evidence, prefix=Prefix(_bytes(rest.pop(0)["root"]), hashes))
            if header["format"] == TWO_KEYS:
                evidence = replace(evidence, tie=KeyTie.parse(header["later_vkey"], rest))
            same = evidence.encode() == raw
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IndaiError):
            same = False
        if not same:
            raise InvalidInput(
                Reason.INVALID_EXPORT, f"This is not a file of the format {FORMAT} or {TWO_KEYS}."
            )
        return evidence

    @property
    def file_name(self) -> str:
        """A name of its own; raises as `heads`."""
        small, large = self.heads()
        name = self.log.name.replace("/", "_")
        roots = f"{small.root.hex()[:8]}-{large.root.hex()[:8]}"
        return f"fraud-{name}-{small.size}-{large.size}-{roots}.jsonl"

    def write(self, directory: Path) -> Path:
        """Keep it as a file of a name of its own; the path. Raises Unavailable(STORAGE_FULL)."""
        path = directory / self.file_name
        replace_file(path, self.encode())
        return path


def is_evidence(path: Path) -> bool:
    """Whether a file calls itself evidence of fraud."""
    try:
        with path.open("rb") as file:
            start = file.read(80)
    except OSError:
        return False
    return any(
        start.startswith(f'{{"type":"header","format":"{form}"'.encode()) for form in (FORMAT, TWO_KEYS)
    )


def read_evidence(path: Path) -> Evidence:
    """Read a file, verifying nothing; raises InvalidInput(INVALID_EXPORT, or TOO_LARGE)."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        message = f"The file {quoted(str(path))} cannot be read: {error.strerror or error}."
        raise InvalidInput(Reason.INVALID_EXPORT, message, hint="check the path") from None
    _bound(len(raw))
    return Evidence.parse(raw)


def _bound(size: int) -> None:
    if size > MAX_FILE:
        message = f"Evidence of fraud has at most {MAX_FILE // 1024**2} MiB in one file, and this has more."
        hint = "keep the exports that it came from: they prove as much"
        raise InvalidInput(Reason.TOO_LARGE, message, hint=hint)


def _text(hashed: bytes) -> str:
    return base64.b64encode(hashed).decode("ascii")


def _bytes(text: str) -> bytes:
    hashed = decode_base64(text)
    if hashed is None or len(hashed) != HASH_SIZE:
        raise ValueError(text)
    return hashed


def _nothing(why: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, f"This is evidence of nothing: {why}.", rule="FRD-01")
