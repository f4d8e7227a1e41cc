"""An export in slices: each is read wherever a processor is free, and all are put together in their order.

A slice is read with no knowledge of those before it, except for the policy versions of the whole file. What
depends on the others is settled when the parts are put together: leaf times that step back, leaves and
threads that stand twice.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Self

from indai.client.audit.contents import ContentReader
from indai.client.audit.facts import Ledger, Transcripts
from indai.client.audit.findings import Findings
from indai.client.audit.policies import PolicyReplay, Versions
from indai.client.audit.registry import KeyHistory
from indai.client.audit.report import Finding, Place, Severity
from indai.client.audit.shared import Digests, SharedDigests
from indai.client.audit.signatures import SignatureCheck
from indai.client.audit.threads import ThreadKey, ThreadReader
from indai.client.exports import ErasedLeafLine, Header, LeafLine, MessageLine, OpenLeafLine, decode
from indai.client.exportslices import Slice, lines_like, read_slice
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.header import MAX_SKEW_MS
from indai.protocol.merkle import HASH_SIZE, leaf_hash

# Below this, starting other processes takes longer than they save.
WORTH_BYTES = 24 * 1024 * 1024
# The first bytes of a leaf of kind 4, in base64.
_VERSION = re.compile(rb'\{"type":"open-leaf","index":\d+,"leaf":"AQQ')
_AHEAD = 2  # slices under way for each process


@dataclass(frozen=True, slots=True)
class Scope:
    """What every slice may need: the keys, and by path each file's header and policy versions."""

    history: KeyHistory | None
    headers: Mapping[str, Header]
    versions: Mapping[str, Versions]


@dataclass(frozen=True, slots=True)
class Part:
    """What one slice says. `hashes`: its leaves', 32 bytes each; `broken`: (line, words) where it fails."""

    ledger: Ledger
    transcripts: Transcripts
    hashes: bytes
    threads: Mapping[ThreadKey, Place]
    findings: Sequence[Finding]
    lines: int
    broken: tuple[int, str] | None = None


@dataclass(slots=True)
class _Reading:
    findings: Findings
    contents: ContentReader
    threads: ThreadReader
    hashes: bytearray = field(default_factory=bytearray)
    lines: int = 0

    def take(self, line: int, record: object) -> None:
        self.lines += 1
        if isinstance(record, MessageLine):
            self.threads.message(line, record)
        elif isinstance(record, LeafLine | ErasedLeafLine | OpenLeafLine):
            self.hashes += leaf_hash(record.leaf)
            self.contents.take(line, record)


def part_of(slice_: Slice, scope: Scope, known: Digests, newest_ms: int = 0) -> Part:
    """Read a slice. `known`: signatures that were verified, which it adds to; `newest_ms`: the newest
    leaf time before it.
    """
    findings, transcripts = Findings(), Transcripts()
    signatures = SignatureCheck(scope.history, known)
    ledger = Ledger(slice_.file, scope.headers[slice_.path])
    policies = PolicyReplay(findings, scope.versions[slice_.path])
    reading = _Reading(
        findings,
        ContentReader(ledger, findings, policies, newest_ms),
        ThreadReader(ledger, transcripts, signatures, findings),
    )
    broken = None
    try:
        for line, record in read_slice(slice_):
            reading.take(line, record)
    except InvalidInput as error:
        broken = int(error.metadata["line"]), error.message
    return Part(
        ledger,
        transcripts,
        bytes(reading.hashes),
        reading.threads.seen,
        findings.found,
        reading.lines,
        broken,
    )


class Readers:
    """Makes parts of slices, in the slices' order, in one process or several (`with` it).

    `known` are digests of the signatures that any of them has verified.
    """

    def __init__(self, scope: Scope, processes: int) -> None:
        self._scope = scope
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        # A fresh interpreter each: a copy of this one could hold a lock of a thread it does not have.
        self._context = get_context("spawn")
        size = _bytes_of([Path(path) for path in scope.headers])
        self.known: Digests = SharedDigests(self._context, size) if processes > 1 else set[bytes]()

    def __enter__(self) -> Self:
        if self._processes > 1:
            given = (self._scope, self.known)
            self._pool = ProcessPoolExecutor(
                self._processes, self._context, initializer=_remember, initargs=given
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def parts(self, slices: Iterator[Slice]) -> Iterator[tuple[Slice, Part]]:
        """Each slice with its part; a few are read ahead. What `slices` raises comes after those before."""
        waiting: deque[tuple[Slice, Future[Part] | None]] = deque()
        failed: InvalidInput | None = None
        try:
            for slice_ in slices:
                waiting.append((slice_, self._submit(slice_)))
                if len(waiting) > (_AHEAD * self._processes if self._pool else 0):
                    yield self._first(waiting)
        except InvalidInput as error:
            failed = error
        while waiting:
            yield self._first(waiting)
        if failed is not None:
            raise failed

    def again(self, slice_: Slice, newest_ms: int) -> Part:
        """The part once more, in this process, knowing the newest leaf time before it."""
        return part_of(slice_, self._scope, self.known, newest_ms)

    def _submit(self, slice_: Slice) -> Future[Part] | None:
        """None for a slice that is read here."""
        with suppress(BrokenProcessPool):
            return self._pool.submit(_read, slice_) if self._pool else None
        return None

    def _first(self, waiting: deque[tuple[Slice, Future[Part] | None]]) -> tuple[Slice, Part]:
        slice_, future = waiting.popleft()
        try:
            return slice_, part_of(slice_, self._scope, self.known) if future is None else future.result()
        except BrokenProcessPool:  # killed, for want of memory perhaps: it goes on here, slower
            self._pool = None
            return slice_, part_of(slice_, self._scope, self.known)


class Assembly:
    """One export put together again from its parts."""

    def __init__(self, ledger: Ledger, transcripts: Transcripts, findings: Findings) -> None:
        self._ledger, self._transcripts, self._findings = ledger, transcripts, findings
        self._threads: dict[ThreadKey, Place] = {}
        self.newest_ms = 0

    def fits(self, part: Part) -> bool:
        """Whether the part's leaves come after what is here, as far as their times say."""
        return min(filter(None, part.ledger.times), default=self.newest_ms) >= self.newest_ms - MAX_SKEW_MS

    def add(self, part: Part) -> Iterator[bytes]:
        """Take the next part; yields the hashes of its leaves."""
        self.newest_ms = max(self.newest_ms, max(part.ledger.times, default=0))
        self._findings.found += part.findings
        self._ledger.absorb(part.ledger, self._twice)
        self._transcripts.absorb(part.transcripts)
        for key in part.threads.keys() & self._threads.keys():
            message = f"The thread {key[1].hex()} of {key[0]} stands in two places."
            self._findings.add(Severity.INVALID, "transcript", part.threads[key], message)
        self._threads |= part.threads
        for start in range(0, len(part.hashes), HASH_SIZE):
            yield part.hashes[start : start + HASH_SIZE]
        if part.broken is not None:
            line, words = part.broken
            raise InvalidInput(Reason.INVALID_EXPORT, words, metadata={"line": str(line)})

    def _twice(self, owner: str, place: Place, first: Place, mid: bytes) -> None:
        message = f"{owner} has a second leaf of this kind for this message; the first is in {first}."
        self._findings.add(Severity.INVALID, "twice", place, message, mid)


_given: list[tuple[Scope, Digests]] = []


def _remember(scope: Scope, known: Digests) -> None:
    _given[:] = [(scope, known)]


def _read(slice_: Slice) -> Part:
    return part_of(slice_, *_given[0])


def versions_in(path: Path, header: Header) -> Versions:
    """The policy versions of an export, in whichever slice; there it is said what is wrong with them."""
    findings = Findings()
    policies = PolicyReplay(findings)
    reader = ContentReader(Ledger(path.name, header), findings, policies)
    with suppress(InvalidInput):
        for number, line in lines_like(path, _VERSION):
            record = decode(path.name, number, line)
            if isinstance(record, OpenLeafLine):
                reader.opened(number, record)
    return policies.versions


def worthwhile(paths: Sequence[Path]) -> int:
    """How many processes these exports keep busy: as many as there are processors, or one for small files."""
    return (os.cpu_count() or 1) if _bytes_of(paths) >= WORTH_BYTES else 1


def _bytes_of(paths: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())
