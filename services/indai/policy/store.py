"""Versions of policies in Postgres: immutable rows by (owner, hash), and which one is active."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg
from indai.client.decisions import Layer, layer_of, layer_values
from indai.policy.compiled import CompiledPolicy
from indai.storage.pool import transaction, translate_errors

EVERYONE = "*"


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
    others: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class State:
    """What decides for an owner: the active version's hash, None without one, and a mark that changes with
    every layer beside theirs.
    """

    policy_hash: bytes | None
    layers: str

    def is_of(self, others: Mapping[str, str]) -> bool:
        """Whether these are the layers, by name, that the mark was taken of; as `policy.active_state`."""
        marks = (
            f"{name}:{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}"
            for name, text in sorted(others.items())
        )
        return ",".join(marks) == self.layers


_INSERT_VERSION = """
    INSERT INTO policy.version
        (owner, policy_hash, schema_hash, source, layers, schema, engine, time_zone, others)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (owner, policy_hash) DO NOTHING
"""
# Returns a row only if another version was active: that decides, under the row's lock, who changed it.
_ACTIVATE = """
    INSERT INTO policy.active AS a (owner, policy_hash, activated_at) VALUES ($1, $2, $3)
    ON CONFLICT (owner) DO UPDATE SET policy_hash = EXCLUDED.policy_hash, activated_at = EXCLUDED.activated_at
    WHERE a.policy_hash <> EXCLUDED.policy_hash AND ($4::bytea IS NULL OR a.policy_hash = $4)
    RETURNING true
"""
_SELECT_VERSION = """
    SELECT v.policy_hash, v.schema_hash, v.source, v.layers, v.schema, v.engine, v.time_zone, v.others,
           a.activated_at
    FROM policy.version v
    LEFT JOIN policy.active a ON a.owner = v.owner AND a.policy_hash = v.policy_hash
    WHERE v.owner = $1 AND CASE WHEN $2 = ''::bytea THEN a.owner IS NOT NULL ELSE v.policy_hash = $2 END
"""
_SELECT_LAYERS = """
    SELECT layer, source FROM policy.layer
    WHERE (scope, layer) IN (('*', 'operator'), ($2, 'organisation'), ($1, 'agent'))
       OR ((scope, layer) = ($1, 'session') AND $3 <> '' AND session = $3)
"""
_SET_LAYER = """
    INSERT INTO policy.layer AS l (scope, layer, session, source, set_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (scope, layer, session) DO UPDATE SET source = EXCLUDED.source, set_at = EXCLUDED.set_at
    WHERE l.source <> EXCLUDED.source
    RETURNING true
"""
_CLEAR_LAYER = "DELETE FROM policy.layer WHERE (scope, layer, session) = ($1, $2, $3) RETURNING true"


async def activate(
    pool: asyncpg.Pool,
    owner: str,
    policy: CompiledPolicy,
    now_ms: int,
    *,
    active: bool = True,
    instead_of: bytes | None = None,
) -> bool:
    """Store the version if it is new and make it active, in one transaction; False if it was already.

    A session's version is only stored (`active=False`): it decides by its name. `instead_of`: only if this
    hash is the active one still; what the owner has set since stays.
    """
    layers = [layer_values(layer) for layer in policy.layers]
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
            json.dumps(dict(policy.others)),
        )
        if not active:
            return False
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        return bool(await connection.fetchval(_ACTIVATE, owner, policy.policy_hash, at, instead_of))


async def active_state(pool: asyncpg.Pool, owner: str, session: str = "") -> State:
    """What decides for the owner now, in one round trip."""
    with translate_errors():
        row = await pool.fetchrow(
            "SELECT * FROM policy.active_state($1, $2, $3)", owner, authority_of(owner), session
        )
    return State(row["policy_hash"], row["layers"])


async def generations(pool: asyncpg.Pool) -> tuple[int, ...]:
    """How often the policies of each bucket have changed: see `policy.generation`."""
    with translate_errors():
        numbers = await pool.fetchval("SELECT array_agg(number ORDER BY bucket) FROM policy.generation")
    return tuple(numbers)


async def read_layers(pool: asyncpg.Pool, owner: str, session: str = "") -> dict[str, str]:
    """The texts beside the owner's own, by the layer's name."""
    authority = authority_of(owner)
    async with transaction(pool, sorted({owner, authority, EVERYONE})) as connection:
        rows = await connection.fetch(_SELECT_LAYERS, owner, authority, session)
    return {row["layer"]: row["source"] for row in rows}


async def set_layer(
    pool: asyncpg.Pool, scope: str, layer: str, source: str, now_ms: int, session: str = ""
) -> bool:
    """Set a layer's text, or remove it with an empty one; False if nothing changed."""
    async with transaction(pool, [scope]) as connection:
        if not source:
            return bool(await connection.fetchval(_CLEAR_LAYER, scope, layer, session))
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        return bool(await connection.fetchval(_SET_LAYER, scope, layer, session, source, at))


def authority_of(owner: str) -> str:
    """The domain under which the handle stands: whose organisation's rules hold for it."""
    return owner.partition("/")[0]


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
        layers=tuple(layer_of(values) for values in json.loads(row["layers"])),
        schema=row["schema"],
        engine=row["engine"],
        time_zone=row["time_zone"],
        activated_ms=round(row["activated_at"].timestamp() * 1000) if row["activated_at"] else 0,
        others=json.loads(row["others"]),
    )
