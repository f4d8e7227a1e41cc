"""A log's tiles and entry bundles as files, cut out of an export (C2SP tlog-tiles): to keep, or for any web
server.

    checkpoint                     the newest signed head, written last
    tile/0/x001/x234/067           256 hashes; the last one of a level may be `067.p/112`
    tile/entries/x001/x234/067     256 entries, each with its length before it

Everything in them is public: of a ledger, the blinded leaves. The export is checked first, so nothing is
written that its signed head does not cover. A later export of the same log carries a folder on: what is there
and right stays, and a head is replaced only by one that extends it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from indai.client.exports import (
    EntryLine,
    ErasedLeafLine,
    Header,
    LeafLine,
    OpenLeafLine,
    read_export,
)
from indai.client.statefile import replace_file
from indai.client.succession import NewestHead
from indai.protocol.checkpoint import Checkpoint, read_checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError, Reason, Unavailable
from indai.protocol.merkle import HASH_SIZE, CompactRange, leaf_hash
from indai.protocol.quoting import quoted
from indai.protocol.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, encode_entries, tiles_of

CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Bundled:
    """What a folder holds now, and how many of its files were written and how many were there already."""

    checkpoint: Checkpoint
    written: int
    kept: int


def write_bundles(export: Path, folder: Path) -> Bundled:
    """Cut the log of an export into tiles and bundles under `folder`.

    Raises InvalidInput for a file that is no export, an older one, or of another log than the folder's;
    ProtocolError for entries that are not those of the heads, for a newest head whose key is neither the
    first line's nor one that the log itself has announced since, and (SPLIT_VIEW) for one that does not
    extend the folder's; Unavailable(STORAGE_FULL) when the disk does not take it.
    """
    former = _former(folder)
    log = _read(export, former)
    written = kept = 0
    entries = _bundles(export)
    for tile in tiles_of(log.checkpoint.size):
        data = next(entries) if tile.level is None else log.tile(tile)
        new = _put(folder / tile.path, data)
        written, kept = written + new, kept + (not new)
        if tile.width == TILE_WIDTH:
            _remove_parts(folder / tile.path)
    _put(folder / CHECKPOINT, log.note)
    return Bundled(log.checkpoint, written, kept)


@dataclass(frozen=True, slots=True)
class _Log:
    checkpoint: Checkpoint
    note: bytes
    levels: dict[int, bytearray]  # by tile level, all hashes one after the other

    def tile(self, tile: Tile) -> bytes:
        start = tile.index * TILE_WIDTH * HASH_SIZE
        return bytes(self.levels[tile.level or 0][start : start + tile.width * HASH_SIZE])


def _former(folder: Path) -> Checkpoint | None:
    try:
        return read_checkpoint((folder / CHECKPOINT).read_bytes())
    except FileNotFoundError:
        return None
    except ProtocolError as error:
        message = f"{quoted(str(folder))} holds something else: {error.message}"
        raise InvalidInput(Reason.INVALID_ARGUMENT, message, hint="name another folder") from None


def _read(export: Path, former: Checkpoint | None) -> _Log:
    """The whole tree of an export, once it is shown to be that of its newest head."""
    tree, levels = CompactRange(), defaultdict[int, bytearray](bytearray)
    newest = NewestHead()
    extends = former is None or former.size == 0
    for _, record in read_export(export):
        newest.take(record)
        if isinstance(record, Header):
            if former is not None and former.origin != record.log:
                message = (
                    f"The folder holds the log {quoted(former.origin)}, the export {quoted(record.log)}."
                )
                raise InvalidInput(Reason.INVALID_ARGUMENT, message, hint="name another folder")
        elif (entry := _entry(record)) is not None:
            for level, _, hashed in tree.append(leaf_hash(entry)):
                if level % TILE_HEIGHT == 0:
                    levels[level // TILE_HEIGHT] += hashed
            if former is not None and tree.size == former.size:
                extends = tree.root() == former.root
            if newest.wants(tree.size):
                newest.grown(tree.size, tree.root())
    head = newest.open()
    if former is not None and head.size < former.size:
        message = f"The folder holds {former.size} entries, and {quoted(export.name)} {head.size}."
        raise InvalidInput(Reason.INVALID_ARGUMENT, message, hint="make a new export")
    if (head.size, head.root) != (tree.size, tree.root()):
        message = f"The entries of {quoted(export.name)} do not make the tree of its newest signed head."
        raise ProtocolError(Reason.BAD_PROOF, message, rule="LOG-08")
    if not extends:
        message = f"The head of {quoted(export.name)} does not extend the one in the folder."
        raise ProtocolError(Reason.SPLIT_VIEW, message, hint="keep both, and audit the exports together")
    return _Log(head, newest.note, levels)


def _entry(record: object) -> bytes | None:
    if isinstance(record, LeafLine | ErasedLeafLine | OpenLeafLine):
        return record.leaf
    return record.entry if isinstance(record, EntryLine) else None


def _bundles(export: Path) -> Iterator[bytes]:
    """The entry bundles of an export in their order, one in memory at a time."""
    waiting: list[bytes] = []
    for _, record in read_export(export):
        entry = _entry(record)
        if entry is not None:
            waiting.append(entry)
        if len(waiting) == TILE_WIDTH:
            yield encode_entries(waiting)
            waiting = []
    if waiting:
        yield encode_entries(waiting)


def _put(path: Path, data: bytes) -> bool:
    """Whether the file had to be written."""
    try:
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    replace_file(path, data)
    return True


def _remove_parts(path: Path) -> None:
    """The unfinished forms of a tile that is full now."""
    parts = path.with_name(f"{path.name}.p")
    try:
        if parts.is_dir():
            for part in parts.iterdir():
                part.unlink()
            parts.rmdir()
    except OSError as error:
        raise _unwritable(parts, error) from error


def _unwritable(path: Path, error: OSError) -> Unavailable:
    message = f"The file {path} cannot be written: {error.strerror}."
    return Unavailable(Reason.STORAGE_FULL, message, hint="make room, or check the folder")
