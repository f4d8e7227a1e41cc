"""What there is: scopes with their names and sizes, and the background work of a tenant."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory.access import Scope, ScopeKind
from indai.memory.times import ms

_NAMES = "SELECT id, kind, key FROM memory.scopes WHERE id = ANY ($1)"
_SIZES = """
    SELECT s.kind, s.key, coalesce(n.chunks, 0) AS chunks, coalesce(n.path, 'small') AS path FROM
        memory.scopes s
    LEFT JOIN memory.scope_sizes n ON n.scope = s.id
    WHERE s.id = ANY ($1) AND (s.kind, s.key) > ($2, $3) ORDER BY s.kind, s.key LIMIT $4
"""
# The queue names scopes by id; row-level security says which of them are this tenant's.
_JOBS = """
    SELECT j.id, j.entrypoint, j.status::text, j.attempts, j.created, (SELECT l.traceback
        FROM memory.pgqueuer_log l WHERE l.job_id = j.id AND l.traceback IS NOT NULL
        ORDER BY l.created DESC LIMIT 1) AS traceback
    FROM memory.pgqueuer j JOIN memory.scopes s ON s.id::text = j.headers ->> 'scope'
    WHERE j.id > $1 AND (NOT $3 OR j.status = 'failed') ORDER BY j.id LIMIT $2
"""
_RETRY = """
    UPDATE memory.pgqueuer j SET status = 'queued', execute_after = now(), updated = now(), attempts = 0,
        queue_manager_id = NULL
    FROM memory.scopes s
    WHERE s.id::text = j.headers ->> 'scope' AND j.status = 'failed' AND ($1::bigint[] IS NULL OR j.id = ANY
        ($1))
"""


@dataclass(frozen=True, slots=True)
class Size:
    """A scope and how much is in it."""

    kind: ScopeKind
    key: str
    chunks: int
    large: bool


@dataclass(frozen=True, slots=True)
class JobState:
    """A job in the queue. `reason` is why it failed last."""

    id: int
    task: str
    state: str
    attempts: int
    reason: str
    created_ms: int


async def names(connection: asyncpg.Connection, tenant: str, scopes: Sequence[UUID]) -> dict[UUID, Scope]:
    """The scopes behind ids."""
    rows = await connection.fetch(_NAMES, scopes)
    return {row["id"]: Scope(tenant, ScopeKind(row["kind"]), row["key"]) for row in rows}


async def sizes(
    connection: asyncpg.Connection, scopes: Sequence[UUID], after: tuple[str, str], limit: int
) -> list[Size]:
    """Scopes by kind and key, with their sizes."""
    rows = await connection.fetch(_SIZES, scopes, *after, limit)
    return [Size(ScopeKind(row["kind"]), row["key"], row["chunks"], row["path"] == "large") for row in rows]


async def jobs(
    connection: asyncpg.Connection, after: int, limit: int, *, failed_only: bool
) -> list[JobState]:
    """Jobs of the tenant that the transaction sees, oldest first."""
    return [
        JobState(
            row["id"],
            row["entrypoint"],
            row["status"],
            row["attempts"],
            json.loads(row["traceback"])["exception_message"] if row["traceback"] else "",
            ms(row["created"]),
        )
        for row in await connection.fetch(_JOBS, after, limit, failed_only)
    ]


async def retry(connection: asyncpg.Connection, ids: Sequence[int]) -> int:
    """Put failed jobs of the tenant back, all without ids; how many."""
    done: str = await connection.execute(_RETRY, list(ids) or None)
    return int(done.rpartition(" ")[2])
