"""The relations graph: edges with validity in time between names, each of which has one canonical form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory.access import Scope
from indai.memory.facts import Record
from indai.memory.interfaces import Trust
from indai.memory.times import NOWHERE, at, ms, new_uuid


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the graph, by names as they are spelled."""

    id: UUID
    subject: str
    predicate: str
    object: str
    confidence: float
    origin: str
    trust: Trust
    since_ms: int
    person: str = ""
    source: UUID | None = None
    fact: UUID | None = None
    ended_ms: int = 0
    scope: UUID = NOWHERE


def edge_of(row: Record) -> Edge:
    """The edge that a fact states; its relation must be there."""
    triple = row.fact.relation
    if triple is None:
        raise AssertionError(row.fact.key)
    return Edge(
        new_uuid(row.since_ms),
        triple.subject,
        triple.predicate,
        triple.object,
        row.fact.confidence,
        row.origin,
        row.trust,
        row.since_ms,
        row.person,
        row.source,
        row.id,
        row.ended_ms,
    )


def name_key(name: str) -> str:
    """What spellings of one name share."""
    return " ".join(name.casefold().split())


_NAMES = "SELECT name, canonical FROM memory.names WHERE scope = $1 AND name = ANY ($2)"
_ADD_NAMES = """
    INSERT INTO memory.names (scope, tenant, name, canonical, spelled)
    SELECT $1, $2, t.name, t.name, t.spelled FROM unnest($3::text[], $4::text[]) AS t (name, spelled)
    ON CONFLICT DO NOTHING
"""
_ADD = """
    INSERT INTO memory.relations (scope, tenant, id, subject, predicate, object, confidence, origin, trust,
        person,
        source, fact, valid_from, valid_to)
    SELECT $1, $2, t.* FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::real[], $8::text[],
        $9::text[], $10::text[], $11::uuid[], $12::uuid[], $13::timestamptz[], $14::timestamptz[]) AS t
    ON CONFLICT DO NOTHING RETURNING id
"""


async def add(connection: asyncpg.Connection, scope: Scope, edges: Sequence[Edge]) -> int:
    """Add edges by their canonical names; how many are new."""
    spelled: dict[str, str] = {}
    for edge in edges:
        for name in (edge.subject, edge.object):
            spelled.setdefault(name_key(name), name)
    await connection.execute(_ADD_NAMES, scope.id, scope.tenant, list(spelled), list(spelled.values()))
    canonical = await _canonical(connection, scope.id, list(spelled))
    rows = await connection.fetch(
        _ADD,
        scope.id,
        scope.tenant,
        [edge.id for edge in edges],
        [canonical[name_key(edge.subject)] for edge in edges],
        [edge.predicate for edge in edges],
        [canonical[name_key(edge.object)] for edge in edges],
        [edge.confidence for edge in edges],
        [edge.origin for edge in edges],
        [edge.trust.value for edge in edges],
        [edge.person for edge in edges],
        [edge.source for edge in edges],
        [edge.fact for edge in edges],
        [at(edge.since_ms) for edge in edges],
        [at(edge.ended_ms) if edge.ended_ms else None for edge in edges],
    )
    return len(rows)


_SAME = """
    SELECT t.id FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
        AS t (id, subject, predicate, object, since)
    LEFT JOIN memory.names s ON s.scope = $1 AND s.name = t.subject
    LEFT JOIN memory.names o ON o.scope = $1 AND o.name = t.object
    JOIN memory.relations r ON r.scope = $1 AND r.subject = coalesce(s.canonical, t.subject)
        AND r.predicate = t.predicate AND r.object = coalesce(o.canonical, t.object) AND r.valid_from =
        t.since
"""


async def restore(connection: asyncpg.Connection, scope: Scope, edges: Sequence[Edge]) -> int:
    """Add edges of an export, once; how many are new."""
    if not edges:
        return 0
    known = await connection.fetch(
        _SAME,
        scope.id,
        [edge.id for edge in edges],
        [name_key(edge.subject) for edge in edges],
        [edge.predicate for edge in edges],
        [name_key(edge.object) for edge in edges],
        [at(edge.since_ms) for edge in edges],
    )
    here = {row["id"] for row in known}
    new = [edge for edge in edges if edge.id not in here]
    return await add(connection, scope, new) if new else 0


async def _canonical(connection: asyncpg.Connection, scope: UUID, keys: Sequence[str]) -> dict[str, str]:
    rows = await connection.fetch(_NAMES, scope, keys)
    return {row["name"]: row["canonical"] for row in rows}


_ALIAS = """
    INSERT INTO memory.names AS n (scope, tenant, name, canonical, spelled)
    SELECT $1, $2, t.name, t.canonical, t.spelled FROM unnest($3::text[], $4::text[], $5::text[])
        AS t (name, canonical, spelled)
    ON CONFLICT (scope, name) DO UPDATE SET canonical = EXCLUDED.canonical
"""
_FOLLOW = "UPDATE memory.names SET canonical = $3 WHERE scope = $1 AND canonical = $2"
# An edge that would then stand twice is dropped: the other says the same.
_DROP = """
    DELETE FROM memory.relations r USING memory.relations o
    WHERE r.scope = $1 AND o.scope = $1 AND r.id <> o.id AND r.valid_to IS NULL AND o.valid_to IS NULL
        AND r.predicate = o.predicate AND (r.subject = $2 OR r.object = $2)
        AND (CASE r.subject WHEN $2 THEN $3 ELSE r.subject END) = o.subject
        AND (CASE r.object WHEN $2 THEN $3 ELSE r.object END) = o.object
"""
_RENAME = """
    UPDATE memory.relations SET subject = CASE subject WHEN $2 THEN $3 ELSE subject END,
        object = CASE object WHEN $2 THEN $3 ELSE object END
    WHERE scope = $1 AND (subject = $2 OR object = $2)
"""


async def alias(connection: asyncpg.Connection, scope: Scope, names: Mapping[str, str]) -> None:
    """Make names (left) other names of canonical ones (right); edges follow."""
    for name, canonical in names.items():
        old, new = name_key(name), name_key(canonical)
        await connection.execute(_ADD_NAMES, scope.id, scope.tenant, [new], [canonical])
        target = (await _canonical(connection, scope.id, [new]))[new]
        if target == old:
            continue
        await connection.execute(_ALIAS, scope.id, scope.tenant, [old], [target], [name])
        await connection.execute(_FOLLOW, scope.id, old, target)
        await connection.execute(_DROP, scope.id, old, target)
        await connection.execute(_RENAME, scope.id, old, target)


_LIST = """
    SELECT r.*, coalesce(s.spelled, r.subject) AS subject_name, coalesce(o.spelled, r.object) AS object_name
    FROM memory.relations r
    LEFT JOIN memory.names s ON s.scope = r.scope AND s.name = r.subject
    LEFT JOIN memory.names o ON o.scope = r.scope AND o.name = r.object
    WHERE r.scope = ANY ($1) AND ($2 OR r.valid_to IS NULL) AND r.id < $4
        AND ($3::text[] IS NULL OR EXISTS (SELECT FROM memory.names n
            WHERE n.scope = r.scope AND n.name = ANY ($3) AND n.canonical IN (r.subject, r.object)))
    ORDER BY r.id DESC LIMIT $5
"""
NEWEST = UUID(int=2**128 - 1)


async def page(
    connection: asyncpg.Connection,
    scopes: Sequence[UUID],
    names: Sequence[str],
    all_times: bool,
    before: UUID,
    limit: int,
) -> list[Edge]:
    """Edges, the newest first; those of some names by any of their aliases."""
    keys = [name_key(name) for name in names] or None
    rows = await connection.fetch(_LIST, scopes, all_times, keys, before, limit)
    return [
        Edge(
            row["id"],
            row["subject_name"],
            row["predicate"],
            row["object_name"],
            row["confidence"],
            row["origin"],
            Trust(row["trust"]),
            ms(row["valid_from"]),
            row["person"],
            row["source"],
            row["fact"],
            ms(row["valid_to"]),
            row["scope"],
        )
        for row in rows
    ]
