"""Versions of policies in Postgres: immutable rows by (owner, hash), and which one is active."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg
from indai.client.decisions import Layer, Outcome
from indai.policy.compiled import CompiledPolicy
from indai.storage.pool import transaction, translate_errors


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version as it was compiled. `activated_ms`: 0 if it is not the active one."""

    policy_hash: bytes
    schema_hash: bytes
    source: str
    layers: tuple[Layer, ...]
    schema: str
    engine: str
    time_zone: str
    activated_ms: int


_INSERT_VERSION = """
    INSERT INTO policy.version (owner, policy_hash, schema_hash, source, layers, schema, engine, time_zone)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (owner, policy_hash) DO NOTHING
"""
# Returns a row only if another version was active: that decides, under the row's lock, who changed it.
_ACTIVATE = """
    INSERT INTO policy.active AS a (owner, policy_hash, activated_at) VALUES ($1, $2, $3)
    ON CONFLICT (owner) DO UPDATE SET policy_hash = EXCLUDED.policy_hash, activated_at = EXCLUDED.activated_at
    WHERE a.policy_hash <> EXCLUDED.policy_hash
    RETURNING true
"""
_SELECT_VERSION = """
    SELECT v.policy_hash, v.schema_hash, v.source, v.layers, v.schema, v.engine, v.time_zone, a.activated_at
    FROM policy.version v
    LEFT JOIN policy.active a ON a.owner = v.owner AND a.policy_hash = v.policy_hash
    WHERE v.owner = $1 AND CASE WHEN $2 = ''::bytea THEN a.owner IS NOT NULL ELSE v.policy_hash = $2 END
"""


async def activate(pool: asyncpg.Pool, owner: str, policy: CompiledPolicy, now_ms: int) -> bool:
    """Store the version if it is new and make it active, in one transaction; False if it was already."""
    layers = [[layer.name, layer.grant, layer.ask, layer.unmatched.value] for layer in policy.layers]
    async with transaction(pool, [owner]) as connection:
        await connection.execute(
            _INSERT_VERSION,
            owner,
            policy.policy_hash,
            policy.schema_hash,
            policy.source,
            json.dumps(layers),
            policy.schema,
            policy.engine,
            policy.time_zone,
        )
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        return bool(await connection.fetchval(_ACTIVATE, owner, policy.policy_hash, at))


async def active_hash(pool: asyncpg.Pool, owner: str) -> bytes | None:
    """Hash of the active version, or None, in one round trip."""
    with translate_errors():
        found: bytes | None = await pool.fetchval("SELECT policy.active_hash($1)", owner)
    return found


async def read_version(pool: asyncpg.Pool, owner: str, policy_hash: bytes = b"") -> StoredVersion | None:
    """The version with this hash, the active one without a hash; None if the owner has no such version."""
    async with transaction(pool, [owner]) as connection:
        row = await connection.fetchrow(_SELECT_VERSION, owner, policy_hash)
    if row is None:
        return None
    return StoredVersion(
        policy_hash=row["policy_hash"],
        schema_hash=row["schema_hash"],
        source=row["source"],
        layers=tuple(
            Layer(name, grant, ask, Outcome(unmatched))
            for name, grant, ask, unmatched in json.loads(row["layers"])
        ),
        schema=row["schema"],
        engine=row["engine"],
        time_zone=row["time_zone"],
        activated_ms=round(row["activated_at"].timestamp() * 1000) if row["activated_at"] else 0,
    )
