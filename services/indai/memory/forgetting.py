"""Forgetting: what matches and everything derived from it goes in one transaction, and is looked for again.

With a chunk go its vectors, terms, mentions and counters (by the database's cascades), the facts and
relations
that only it said, the opinions it carried, and every summary made from it; the rest of such a session is
summarised anew. Jobs name scopes and sessions only: those of what is gone are removed too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

import asyncpg
from indai.memory import chunks
from indai.memory.access import Door, Scope, Sight
from indai.memory.queue import Job, Task, enqueue
from indai.memory.session import reading, whole_tenant
from indai.memory.times import at, new_uuid


@dataclass(frozen=True, slots=True)
class Conditions:
    """What must match; "" and 0 and None match anything. With none of them set, everything in the scopes."""

    key: str = ""
    person: str = ""
    session: str = ""
    from_ms: int = 0
    to_ms: int = 0
    id: UUID | None = None

    @property
    def names(self) -> list[str]:
        """Which conditions are set, for the record of what was asked."""
        named = {
            "key": self.key,
            "person": self.person,
            "session": self.session,
            "time": self.from_ms or self.to_ms,
            "id": self.id,
        }
        return [name for name, value in named.items() if value]

    @property
    def arguments(self) -> tuple[object, ...]:
        """For the statements: $2 to $7."""
        return (
            self.key,
            self.person,
            self.session,
            at(self.from_ms) if self.from_ms else None,
            at(self.to_ms) if self.to_ms else None,
            self.id,
        )


@dataclass(frozen=True, slots=True)
class Targets:
    """What is to go: rows by scope, and whole scopes."""

    chunks: dict[UUID, list[UUID]] = field(default_factory=dict)
    facts: list[UUID] = field(default_factory=list)
    scopes: list[UUID] = field(default_factory=list)


# Facts that match by themselves. What turns said goes with the turns, where a session or a time is named.
_FACTS = """
    SELECT f.scope, f.id FROM memory.facts f
    WHERE f.scope = ANY ($1) AND ($2 = '' OR f.key = $2 OR starts_with(f.key, $2 || '.'))
        AND ($3 = '' OR f.person = $3) AND $4 = ''
        AND (($5::timestamptz IS NULL AND $6::timestamptz IS NULL) OR f.source IS NULL)
        AND ($5::timestamptz IS NULL OR f.valid_from >= $5)
        AND ($6::timestamptz IS NULL OR f.valid_from < $6)
        AND ($7::uuid IS NULL OR f.id = $7)
"""
_CHUNKS = """
    SELECT c.scope, c.id FROM memory.chunks c
    WHERE c.scope = ANY ($1) AND ($2 = '' OR EXISTS (SELECT FROM memory.mentions m
            JOIN memory.facts f ON f.scope = m.scope AND f.id = m.fact
            WHERE m.scope = c.scope AND m.chunk = c.id AND (f.key = $2 OR starts_with(f.key, $2 || '.'))))
        AND ($3 = '' OR c.person = $3 OR c.speaker = $3) AND ($4 = '' OR c.session = $4)
        AND ($5::timestamptz IS NULL OR c.said_at >= $5) AND ($6::timestamptz IS NULL OR c.said_at < $6)
        AND ($7::uuid IS NULL OR c.id = $7 OR EXISTS (SELECT FROM memory.mentions m
            WHERE m.scope = c.scope AND m.chunk = c.id AND m.fact = $7))
"""
_DERIVED = """
    SELECT DISTINCT d.scope, d.derived AS id FROM memory.derivations d WHERE d.scope = $1 AND d.source = ANY
        ($2)
"""
_PERSONS_SCOPES = "SELECT id FROM memory.scopes WHERE person = $1 AND id = ANY ($2)"
_SESSIONS = """
    SELECT DISTINCT s.id FROM memory.sessions s JOIN memory.chunks c ON c.scope = s.scope AND c.session =
        s.session
    WHERE c.scope = $1 AND c.id = ANY ($2)
"""
# Facts of which no other turn has spoken.
_UNSAID = """
    DELETE FROM memory.facts f WHERE f.scope = $1 AND f.source IS NOT NULL
        AND EXISTS (SELECT FROM memory.mentions m WHERE m.scope = $1 AND m.fact = f.id AND m.chunk = ANY ($2))
        AND NOT EXISTS (SELECT FROM memory.mentions m
            WHERE m.scope = $1 AND m.fact = f.id AND m.chunk <> ALL ($2))
    RETURNING f.id
"""
_OTHER_SOURCE = """
    UPDATE memory.facts f SET source = (SELECT m.chunk FROM memory.mentions m
        WHERE m.scope = $1 AND m.fact = f.id AND m.chunk <> ALL ($2) LIMIT 1)
    WHERE f.scope = $1 AND f.source = ANY ($2)
"""
_RELATIONS = """
    DELETE FROM memory.relations r WHERE r.scope = $1
        AND (r.source = ANY ($2) OR r.fact = ANY ($3) OR r.id = $5 OR ($4 <> '' AND r.person = $4))
"""
_OPINIONS = "DELETE FROM memory.opinions WHERE scope = $1 AND (source = ANY ($2) OR id = $3)"
_NAMES = """
    DELETE FROM memory.names n WHERE n.scope = $1 AND NOT EXISTS (SELECT FROM memory.relations r
        WHERE r.scope = $1 AND (r.subject = n.canonical OR r.object = n.canonical))
"""
_EMPTY_SESSIONS = """
    DELETE FROM memory.sessions s WHERE s.scope = $1 AND s.id = ANY ($2) AND NOT EXISTS (
        SELECT FROM memory.chunks c WHERE c.scope = $1 AND c.session = s.session AND c.kind = 'turn')
    RETURNING s.session, s.id
"""
_WORKING = "DELETE FROM memory.working WHERE scope = $1 AND session = ANY ($2)"
_AGAIN = "UPDATE memory.sessions SET summarised = 0 WHERE scope = $1 AND id = ANY ($2) RETURNING id"
_JOBS = "DELETE FROM memory.pgqueuer WHERE headers ->> 'session' = ANY ($1) OR headers ->> 'scope' = ANY ($2)"

# Whole scopes. What hangs on chunks and facts goes with them.
TABLES = ("chunks", "facts", "relations", "names", "opinions", "working", "documents", "sessions", "scopes")
_EVERY = (
    "embeddings",
    "postings",
    "reads",
    "mentions",
    "derivations",
    "scope_sizes",
    "scope_models",
    *TABLES[:-1],
)


async def find(connection: asyncpg.Connection, scopes: Sequence[UUID], conditions: Conditions) -> Targets:
    """What matches, with the summaries made from it."""
    if not conditions.names:
        return Targets(scopes=list(scopes))
    whole: list[UUID] = []
    if conditions.names == ["person"]:
        rows = await connection.fetch(_PERSONS_SCOPES, conditions.person, scopes)
        whole = [row["id"] for row in rows]
    rest = [scope for scope in scopes if scope not in set(whole)]
    facts = await connection.fetch(_FACTS, rest, *conditions.arguments)
    by_scope: dict[UUID, list[UUID]] = {row["scope"]: [] for row in facts}
    for row in await connection.fetch(_CHUNKS, rest, *conditions.arguments):
        by_scope.setdefault(row["scope"], []).append(row["id"])
    if conditions.id or conditions.person:
        by_scope |= {
            scope: by_scope.get(scope, []) for scope in rest
        }  # relations and opinions may match alone
    for scope, ids in by_scope.items():
        ids += [
            row["id"] for row in await connection.fetch(_DERIVED, scope, ids) if row["id"] not in set(ids)
        ]
    return Targets(by_scope, [row["id"] for row in facts], whole)


async def remove(
    connection: asyncpg.Connection, tenant: str, targets: Targets, conditions: Conditions
) -> dict[str, int]:
    """Remove the targets; how many rows of each table."""
    removed: dict[str, int] = {}
    for scope, ids in sorted(targets.chunks.items()):
        _add(removed, await _in_scope(connection, tenant, scope, ids, targets.facts, conditions))
    if targets.scopes:
        for table in TABLES:
            column = "id" if table == "scopes" else "scope"
            done = await connection.execute(
                f"DELETE FROM memory.{table} WHERE {column} = ANY ($1)",  # noqa: S608 - a constant's names
                targets.scopes,
            )
            _add(removed, {table: _count(done)})
        done = await connection.execute(_JOBS, [], [str(scope) for scope in targets.scopes])
        _add(removed, {"jobs": _count(done)})
    return {name: count for name, count in removed.items() if count}


async def _in_scope(
    connection: asyncpg.Connection,
    tenant: str,
    scope: UUID,
    ids: Sequence[UUID],
    facts: Sequence[UUID],
    conditions: Conditions,
) -> dict[str, int]:
    sessions = [row["id"] for row in await connection.fetch(_SESSIONS, scope, ids)]
    unsaid = [row["id"] for row in await connection.fetch(_UNSAID, scope, ids)]
    await connection.execute(_OTHER_SOURCE, scope, ids)
    stated = await connection.execute(
        "DELETE FROM memory.facts WHERE scope = $1 AND id = ANY ($2)", scope, facts
    )
    relations = await connection.execute(
        _RELATIONS, scope, ids, [*facts, *unsaid], conditions.person, conditions.id
    )
    opinions = await connection.execute(_OPINIONS, scope, ids, conditions.id)
    gone = await chunks.remove(connection, scope, tenant, ids)
    names = await connection.execute(_NAMES, scope)
    empty = await connection.fetch(_EMPTY_SESSIONS, scope, sessions)
    forgotten = [row["session"] for row in empty] + ([conditions.session] if conditions.session else [])
    working = await connection.execute(_WORKING, scope, forgotten)
    jobs = await connection.execute(_JOBS, [str(row["id"]) for row in empty], [])
    again = await connection.fetch(_AGAIN, scope, sessions)
    await enqueue(connection, [Job(Task.CONSOLIDATE, scope, row["id"], once=True) for row in again])
    return {
        "chunks": gone,
        "facts": len(unsaid) + _count(stated),
        "relations": _count(relations),
        "opinions": _count(opinions),
        "names": _count(names),
        "sessions": len(empty),
        "working": _count(working),
        "jobs": _count(jobs),
    }


async def remaining(
    connection: asyncpg.Connection, scopes: Sequence[UUID], targets: Targets, conditions: Conditions
) -> int:
    """What a second look still finds: what matches, rows of what was removed in any table, and jobs."""
    again = await find(connection, scopes, conditions) if conditions.names else Targets()
    left = len(again.facts) + sum(map(len, again.chunks.values()))
    ids = [each for some in targets.chunks.values() for each in some]
    for table in ("embeddings", "postings", "reads", "mentions"):
        left += await connection.fetchval(
            f"SELECT count(*) FROM memory.{table} WHERE chunk = ANY ($1)",  # noqa: S608 - constant names
            ids,
        )
    for table in _EVERY if targets.scopes else ():
        left += await connection.fetchval(
            f"SELECT count(*) FROM memory.{table} WHERE scope = ANY ($1)",  # noqa: S608 - constant names
            targets.scopes,
        )
    left += await connection.fetchval(
        "SELECT count(*) FROM memory.pgqueuer WHERE headers ->> 'scope' = ANY ($1)",
        [str(scope) for scope in targets.scopes],
    )
    return int(left)


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _count(done: str) -> int:
    """The number in a command's tag, such as `DELETE 3`."""
    return int(done.rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much went, by table, and what a second look found. `sources`: what the turns were told under, where
    single turns match and not whole scopes."""

    removed: dict[str, int]
    remaining: int
    sources: tuple[str, ...] = ()


_SOURCES = """
    SELECT DISTINCT source_id FROM memory.chunks WHERE kind = 'turn' AND scope = ANY ($1) AND id = ANY ($2)
"""
_SCOPES = "SELECT id FROM memory.scopes WHERE tenant = $1"
_RECORD = """
    INSERT INTO memory.forgettings (id, tenant, conditions, removed, forgotten_at) VALUES ($1, $2, $3,
        $4::jsonb, $5)
"""


async def forget(
    pool: asyncpg.Pool,
    look: Sight,
    scope: Scope | None,
    conditions: Conditions,
    now_ms: int,
    *,
    dry_run: bool,
    everything: bool = False,
) -> Forgotten:
    """Forget in one scope, in all that the door may write, or, by person or `everything`, in the whole
    tenant.

    Raises NotFound for a scope that is not there.
    """
    by_person = conditions.person and scope is None and look.access.door is not Door.DISTRIBUTION
    wide = by_person or everything
    opened = whole_tenant(pool, look.tenant) if wide else _writable(pool, look, scope)
    async with opened as connection:
        rows = await connection.fetch(_SCOPES, look.tenant)
        scopes = [row["id"] for row in rows if scope is None or row["id"] == scope.id]
        targets = await find(connection, scopes, conditions)
        ids = [each for some in targets.chunks.values() for each in some]
        sources = await connection.fetch(_SOURCES, list(targets.chunks), ids) if ids else []
        told = tuple(row["source_id"] for row in sources)
        if dry_run:
            return Forgotten(await _would(connection, targets), 0, told)
        removed = await remove(connection, look.tenant, targets, conditions)
        left = await remaining(connection, scopes, targets, conditions)
        await connection.execute(
            _RECORD, new_uuid(now_ms), look.tenant, conditions.names, json.dumps(removed), at(now_ms)
        )
    return Forgotten(removed, left, told)


@asynccontextmanager
async def _writable(
    pool: asyncpg.Pool, look: Sight, scope: Scope | None
) -> AsyncIterator[asyncpg.Connection]:
    """A transaction on one scope, or on all that the door may write."""
    only = replace(look, seen=look.written, seen_kinds=look.written_kinds)
    async with reading(pool, only, [scope] if scope else []) as (connection, _):
        yield connection


async def _would(connection: asyncpg.Connection, targets: Targets) -> dict[str, int]:
    """How many chunks and facts the targets are."""
    counted = {"chunks": sum(map(len, targets.chunks.values())), "facts": len(targets.facts)}
    for table in ("chunks", "facts") if targets.scopes else ():
        counted[table] += await connection.fetchval(
            f"SELECT count(*) FROM memory.{table} WHERE scope = ANY ($1)",  # noqa: S608 - constant names
            targets.scopes,
        )
    return {name: count for name, count in counted.items() if count}
