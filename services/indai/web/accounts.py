"""Accounts of people at the desks: which role somebody has, and where.

An owner's account is their handle's own and is made when it is first needed. The others are granted: an
operator of the node (scope `*`), or people of a tenant (scope: its slug).
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.protocol.header import new_id
from indai.storage.migrations import Schema
from indai.storage.pool import transaction

SCHEMA = Schema("web", "indai.web")
OWNER: Final = "owner"
OPERATOR: Final = "operator"
EVERYWHERE: Final = "*"
TENANT_ROLES: Final = ("admin", "staff", "operator", "auditor")
"""What somebody may be for a tenant. For the whole node there are operators and auditors."""

_NODE_ROLES: Final = ("operator", "auditor")
_SLUG: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME: Final = re.compile(r"[^\s,\x00-\x1f\x7f]([^,\x00-\x1f\x7f]{0,98}[^\s,\x00-\x1f\x7f])?")


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who may sign in. `scope`: a handle, a tenant's slug, or `*`."""

    id: str
    scope: str
    role: str
    name: str
    created_ms: int
    settings: Mapping[str, str] = field(default_factory=dict)


class Accounts:
    """Reads and writes accounts. `clock`: ms since the epoch."""

    def __init__(self, pool: asyncpg.Pool, clock: Callable[[], int]) -> None:
        self._pool, self._clock = pool, clock

    async def of_owner(self, handle: str) -> Account:
        """The account of a handle's owner, made when there is none yet."""
        scope = str(Handle.parse(handle))
        return await self._find(scope, scope) or await self._make(scope, OWNER, scope)

    async def grant(self, scope: str, role: str, name: str) -> Account:
        """Let `name` in as `role`. Raises InvalidInput for a role that does not exist there, or when the name
        has another role there already."""
        check_grant(scope, role, name)
        return await self._make(scope, role, name)

    async def find(self, scope: str, name: str) -> Account:
        """One in force; raises NotFound."""
        found = await self._find(scope, name)
        if found is None:
            raise NotFound(
                Reason.NOT_FOUND, f"Nobody is let in as {name} there.", hint="see: indai desk accounts"
            )
        return found

    async def named(self, name: str) -> list[Account]:
        """Accounts in force of this name in any scope but owners': for who signs in without naming one."""
        async with transaction(self._pool) as connection:
            await connection.execute("SELECT set_config('indai.presented', $1, true)", name)
            rows = await connection.fetch(
                "SELECT * FROM web.accounts WHERE name = $1 AND revoked_ms IS NULL AND role <> $2",
                name,
                OWNER,
            )
        return [_account(row) for row in rows]

    async def with_id(self, scope: str, account: str) -> Account | None:
        """One in force by its id, or None."""
        async with transaction(self._pool, (scope,)) as connection:
            row = await connection.fetchrow(
                "SELECT * FROM web.accounts WHERE id = $1 AND scope = $2 AND revoked_ms IS NULL",
                uuid.UUID(account),
                scope,
            )
        return _account(row) if row else None

    async def listed(self, scope: str) -> list[Account]:
        """Those in force, by name."""
        async with transaction(self._pool, (scope,)) as connection:
            rows = await connection.fetch(
                "SELECT * FROM web.accounts WHERE scope = $1 AND revoked_ms IS NULL ORDER BY name", scope
            )
        return [_account(row) for row in rows]

    async def revoke(self, scope: str, name: str) -> Account:
        """Let somebody in no more: their sessions, codes and passkeys open nothing from now on."""
        now = self._clock()
        async with transaction(self._pool, (scope,)) as connection:
            row = await connection.fetchrow(
                "UPDATE web.accounts SET revoked_ms = $3"
                " WHERE scope = $1 AND name = $2 AND revoked_ms IS NULL RETURNING *",
                scope,
                name,
                now,
            )
            if row is not None:
                await connection.execute(
                    "UPDATE web.sessions SET revoked_ms = $2 WHERE account = $1 AND revoked_ms IS NULL",
                    row["id"],
                    now,
                )
                await connection.execute("DELETE FROM web.passkeys WHERE account = $1", row["id"])
        if row is None:
            raise NotFound(
                Reason.NOT_FOUND, f"Nobody is let in as {name} there.", hint="see: indai desk accounts"
            )
        return _account(row)

    async def is_proved_by(self, account: Account, subject: str) -> bool:
        """Whether the account is this subject's of an organisation's. The first who is proved by its address
        has it from then on, and nobody else until somebody revokes it."""
        async with transaction(self._pool, (account.scope,)) as connection:
            done = await connection.execute(
                "UPDATE web.accounts SET subject = $3 WHERE id = $1 AND scope = $2 AND revoked_ms IS NULL"
                " AND subject IN ('', $3)",
                uuid.UUID(account.id),
                account.scope,
                subject,
            )
        return bool(done == "UPDATE 1")

    async def choose(self, account: Account, **settings: str) -> None:
        """Change some of the account's settings, such as `language`."""
        async with transaction(self._pool, (account.scope,)) as connection:
            await connection.execute(
                "UPDATE web.accounts SET settings = settings || $3::jsonb WHERE id = $1 AND scope = $2",
                uuid.UUID(account.id),
                account.scope,
                json.dumps(settings),
            )

    async def _find(self, scope: str, name: str) -> Account | None:
        async with transaction(self._pool, (scope,)) as connection:
            row = await connection.fetchrow(
                "SELECT * FROM web.accounts WHERE scope = $1 AND name = $2 AND revoked_ms IS NULL",
                scope,
                name,
            )
        return _account(row) if row else None

    async def _make(self, scope: str, role: str, name: str) -> Account:
        """A new one, or the one there is with this very role."""
        now = self._clock()
        async with transaction(self._pool, (scope,)) as connection:
            await connection.execute(
                "INSERT INTO web.accounts (id, scope, role, name, created_ms) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT (scope, name) WHERE revoked_ms IS NULL DO NOTHING",
                uuid.UUID(bytes=new_id(now, os.urandom(10))),
                scope,
                role,
                name,
                now,
            )
        made = await self.find(scope, name)
        if made.role != role:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{name} is let in there as {made.role} already.",
                hint="revoke that first, or take another name",
            )
        return made


def check_scope(scope: str) -> str:
    """A tenant's slug or `*`; raises InvalidInput."""
    if scope != EVERYWHERE and (not _SLUG.fullmatch(scope) or len(scope) > 60):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A tenant's name has small letters, digits and single hyphens.",
            hint="or * for the whole node",
        )
    return scope


def check_grant(scope: str, role: str, name: str) -> None:
    """Raises InvalidInput for what cannot be granted."""
    allowed = _NODE_ROLES if check_scope(scope) == EVERYWHERE else TENANT_ROLES
    if role not in allowed:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"There is no role {role[:40]!r} there.",
            hint=f"the roles are: {', '.join(allowed)}",
        )
    if not _NAME.fullmatch(name) or name == scope:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A name has at most 100 characters, without commas and line breaks.",
            hint="an e-mail address, if they sign in with their organisation",
        )


def _account(row: Mapping[str, Any]) -> Account:
    settings = json.loads(row["settings"])
    return Account(str(row["id"]), row["scope"], row["role"], row["name"], row["created_ms"], settings)
