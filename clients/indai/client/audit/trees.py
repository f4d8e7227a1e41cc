"""Rebuilds a log's tree from its leaves and compares every signed head on the way (RFC 9162 section
2.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from indai.client.audit.findings import Findings
from indai.client.audit.report import Place, Proof, Severity
from indai.client.fraud import Evidence, Prefix
from indai.client.keytie import KeyTie
from indai.protocol.checkpoint import Checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError
from indai.protocol.merkle import CompactRange, consistency_proof, leaf_hash, root
from indai.protocol.note import Verifier, parse_note, parse_vkey

Tied = Callable[[Verifier, Verifier], tuple[Verifier, KeyTie] | None]
"""The former one of two keys of a log and what ties the other to it; None where nothing does."""


@dataclass(frozen=True, slots=True)
class Head:
    """A head whose signature was verified, the place it was read from, and its note with the key."""

    checkpoint: Checkpoint
    place: Place
    note: bytes = b""
    vkey: str = ""


def all_verified(note: str, cosignatures: int) -> bool:
    """Whether the log's signature and the cosignatures that verified are all there are on a head."""
    return len(parse_note(note.encode())[1]) == 1 + cosignatures


def untied(one: Verifier, other: Verifier) -> None:
    """Of a log of which only one key is known."""


def contradictions(heads: list[Head], findings: Findings, tied: Tied = untied) -> list[Proof]:
    """Two verified heads of one log with one size and two roots: the log has shown a split view."""
    seen: dict[tuple[str, int], Head] = {}
    proofs: list[Proof] = []
    for head in heads:
        known = seen.setdefault((head.checkpoint.origin, head.checkpoint.size), head)
        if known.checkpoint.root != head.checkpoint.root:
            message = (
                f"{head.checkpoint.origin} signed two different heads of size {head.checkpoint.size}; "
                f"the other one is in {known.place}."
            )
            findings.add(Severity.FRAUD, "split-view", head.place, message)
            proofs += two_histories(known, head, findings, tied)
    return proofs


def two_histories(
    small: Head, large: Head, findings: Findings, tied: Tied = untied, prefix: Prefix | None = None
) -> list[Proof]:
    """The file that proves two heads contradict each other; none when they don't, or are under two keys that
    nothing ties.

    `prefix`: what the larger head's tree begins with, for heads of two sizes.
    """
    if not small.vkey or not large.vkey:
        return []
    key, tie = parse_vkey(small.vkey), None
    if small.vkey != large.vkey:
        if (found := tied(key, parse_vkey(large.vkey))) is None:
            return []
        key, tie = found
    one, other = (small.note, large.note) if prefix else sorted((small.note, large.note))
    try:
        evidence = Evidence(key, one, other, prefix, tie)
        return [Proof(evidence.file_name, evidence.encode())] if evidence.is_proof else []
    except ProtocolError:
        return []
    except InvalidInput as error:
        said = f"{error.message} {error.hint.capitalize()}."
        if not any(one.message == said for one in findings.found):
            findings.add(Severity.NOTE, "split-view", small.place, said)
        return []


class TreeReplay:
    """One log's leaves in order. `own` are the heads of the file that is read, `others` those of other
    files.
    """

    def __init__(
        self,
        file: str,
        check: str,
        own: list[Head],
        others: list[Head],
        findings: Findings,
        tied: Tied = untied,
    ) -> None:
        self._tied = tied
        self._tree = CompactRange()
        self._file, self._check, self._findings = file, check, findings
        self._awaited: dict[int, list[tuple[Head, bool]]] = defaultdict(list)
        for head in own:
            self._awaited[head.checkpoint.size].append((head, True))
        for head in others:
            self._awaited[head.checkpoint.size].append((head, False))
        # Where every head failed, that was said already.
        self._covered = 0
        self._any = bool(own)
        self._own = own
        self.forks: list[Head] = []
        self._compare()

    @property
    def size(self) -> int:
        """Leaves so far."""
        return self._tree.size

    def add(self, hashed: bytes) -> None:
        """The hash of the next leaf."""
        self._tree.append(hashed)
        if self._tree.size in self._awaited:
            self._compare()

    def end(self) -> None:
        """All leaves are in: no head of this file may be beyond them, and one must cover them all."""
        unreached = [head for heads in self._awaited.values() for head, own in heads if own]
        if unreached:
            head = unreached[0]
            message = f"The head covers {head.checkpoint.size} leaves, and the file has {self._tree.size}."
            self._findings.add(Severity.INVALID, self._check, head.place, message)
        elif self._any and self._covered < self._tree.size:
            message = (
                f"There are {self._tree.size} leaves, and no signed head covers more than {self._covered}."
            )
            self._findings.add(Severity.INVALID, self._check, Place(self._file), message)

    def _compare(self) -> None:
        for head, own in self._awaited.pop(self._tree.size, ()):
            if own:
                self._covered = self._tree.size
            if head.checkpoint.root == self._tree.root():
                continue
            size = head.checkpoint.size
            if own:
                message = f"The first {size} leaves do not make the tree whose root was signed."
                self._findings.add(Severity.INVALID, self._check, head.place, message)
            else:
                message = f"The head of size {size} in {head.place} is not one of the tree in {self._file}."
                self._findings.add(Severity.FRAUD, "split-view", head.place, message)
                self.forks.append(head)

    def proofs(self, entries: Callable[[], Iterable[bytes]]) -> list[Proof]:
        """Files that prove each fork; `entries` reads the leaves once more, and only if there is one."""
        if not self.forks:
            return []
        hashes = [leaf_hash(entry) for entry in entries()]
        return [proof for fork in self.forks for proof in self._prove(fork, hashes)]

    def _prove(self, fork: Head, hashes: list[bytes]) -> list[Proof]:
        size = fork.checkpoint.size
        for own in sorted(self._own, key=lambda head: head.vkey != fork.vkey):
            if size <= own.checkpoint.size <= len(hashes):
                known = hashes[: own.checkpoint.size]
                path = tuple(consistency_proof(known, size)) if size < len(known) else ()
                prefix = Prefix(root(known[:size]), path) if path else None
                if found := two_histories(fork, own, self._findings, self._tied, prefix):
                    return found
        return []
