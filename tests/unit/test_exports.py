"""The export format: exactly what a writer writes is read back, and nothing else is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.client.exports import (
    FORMAT,
    LEDGER,
    MAX_LINE,
    OUT,
    REGISTRY,
    CheckpointLine,
    End,
    EntryLine,
    ErasedLeafLine,
    ExportWriter,
    Header,
    LeafLine,
    MessageLine,
    OpenLeafLine,
    Record,
    encode,
    read_export,
    read_lines,
)
from indai.protocol.errors import InvalidInput, Reason

HEADER = Header(FORMAT, LEDGER, "ind.ai/n", "", "ind.ai/n/ledger/2026", "vkey", "net", 1)
NOTE = CheckpointLine("ind.ai/n/ledger/2026\n2\nroot\n\n\u2014 name sig\n")
LEAF = LeafLine(0, b"\x01" * 42)
OPEN = OpenLeafLine(1, b"\x02" * 42, "ind.ai/alice", b"\x03" * 32, b"envelope", b"\x04" * 32)
MESSAGE = MessageLine(b"\x05" * 16, "ind.ai/alice", b"\x06" * 32, OUT, b"envelope")
GONE = ErasedLeafLine(2, b"\x07" * 42, "ind.ai/alice", b"\x08" * 32, b"\x08" * 32)
RECORDS: Sequence[Record] = (HEADER, NOTE, LEAF, OPEN, GONE, MESSAGE)


def write(records: Sequence[Record] = RECORDS) -> list[bytes]:
    writer = ExportWriter()
    return [*(writer.line(record) for record in records), writer.end()]


def read(lines: Sequence[bytes]) -> list[Record]:
    return [record for _, record in read_lines("a.jsonl", lines)]


def resealed(lines: Sequence[bytes]) -> list[bytes]:
    """The same lines with a last line that fits them, as somebody who forges a file would write it."""
    end = json.loads(lines[-1])
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    return [*lines[:-1], json.dumps(end, separators=(",", ":")).encode() + b"\n"]


def refused(lines: Sequence[bytes], words: str, line: int) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        read(lines)
    assert caught.value.reason is Reason.INVALID_EXPORT
    assert caught.value.metadata["file"] == "a.jsonl"
    assert caught.value.metadata["line"] == str(line)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(write()))
    records = list(read_export(path))
    assert [number for number, _ in records] == [1, 2, 3, 4, 5, 6, 7]
    assert [record for _, record in records[:-1]] == list(RECORDS)
    end = records[-1][1]
    assert isinstance(end, End)
    assert (end.checkpoints, end.leaves, end.entries, end.messages) == (1, 3, 0, 1)


@settings(max_examples=150)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_is_refused(position: int, change: int) -> None:
    whole = bytearray(b"".join(write()))
    whole[position % len(whole)] ^= change
    with pytest.raises(InvalidInput) as caught:
        read(bytes(whole).splitlines(keepends=True))
    assert caught.value.metadata["file"] == "a.jsonl"


@settings(max_examples=150)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_with_a_forged_last_line_a_changed_byte_still_changes_what_is_read(
    position: int, change: int
) -> None:
    lines = write()
    whole = bytearray(b"".join(lines[:-1]))
    whole[position % len(whole)] ^= change
    forged = resealed([*bytes(whole).splitlines(keepends=True), lines[-1]])
    try:
        records = read(forged)
    except InvalidInput:
        return
    assert records[:-1] != list(RECORDS)


@pytest.mark.parametrize(
    ("records", "words", "line"),
    [
        ([NOTE], "the first line is not the header", 1),
        ([HEADER, HEADER], "a second header", 2),
        ([HEADER, LEAF], "there is no checkpoint", 3),
        ([HEADER, NOTE, MESSAGE, LEAF], "a leaf line stands too late", 4),
        ([HEADER, NOTE, OPEN], "index 1 stands where 0 should be", 3),
        ([HEADER, NOTE, EntryLine(0, b"x")], "does not belong", 3),
    ],
)
def test_lines_out_of_order_are_refused(records: list[Record], words: str, line: int) -> None:
    end = encode(End(0, 0, 0, 0, b"\x00" * 32))
    refused([*(encode(record) for record in records), end], words, line)
    writer = ExportWriter()
    with pytest.raises(ValueError, match=words):
        [*(writer.line(record) for record in records), writer.end()]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null\n",
        b"{}\n",
        b'{"type":"leaf"}\n',
        b'{"type":"leaf","index":0,"leaf":"AA=="}',
        b'{"type":"leaf","index":0,"leaf":"AB=="}\n',
        b'{"type":"leaf","index":0,"leaf":"AA"}\n',
        b'{"type": "leaf","index":0,"leaf":"AA=="}\n',
        b'{"type":"leaf","leaf":"AA==","index":0}\n',
        b'{"type":"leaf","index":0.0,"leaf":"AA=="}\n',
        b'{"type":"leaf","index":true,"leaf":"AA=="}\n',
        b'{"type":"leaf","index":-1,"leaf":"AA=="}\n',
        b'{"type":"leaf","index":9223372036854775808,"leaf":"AA=="}\n',
        b'{"type":"leaf","index":0,"index":0,"leaf":"AA=="}\n',
        b'{"type":"leaf","index":0,"leaf":"AA==","more":1}\n',
        b'{"type":["leaf"],"index":0,"leaf":"AA=="}\n',
        b'{"type":"checkpoint","note":"\\ud800"}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\n",
    ],
)
def test_a_line_that_no_writer_writes_is_refused(line: bytes) -> None:
    lines = write([HEADER, NOTE])
    refused([*lines[:2], line, lines[2]], "line 3 cannot be read", 3)


def test_a_line_over_the_limit_is_refused_without_being_parsed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(write()[:2]) + b"x" * (MAX_LINE + 10))
    with pytest.raises(InvalidInput, match=r"line 3 .* longer than"):
        list(read_export(path))


def test_a_file_that_ends_early_is_refused() -> None:
    lines = write()
    refused(lines[:-1], "ends before its last line", len(lines))
    refused([], "ends before its last line", 1)
    refused([*lines, lines[-1]], "something follows", len(lines) + 1)


def test_counts_that_do_not_fit_are_refused() -> None:
    lines = write()
    end = json.loads(lines[-1])
    end["messages"] = 7
    lines[-1] = json.dumps(end, separators=(",", ":")).encode() + b"\n"
    refused(lines, "the number of its lines", len(lines))


def test_an_export_of_another_version_is_refused() -> None:
    other = encode(Header("indai-export/v9", LEDGER, "", "", "", "", "", 0))
    refused([other], "its format is", 1)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.jsonl"):
        list(read_export(Path("nowhere.jsonl")))


def test_a_registry_export_holds_entries() -> None:
    header = Header(FORMAT, REGISTRY, "", "", "ind.ai/registry", "vkey", "net", 1)
    records: list[Record] = [header, NOTE, EntryLine(0, b"entry")]
    assert read(write(records))[:-1] == records


def test_messages_are_added_to_what_another_writer_made() -> None:
    writer = ExportWriter()
    copied = [writer.copy(line) for line in write([HEADER, NOTE, LEAF, OPEN, GONE])[:-1]]
    assert read([*copied, writer.line(MESSAGE), writer.end()])[:-1] == list(RECORDS)


@pytest.mark.parametrize("line", [b"odd\n", b"", encode(HEADER), encode(LeafLine(7, b"x"))])
def test_what_does_not_belong_is_not_copied(line: bytes) -> None:
    writer = ExportWriter()
    writer.copy(encode(HEADER))
    with pytest.raises(InvalidInput, match="line 2 cannot be read"):
        writer.copy(line)
