"""An export cut into slices of whole lines, so that several processes can read one file at once.

The cutter looks only at how a line begins: it counts, hashes and orders the lines, and reads the few that are
neither leaf nor message. `read_slice` then reads a slice as `read_export` would have read it in its place, so
both together refuse what `read_export` refuses. A thread is never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from indai.client.exports import MAX_LINE, End, LineOrder, Record, cannot_read, decode, end_of, unreadable

# Small enough that at the end of a file no processor waits long for another.
SLICE_BYTES = 512 * 1024
_BULK = re.compile(
    rb'\{"type":"(?:(?P<leaf>leaf|open-leaf|erased-leaf)"|message","thread":"[^"]*","owner":"[^"]*")'
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Lines of one stage, `leaf` or `message`; `line` is the first one's number, `index` its leaf's."""

    path: str
    file: str
    of: str
    stage: str
    line: int
    index: int
    lines: tuple[bytes, ...]


def cut(path: Path, size: int = 0) -> Iterator[tuple[int, Record] | Slice]:
    """(line number, record) of single lines, and slices of `size` bytes (0: 512 KiB) or a bit more, in order.

    Raises as `read_export`, for lines that are in no slice: what stands before them has been handed out.
    """
    try:
        with path.open("rb") as file:
            yield from _Cutter(path, size or SLICE_BYTES).cut(iter(lambda: file.readline(MAX_LINE + 1), b""))
    except OSError as error:
        raise cannot_read(path, error) from None


def lines_like(path: Path, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    """(number, line) of the lines that begin so; nothing of a file that cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), start=1):
            if pattern.match(line):
                yield number, line


def read_slice(slice_: Slice) -> Iterator[tuple[int, Record]]:
    """(line number, record) of each line of a slice; raises as `read_export`."""
    order = LineOrder.within(slice_.of, slice_.stage, slice_.index)
    for number, line in enumerate(slice_.lines, start=slice_.line):
        record = decode(slice_.file, number, line)
        if why := order.check(record):
            raise unreadable(slice_.file, number, why)
        order.take(record, line)
        yield number, record


class _Cutter:
    def __init__(self, path: Path, size: int) -> None:
        self._path, self._name, self._size = str(path), path.name, size
        self._order = LineOrder()
        self._of = ""
        self._lines: list[bytes] = []
        self._bytes, self._stage, self._thread, self._first, self._index = 0, "", b"", 0, 0

    def cut(self, lines: Iterator[bytes]) -> Iterator[tuple[int, Record] | Slice]:
        number, record = 0, None
        for number, line in enumerate(lines, start=1):
            if isinstance(record, End):
                raise unreadable(self._name, number, "something follows the last line")
            match = _BULK.match(line)
            stage = "" if match is None else ("leaf" if match["leaf"] else "message")
            if stage and self._order.may_follow(stage):
                thread = match[0] if match and stage == "message" else b""
                if self._is_full(stage, thread):
                    yield from self._flush()
                self._take(number, line, stage, thread)
                continue
            yield from self._flush()
            record = self._single(number, line)
            yield number, record
        yield from self._flush()
        if not isinstance(record, End):
            raise unreadable(self._name, number + 1, "the file ends before its last line")

    def _is_full(self, stage: str, thread: bytes) -> bool:
        return stage != self._stage or (self._bytes >= self._size and (not thread or thread != self._thread))

    def _take(self, number: int, line: bytes, stage: str, thread: bytes) -> None:
        if not self._lines:
            self._first, self._index, self._stage = number, self._order.counts["leaves"], stage
        self._lines.append(line)
        self._bytes += len(line)
        self._thread = thread
        self._order.count(stage, line)

    def _flush(self) -> Iterator[Slice]:
        if self._lines:
            yield Slice(
                self._path, self._name, self._of, self._stage, self._first, self._index, tuple(self._lines)
            )
        self._lines, self._bytes, self._stage = [], 0, ""

    def _single(self, number: int, line: bytes) -> Record:
        record = decode(self._name, number, line)
        if why := self._order.check(record):
            raise unreadable(self._name, number, why)
        if isinstance(record, End):
            end_of(self._name, number, record, self._order)
        self._order.take(record, line)
        self._of = self._order.of
        return record
