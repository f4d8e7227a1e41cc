"""Who may do what at a tenant's desk, and whose rows that shows.

A call is of one tenant: the one whose session the caller has, or the one that the operator of the node names.
What it may see are the tenant's own rows, and those of the handles that are lent to it. What owners say at
their own private doors is in neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from indai.node.auth import Caller, caller
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.protocol.quoting import quoted
from indai.runtime.bindings import TENANTS
from indai.runtime.conversations.doors import PERSONAL
from indai.runtime.tiers import Kind
from indai.runtime.tierstore import TierStore
from indai.storage.pool import transaction
from indai.web.accounts import EVERYWHERE, OWNER, check_scope
from indai.web.audit import AuditLog

WORKERS: Final = ("admin", "staff", "operator")
"""They answer people and work on requests."""
RUNNERS: Final = ("admin", "operator")
"""They let work run again."""
READERS: Final = (*WORKERS, "auditor")
COUNTERS: Final = (*RUNNERS, "auditor")
"""They see work, channels and costs."""

_RESERVED: Final = (PERSONAL, TENANTS, EVERYWHERE)


@dataclass(frozen=True, slots=True)
class Post:
    """Where a caller stands: the tenant, whose rows they see, and how they are called."""

    tenant: str
    owners: tuple[str, ...]
    who: Caller
    name: str

    @property
    def offices(self) -> tuple[str, ...]:
        """Handles that are lent to the tenant."""
        return self.owners[1:]


class Access:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, tiers: TierStore, audit: AuditLog) -> None:
        self._pool, self._tiers, self._audit = pool, tiers, audit

    async def post(self, context: Any, tenant: str, roles: tuple[str, ...]) -> Post:
        """Raises Refused for who has none of these roles there, NotFound for no tenant."""
        who = caller(context)
        return await self.standing(await self._chosen(who, tenant, roles), who)

    async def standing(self, tenant: str, who: Caller) -> Post:
        """Where somebody stands whose right to be there was asked before, or the node itself."""
        async with transaction(self._pool, [tenant]) as connection:
            rows = await connection.fetch(
                "SELECT owner FROM node.lendings WHERE tenant = $1 ORDER BY owner", tenant
            )
        name = who.session.name.partition("@")[0] if who.session else "operator"
        return Post(tenant, (tenant, *(row["owner"] for row in rows)), who, name)

    async def everywhere(self) -> list[str]:
        """Every tenant's slug."""
        rows = await self._tiers.listed(TENANTS, Kind.TENANT.value, ("", ""), 1_000)
        return [row.slug for row in rows if row.slug not in _RESERVED]

    async def tenants(self, context: Any) -> list[str]:
        """Those that the caller may choose from."""
        who = caller(context)
        if who.session is not None and who.session.scope != EVERYWHERE:
            return [(await self.post(context, "", READERS)).tenant]
        if not who.operator and (who.session is None or who.session.role not in READERS):
            raise not_yours()
        return await self.everywhere()

    async def note(self, post: Post, act: str, target: str) -> None:
        """In the tenant's audit log."""
        session = post.who.session
        actor = f"{session.role} {session.name}" if session else "token"
        account = session.account if session and session.scope == post.tenant else ""
        await self._audit.note(post.tenant, actor, act, target, account=account)

    async def _chosen(self, who: Caller, tenant: str, roles: tuple[str, ...]) -> str:
        session = who.session
        everywhere = who.operator or (session is not None and session.scope == EVERYWHERE)
        role = "operator" if who.operator else session.role if session else ""
        if role not in roles or role == OWNER:
            raise not_yours()
        if not everywhere:
            if session is None or tenant not in ("", session.scope):
                raise not_yours()
            return session.scope
        if not tenant:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "Say which tenant.", hint="name its slug")
        if check_scope(tenant) in _RESERVED:
            raise not_yours()
        if not await self._tiers.newest(TENANTS, [(Kind.TENANT, tenant)]):
            raise NotFound(
                Reason.NOT_FOUND, f"There is no tenant {quoted(tenant)}.", hint="see: indai tenant list"
            )
        return tenant


def not_yours() -> Refused:
    """One sentence for what is another tenant's, and for what is another role's."""
    return Refused(
        Reason.PERMISSION_DENIED,
        "That is for people of the tenant with another role than yours.",
        hint="ask an admin of the tenant",
    )
