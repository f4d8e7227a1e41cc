"""The export format `indai-export/v1`: what a node, an owner or a registry hands out for an offline audit.

JSON Lines (https://jsonlines.org): one JSON object a line, in ASCII, ended by one line feed, in this order:

    header       what is exported, of which log, and that log's verifier key
    checkpoint   signed heads of the log, oldest first, the newest covering every leaf below
    leaf         (a ledger) one for each leaf, with its content where the exporter may show it
    entry        (a registry) one for each entry of the log
    message      (a ledger) the threads' signed messages, thread by thread, oldest first
    end          how many of each, and the SHA-256 of all bytes before this line

Every value has one encoding: fields stand in a fixed order, without white space, bytes are canonical base64
(ids in lower-case hex). A reader accepts exactly what a writer writes, so no byte of a file is without
meaning. The hash in the last line is against accidents only; changes made on purpose are found by
signatures and proofs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from indai.client.export_values import DECODERS, ENCODERS
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.quoting import quoted

FORMAT = "indai-export/v1"
LEDGER, REGISTRY = "ledger", "registry"
OUT, IN = "out", "in"

# A content of 1 MiB (a policy version with its compiled layers) in base64, with room for the other fields.
MAX_LINE = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """First line. `owner` is empty in a whole node's export; `created_ms` is the exporter's unproved
    word.
    """

    tag: ClassVar[str] = "header"
    types: ClassVar[dict[str, str]] = {"created_ms": "int"}

    format: str
    of: str
    node: str
    owner: str
    log: str
    vkey: str
    network: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A signed note, as text."""

    tag: ClassVar[str] = "checkpoint"
    types: ClassVar[dict[str, str]] = {}

    note: str


@dataclass(frozen=True, slots=True)
class PeerCheckpointLine:
    """A head of another node's ledger, as this node heard it: a signed note, as text."""

    tag: ClassVar[str] = "peer-checkpoint"
    types: ClassVar[dict[str, str]] = {}

    note: str


@dataclass(frozen=True, slots=True)
class LeafLine:
    """A leaf of a ledger whose content is withheld or erased."""

    tag: ClassVar[str] = "leaf"
    types: ClassVar[dict[str, str]] = {"index": "int", "leaf": "base64"}

    index: int
    leaf: bytes


@dataclass(frozen=True, slots=True)
class ErasedLeafLine:
    """A leaf of a ledger whose content its owner has erased, by the exporter's word.

    `mid` named the content; `about` is the commitment that it was, or was an event of, and empty for what is
    no deed. Both are hashes over random bytes.
    """

    tag: ClassVar[str] = "erased-leaf"
    types: ClassVar[dict[str, str]] = {**LeafLine.types, "mid": "hex", "about": "hex"}

    index: int
    leaf: bytes
    owner: str
    mid: bytes
    about: bytes


@dataclass(frozen=True, slots=True)
class OpenLeafLine:
    """A leaf of a ledger with what opens it. `envelope` may be unsigned (decisions, policy versions)."""

    tag: ClassVar[str] = "open-leaf"
    types: ClassVar[dict[str, str]] = {
        **LeafLine.types,
        "mid": "hex",
        "envelope": "base64",
        "opening": "base64",
    }

    index: int
    leaf: bytes
    owner: str
    mid: bytes
    envelope: bytes
    opening: bytes


@dataclass(frozen=True, slots=True)
class EntryLine:
    """An entry of the registry's log, as hashed into its tree."""

    tag: ClassVar[str] = "entry"
    types: ClassVar[dict[str, str]] = {"index": "int", "entry": "base64"}

    index: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class MessageLine:
    """One message of a thread as one owner holds it; `direction` is `out` or `in`, as seen by `owner`."""

    tag: ClassVar[str] = "message"
    types: ClassVar[dict[str, str]] = {"thread": "hex", "mid": "hex", "envelope": "base64"}

    thread: bytes
    owner: str
    mid: bytes
    direction: str
    envelope: bytes


@dataclass(frozen=True, slots=True)
class End:
    """Last line: the number of lines of each sort, and SHA-256 of every byte before this line."""

    tag: ClassVar[str] = "end"
    types: ClassVar[dict[str, str]] = {
        "checkpoints": "int",
        "leaves": "int",
        "entries": "int",
        "messages": "int",
        "sha256": "hex",
    }

    checkpoints: int
    leaves: int
    entries: int
    messages: int
    sha256: bytes


Record = (
    Header
    | CheckpointLine
    | PeerCheckpointLine
    | LeafLine
    | ErasedLeafLine
    | OpenLeafLine
    | EntryLine
    | MessageLine
    | End
)

_RECORDS: MappingProxyType[str, type[Any]] = MappingProxyType(
    {
        record.tag: record
        for record in (
            Header,
            CheckpointLine,
            PeerCheckpointLine,
            LeafLine,
            ErasedLeafLine,
            OpenLeafLine,
            EntryLine,
            MessageLine,
            End,
        )
    }
)
# By tag: each field, how its name is written, and how its value is.
_FORMS = MappingProxyType(
    {
        tag: [
            (field.name, f',"{field.name}":', ENCODERS[record.types.get(field.name, "text")])
            for field in fields(record)
        ]
        for tag, record in _RECORDS.items()
    }
)
_CONTENT = {LEDGER: ("checkpoint", "peer-checkpoint", "leaf", "message"), REGISTRY: ("checkpoint", "entry")}
_COUNTED = {
    "checkpoint": "checkpoints",
    "peer-checkpoint": "checkpoints",
    "leaf": "leaves",
    "open-leaf": "leaves",
    "erased-leaf": "leaves",
    "entry": "entries",
    "message": "messages",
}


_STAGES = {"open-leaf": "leaf", "erased-leaf": "leaf"}
_Numbered = LeafLine | ErasedLeafLine | OpenLeafLine | EntryLine


class LineOrder:
    """What may come next, and the counts and hash that the last line must state."""

    __slots__ = ("_digest", "_next_index", "_stage", "_stages", "counts", "of")

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._stages: tuple[str, ...] = ()
        self._stage = -1
        self._next_index = 0
        self.of = ""
        self.counts = dict.fromkeys(_COUNTED.values(), 0)

    @classmethod
    def within(cls, of: str, stage: str, index: int) -> LineOrder:
        """The order somewhere inside an export, in the given stage with the given leaf next."""
        order = cls()
        order.of, order._stages, order._next_index = of, _CONTENT[of], index
        order._stage = order._stages.index(stage)
        order.counts["checkpoints"] = 1
        return order

    def may_follow(self, stage: str) -> bool:
        """Whether a line of this stage can come now, whatever it says."""
        return stage in self._stages and self._stages.index(stage) >= self._stage

    def count(self, stage: str, line: bytes) -> None:
        """Take a line of a leaf or message that somebody else reads and checks."""
        self._digest.update(line)
        self._stage = self._stages.index(stage)
        self.counts[_COUNTED[stage]] += 1
        self._next_index += stage == "leaf"

    def check(self, record: Record) -> str:
        """Why `record` cannot stand here, or nothing."""
        if self._stage < 0:
            return "" if isinstance(record, Header) else "the first line is not the header"
        if isinstance(record, Header):
            return "a second header"
        if isinstance(record, End):
            return "" if self.counts["checkpoints"] else "there is no checkpoint"
        stage = _STAGES.get(record.tag, record.tag)
        if stage not in self._stages:
            return f"a {record.tag} line does not belong into this sort of export"
        if self._stages.index(stage) < self._stage:
            return f"a {record.tag} line stands too late"
        if isinstance(record, PeerCheckpointLine) and not self.counts["checkpoints"]:
            return "a peer-checkpoint line stands before the log's own"
        if isinstance(record, _Numbered) and record.index != self._next_index:
            return f"index {record.index} stands where {self._next_index} should be"
        return ""

    def take(self, record: Record, line: bytes) -> None:
        """Count an accepted line."""
        self._digest.update(line)
        if isinstance(record, Header):
            self.of, self._stage, self._stages = record.of, 0, _CONTENT[record.of]
        elif not isinstance(record, End):
            self._stage = self._stages.index(_STAGES.get(record.tag, record.tag))
            self.counts[_COUNTED[record.tag]] += 1
            if isinstance(record, _Numbered):
                self._next_index += 1

    @property
    def lines(self) -> int:
        """How many were accepted."""
        return sum(self.counts.values()) + (self._stage >= 0)

    def end(self) -> End:
        """The last line that belongs to what came so far."""
        return End(**self.counts, sha256=self._digest.digest())


class ExportWriter:
    """Builds an export line by line: call `line` for each record in the format's order, then `end` once."""

    __slots__ = ("_order",)

    def __init__(self) -> None:
        self._order = LineOrder()

    def line(self, record: Record) -> bytes:
        """The line of `record`; raises ValueError where it cannot stand (a mistake of the caller)."""
        if why := self._order.check(record) or _form(record):
            raise ValueError(why)
        line = encode(record)
        self._order.take(record, line)
        return line

    def copy(self, line: bytes) -> bytes:
        """A line that another writer made, without its end line; raises InvalidInput(INVALID_EXPORT)."""
        record = decode("the copied export", self._order.lines + 1, line)
        if why := self._order.check(record):
            raise unreadable("the copied export", self._order.lines + 1, why)
        self._order.take(record, line)
        return line

    def end(self) -> bytes:
        """The last line."""
        return self.line(self._order.end())


def ledger_node(origin: str) -> str:
    """The node whose ledger has this origin: `<node handle>/ledger/<year>`."""
    return origin.partition("/ledger/")[0]


def encode(record: Record) -> bytes:
    """One record as its one line, with its line feed."""
    values = [f"{name}{as_json(getattr(record, field))}" for field, name, as_json in _FORMS[record.tag]]
    return f'{{"type":"{record.tag}"{"".join(values)}}}\n'.encode("ascii")


def read_export(path: Path) -> Iterator[tuple[int, Record]]:
    """(line number from 1, record) of an export file, one line in memory at a time.

    Raises InvalidInput(INVALID_EXPORT) that names the file and the line: at the first line that is not
    exactly what a writer writes, and at the last if its counts or hash do not fit what came before.
    """
    try:
        with path.open("rb") as file:
            yield from read_lines(path.name, iter(lambda: file.readline(MAX_LINE + 1), b""))
    except OSError as error:
        raise cannot_read(path, error) from None


def cannot_read(path: Path, error: OSError) -> InvalidInput:
    """The file is not there, or not ours to read."""
    message = f"The export {quoted(str(path))} cannot be read: {error.strerror or error}."
    return InvalidInput(Reason.INVALID_EXPORT, message, hint="check the path")


def end_of(name: str, number: int, end: End, order: LineOrder) -> None:
    """The last line must fit what came before; raises InvalidInput(INVALID_EXPORT)."""
    right = order.end()
    if end != right:
        raise _damaged(name, number, end, right)


def read_lines(name: str, lines: Iterable[bytes]) -> Iterator[tuple[int, Record]]:
    """As `read_export`, from lines with their line feeds; `name` stands in the errors."""
    order, number, record = LineOrder(), 0, None
    for number, line in enumerate(chain(lines), start=1):
        if isinstance(record, End):
            raise unreadable(name, number, "something follows the last line")
        record = decode(name, number, line)
        if why := order.check(record):
            raise unreadable(name, number, why)
        if isinstance(record, End):
            end_of(name, number, record, order)
        order.take(record, line)
        yield number, record
    if not isinstance(record, End):
        raise unreadable(name, number + 1, "the file ends before its last line")


def decode(name: str, number: int, line: bytes) -> Record:
    """The record of one line; raises InvalidInput(INVALID_EXPORT) unless a writer writes exactly this."""
    if len(line) > MAX_LINE:
        raise unreadable(name, number, f"it is longer than {MAX_LINE} bytes")
    try:
        values = json.loads(line)
        record_type = _RECORDS[values.pop("type")]
        record: Record = record_type(
            **{key: DECODERS[record_type.types.get(key, "text")](value) for key, value in values.items()}
        )
        same = encode(record) == line
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise unreadable(name, number, "it is not a line of this format") from None
    if not same:
        raise unreadable(name, number, "it is not written the way this format writes it")
    if why := _form(record):
        raise unreadable(name, number, why)
    return record


def _form(record: Record) -> str:
    """What is wrong with a record on its own, or nothing."""
    if isinstance(record, Header):
        if record.format != FORMAT:
            return f"its format is {quoted(record.format)}, not {FORMAT}"
        if record.of not in _CONTENT:
            return f"{quoted(record.of)} is not a sort of export"
    if isinstance(record, MessageLine) and record.direction not in (OUT, IN):
        return f"{quoted(record.direction)} is not a direction"
    if isinstance(record, ErasedLeafLine) and len(record.about) not in (0, hashlib.sha256().digest_size):
        return "its about has not 32 bytes"
    if (
        isinstance(record, MessageLine | OpenLeafLine | ErasedLeafLine)
        and len(record.mid) != hashlib.sha256().digest_size
    ):
        return "its mid has not 32 bytes"
    return ""


def unreadable(name: str, line: int, why: str) -> InvalidInput:
    """A line that is not as a writer writes it."""
    return InvalidInput(
        Reason.INVALID_EXPORT,
        f"{name} line {line} cannot be read: {why}.",
        hint="export it again from the node",
        metadata={"file": name, "line": str(line)},
    )


def _damaged(name: str, line: int, found: End, right: End) -> InvalidInput:
    what = "its bytes" if found.sha256 != right.sha256 else "the number of its lines"
    return InvalidInput(
        Reason.INVALID_EXPORT,
        f"{name} was changed after it was written: {what} do not fit its last line.",
        hint="compare it with the original, or export it again from the node",
        metadata={"file": name, "line": str(line), "damaged": "true"},
    )
