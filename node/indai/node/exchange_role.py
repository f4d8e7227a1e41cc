"""Sharing, asking and requests put together: modules for the engine, the query desk, and the services."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from indai.client.resolver import Resolver
from indai.node import auth
from indai.node.agents import Agents
from indai.node.asking_service import AskingServicer
from indai.node.belongings import Belongings
from indai.node.clock import DatabaseClock
from indai.node.contents import Contents
from indai.node.engine import Engine
from indai.node.following import portions
from indai.node.host import Host
from indai.node.keystore import KeyStore
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.ask import Questions
from indai.node.kinds.base import KindModule
from indai.node.kinds.request import Requests
from indai.node.kinds.served import SERVED
from indai.node.kinds.share import Sharing
from indai.node.offices import Offices
from indai.node.own_answers import OwnAnswers
from indai.node.policies import Policies
from indai.node.prices import Prices
from indai.node.public_door import PublicDoor
from indai.node.querier import Querier
from indai.node.query_desk import QueryDesk
from indai.node.quoting_model import QuotingModel
from indai.node.service import Service
from indai.node.sharing_service import SharingServicer
from indai.node.slices import Slices
from indai.node.stages import Stages
from indai.node.stock import Shelf
from indai.node.store import Store
from indai.node.thread_views import ThreadViews
from indai.protocol.errors import IndaiError
from indai.v1 import asking_pb2_grpc, sharing_pb2_grpc

if TYPE_CHECKING:
    import asyncpg
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

SWEEP_S = 60.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What this node shares, answers and files."""

    kinds: tuple[KindModule, ...]
    queries: QueryDesk
    belongings: Belongings
    contents: Contents
    own: OwnAnswers
    offices: Offices
    stages: Stages
    store: Store
    agents: Agents
    resolver: Resolver
    clock: DatabaseClock
    public_door: PublicDoor

    def services(self, engine: Engine, querier: Querier, ledger: str) -> tuple[Service, ...]:
        """At the owner's port."""
        owners, threads = auth.owners(self.agents.owner_of_token), ThreadViews(self.store, ledger)
        sharing = SharingServicer(
            self.belongings,
            self.contents,
            self.store,
            self.agents,
            self.resolver,
            engine,
            querier,
            threads,
            self.clock,
        )
        asking = AskingServicer(
            self.store, engine, querier, self.own, self.offices, self.stages, threads, self.clock
        )
        return (
            Service(sharing_pb2_grpc.add_SharingServiceServicer_to_server, sharing, owners),
            Service(asking_pb2_grpc.add_AskingServiceServicer_to_server, asking, owners),
        )

    async def sweep(self) -> None:
        """Remove what may be kept no longer, for ever."""
        while True:
            try:
                for owners in portions(list(self.agents)):
                    await self.contents.sweep(owners, self.clock())
            except IndaiError as error:
                log.warning("contents not swept", reason=error.reason.name, error=error.message)
            await asyncio.sleep(SWEEP_S)


async def open_exchange(
    pool: asyncpg.Pool,
    keystore: KeyStore,
    store: Store,
    agents: Agents,
    host: Host,
    policies: Policies,
    resolver: Resolver,
    clock: DatabaseClock,
    known: Acquaintances,
    memory: MemoryServiceAsyncStub | None,
    llm: LlmServiceAsyncStub | None,
    shelf: Shelf,
) -> Exchange:
    """Read what is kept in memory, and put the rest together."""
    belongings, contents = Belongings(pool, keystore, clock), Contents(pool, keystore, clock)
    own, stages, offices = OwnAnswers(store, keystore), Stages(store), Offices(pool)
    await offices.load(list(agents))
    model = QuotingModel(llm) if llm is not None else None
    slices = Slices(policies, belongings, memory)
    kinds = (
        Sharing(policies, agents, belongings, contents, known),
        Questions(policies, agents, slices, own, known, model, clock),
        Requests(policies, offices, known),
    )
    prices = Prices(shelf, policies, known, agents, store, clock).answer
    desk = QueryDesk(SERVED, policies, resolver, agents, host, store, contents, stages, known, clock, prices)
    public = PublicDoor(policies, slices, clock)
    return Exchange(
        kinds, desk, belongings, contents, own, offices, stages, store, agents, resolver, clock, public
    )
