"""Turning committed leaves into hash tiles.

Works in steps, each its own transaction and each going on from the tiles that the last one stored. So a start
never hashes what was hashed before, a kill loses one step, and no step holds the event loop or a lock for
long. Who is far behind, as after an import, takes larger steps beside the event loop: what such a step costs
is mostly its COMMIT.
"""

from __future__ import annotations

import asyncio

import asyncpg
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.tiles import decode_hashes, encode_hashes
from indai.storage.pool import transaction
from indai.tlog.append import fenced
from indai.tlog.frontier import Frontier, GrownTile

# Leaves a step: about 3 ms of hashing, which is how long the event loop stands still; and behind that many.
_STEP = 2048
_LONG_STEP = 32_768


class Hasher:
    """Hashes one log. `epoch` is the right to; see `take_over_signing`."""

    def __init__(self, pool: asyncpg.Pool, log: str, epoch: int) -> None:
        self._pool = pool
        self._log = log
        self._epoch = epoch
        self._frontier: Frontier | None = None  # the tree after our last COMMIT; None: read it again

    async def advance(self) -> Frontier:
        """Hash every leaf committed so far; the frontier of the tree. Raises Refused (LOG_FENCED), IndaiError
        (LOG_ROLLED_BACK) when something of the log is gone."""
        frontier, more = await self._step(_STEP)
        while more:
            frontier, more = await self._step(_LONG_STEP)
        return frontier

    async def _step(self, most: int) -> tuple[Frontier, bool]:
        """Hash at most so many leaves; the tree then, and whether there may be more."""
        # If this step fails, what is in memory may be ahead of the database: it is read again next time.
        frontier, self._frontier = self._frontier, None
        async with transaction(self._pool) as connection:
            size = await hold(connection, self._log, self._epoch)
            if frontier is None or frontier.size != size:
                frontier = await _read_frontier(connection, self._log, size)
            leaves = await connection.fetch(
                "SELECT idx, leaf FROM tlog.leaf WHERE log = $1 AND idx >= $2 AND idx < $3 ORDER BY idx",
                self._log,
                size,
                size + most,
            )
            if leaves:
                if leaves[-1]["idx"] != size + len(leaves) - 1:
                    raise _damaged(self._log, f"a leaf after leaf {size - 1} is missing")
                new = [row["leaf"] for row in leaves]
                large = len(new) > _STEP
                grown = await asyncio.to_thread(frontier.extend, new) if large else frontier.extend(new)
                await _store(connection, self._log, frontier.size, grown)
        self._frontier = frontier
        return frontier, len(leaves) == most


async def take_over_signing(pool: asyncpg.Pool, log: str) -> int:
    """Become the one process that hashes and signs `log`; returns the epoch to do it with."""
    async with transaction(pool) as connection:
        epoch: int = await connection.fetchval(
            "INSERT INTO tlog.tree (log, epoch) VALUES ($1, 1)"
            " ON CONFLICT (log) DO UPDATE SET epoch = tree.epoch + 1 RETURNING epoch",
            log,
        )
        return epoch


async def hold(connection: asyncpg.Connection, log: str, epoch: int) -> int:
    """Lock the tree until COMMIT and return its size; raises Refused (LOG_FENCED) under another epoch."""
    row = await connection.fetchrow("SELECT size, epoch FROM tlog.tree WHERE log = $1 FOR UPDATE", log)
    if row is None or row["epoch"] != epoch:
        raise fenced(log)
    size: int = row["size"]
    return size


async def _read_frontier(connection: asyncpg.Connection, log: str, size: int) -> Frontier:
    wanted = Frontier.partial_tiles(size)
    rows = await connection.fetch(
        "SELECT t.level, t.hashes FROM tlog.tile t JOIN unnest($2::smallint[], $3::bigint[]) AS w(level, idx)"
        " ON t.log = $1 AND t.level = w.level AND t.idx = w.idx",
        log,
        [level for level, _, _ in wanted],
        [index for _, index, _ in wanted],
    )
    hashes = {row["level"]: decode_hashes(row["hashes"]) for row in rows}
    for level, index, width in wanted:
        if len(hashes.get(level, ())) < width:
            raise _damaged(log, f"the hash tile level {level} index {index} is missing or too short")
    return Frontier(size, {level: hashes[level][:width] for level, _, width in wanted})


def _damaged(log: str, what: str) -> IndaiError:
    return IndaiError(
        Reason.LOG_ROLLED_BACK,
        f"The log {log} has lost something: {what}.",
        hint="Restore the newest database; `indai ledger fsck` names what is damaged.",
    )


async def _store(connection: asyncpg.Connection, log: str, size: int, grown: list[GrownTile]) -> None:
    await connection.execute(
        "INSERT INTO tlog.tile (log, level, idx, hashes)"
        " SELECT $1, * FROM unnest($2::smallint[], $3::bigint[], $4::bytea[])"
        " ON CONFLICT (log, level, idx) DO UPDATE SET hashes = excluded.hashes",
        log,
        [tile.level for tile in grown],
        [tile.index for tile in grown],
        [encode_hashes(tile.hashes) for tile in grown],
    )
    await connection.execute("UPDATE tlog.tree SET size = $2 WHERE log = $1", log, size)
