"""`TierService` at the owner's port: configurations, and proposals with their audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import asyncpg
from indai.node.auth import Authenticate, caller
from indai.node.service import Service
from indai.runtime.bindings import Bindings
from indai.runtime.proposals.store import Proposals
from indai.runtime.tier_service import TierServicer
from indai.runtime.tierstore import TierStore
from indai.tools.values import Spec
from indai.v1 import tiers_pb2_grpc
from indai.web.audit import AuditLog

OPERATOR: Final = "operator"
"""Who acts by the node's token, as versions name them."""
_TOKEN: Final = "token"  # noqa: S105 - as the audit log calls a program of theirs


def tier_service(
    pool: asyncpg.Pool,
    tiers: TierStore,
    bindings: Bindings,
    clock: Callable[[], int],
    operators: Authenticate,
    specs: Callable[[], Sequence[Spec]],
) -> Service:
    """For the operator of the node, and nobody else."""
    servicer = TierServicer(tiers, bindings, proposals(pool, clock), named, specs)
    return Service(tiers_pb2_grpc.add_TierServiceServicer_to_server, servicer, operators)


def proposals(pool: asyncpg.Pool, clock: Callable[[], int]) -> Proposals:
    """Proposals whose every act stands in the tenant's audit log, in one transaction with what it did."""
    audit = AuditLog(pool, clock)

    async def note(connection: asyncpg.Connection, tenant: str, by: str, act: str, target: str) -> None:
        await audit.within(connection, tenant, _TOKEN if by == OPERATOR else by, act, target)

    return Proposals(pool, clock, note)


def named(context: Any) -> str:
    """Who calls, as versions and the audit log name them."""
    session = caller(context).session
    return f"{session.role} {session.name}" if session else OPERATOR
