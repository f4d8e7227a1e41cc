"""Tiles and entry bundles of a log, served as plain bytes (C2SP tlog-tiles).

A tile is a run of up to 256 hashes of one level of the tree; tile levels are 8 tree levels apart, and a
hash above level 0 stands for a full tile below. An entry bundle holds up to 256 entries, each with a 16-bit
length before it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.merkle import HASH_SIZE, Reader, root
from indai.protocol.quoting import quoted

TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
MAX_ENTRY = 65_535
_MAX_LEVEL = 7  # a level-7 tile covers 2^64 leaves

_PATH = re.compile(r"tile/(entries|[0-7])((?:/x[0-9]{3}){0,6}/[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile's place: its tile level (None for an entry bundle), index, and width (256 when full)."""

    level: int | None
    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if self.level is not None and not 0 <= self.level <= _MAX_LEVEL:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"There are no tiles at level {self.level}.")
        if self.index < 0 or not 0 < self.width <= TILE_WIDTH:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"A tile holds 1 to {TILE_WIDTH} hashes.")

    @property
    def path(self) -> str:
        """The path under the log's prefix: `tile/0/x001/x234/067.p/112`."""
        groups = [f"{self.index % 1000:03d}"]
        rest = self.index // 1000
        while rest:
            groups.append(f"x{rest % 1000:03d}")
            rest //= 1000
        level = "entries" if self.level is None else str(self.level)
        suffix = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{level}/{'/'.join(reversed(groups))}{suffix}"

    @classmethod
    def parse(cls, path: str) -> Tile:
        """Read a path in its one canonical form; raises InvalidInput(INVALID_ARGUMENT)."""
        match = _PATH.fullmatch(path)
        if match is not None and int(match[3] or TILE_WIDTH) <= TILE_WIDTH:
            level = None if match[1] == "entries" else int(match[1])
            tile = cls(level, int(re.sub("[/x]", "", match[2])), int(match[3] or TILE_WIDTH))
            if tile.path == path:
                return tile
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{quoted(path)} is not the path of a tile.")


def tiles_of(size: int, old_size: int = 0) -> Iterator[Tile]:
    """The hash tiles and entry bundles of a tree of `size` that a tree of `old_size` does not have."""
    for level in range(_MAX_LEVEL + 1):
        hashes, old = size >> level * TILE_HEIGHT, old_size >> level * TILE_HEIGHT
        if hashes == old:
            return
        for index in range(old // TILE_WIDTH, (hashes + TILE_WIDTH - 1) // TILE_WIDTH):
            width = min(TILE_WIDTH, hashes - index * TILE_WIDTH)
            yield Tile(level, index, width)
            if level == 0:
                yield Tile(None, index, width)


def encode_hashes(hashes: Sequence[bytes]) -> bytes:
    """The bytes of a hash tile."""
    return b"".join(hashes)


def decode_hashes(data: bytes) -> list[bytes]:
    """The hashes of a tile; raises ProtocolError(MALFORMED)."""
    if len(data) % HASH_SIZE or not 0 < len(data) <= TILE_WIDTH * HASH_SIZE:
        raise _malformed(f"{len(data)} bytes are not 1 to {TILE_WIDTH} hashes")
    return [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]


def encode_entries(entries: Sequence[bytes]) -> bytes:
    """The bytes of an entry bundle; raises InvalidInput for an entry over 65,535 bytes."""
    if any(len(entry) > MAX_ENTRY for entry in entries):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"An entry of a log has at most {MAX_ENTRY} bytes.")
    return b"".join(struct.pack(">H", len(entry)) + entry for entry in entries)


def decode_entries(data: bytes) -> list[bytes]:
    """The entries of a bundle; raises ProtocolError(MALFORMED)."""
    entries = []
    pos = 0
    while pos < len(data):
        stop = pos + 2 + int.from_bytes(data[pos : pos + 2], "big")
        if pos + 2 > len(data) or stop > len(data):
            raise _malformed("an entry bundle ends inside an entry")
        entries.append(data[pos + 2 : stop])
        pos = stop
    if not 0 < len(entries) <= TILE_WIDTH:
        raise _malformed(f"an entry bundle holds 1 to {TILE_WIDTH} entries")
    return entries


def tile_reader(hashes_of: Callable[[int, int], Sequence[bytes]]) -> Reader:
    """A reader of perfect subtrees over `(tile level, tile index) -> hashes`; a missing hash is BAD_PROOF."""

    def read(level: int, index: int) -> bytes:
        height = level % TILE_HEIGHT
        first = index << height
        start = first % TILE_WIDTH
        tile = hashes_of(level // TILE_HEIGHT, first // TILE_WIDTH)
        run = tile[start : start + (1 << height)]
        if len(run) != 1 << height:
            message = f"The tiles do not hold the subtree at level {level}, index {index}."
            raise ProtocolError(Reason.BAD_PROOF, message, rule="LOG-08")
        return root(run)

    return read


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"This is not a tile: {why}.", rule="LOG-08")
