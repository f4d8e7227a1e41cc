"""`TenantDeskService` and `LendingService` at the owner's port, put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import asyncpg
from indai.node import auth
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.node.tenancy.access import Access
from indai.node.tenancy.ahead import Ahead
from indai.node.tenancy.board import Board
from indai.node.tenancy.figures import Figures
from indai.node.tenancy.lending_service import LendingServicer
from indai.node.tenancy.servicer import Parts, TenantDeskServicer
from indai.node.tenancy.talks import Talks
from indai.node.tenancy.usage import Usage
from indai.node.tenancy.watch import Watch
from indai.node.tenancy.work import Work
from indai.runtime.bindings import Bindings
from indai.runtime.tierstore import TierStore
from indai.v1 import tenant_pb2_grpc
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.channels_pb2_grpc import ChannelServiceStub
from indai.web.accounts import TENANT_ROLES
from indai.web.audit import AuditLog
from indai.web.sessions import Sessions

if TYPE_CHECKING:
    from indai.v1.asking_pb2_grpc import AskingServiceAsyncStub
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """What the desk of a tenant is built from. `exchange`: the services of questions and requests as owners
    call them; `by_token` admits the operator of the node."""

    pool: asyncpg.Pool
    clock: Callable[[], int]
    sessions: Sessions
    tiers: TierStore
    bindings: Bindings
    conversations: ConversationServiceAsyncStub
    exchange: tuple[Service, ...]
    llm: LlmServiceAsyncStub | None
    memory: MemoryServiceAsyncStub | None
    owners: auth.Authenticate
    by_token: auth.Authenticate


@contextlib.asynccontextmanager
async def tenant_services(plan: TenantPlan, channels: Service) -> AsyncIterator[tuple[Service, Service]]:
    """The services, with `channels` asked as their own program asks them."""
    watch = Watch(plan.pool)
    inside = ChannelServiceStub(local_channel([replace(channels, authenticate=None)]))
    access = Access(plan.pool, plan.tiers, AuditLog(plan.pool, plan.clock))
    figures, usage = Figures(plan.pool, plan.bindings), Usage(plan.llm, plan.bindings, plan.clock)
    parts = Parts(
        access,
        Talks(plan.pool, plan.bindings),
        figures,
        watch,
        usage,
        Work(plan.pool, plan.clock, plan.memory, inside),
        Board(_acting(plan.exchange), plan.clock),
        plan.conversations,
        plan.bindings,
    )
    people = auth.either(auth.members(plan.sessions.find, *TENANT_ROLES), plan.by_token)
    desk = Service(tenant_pb2_grpc.add_TenantDeskServiceServicer_to_server, TenantDeskServicer(parts), people)
    lending = LendingServicer(plan.pool, plan.tiers, plan.clock)
    counting = asyncio.create_task(Ahead(access, figures, usage).run())
    try:
        yield (
            desk,
            Service(tenant_pb2_grpc.add_LendingServiceServicer_to_server, lending, plan.owners),
        )
    finally:
        counting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await counting
        await watch.close()


def _acting(services: tuple[Service, ...]) -> Callable[[str], AskingServiceAsyncStub]:
    """Calls in an office's name; who may make them was asked before, and nothing outside reaches this."""

    def calls_of(owner: str) -> AskingServiceAsyncStub:
        async def authenticate(_: object) -> auth.Caller:
            return auth.Caller(owner=owner)

        acting = [replace(each, authenticate=authenticate) for each in services]
        return AskingServiceStub(local_channel(acting))

    return calls_of
