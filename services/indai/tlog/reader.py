"""Reading a log: entries, tiles, proofs and checkpoints, in any process that reaches the database.

Proofs come from stored tiles: O(log n) hashes, fetched in one query. Nothing beyond the hashed size is
served.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.merkle import (
    HASH_SIZE,
    Node,
    Reader,
    consistency_nodes,
    consistency_proof_from,
    inclusion_nodes,
    inclusion_proof_from,
    root_from,
    root_nodes,
)
from indai.protocol.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, decode_hashes, encode_entries, tile_reader
from indai.storage.pool import transaction

MAX_ENTRIES = 1024


class LogReader:
    """Serves one log. Every method raises Unavailable when the database is out of reach."""

    def __init__(self, pool: asyncpg.Pool, log: str) -> None:
        self._pool = pool
        self._log = log

    async def size(self) -> int:
        """How many leaves are hashed, and so can be proved; 0 for a log that is not there."""
        async with transaction(self._pool) as connection:
            return await connection.fetchval("SELECT size FROM tlog.tree WHERE log = $1", self._log) or 0

    async def entries(self, start: int, count: int) -> list[bytes]:
        """The leaves from `start` on, at most `count` and at most 1,024; fewer at the end of the log."""
        if start < 0 or count < 1:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "Entries are asked for from 0 on, one at least.")
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                "SELECT leaf FROM tlog.leaf WHERE log = $1 AND idx >= $2 AND idx < $3"
                " AND idx < (SELECT size FROM tlog.tree WHERE log = $1) ORDER BY idx",
                self._log,
                start,
                start + min(count, MAX_ENTRIES),
            )
        return [row["leaf"] for row in rows]

    async def tile(self, tile: Tile) -> bytes:
        """The bytes of a hash tile or entry bundle of the asked width; NotFound while the log is not that
        far.
        """
        if tile.level is None:
            entries = await self.entries(tile.index * TILE_WIDTH, tile.width)
            if len(entries) < tile.width:
                raise _missing(self._log, tile.path)
            return encode_entries(entries)
        async with transaction(self._pool) as connection:
            hashes: bytes | None = await connection.fetchval(
                "SELECT substr(hashes, 1, $4) FROM tlog.tile WHERE log = $1 AND level = $2 AND idx = $3",
                self._log,
                tile.level,
                tile.index,
                tile.width * HASH_SIZE,
            )
        if hashes is None or len(hashes) < tile.width * HASH_SIZE:
            raise _missing(self._log, tile.path)
        return hashes

    async def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """The path from leaf `index` to the root of the tree of `size`; InvalidInput when out of range."""
        reader = await self._tiles([node for nodes in inclusion_nodes(index, size) for node in nodes])
        return inclusion_proof_from(reader, index, size)

    async def consistency_proof(self, old: int, new: int) -> list[bytes]:
        """The proof that the tree of `old` leaves is a prefix of that of `new`; InvalidInput when out of
        range.
        """
        reader = await self._tiles([node for nodes in consistency_nodes(old, new) for node in nodes])
        return consistency_proof_from(reader, old, new)

    async def root(self, size: int) -> bytes:
        """The root of the tree of the first `size` leaves; NotFound while the log is not that far."""
        return root_from(await self._tiles(root_nodes(size)), size)

    async def checkpoint(self) -> bytes:
        """The newest signed head with its newest time line; NotFound before the first."""
        async with transaction(self._pool) as connection:
            note = await connection.fetchval("SELECT note FROM tlog.published WHERE log = $1", self._log)
        if note is None:
            raise _missing(self._log, "a checkpoint")
        return bytes(note)

    async def checkpoint_at(self, size: int) -> bytes:
        """See `signed_at`. Raises NotFound while no signed head covers `size` leaves."""
        note = await self.signed_at(size)
        if note is None:
            raise _missing(self._log, f"a checkpoint of {size} leaves")
        return note

    async def signed_at(self, size: int) -> bytes | None:
        """The first signed head that covers `size` leaves: the smallest to prove the last of them in."""
        async with transaction(self._pool) as connection:
            note = await connection.fetchval(
                "SELECT note FROM tlog.checkpoint WHERE log = $1 AND size >= $2 ORDER BY size LIMIT 1",
                self._log,
                size,
            )
        return None if note is None else bytes(note)

    async def _tiles(self, nodes: Sequence[Node]) -> Reader:
        async with transaction(self._pool) as connection:
            return await read_tiles(connection, self._log, nodes)


async def read_tiles(connection: asyncpg.Connection, log: str, nodes: Sequence[Node]) -> Reader:
    """A reader of exactly `nodes`, looked up together; NotFound if one is not hashed yet."""
    places = {_place(node) for node in nodes}
    rows = await connection.fetch(
        "SELECT t.level, t.idx, t.hashes FROM unnest($2::smallint[], $3::bigint[]) AS w(level, idx)"
        " CROSS JOIN LATERAL (SELECT * FROM tlog.tile t"
        " WHERE t.log = $1 AND t.level = w.level AND t.idx = w.idx) t",
        log,
        [level for level, _ in places],
        [index for _, index in places],
    )
    tiles = {(row["level"], row["idx"]): decode_hashes(row["hashes"]) for row in rows}
    for node in nodes:
        level, index = node
        end = ((index + 1) << level % TILE_HEIGHT) - _place(node)[1] * TILE_WIDTH
        if len(tiles.get(_place(node), ())) < end:
            raise _missing(log, f"leaf {((index + 1) << level) - 1}")
    return tile_reader(lambda level, index: tiles[level, index])


def _place(node: Node) -> tuple[int, int]:
    """The tile that holds a node: its tile level and index."""
    level, index = node
    return level // TILE_HEIGHT, (index << level % TILE_HEIGHT) // TILE_WIDTH


def _missing(log: str, what: str) -> NotFound:
    return NotFound(Reason.NOT_FOUND, f"The log {log} does not have {what} yet.")
