"""`LendingService`: an owner lets an organisation's people work for their handle, and ends it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import asyncpg
from indai.node.auth import caller
from indai.node.views import timestamp
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.quoting import quoted
from indai.runtime.bindings import TENANTS
from indai.runtime.conversations.doors import PERSONAL
from indai.runtime.tiers import Kind
from indai.runtime.tierstore import TierStore
from indai.storage.pool import transaction
from indai.v1 import tenant_pb2 as pb
from indai.v1 import tenant_pb2_grpc
from indai.web.accounts import check_scope

MAX_LENDINGS: Final = 20


class LendingServicer(tenant_pb2_grpc.LendingServiceServicer):
    """See the module. All of it is the caller's own."""

    def __init__(self, pool: asyncpg.Pool, tiers: TierStore, clock: Callable[[], int]) -> None:
        self._pool, self._tiers, self._clock = pool, tiers, clock

    async def LendHandle(self, request: pb.LendHandleRequest, context: Any) -> pb.LendHandleResponse:
        """See the contract."""
        owner, tenant = caller(context).owner, check_scope(request.tenant)
        if request.lend:
            await self._check(owner, tenant)
        async with transaction(self._pool, [owner]) as connection:
            if request.lend:
                await connection.execute(
                    "INSERT INTO node.lendings (owner, tenant, created_ms) VALUES ($1, $2, $3)"
                    " ON CONFLICT DO NOTHING",
                    owner,
                    tenant,
                    self._clock(),
                )
            else:
                await connection.execute(
                    "DELETE FROM node.lendings WHERE owner = $1 AND tenant = $2", owner, tenant
                )
        return pb.LendHandleResponse()

    async def ListLendings(self, request: pb.ListLendingsRequest, context: Any) -> pb.ListLendingsResponse:
        """See the contract."""
        found = await self._listed(caller(context).owner)
        return pb.ListLendingsResponse(
            lendings=[
                pb.Lending(tenant=row["tenant"], create_time=timestamp(row["created_ms"])) for row in found
            ]
        )

    async def _listed(self, owner: str) -> list[asyncpg.Record]:
        async with transaction(self._pool, [owner]) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT tenant, created_ms FROM node.lendings WHERE owner = $1 ORDER BY tenant", owner
            )
        return rows

    async def _check(self, owner: str, tenant: str) -> None:
        known = await self._tiers.newest(TENANTS, [(Kind.TENANT, tenant)])
        if tenant == PERSONAL or not known:
            raise NotFound(
                Reason.NOT_FOUND, f"There is no tenant {quoted(tenant)} here.", hint="ask its operator"
            )
        if len(await self._listed(owner)) >= MAX_LENDINGS:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"A handle is lent to at most {MAX_LENDINGS} organisations."
            )
