"""What the registry holds in memory of its tables: the published state, and what is committed beyond it.

A look-up must answer for the last *signed* head, while newer operations are committed. So the changes of a
batch are kept as a *delta* until a head covers them. Two rules make that right:

- a tile is in the published part before a batch changes it, and stays there while a delta has another
  version: the database holds the newest only;
- what was read from the database enters the published part only if no delta was merged and nothing dropped
  since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indai.protocol.sparsemap import Tile
from indai.registry.records import Record

MAX_RECORDS = 20_000
MAX_TILES = 100_000
PREFETCHED = 12  # hex digits: one query reads every tile that a map of 2^40 handles can have on a key's path


class TileMissing(Exception):
    """A tile that is needed is not in memory: read it and begin again. Never leaves this package."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Delta:
    """What the operations from `start` to `end` of the log changed."""

    start: int
    end: int
    records: Mapping[str, Record]
    tiles: Mapping[str, Tile]
    last_leaf: bytes


class Memory:
    """Records and tiles, published and beyond. A record of None is a handle that does not exist."""

    def __init__(self) -> None:
        self.records: dict[str, Record | None] = {}
        self.tiles: dict[str, Tile | None] = {}
        self.deltas: list[Delta] = []
        # Changes whenever something read earlier from the database may be out of date.
        self.generation = 0

    def settle(self, size: int) -> None:
        """The log has `size` leaves: a delta beyond is of a failed transaction; a gap means start afresh."""
        self.deltas = [delta for delta in self.deltas if delta.end <= size]
        if self.deltas and self.deltas[-1].end != size:
            self.drop()

    def publish(self, size: int) -> None:
        """A head of `size` was signed: merge what it covers."""
        for delta in self.deltas:
            if delta.end <= size:
                self.records.update(delta.records)
                self.tiles.update(delta.tiles)
        self.deltas = [delta for delta in self.deltas if delta.end > size]
        self.generation += 1
        if not self.deltas and (len(self.records) > MAX_RECORDS or len(self.tiles) > MAX_TILES):
            self.drop()

    def drop(self) -> None:
        """Forget everything; it is read again when needed."""
        self.records.clear()
        self.tiles.clear()
        self.deltas.clear()
        self.generation += 1

    def newest_record(self, handle: str) -> Record | None:
        """The handle's record with all that is committed; raises KeyError when it is not in memory."""
        for delta in reversed(self.deltas):
            if handle in delta.records:
                return delta.records[handle]
        return self.records[handle]

    def newest_tile(self, path: str) -> Tile | None:
        """A tile with all that is committed; raises TileMissing."""
        for delta in reversed(self.deltas):
            if path in delta.tiles:
                return delta.tiles[path]
        return self.published_tile(path)

    def published_tile(self, path: str) -> Tile | None:
        """A tile as the last signed head has it; raises TileMissing."""
        try:
            return self.tiles[path]
        except KeyError:
            raise TileMissing(path) from None


def prefixes(key: bytes, path: str = "") -> list[str]:
    """The paths of the tiles that may lie on the way to `key`, from `path` on."""
    digits = key.hex()
    return [digits[:length] for length in range(len(path), min(len(path) + PREFETCHED, len(digits)))]
