"""The A2A servicer over a real database and real sockets, called by the published SDK's client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import grpc
import httpx
import pytest
from a2a.client.client import ClientCallContext
from a2a.client.transports.base import ClientTransport
from a2a.client.transports.grpc import GrpcTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from indai.a2a.agents import Agent, Agents
from indai.a2a.cards import CardIssuer, Places
from indai.a2a.conformance import Tck
from indai.a2a.errors import Unauthenticated
from indai.a2a.grpc_binding import GrpcBinding
from indai.a2a.http_binding import MAX_BODY, HttpBinding
from indai.a2a.push import PushConfigs
from indai.a2a.servicer import A2AServicer
from indai.a2a.store import TaskStore
from indai.node.http_server import HttpServer
from indai.node.server import RpcServer
from indai.node.service import Service

from tests.databases import pooled

BINDINGS = ("grpc", "jsonrpc", "rest")
NOW = 1_790_000_000_000


class OneAgent:
    """A node with one agent, and one of its own for a second tenant."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def find(self, tenant: str) -> Agent | None:
        return self.agent if tenant in ("", self.agent.handle) else None


@dataclass
class Node:
    """A running A2A front. `client` speaks a binding as a caller."""

    http: str
    grpc: str
    store: TaskStore
    push: PushConfigs
    servicer: A2AServicer
    stack: AsyncExitStack
    time: list[int] = field(default_factory=lambda: [NOW])

    async def client(self, binding: str, caller: str = "ann") -> ClientTransport:
        headers = {"A2A-Version": "1.0", "X-Caller": caller}
        if binding == "grpc":
            channel = await self.stack.enter_async_context(grpc.aio.insecure_channel(self.grpc))
            return GrpcTransport(channel, None)
        client = await self.stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=60))
        if binding == "jsonrpc":
            return JsonRpcTransport(client, pb.AgentCard(), f"http://{self.http}/a2a/jsonrpc")
        card = pb.AgentCard(capabilities=pb.AgentCapabilities(extended_agent_card=True))
        return RestTransport(client, card, f"http://{self.http}/a2a")


def context(caller: str = "ann", **more: str) -> ClientCallContext:
    """Service parameters for any binding; over HTTP the client has the caller already."""
    return ClientCallContext(service_parameters={"A2A-Version": "1.0", "X-Caller": caller} | more)


def message(message_id: str, text: str = "hello", **more: Any) -> pb.SendMessageRequest:
    """A request whose message says `text`."""
    made = pb.Message(message_id=message_id, role=pb.ROLE_USER, parts=[pb.Part(text=text)], **more)
    return pb.SendMessageRequest(message=made)


async def _caller_of(headers: Mapping[str, str], certificate: bytes) -> str:
    caller = headers.get("x-caller", "")
    if caller == "nobody":
        raise Unauthenticated
    return caller


Started = Callable[..., Any]


@pytest.fixture
async def tables(shared_database: tuple[str, str]) -> AsyncIterator[asyncpg.Pool]:
    """Empty tables, as the application sees them."""
    dsn, admin_dsn = shared_database
    admin = await asyncpg.connect(admin_dsn)
    await admin.execute("TRUNCATE a2a.task CASCADE")
    await admin.close()
    async with pooled(dsn, 5) as pool:
        yield pool


@pytest.fixture
async def start(tables: asyncpg.Pool) -> AsyncIterator[Started]:
    """Starts a node; the second one on the same database is the first one, started again."""
    async with AsyncExitStack() as stack:

        async def begin(agents: Agents | None = None) -> Node:
            found = agents or OneAgent(Tck())
            here = await stack.enter_async_context(AsyncExitStack())
            store = await here.enter_async_context(TaskStore(tables))
            push = await here.enter_async_context(
                PushConfigs(tables, _seal, _unseal, lambda: ["tck"], private=True)
            )
            node = Node("", "", store, push, None, here)  # type: ignore[arg-type]
            cards = CardIssuer(lambda: Places(f"http://{node.http}", node.grpc), lambda agent: {})
            node.servicer = A2AServicer(found, store, push, cards, lambda: node.time[0])
            http = HttpBinding(node.servicer, found, cards, _caller_of)
            site = await HttpServer.start("127.0.0.1:0", http.routes(), max_body=MAX_BODY)
            here.push_async_callback(site.stop)
            binding = GrpcBinding(node.servicer, _caller_of)
            server = await RpcServer.start(
                "127.0.0.1:0", [Service(a2a_pb2_grpc.add_A2AServiceServicer_to_server, binding)]
            )
            here.push_async_callback(server.stop, 0.1)
            node.http, node.grpc = site.address, server.address
            return node

        yield begin


@pytest.fixture
async def node(start: Started) -> Node:
    """One node with the conformance agent."""
    running: Node = await start()
    return running


def _seal(plaintext: bytes, name: str) -> bytes:
    return name.encode() + b"\0" + bytes(byte ^ 0x5A for byte in plaintext)


def _unseal(sealed: bytes, name: str) -> bytes:
    given, _, rest = sealed.partition(b"\0")
    assert given == name.encode()
    return bytes(byte ^ 0x5A for byte in rest)
