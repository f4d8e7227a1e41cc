"""The edge role: what strangers' clients speak, put together and started in order."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass

import asyncpg
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from aiohttp import web
from indai.a2a.agents import Agent, Agents
from indai.a2a.callers import Callers
from indai.a2a.cards import CardIssuer, Places, SignerOf
from indai.a2a.conformance import ConformanceAgents
from indai.a2a.grpc_binding import CallerOf, GrpcBinding
from indai.a2a.http_binding import HttpBinding
from indai.a2a.push import PushConfigs
from indai.a2a.servicer import A2AServicer
from indai.a2a.store import TaskStore
from indai.client.addresses import parse_address
from indai.node import auth
from indai.node.a2a_service import A2AKeyServicer
from indai.node.keystore import KeyStore
from indai.node.service import Service
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import a2a_pb2_grpc as ours_pb2_grpc

TOKENS = "a2a-tokens"
CONFORMANCE = "tck"


@dataclass(frozen=True, slots=True)
class Desk:
    """What the node shows the edge: agents behind A2A, their handles, their keys for cards, owners."""

    agents: Agents
    handles: Callable[[], Iterable[str]]
    signer_of: SignerOf
    owner_of_token: auth.FindOwner


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """What the edge is built from. `places` is asked when a card is served: ports are known by then. Without
    a `desk` there is only the conformance agent."""

    pool: asyncpg.Pool
    keystore: KeyStore
    places: Callable[[], Places]
    clock: Callable[[], int]
    desk: Desk | None
    conformance: bool = False
    private: bool = False


@dataclass(frozen=True, slots=True)
class EdgeRole:
    """A running edge: what it adds to the HTTP port, to the owner's port, and what its gRPC port serves."""

    routes: tuple[web.RouteDef, ...]
    services: tuple[Service, ...]
    owner_services: tuple[Service, ...]


class _All:
    """The conformance agent, where it is asked for, before the node's own."""

    def __init__(self, plan: EdgePlan) -> None:
        self._all: list[Agents] = [ConformanceAgents()] if plan.conformance else []
        self._all += [plan.desk.agents] if plan.desk else []

    async def find(self, tenant: str) -> Agent | None:
        for agents in self._all:
            found = await agents.find(tenant)
            if found is not None:
                return found
        return None


@contextlib.asynccontextmanager
async def edge_role(plan: EdgePlan) -> AsyncIterator[EdgeRole]:
    """Start the edge."""
    agents = _All(plan)
    callers = Callers(plan.pool, plan.keystore.derive(TOKENS), plan.clock)
    caller_of = _caller_of(callers, conformance=plan.conformance)

    def handles() -> list[str]:
        own = list(plan.desk.handles()) if plan.desk else []
        return [*own, CONFORMANCE] if plan.conformance else own

    async with (
        TaskStore(plan.pool) as store,
        PushConfigs(
            plan.pool, plan.keystore.seal, plan.keystore.unseal, handles, private=plan.private
        ) as push,
    ):
        cards = CardIssuer(plan.places, _security(plan.places), plan.desk.signer_of if plan.desk else None)
        servicer = A2AServicer(agents, store, push, cards, plan.clock)
        http = HttpBinding(servicer, agents, cards, caller_of)
        binding = GrpcBinding(servicer, caller_of)
        yield EdgeRole(
            (web.post("/a2a/oauth/token", callers.token), *http.routes()),
            (Service(a2a_pb2_grpc.add_A2AServiceServicer_to_server, binding),),
            _owner_services(callers, plan.desk),
        )


def check_loopback(*binds: str) -> None:
    """Raises InvalidInput unless all are on loopback: the conformance agent asks nobody who they are."""
    for bind in binds:
        if not parse_address(bind).is_loopback:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"The conformance agent can't be served on {bind}.",
                hint="it asks nobody for credentials: let it listen on loopback",
            )


def _caller_of(callers: Callers, *, conformance: bool) -> CallerOf:
    if not conformance:
        return callers.caller_of

    async def anybody(headers: Mapping[str, str], spki: bytes) -> str:
        return await callers.caller_of(headers, spki) or "conformance"

    return anybody


def _owner_services(callers: Callers, desk: Desk | None) -> tuple[Service, ...]:
    if desk is None:
        return ()
    add = ours_pb2_grpc.add_A2AKeyServiceServicer_to_server
    return (Service(add, A2AKeyServicer(callers), auth.owners(desk.owner_of_token)),)


def _security(places: Callable[[], Places]) -> Callable[[Agent], dict[str, pb.SecurityScheme]]:
    """Ways to be somebody. None is required: a stranger stands at the public door."""

    def schemes(agent: Agent) -> dict[str, pb.SecurityScheme]:
        if agent.handle == CONFORMANCE:
            return {}  # nobody is asked there
        token_url = f"{places().http}/a2a/oauth/token"
        flows = pb.OAuthFlows(client_credentials=pb.ClientCredentialsOAuthFlow(token_url=token_url))
        return {
            "apiKey": pb.SecurityScheme(
                api_key_security_scheme=pb.APIKeySecurityScheme(location="header", name="X-API-Key")
            ),
            "oauth2": pb.SecurityScheme(oauth2_security_scheme=pb.OAuth2SecurityScheme(flows=flows)),
            "mtls": pb.SecurityScheme(
                mtls_security_scheme=pb.MutualTlsSecurityScheme(description="On the gRPC binding.")
            ),
        }

    return schemes
