"""Configurations in Postgres: the newest version of each, and every version that ever was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.tiers import Binding, Kind, Tier, dump
from indai.storage.migrations import Schema
from indai.storage.pool import one_trip, transaction

SCHEMA = Schema("runtime", "indai.runtime")
CHANNEL = "indai_tiers"
_NEWEST = (
    "SELECT kind, slug, version, config FROM runtime.tiers WHERE tenant = $1"
    " AND (kind, slug) IN (SELECT * FROM unnest($2::text[], $3::text[])) ORDER BY kind, slug"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One version of one configuration."""

    kind: Kind
    slug: str
    version: int
    config: dict[str, Any]
    created_by: str = ""
    note: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A configuration to be stored."""

    kind: Kind
    slug: str
    tier: Tier


class TierStore:
    """Every query names the tenant, and row-level security holds it to that."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def newest(self, tenant: str, wanted: Sequence[tuple[Kind, str]]) -> dict[tuple[Kind, str], Row]:
        """The newest versions of those that are there."""
        async with transaction(self._pool, (tenant,)) as connection:
            return await _newest(connection, tenant, wanted)

    async def version(self, tenant: str, kind: Kind, slug: str, version: int) -> Row | None:
        """One version."""
        async with transaction(self._pool, (tenant,)) as connection:
            row = await connection.fetchrow(
                "SELECT * FROM runtime.tier_config_versions"
                " WHERE tenant = $1 AND kind = $2 AND slug = $3 AND version = $4",
                tenant,
                kind.value,
                slug,
                version,
            )
        return _row(row) if row else None

    async def versions(self, tenant: str, kind: Kind, slug: str, below: int, limit: int) -> list[Row]:
        """Newest first, those with a number under `below`."""
        async with transaction(self._pool, (tenant,)) as connection:
            rows = await connection.fetch(
                "SELECT * FROM runtime.tier_config_versions"
                " WHERE tenant = $1 AND kind = $2 AND slug = $3 AND version < $4"
                " ORDER BY version DESC LIMIT $5",
                tenant,
                kind.value,
                slug,
                below,
                limit,
            )
        return [_row(row) for row in rows]

    async def listed(self, tenant: str, kind: str, after: tuple[str, str], limit: int) -> list[Row]:
        """The newest versions, by kind and slug, after `after`."""
        async with transaction(self._pool, (tenant,)) as connection:
            rows = await connection.fetch(
                "SELECT kind, slug, version, config FROM runtime.tiers"
                " WHERE tenant = $1 AND ($2 = '' OR kind = $2) AND (kind, slug) > ($3, $4)"
                " ORDER BY kind, slug LIMIT $5",
                tenant,
                kind,
                *after,
                limit,
            )
        return [_row(row) for row in rows]

    async def put(self, tenant: str, named: Sequence[Named], by: str, note: str) -> list[Row]:
        """Store, all or none; gives those that have changed, at their new versions."""
        try:
            async with transaction(self._pool, (tenant,)) as connection:
                return await stored(connection, tenant, named, by, note)
        except asyncpg.UniqueViolationError as error:
            if "routing_keys" in (error.constraint_name or ""):
                raise InvalidInput(
                    Reason.INVALID_ARGUMENT,
                    "A routing key of this binding belongs to another one.",
                    hint="a number or host leads to one binding only",
                ) from None
            raise

    async def routed(self, routing_key: str) -> tuple[str, str] | None:
        """Tenant and binding that answer at a number or host."""
        query = "SELECT tenant, binding FROM runtime.routing_keys WHERE routing_key = $1"
        rows = await one_trip(self._pool, query, routing_key)
        return (rows[0]["tenant"], rows[0]["binding"]) if rows else None


async def stored(
    connection: asyncpg.Connection, tenant: str, named: Sequence[Named], by: str, note: str
) -> list[Row]:
    """Store within a transaction; gives those that have changed, at their new versions."""
    wanted = [(each.kind, each.slug) for each in named]
    known = await _newest(connection, tenant, wanted, lock=True)
    changed = []
    for each in named:
        before = known.get((each.kind, each.slug))
        config = dump(each.tier)
        if before is None or before.config != config:
            changed.append(Row(each.kind, each.slug, before.version + 1 if before else 1, config))
    await _insert(connection, tenant, changed, by, note)
    await _route(connection, tenant, named)
    for row in changed:
        payload = f"{tenant}/{row.kind.value}/{row.slug}"
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)
    return changed


async def _newest(
    connection: asyncpg.Connection, tenant: str, wanted: Sequence[tuple[Kind, str]], *, lock: bool = False
) -> dict[tuple[Kind, str], Row]:
    rows = await connection.fetch(
        _NEWEST + " FOR UPDATE" if lock else _NEWEST,
        tenant,
        [kind.value for kind, _ in wanted],
        [slug for _, slug in wanted],
    )
    return {(row.kind, row.slug): row for row in map(_row, rows)}


async def _insert(
    connection: asyncpg.Connection, tenant: str, rows: Sequence[Row], by: str, note: str
) -> None:
    columns = (
        [tenant] * len(rows),
        [row.kind.value for row in rows],
        [row.slug for row in rows],
        [row.version for row in rows],
        [json.dumps(row.config) for row in rows],
    )
    # Two who apply at once meet here: the version's key lets one of them through.
    await connection.execute(
        "INSERT INTO runtime.tier_config_versions (tenant, kind, slug, version, config, created_by, note)"
        " SELECT *, $6, $7 FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::jsonb[])",
        *columns,
        by,
        note,
    )
    await connection.execute(
        "INSERT INTO runtime.tiers (tenant, kind, slug, version, config)"
        " SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::jsonb[])"
        " ON CONFLICT (tenant, kind, slug)"
        " DO UPDATE SET version = excluded.version, config = excluded.config, updated_at = now()",
        *columns,
    )


async def _route(connection: asyncpg.Connection, tenant: str, named: Sequence[Named]) -> None:
    bindings = {each.slug: each.tier for each in named if isinstance(each.tier, Binding)}
    if not bindings:
        return
    await connection.execute(
        "DELETE FROM runtime.routing_keys WHERE tenant = $1 AND binding = ANY ($2)", tenant, list(bindings)
    )
    pairs = [(key, slug) for slug, b in bindings.items() if b.active for key in b.routing_keys]
    await connection.execute(
        "INSERT INTO runtime.routing_keys (routing_key, tenant, binding)"
        " SELECT given.key, $1, given.binding FROM unnest($2::text[], $3::text[]) AS given(key, binding)",
        tenant,
        [key for key, _ in pairs],
        [slug for _, slug in pairs],
    )


def _row(row: asyncpg.Record) -> Row:
    whole = "created_by" in row.keys()  # noqa: SIM118 - a record's `in` looks at values
    return Row(
        Kind(row["kind"]),
        row["slug"],
        row["version"],
        json.loads(row["config"]),
        row["created_by"] if whole else "",
        row["note"] if whole else "",
        row["created_at"] if whole else None,
    )
