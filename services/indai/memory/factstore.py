"""Facts and relations in Postgres: read, changed as `facts.plan` says, listed, corrected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import asyncpg
from indai.memory import graph
from indai.memory.access import Scope
from indai.memory.extraction import contradicts
from indai.memory.facts import Changes, Record, digest, plan, unsaid
from indai.memory.interfaces import Fact, Triple, Trust
from indai.memory.times import at, ms, new_uuid
from indai.protocol.errors import NotFound, Reason
from indai.protocol.quoting import quoted
from indai.tools.identity import holds_aadhaar

MAX_OPEN = 5_000  # open facts of one scope that are compared with what was found; the newest count

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_COLUMNS = """f.id, f.scope, f.key, f.value, f.confidence, f.relation, f.pending, f.language, f.person,
    f.origin, f.trust, f.source, f.valid_from, f.valid_to,
    ARRAY(SELECT m.chunk FROM memory.mentions m WHERE m.scope = f.scope AND m.fact = f.id) AS mentions"""
_OPEN = f"""
    SELECT {_COLUMNS} FROM memory.facts f WHERE f.scope = $1 AND f.valid_to IS NULL
    ORDER BY f.valid_from DESC LIMIT {MAX_OPEN}
"""  # noqa: S608 - constants
_SAID = """
    SELECT f.key, f.person, f.digest, m.chunk FROM memory.mentions m
    JOIN memory.facts f ON f.scope = m.scope AND f.id = m.fact WHERE m.scope = $1 AND m.chunk = ANY ($2)
"""
_ADD = """
    INSERT INTO memory.facts (scope, tenant, id, key, value, digest, confidence, relation, pending, language,
        person, origin, trust, source, valid_from, valid_to, created_at)
    SELECT $1, $2, t.id, t.key, t.value::jsonb, t.digest, t.confidence, t.relation::jsonb, t.pending,
        t.language, t.person, t.origin, t.trust, t.source, t.valid_from, t.valid_to, $3
    FROM unnest($4::uuid[], $5::text[], $6::text[], $7::bytea[], $8::real[], $9::text[], $10::boolean[],
        $11::text[], $12::text[], $13::text[], $14::text[], $15::uuid[], $16::timestamptz[],
        $17::timestamptz[])
        AS t (id, key, value, digest, confidence, relation, pending, language, person, origin, trust, source,
            valid_from, valid_to)
"""
_MENTION = """
    INSERT INTO memory.mentions (scope, tenant, fact, chunk)
    SELECT $1, $2, t.fact, t.chunk FROM unnest($3::uuid[], $4::uuid[]) AS t (fact, chunk)
    ON CONFLICT DO NOTHING
"""
_CONFIRM = """
    UPDATE memory.facts f SET pending = false, confidence = t.confidence
    FROM unnest($2::uuid[], $3::real[]) AS t (id, confidence) WHERE f.scope = $1 AND f.id = t.id
"""
_END = """
    UPDATE memory.facts f SET valid_to = greatest(t.ended, f.valid_from)
    FROM unnest($2::uuid[], $3::timestamptz[]) AS t (id, ended) WHERE f.scope = $1 AND f.id = t.id
"""
_END_RELATIONS = """
    UPDATE memory.relations r SET valid_to = greatest(t.ended, r.valid_from)
    FROM unnest($2::uuid[], $3::timestamptz[]) AS t (id, ended)
    WHERE r.scope = $1 AND r.fact = t.id AND r.valid_to IS NULL
"""
_LIST = f"""
    SELECT {_COLUMNS} FROM memory.facts f
    WHERE f.scope = ANY ($1) AND starts_with(f.key, $2) AND ($3 = '' OR f.person = $3)
        AND CASE $4 WHEN 'active' THEN f.valid_to IS NULL AND NOT f.pending
            WHEN 'pending' THEN f.valid_to IS NULL AND f.pending
            WHEN 'ended' THEN f.valid_to IS NOT NULL ELSE true END
        AND (f.key, f.id) > ($5, $6)
    ORDER BY f.key, f.id LIMIT $7
"""  # noqa: S608 - constants
_ONE = f"SELECT {_COLUMNS} FROM memory.facts f WHERE f.scope = ANY ($1) AND f.id = $2"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Kept:
    """A fact with the id of its scope."""

    scope: UUID
    record: Record


async def take_in(
    connection: asyncpg.Connection,
    scope: Scope,
    found: Sequence[Record],
    now_ms: int,
) -> list[Record]:
    """Take facts in, in the caller's transaction; the facts that are new, confirmed or mentioned again.

    One writer of a scope's facts at a time: what is found twice at the same moment is one fact. One with
    an Aadhaar number in it is none.
    """
    found = _without_identity_numbers(found)
    if not found:
        return []
    await connection.execute(_LOCK, f"facts {scope.id}")
    known = await open_facts(connection, scope.id)
    sources = list({row.source for row in found if row.source is not None})
    rows_said = await connection.fetch(_SAID, scope.id, sources)
    said = {((row["key"], row["person"], bytes(row["digest"])), row["chunk"]) for row in rows_said}
    changes = plan(known, unsaid(found, said), contradicts)
    await _apply(connection, scope, changes, now_ms, known)
    rows = {row.id: row for row in [*known, *changes.added]}
    shown = [rows[number] for number in changes.touched]
    return [
        replace(row, pending=row.pending and row.id not in changes.confirmed)
        for row in sorted(shown, key=lambda row: row.fact.key)
    ]


def _without_identity_numbers(rows: Sequence[Record]) -> list[Record]:
    return [row for row in rows if not holds_aadhaar({row.fact.key: row.fact.value})]


_SAME = """
    SELECT t.id FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[])
        AS t (id, key, person, digest, since)
    JOIN memory.facts f ON f.scope = $1 AND f.key = t.key AND f.person = t.person AND f.digest = t.digest
        AND f.valid_from = t.since
"""


async def restore(
    connection: asyncpg.Connection,
    scope: Scope,
    rows: Sequence[Record],
    now_ms: int,
) -> int:
    """Take in facts of an export: those that held as they were, once; how many are new."""
    rows = _without_identity_numbers(rows)
    known = await connection.fetch(
        _SAME,
        scope.id,
        [row.id for row in rows],
        [row.fact.key for row in rows],
        [row.person for row in rows],
        [digest(row.fact) for row in rows],
        [at(row.since_ms) for row in rows],
    )
    here = {row["id"] for row in known}
    new = [row for row in rows if row.id not in here]
    await _apply(connection, scope, Changes(added=[row for row in new if row.ended_ms]), now_ms)
    holding = [row for row in new if not row.ended_ms]
    taken = await take_in(connection, scope, holding, now_ms)
    added = {row.id for row in taken}
    return len(new) - sum(row.id not in added for row in holding)


async def open_facts(connection: asyncpg.Connection, scope: UUID) -> list[Record]:
    """The facts that hold or wait."""
    return [_record(row) for row in await connection.fetch(_OPEN, scope)]


async def _apply(
    connection: asyncpg.Connection,
    scope: Scope,
    changes: Changes,
    now_ms: int,
    known: Sequence[Record] = (),
) -> None:
    if changes.ended:
        ended = list(changes.ended), [at(moment) for moment in changes.ended.values()]
        await connection.execute(_END, scope.id, *ended)
        await connection.execute(_END_RELATIONS, scope.id, *ended)
    if changes.added:
        await _add(connection, scope, changes.added, now_ms)
    pairs = changes.mentioned + [(row.id, row.source) for row in changes.added if row.source is not None]
    if pairs:
        await connection.execute(_MENTION, scope.id, scope.tenant, *map(list, zip(*pairs, strict=True)))
    if changes.confirmed:
        await connection.execute(
            _CONFIRM, scope.id, list(changes.confirmed), list(changes.confirmed.values())
        )
    holding = [row for row in changes.added if not row.pending or row.id in changes.confirmed]
    holding += [row for row in known if row.id in changes.confirmed]
    edges = [graph.edge_of(row) for row in holding if row.fact.relation]
    if edges:
        await graph.add(connection, scope, edges)


async def _add(connection: asyncpg.Connection, scope: Scope, rows: Sequence[Record], now_ms: int) -> None:
    await connection.execute(
        _ADD,
        scope.id,
        scope.tenant,
        at(now_ms),
        [row.id for row in rows],
        [row.fact.key for row in rows],
        [row.fact.canonical for row in rows],
        [digest(row.fact) for row in rows],
        [row.fact.confidence for row in rows],
        [_relation(row.fact) for row in rows],
        [row.pending for row in rows],
        [row.fact.language for row in rows],
        [row.person for row in rows],
        [row.origin for row in rows],
        [row.trust.value for row in rows],
        [row.source for row in rows],
        [at(row.since_ms) for row in rows],
        [at(row.ended_ms) if row.ended_ms else None for row in rows],
    )


async def correct(
    connection: asyncpg.Connection,
    scope: Scope,
    fact: UUID,
    value: Fact | None,
    origin: str,
    trust: Trust,
    now_ms: int,
) -> Record | None:
    """End a fact and put another value in its place, or none; the row that holds now. Raises NotFound."""
    await connection.execute(_LOCK, f"facts {scope.id}")
    row = await connection.fetchrow(_ONE, [scope.id], fact)
    if row is None or row["valid_to"] is not None:
        raise no_fact(str(fact))
    before = _record(row)
    changes = Changes(ended={fact: max(now_ms, before.since_ms)})
    if value is not None:
        changes.added.append(
            Record(
                new_uuid(now_ms),
                replace(value, key=before.fact.key, language=before.fact.language),
                before.person,
                origin,
                trust,
                now_ms,
            )
        )
    await _apply(connection, scope, changes, now_ms)
    return changes.added[0] if changes.added else None


def no_fact(name: str) -> NotFound:
    """A fact that is not there, or not for this caller, or that has ended already."""
    return NotFound(
        Reason.NOT_FOUND,
        f"There is no fact {quoted(name)} that holds here.",
        hint="see ListFacts, or: indai memory facts",
    )


async def scope_of_fact(connection: asyncpg.Connection, scopes: Sequence[UUID], fact: UUID) -> UUID | None:
    """Which of the scopes has the fact."""
    row = await connection.fetchrow(_ONE, scopes, fact)
    return row["scope"] if row else None


async def page(
    connection: asyncpg.Connection,
    scopes: Sequence[UUID],
    prefix: str,
    person: str,
    state: str,
    after: tuple[str, UUID],
    limit: int,
) -> list[Kept]:
    """Facts by key. `state`: active, pending, ended, or anything else for all."""
    rows = await connection.fetch(_LIST, scopes, prefix, person, state, *after, limit)
    return [Kept(row["scope"], _record(row)) for row in rows]


def _record(row: asyncpg.Record) -> Record:
    triple = Triple(*json.loads(row["relation"])) if row["relation"] else None
    fact = Fact(row["key"], json.loads(row["value"]), row["confidence"], row["language"], relation=triple)
    return Record(
        row["id"],
        fact,
        row["person"],
        row["origin"],
        Trust(row["trust"]),
        ms(row["valid_from"]),
        row["source"],
        row["pending"],
        ms(row["valid_to"]),
        frozenset(row["mentions"]),
    )


def _relation(fact: Fact) -> str | None:
    triple = fact.relation
    return json.dumps([triple.subject, triple.predicate, triple.object]) if triple else None
