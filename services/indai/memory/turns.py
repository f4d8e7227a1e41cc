"""Turns as they are stored: once by their source's id, in order within a session, with the terms they are
found by.

One statement stores a batch. What follows in the background (facts, vectors, summaries) is enqueued by the
caller in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory.access import Scope
from indai.memory.interfaces import Role, Trust, Turn
from indai.memory.lexical import terms
from indai.memory.times import at, ms, new_uuid

MAX_COUNT = 32_767  # smallint
# Below it, counting terms costs less than the way to a thread and back.
_FEW_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Saying:
    """A turn with what its row says besides: whom it is about, and whose word it is."""

    turn: Turn
    person: str
    trust: Trust


@dataclass(frozen=True, slots=True)
class Stored:
    """A turn that was new: its chunk, its session's id and its place there."""

    id: UUID
    session: UUID
    place: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class Batch:
    """The stored turns, and whether the scope is on the path of large ones."""

    new: list[Stored]
    path: str


@dataclass(frozen=True, slots=True)
class TermColumns:
    """Terms of some texts as the database takes them: words joined by blanks, their counts, lengths."""

    terms: list[str]
    counts: list[str]
    lengths: list[int]


_STORE = """
    SELECT id, session, place, way FROM memory.store_turns(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
"""


async def store(
    connection: asyncpg.Connection,
    scope: Scope,
    origin: str,
    sayings: Sequence[Saying],
    columns: TermColumns,
    ids: Sequence[UUID] = (),
) -> Batch:
    """Store the turns that are new, in the caller's transaction. `columns` belong to `sayings`, and so do
    `ids`
    where they are kept from an export."""
    turns = [saying.turn for saying in sayings]
    ids = ids or [new_uuid(turn.said_ms) for turn in turns]
    rows = await connection.fetch(
        _STORE,
        scope.tenant,
        scope.id,
        origin,
        ids,
        [turn.source_id for turn in turns],
        [turn.session for turn in turns],
        [new_uuid(turn.said_ms) for turn in turns],
        [turn.speaker for turn in turns],
        [turn.role.value for turn in turns],
        [saying.person for saying in sayings],
        [turn.text for turn in turns],
        columns.terms,
        columns.counts,
        columns.lengths,
        [saying.trust.value for saying in sayings],
        [at(turn.said_ms) for turn in turns],
    )
    by_id = dict(zip(ids, turns, strict=True))
    new = [Stored(row["id"], row["session"], row["place"], by_id[row["id"]]) for row in rows]
    return Batch(new, rows[0]["way"] if rows else "small")


async def count_terms(texts: Sequence[str]) -> TermColumns:
    """The terms of each text, off the event loop when there is much to read."""
    if sum(map(len, texts)) <= _FEW_CHARACTERS:
        return _count(texts)
    return await asyncio.to_thread(_count, texts)


def _count(texts: Sequence[str]) -> TermColumns:
    counted = [Counter(terms(text)) for text in texts]
    return TermColumns(
        [" ".join(each) for each in counted],
        [" ".join(str(min(count, MAX_COUNT)) for count in each.values()) for each in counted],
        [each.total() for each in counted],
    )


@dataclass(frozen=True, slots=True)
class Heard:
    """A turn as it is kept."""

    id: UUID
    turn: Turn
    place: int
    person: str
    trust: Trust


_COLUMNS = "c.id, c.source_id, c.session, c.place, c.speaker, c.role, c.person, c.content, c.trust, c.said_at"
_LIST = f"""
    SELECT {_COLUMNS} FROM memory.chunks c
    WHERE c.scope = $1 AND c.kind = 'turn' AND ($2::text IS NULL OR c.session = $2)
        AND (c.session, c.place, c.id) > ($3, $4, $5)
    ORDER BY c.session, c.place, c.id LIMIT $6
"""  # noqa: S608 - constants
_RANGE = f"""
    SELECT {_COLUMNS} FROM memory.chunks c JOIN memory.sessions s ON s.scope = c.scope AND s.session =
        c.session
    WHERE s.scope = $1 AND s.id = $2 AND c.kind = 'turn' AND c.place BETWEEN $3 AND $4 ORDER BY c.place
"""  # noqa: S608 - constants

Position = tuple[str, int, UUID]
START: Position = ("", -1, UUID(int=0))


async def page(
    connection: asyncpg.Connection, scope: UUID, session: str | None, after: Position, limit: int
) -> list[Heard]:
    """Turns of a scope, or of one session in it, in order."""
    return [_heard(row) for row in await connection.fetch(_LIST, scope, session, *after, limit)]


async def span(
    connection: asyncpg.Connection, scope: UUID, session: UUID, first: int, last: int
) -> list[Heard]:
    """The turns of a session from one place to another, both included."""
    return [_heard(row) for row in await connection.fetch(_RANGE, scope, session, first, last)]


def _heard(row: asyncpg.Record) -> Heard:
    turn = Turn(
        row["source_id"],
        row["speaker"],
        Role(row["role"]),
        row["content"],
        ms(row["said_at"]),
        row["session"],
    )
    return Heard(row["id"], turn, row["place"], row["person"], Trust(row["trust"]))
