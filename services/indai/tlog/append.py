"""Appending to a log: who may, and what became of an entry.

An append is the last statement of the caller's own transaction, so a state change and its leaves stand or
fall together. It locks the log's head until COMMIT, which makes indexes contiguous and lets readers trust
`head.size`.

A log has one writer at a time, known by its epoch. `take_over` raises the epoch; whoever held the log
before, even paused in the middle of a batch, is refused at its next append (LOG_FENCED). A writer that was
fenced must not take the log back by itself: two that do so would fence each other for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg
from indai.protocol.errors import Reason, Refused, Unavailable
from indai.storage.migrations import Schema
from indai.storage.pool import transaction

SCHEMA = Schema("tlog", "indai.tlog")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is appended. `(owner, mid, kind)` names it: the log has it at most once, however often it is
    appended.

    `owner` is the local handle it belongs to, `mid` the 32-byte message id, `leaf` at most 65,535 bytes,
    `time_ms` the leaf's time in ms since the epoch.
    """

    owner: str
    mid: bytes
    kind: int
    leaf: bytes
    time_ms: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an entry stands: its index, and its leaf's time, which for a repeated entry is that of the
    first one."""

    index: int
    time_ms: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class Writer:
    """The right to append to `log`, for as long as nobody else takes it over."""

    log: str
    epoch: int


class HeadMoved(Unavailable):
    """The log has grown since the caller looked: build the leaves again on the new size and repeat."""


async def take_over(pool: asyncpg.Pool, log: str) -> Writer:
    """Become the writer of `log`, made if new. Waits for an append under way; every earlier writer is
    fenced out."""
    async with transaction(pool) as connection:
        return Writer(log, await connection.fetchval("SELECT tlog.take_over($1)", log))


async def begin(pool: asyncpg.Pool, log: str) -> None:
    """Make `log` if it is new, for those who read it before its writer comes; a writer is left alone."""
    async with transaction(pool) as connection:
        if not await connection.fetchval("SELECT true FROM tlog.head WHERE log = $1", log):
            await connection.execute("SELECT tlog.take_over($1)", log)


async def append(
    connection: asyncpg.Connection,
    writer: Writer,
    entries: Sequence[Entry],
    expected_size: int | None = None,
) -> list[Appended]:
    """Append `entries`; the answers, in their order, hold only after the caller's COMMIT.

    The transaction must see the rows of every owner in `entries` (`transaction(pool, owners)`). With
    `expected_size`, for leaves that depend on what stands before them, raises HeadMoved unless the log has
    that size or already has all entries. Raises Refused (LOG_FENCED) when another writer took the log.
    """
    with _answers(writer.log):
        rows = await connection.fetch(
            "SELECT idx, time_ms, added FROM tlog.append($1, $2, $3, $4, $5, $6, $7, $8)",
            writer.log,
            writer.epoch,
            expected_size,
            [entry.owner for entry in entries],
            [entry.mid for entry in entries],
            [entry.kind for entry in entries],
            [entry.leaf for entry in entries],
            [entry.time_ms for entry in entries],
        )
    return [Appended(row["idx"], row["time_ms"], row["added"]) for row in rows]


async def settle(connection: asyncpg.Connection, log: str, entries: Sequence[Entry]) -> list[Appended | None]:
    """What became of `entries` whose COMMIT got no answer: None for one the log does not have.

    Waits for an append still under way, so the answer is final for connections lost before the call.
    """
    rows = await connection.fetch(
        "SELECT idx, time_ms FROM tlog.settle($1, $2, $3, $4)",
        log,
        [entry.owner for entry in entries],
        [entry.mid for entry in entries],
        [entry.kind for entry in entries],
    )
    return [None if row["idx"] is None else _known(row) for row in rows]


def _known(row: asyncpg.Record) -> Appended:
    return Appended(row["idx"], row["time_ms"], is_new=False)


@contextmanager
def _answers(log: str) -> Iterator[None]:
    """The errors that `tlog.append` raises on purpose."""
    try:
        yield
    except asyncpg.PostgresError as error:
        match error.sqlstate:
            case "TL001":
                raise fenced(log) from error
            case "TL002":
                raise HeadMoved(
                    Reason.STALE_HEAD, f"The log {log} has grown meanwhile.", hint="Build the leaves again."
                ) from error
        raise


def fenced(log: str) -> Refused:
    """Another process holds the log now."""
    return Refused(
        Reason.LOG_FENCED,
        f"Another process has taken over the log {log}.",
        hint="Stop one of the two; the one started last goes on.",
    )
