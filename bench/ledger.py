"""Ledger appends a second, against the same rows inserted into the same tables without any of its promises.

The bare tables have the ledger's columns and indexes. What they lack is what the ledger does on top: the
head's lock, gapless indexes, the fence, idempotence, row-level security. Both commit batches of one size.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from indai.ledger.entries import Entry, columns, prepare, record
from indai.ledger.vault import Vault
from indai.protocol.leaf import LeafKind
from indai.storage.pool import transaction
from indai.tlog.append import Entry as LeafEntry
from indai.tlog.append import Writer, take_over
from indai.tlog.sequencer import Sequencer

LOG = "ind.ai/bench/ledger/2026"
OWNERS = [f"ind.ai/owner-{number}" for number in range(64)]
ENVELOPE_BYTES = 900
WAITING = 256

SETUP = """
    CREATE SCHEMA IF NOT EXISTS bench;
    CREATE TABLE bench.leaf (LIKE tlog.leaf INCLUDING ALL);
    CREATE TABLE bench.entry (LIKE tlog.entry INCLUDING ALL);
    CREATE TABLE bench.contents (LIKE ledger.contents INCLUDING ALL);
    CREATE TABLE bench.content_keys (LIKE ledger.content_keys INCLUDING ALL);
    GRANT USAGE ON SCHEMA bench TO indai_app;
    GRANT ALL ON ALL TABLES IN SCHEMA bench TO indai_app;
"""
_LEAVES = """
    INSERT INTO bench.leaf (log, idx, leaf, time)
    SELECT $1, i, l, t FROM unnest($2::bigint[], $3::bytea[], $4::timestamptz[]) AS r (i, l, t)
"""
_ENTRIES = """
    INSERT INTO bench.entry (log, owner, mid, kind, idx)
    SELECT $1, o, m, k, i FROM unnest($2::text[], $3::bytea[], $4::smallint[], $5::bigint[]) AS r (o, m, k, i)
"""
_CONTENTS = """
    INSERT INTO bench.contents (log, owner, mid, kind, idx, content)
    SELECT $1, o, m, k, i, c
    FROM unnest($2::text[], $3::bytea[], $4::smallint[], $5::bigint[], $6::bytea[]) AS r (o, m, k, i, c)
"""
_KEYS = """
    INSERT INTO bench.content_keys (log, owner, idx, key)
    SELECT $1, o, i, k FROM unnest($2::text[], $3::bigint[], $4::bytea[]) AS r (o, i, k)
"""
VAULT = Vault(os.urandom(32))


@dataclass(frozen=True, slots=True)
class Appends:
    """Entries a second, ours and bare, in batches of one size."""

    what: str
    batch: int
    ours: float
    bare: float

    def figures(self) -> dict[str, Any]:
        """As in the report."""
        return {
            "what": self.what,
            "batch": self.batch,
            "ours_per_second": round(self.ours),
            "bare_per_second": round(self.bare),
            "ratio": round(self.ours / self.bare, 2),
        }


async def appends(pool: asyncpg.Pool, admin: str, entries: int, batches: tuple[int, ...]) -> list[Appends]:
    """Both sides by turns, in slices, so that what else the machine does hits both alike."""
    connection = await asyncpg.connect(admin)
    await connection.execute(SETUP)
    await connection.close()
    writer = await take_over(pool, LOG)
    bare = Bare(pool)
    found = []
    for batch in batches:
        slices = [some_entries(batch) for _ in range(max(2, entries // batch))]
        ours_s = bare_s = 0.0
        for rows in slices:
            ours_s += await _timed(_record(pool, writer, rows))
            bare_s += await _timed(bare.insert(rows, contents=True))
        count = batch * len(slices)
        found.append(
            Appends("entries with contents, one transaction a batch", batch, count / ours_s, count / bare_s)
        )
    found.append(await _sequenced(pool, writer, bare, entries))
    return found


async def _sequenced(pool: asyncpg.Pool, writer: Writer, bare: Bare, entries: int) -> Appends:
    """Callers that each wait for their own leaf, against a loop that inserts as many at once."""
    ours_s = bare_s = 0.0
    rounds = max(2, entries // WAITING)
    async with Sequencer(pool, writer) as sequencer:
        for _ in range(rounds):
            rows = some_entries(WAITING)
            leaves = [LeafEntry(row.owner, row.mid, int(row.kind), row.leaf, row.time_ms) for row in rows]
            ours_s += await _timed(asyncio.gather(*(sequencer.submit(leaf) for leaf in leaves)))
            bare_s += await _timed(bare.insert(rows, contents=False))
    count = rounds * WAITING
    return Appends("leaves of waiting callers, by the sequencer", WAITING, count / ours_s, count / bare_s)


class Bare:
    """Inserts, with indexes counted here."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._next = itertools.count()

    async def insert(self, rows: list[Entry], *, contents: bool) -> None:
        """A transaction of these rows."""
        async with transaction(self._pool) as connection:
            await self.rows(connection, rows, contents=contents)

    async def rows(self, connection: asyncpg.Connection, rows: Sequence[Entry], *, contents: bool) -> None:
        """These rows, inside the caller's transaction."""
        owners, mids, kinds, sealed, keys, leaves, times = columns(rows, VAULT)
        places = [next(self._next) for _ in rows]
        await connection.execute(_LEAVES, LOG, places, leaves, times)
        await connection.execute(_ENTRIES, LOG, owners, mids, kinds, places)
        if contents:
            await connection.execute(_CONTENTS, LOG, owners, mids, kinds, places, sealed)
            await connection.execute(_KEYS, LOG, owners, places, keys)


async def _record(pool: asyncpg.Pool, writer: Writer, rows: list[Entry]) -> None:
    async with transaction(pool, sorted({row.owner for row in rows})) as connection:
        await record(connection, LOG, writer.epoch, rows, VAULT)


def some_entries(size: int) -> list[Entry]:
    """Fresh entries of 64 owners, as large as a commitment with its signatures."""
    now = time.time_ns() // 1_000_000
    return [
        prepare(
            OWNERS[place % len(OWNERS)], os.urandom(32), LeafKind.COMMITMENT, os.urandom(ENVELOPE_BYTES), now
        )
        for place in range(size)
    ]


async def _timed(work: Any) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began
