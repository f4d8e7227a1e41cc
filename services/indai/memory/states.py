"""Working memory with its time to live, and opinions, of which one holds for each topic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory.access import Scope
from indai.memory.graph import name_key
from indai.memory.interfaces import Json, Trust
from indai.memory.times import NOWHERE, at, ms, new_uuid

_SET = """
    INSERT INTO memory.working (scope, tenant, session, name, value, expires_at)
    SELECT $1, $2, $3, t.name, t.value::jsonb, t.expires
    FROM unnest($4::text[], $5::text[], $6::timestamptz[]) AS t (name, value, expires)
    ON CONFLICT (scope, session, name) DO UPDATE SET value = EXCLUDED.value, expires_at = EXCLUDED.expires_at
"""
_UNSET = """
    DELETE FROM memory.working
    WHERE scope = $1 AND (expires_at <= $4 OR (session = $2 AND name = ANY ($3)))
"""
_GET = """
    SELECT name, value, expires_at FROM memory.working
    WHERE scope = $1 AND session = $2 AND expires_at > $3 AND ($4::text[] IS NULL OR name = ANY ($4)) ORDER
        BY name
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of working memory."""

    name: str
    value: Json
    expires_ms: int


async def set_working(
    connection: asyncpg.Connection,
    scope: Scope,
    session: str,
    entries: Mapping[str, tuple[Json, int]],
    unset: Sequence[str],
    now_ms: int,
) -> None:
    """Set entries (name: value and when it expires, ms), remove others, and whatever has expired."""
    await connection.execute(_UNSET, scope.id, session, list(unset), at(now_ms))
    values = [json.dumps(value, ensure_ascii=False) for value, _ in entries.values()]
    times = [at(expires) for _, expires in entries.values()]
    await connection.execute(_SET, scope.id, scope.tenant, session, list(entries), values, times)


async def get_working(
    connection: asyncpg.Connection, scope: UUID, session: str, names: Sequence[str], now_ms: int
) -> list[Entry]:
    """The entries that have not expired."""
    rows = await connection.fetch(_GET, scope, session, at(now_ms), list(names) or None)
    return [Entry(row["name"], json.loads(row["value"]), ms(row["expires_at"])) for row in rows]


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the persona has said about a topic. `source`: the chunk of the turn that said it, or the id under
    which the turn was told."""

    topic: str
    stance: str
    since_ms: int
    source: UUID | None = None
    scope: UUID = NOWHERE


_END = """
    UPDATE memory.opinions SET valid_to = greatest($4, valid_from)
    WHERE scope = $1 AND topic = $2 AND valid_to IS NULL AND stance <> $3
"""
_PUT = """
    INSERT INTO memory.opinions (scope, tenant, id, topic, stance, origin, trust, source, valid_from)
    VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce(
        (SELECT c.id FROM memory.chunks c WHERE c.scope = $1 AND c.kind = 'turn' AND c.source_id = $10), $8
    ), $9) ON CONFLICT DO NOTHING RETURNING id
"""
_LIST = """
    SELECT scope, topic, stance, source, valid_from FROM memory.opinions
    WHERE scope = ANY ($1) AND valid_to IS NULL AND ($2::text[] IS NULL OR topic = ANY ($2))
        AND (topic, scope) > ($3, $4)
    ORDER BY topic, scope LIMIT $5
"""


async def put_opinion(
    connection: asyncpg.Connection, scope: Scope, opinion: Opinion, origin: str, trust: Trust, now_ms: int
) -> bool:
    """The opinion that holds from now on; False when the same held already."""
    topic = name_key(opinion.topic)
    await connection.execute(_END, scope.id, topic, opinion.stance, at(now_ms))
    added = await connection.fetchval(
        _PUT,
        scope.id,
        scope.tenant,
        new_uuid(now_ms),
        topic,
        opinion.stance,
        origin,
        trust.value,
        opinion.source,
        at(opinion.since_ms or now_ms),
        opinion.source.hex if opinion.source else "",
    )
    return added is not None


_RESTORE = """
    INSERT INTO memory.opinions (scope, tenant, id, topic, stance, origin, trust, valid_from, valid_to)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
    WHERE NOT EXISTS (SELECT FROM memory.opinions o WHERE o.scope = $1 AND o.topic = $4 AND o.stance = $5
        AND o.valid_from = $8)
    ON CONFLICT DO NOTHING
"""


async def restore_opinion(
    connection: asyncpg.Connection,
    scope: Scope,
    opinion: Opinion,
    origin: str,
    trust: Trust,
    ended_ms: int,
    now_ms: int,
) -> bool:
    """An opinion of an export, once; one that holds gives way to another that holds here already."""
    done: str = await connection.execute(
        _RESTORE,
        scope.id,
        scope.tenant,
        new_uuid(now_ms),
        name_key(opinion.topic),
        opinion.stance,
        origin,
        trust.value,
        at(opinion.since_ms),
        at(ended_ms) if ended_ms else None,
    )
    return done.endswith(" 1")


async def page(
    connection: asyncpg.Connection,
    scopes: Sequence[UUID],
    topics: Sequence[str],
    after: tuple[str, UUID],
    limit: int,
) -> list[Opinion]:
    """Opinions that hold, by topic."""
    keys = [name_key(topic) for topic in topics] or None
    rows = await connection.fetch(_LIST, scopes, keys, *after, limit)
    return [
        Opinion(row["topic"], row["stance"], ms(row["valid_from"]), row["source"], row["scope"])
        for row in rows
    ]
