"""The edge role: what strangers' clients speak, put together and started in order."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

import asyncpg
from a2a.types import a2a_pb2_grpc
from aiohttp import web
from indai.a2a.cards import CardIssuer, Places
from indai.a2a.conformance import ConformanceAgents
from indai.a2a.grpc_binding import GrpcBinding
from indai.a2a.http_binding import HttpBinding
from indai.a2a.push import PushConfigs
from indai.a2a.servicer import A2AServicer
from indai.a2a.store import TaskStore
from indai.node.keystore import KeyStore
from indai.node.service import Service


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """What the edge is built from. `places` is asked when a card is served: ports are known by then."""

    pool: asyncpg.Pool
    keystore: KeyStore
    places: Callable[[], Places]
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True)
class EdgeRole:
    """A running edge: what it adds to the HTTP port, and what its gRPC port serves."""

    routes: tuple[web.RouteDef, ...]
    services: tuple[Service, ...]


@contextlib.asynccontextmanager
async def conformance_edge(plan: EdgePlan) -> AsyncIterator[EdgeRole]:
    """The edge with the conformance kit's agent alone; everybody is the same caller."""
    agents = ConformanceAgents()

    async def caller_of(headers: Mapping[str, str], certificate: bytes) -> str:
        return "conformance"

    async with (
        TaskStore(plan.pool) as store,
        PushConfigs(
            plan.pool, plan.keystore.seal, plan.keystore.unseal, lambda: ["tck"], private=True
        ) as push,
    ):
        cards = CardIssuer(plan.places, {})
        servicer = A2AServicer(agents, store, push, cards, plan.clock)
        http = HttpBinding(servicer, agents, cards, caller_of)
        grpc = Service(a2a_pb2_grpc.add_A2AServiceServicer_to_server, GrpcBinding(servicer, caller_of))
        yield EdgeRole(tuple(http.routes()), (grpc,))
