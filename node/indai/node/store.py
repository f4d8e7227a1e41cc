"""The node's tables: one statement loads what a batch must know, one applies what it changes.

The engine (`indai.node.engine`) owns every write here but three: agents (`indai.node.agents`), done effects
(`indai.node.effects`) and journal lines about messages that never became part of a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from indai.node.holdings import Holdings, Spent, key_of
from indai.protocol.kinds.base import Stock
from indai.protocol.kinds.meet import MAX_TIMES
from indai.storage.migrations import Schema
from indai.storage.pool import transaction, translate_errors
from indai.tlog.append import fenced

SCHEMA = Schema("node", "indai.node")

Row = dict[str, Any]
Key = tuple[str, bytes]
Doc = Mapping[str, Sequence[Row]]

_LOAD = "SELECT * FROM node.load_batch($1, $2, $3, $4, $5)"
_APPLY = "SELECT node.apply_batch($1, $2::jsonb, $3, $4, $5)"
FENCED = "TL001"
_BYTEA = ("thread", "mid", "reserved_mid")


@dataclass(slots=True)
class Loaded:
    """What was read. `threads` holds each row with the newest signed bytes of its commitment; `reserved`
    maps an owner to what they have promised or given."""

    clock_ms: int = 0
    threads: dict[Key, tuple[Row, bytes | None]] = field(default_factory=dict)
    reserved: dict[str, Holdings] = field(default_factory=dict)


def hexed(value: bytes | None) -> str | None:
    """Bytes as Postgres reads them inside a JSON document."""
    return None if value is None else "\\x" + value.hex()


class Store:
    """Access to schema `node`; every call names its owners."""

    def __init__(self, pool: asyncpg.Pool, log: str) -> None:
        self._pool = pool
        self._log = log
        self.fenced = asyncio.Event()

    async def load(
        self, owners: Iterable[str], threads: Sequence[Key], busy_owners: Sequence[str], busy_from_ms: int
    ) -> Loaded:
        """Read for a batch, in one round trip."""
        with translate_errors():
            rows = await self._pool.fetch(
                _LOAD,
                sorted(owners),
                [t[0] for t in threads],
                [t[1] for t in threads],
                busy_owners,
                busy_from_ms,
            )
        loaded = _sort(rows, busy_owners)
        if busy_owners:
            await self._load_holds(loaded, busy_owners, busy_from_ms)
        return loaded

    async def _load_holds(self, loaded: Loaded, owners: Sequence[str], from_ms: int) -> None:
        with translate_errors():
            rows = await self._pool.fetch("SELECT * FROM node.load_holds($1, $2)", owners, from_ms)
        for owner, mid, item, quantity, start_ms, end_ms, currency, amount_minor, day, peer in rows:
            held = loaded.reserved[owner]
            if item is not None:
                held.stock[mid] = Stock(item, quantity, start_ms, end_ms)
            else:
                held.money[mid] = Spent(amount_minor, currency, day, peer)

    async def apply(self, owners: Iterable[str], doc: Doc, epoch: int, size: int | None) -> int:
        """Write a batch in one transaction; returns the database's clock (ms) after COMMIT.

        `size` is the ledger size the batch counts on. Raises Refused(LOG_FENCED), and sets `fenced`, when
        another process has taken the ledger over. Constraint violations and the other SQLSTATEs of our own
        functions (classes IN and TL) pass as asyncpg.PostgresError: the engine knows what they mean.
        """
        text = json.dumps({name: rows for name, rows in doc.items() if rows})
        try:
            with translate_errors():
                clock: int = await self._pool.fetchval(_APPLY, sorted(owners), text, self._log, epoch, size)
        except asyncpg.PostgresError as error:
            if error.sqlstate != FENCED:
                raise
            self.fenced.set()
            raise fenced(self._log) from None
        return clock

    @asynccontextmanager
    async def scope(self, *owners: str) -> AsyncIterator[asyncpg.Connection]:
        """A transaction that sees these owners' rows and no others."""
        async with transaction(self._pool, owners) as connection:
            yield connection

    async def replies(self, owner: str, mid: bytes, move: str) -> list[bytes]:
        """The stored outcome of a known message: what we sent in answer to it at once."""
        async with self.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT envelope FROM node.messages WHERE owner = $1 AND cause_mid = $2 AND cause_move = $3"
                " ORDER BY position",
                owner,
                mid,
                move,
            )
        return [row["envelope"] for row in rows]

    async def crowds(self, owners: Sequence[str]) -> list[tuple[str, str, int, int]]:
        """(owner, peer, threads the peer began that are open, those that wait for the owner)."""
        async with self.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT owner, peer, count(*), count(*) FILTER (WHERE phase = 'ASKING_OWNER')"
                " FROM node.threads WHERE owner = ANY($1) AND NOT outgoing"
                " AND phase NOT IN ('COMMITTED', 'REJECTED', 'WITHDRAWN', 'LAPSED') GROUP BY owner, peer",
                owners,
            )
        return [tuple(row) for row in rows]

    async def mark_done(self, effects: Sequence[tuple[str, str]]) -> None:
        """Effects, by owner and key, that were carried out."""
        async with self.scope(*{owner for owner, _ in effects}) as connection:
            await connection.execute(
                "UPDATE node.effects e SET done = true FROM unnest($1::text[], $2::text[]) AS d (owner, key)"
                " WHERE e.owner = d.owner AND e.kind IN ('calendar-put', 'tell-owner') AND e.key = d.key",
                [owner for owner, _ in effects],
                [key for _, key in effects],
            )

    async def erase(self, owner: str, thread: bytes, now_ms: int) -> int | None:
        """Erase what an ended thread says, here and in the ledger; how many entries, None if it still goes
        on.
        """
        async with self.scope(owner) as connection:
            mid = await connection.fetchval(
                "SELECT mid FROM node.threads WHERE owner = $1 AND thread = $2", owner, thread
            )
            erased: int | None = await connection.fetchval(
                "SELECT node.erase_thread($1, $2, $3, $4)", owner, thread, self._log, now_ms
            )
            if erased is not None and mid is not None:  # the function knows the first time of a meeting alone
                await connection.execute(
                    "DELETE FROM node.reservations WHERE owner = $1 AND mid = ANY($2)"
                    " AND upper(slot) < to_timestamp($3 / 1000.0)",
                    owner,
                    [key_of(mid, place) for place in range(1, MAX_TIMES)],
                    now_ms,
                )
            if erased is not None:  # nobody is reminded of what is gone
                await connection.execute(
                    "UPDATE node.threads SET wake_ms = NULL WHERE owner = $1 AND thread = $2", owner, thread
                )
        return erased

    async def ledger_size(self) -> int:
        """Entries in this node's ledger."""
        with translate_errors():
            size: int = await self._pool.fetchval("SELECT size FROM tlog.head WHERE log = $1", self._log)
        return size

    async def thread_of_commitment(self, owner: str, mid: bytes) -> bytes | None:
        """The thread in which the owner's commitment was agreed, if there is one."""
        async with self.scope(owner) as connection:
            thread: bytes | None = await connection.fetchval(
                "SELECT m.thread FROM node.messages m JOIN node.threads t USING (owner, thread)"
                " WHERE m.owner = $1 AND m.mid = $2 AND t.mid = $2 AND t.phase = 'COMMITTED' LIMIT 1",
                owner,
                mid,
            )
        return thread

    async def thread_of_offer(self, owner: str, mid: bytes) -> bytes | None:
        """The thread in which this was offered to, or by, the owner, whatever came of it."""
        async with self.scope(owner) as connection:
            thread: bytes | None = await connection.fetchval(
                "SELECT thread FROM node.messages"
                " WHERE owner = $1 AND mid = $2 AND move IN ('OFFER', 'ACCEPT') LIMIT 1",
                owner,
                mid,
            )
        return thread

    async def thread_of_request(self, owner: str, request_id: str) -> bytes | None:
        """The thread that a repeated request began."""
        async with self.scope(owner) as connection:
            thread: bytes | None = await connection.fetchval(
                "SELECT thread FROM node.threads WHERE owner = $1 AND request_id = $2", owner, request_id
            )
        return thread


def _sort(rows: Sequence[asyncpg.Record], busy_owners: Sequence[str]) -> Loaded:
    loaded = Loaded(reserved={owner: Holdings() for owner in busy_owners})
    for what, owner, key, num1, num2, doc, raw in rows:
        match what:
            case "clock":
                loaded.clock_ms = num1
            case "thread":
                loaded.threads[owner, key] = _row(doc), raw
            case "reserved":
                loaded.reserved[owner].slots[key] = (num1, num2)
    return loaded


def _row(text: str) -> Row:
    row: Row = json.loads(text)
    for name in _BYTEA:
        if row[name] is not None:
            row[name] = bytes.fromhex(row[name][2:])
    return row
