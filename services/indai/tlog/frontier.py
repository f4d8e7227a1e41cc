"""The right edge of a log's hash tiles (C2SP tlog-tiles): pure, incremental, restartable.

Of every tile level the frontier keeps the one tile that is not full. Appending a leaf touches that tile
alone; a tile that fills is handed out and its root goes to the level above. So going on from a stored edge
costs nothing, and the root of the whole tree follows from at most a few hundred hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from indai.protocol.merkle import leaf_hash, root, root_from
from indai.protocol.tiles import TILE_HEIGHT, TILE_WIDTH, tile_reader


@dataclass(frozen=True, slots=True)
class GrownTile:
    """A tile with hashes it did not have before, from its first to its last."""

    level: int
    index: int
    hashes: tuple[bytes, ...]


class Frontier:
    """A tree of `size` leaves, by its partial tiles."""

    def __init__(self, size: int = 0, partial: Mapping[int, Sequence[bytes]] | None = None) -> None:
        """`partial` maps each tile level to the hashes of its unfinished tile; levels without one may be
        left out."""
        self.size = size
        self._partial = {level: list(hashes) for level, hashes in (partial or {}).items()}

    @staticmethod
    def partial_tiles(size: int) -> list[tuple[int, int, int]]:
        """What a tree of `size` needs to go on: (level, index, width) of its unfinished tiles."""
        tiles = []
        for level in range(8):
            hashes = size >> level * TILE_HEIGHT
            if hashes % TILE_WIDTH:
                tiles.append((level, hashes // TILE_WIDTH, hashes % TILE_WIDTH))
        return tiles

    def extend(self, leaves: Iterable[bytes]) -> list[GrownTile]:
        """Add leaves (their bytes, not hashes); returns every tile that grew, the full ones once, in any
        order."""
        grown: dict[tuple[int, int], GrownTile] = {}
        hashes = [leaf_hash(leaf) for leaf in leaves]
        self._push(0, hashes, grown)
        self.size += len(hashes)
        for level, index, _ in self.partial_tiles(self.size):
            grown[level, index] = GrownTile(level, index, tuple(self._partial[level]))
        return list(grown.values())

    def root(self) -> bytes:
        """The root of the tree."""
        # Every perfect subtree that a root is made of lies in an unfinished tile.
        return root_from(tile_reader(lambda level, _: self._partial[level]), self.size)

    def _push(self, level: int, hashes: list[bytes], grown: dict[tuple[int, int], GrownTile]) -> None:
        """Add hashes to a level, a tile at a time."""
        # self.size still lacks what is being added, so this is the index of the level's unfinished tile.
        index = self.size >> (level + 1) * TILE_HEIGHT
        row = self._partial.get(level, []) + hashes
        above = []
        while len(row) >= TILE_WIDTH:
            tile, row = row[:TILE_WIDTH], row[TILE_WIDTH:]
            grown[level, index] = GrownTile(level, index, tuple(tile))
            above.append(root(tile))
            index += 1
        self._partial[level] = row
        if above:
            self._push(level + 1, above, grown)
