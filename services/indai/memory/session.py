"""Transactions that see the scopes of one call and nothing else, whatever their queries say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
from indai.memory.access import Scope, ScopeKind, Sight, no_scope
from indai.storage.migrations import Schema
from indai.storage.pool import transaction

SCHEMA = Schema("memory", "indai.memory")

_OPEN = "SELECT memory.open_scopes($1, $2, $3)"
_WIDEN = "SELECT set_config('indai.tenant', $1, true), set_config('indai.wide', 'on', true)"
_ADD_SCOPE = """
    WITH scope AS (INSERT INTO memory.scopes (id, tenant, kind, key, person) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING RETURNING id)
    INSERT INTO memory.scope_models (scope, model) SELECT id, '' FROM scope
"""


@asynccontextmanager
async def reading(
    pool: asyncpg.Pool, sight: Sight, named: Sequence[Scope] = ()
) -> AsyncIterator[tuple[asyncpg.Connection, list[UUID]]]:
    """A transaction that sees `named`, or all that the door shows, and the ids of those scopes that exist.

    Raises NotFound for a named scope that may not be seen or that is not there, with the same words.
    """
    scopes, kinds = chosen(sight, named)
    async with transaction(pool) as connection:
        found = await connection.fetchval(_OPEN, sight.tenant, [scope.id for scope in scopes], kinds)
        missing = [scope for scope in named if scope.id not in found]
        if missing:
            raise no_scope(missing[0])
        yield connection, list(found)


def chosen(sight: Sight, named: Sequence[Scope]) -> tuple[list[Scope], list[str]]:
    """The scopes to open by name and the kinds to open whole. Raises NotFound; see `reading`."""
    if named:
        return [sight.read(scope) for scope in named], []
    return sorted(sight.seen, key=lambda scope: (scope.kind, scope.key)), sorted(sight.seen_kinds)


@asynccontextmanager
async def writing(
    pool: asyncpg.Pool, scope: Scope, *, person: str = "", create: bool = True
) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that sees one scope, which `Sight.write` has allowed; it is made when it is new, as the
    scope of `person` where it is somebody's."""
    async with transaction(pool) as connection:
        found = await connection.fetchval(_OPEN, scope.tenant, [scope.id], [])
        if create and not found:
            await connection.execute(_ADD_SCOPE, scope.id, scope.tenant, scope.kind.value, scope.key, person)
        yield connection


@asynccontextmanager
async def whole_tenant(pool: asyncpg.Pool, tenant: str) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that sees every scope of a tenant: for erasing, listing and counting only."""
    async with transaction(pool) as connection:
        await connection.execute(_WIDEN, tenant)
        yield connection


async def scope_of(pool: asyncpg.Pool, scope: UUID) -> Scope | None:
    """The scope with this id, for jobs, whose payload names nothing else; None when it is gone."""
    async with transaction(pool) as connection:
        row = await connection.fetchrow("SELECT * FROM memory.scope_names($1)", scope)
    return Scope(row["tenant"], ScopeKind(row["kind"]), row["key"]) if row else None
