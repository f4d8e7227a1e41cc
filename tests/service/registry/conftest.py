"""A registry over a real Postgres and real gRPC on loopback; a proxy in front can be told to lie."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from indai.client.channels import plain_channel
from indai.client.handlekeys import claim, new_agent_key
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.node.server import RpcServer
from indai.node.service import Service
from indai.protocol.envelope import Envelope
from indai.protocol.keys import SigningKey
from indai.protocol.tlogpolicy import TlogPolicy
from indai.registry.logkeys import LaterKeys
from indai.registry.service import Registry
from indai.registry.servicer import RegistryServicer
from indai.tlog.signer import LogKeys
from indai.v1 import registry_pb2, registry_pb2_grpc

ORIGIN = "ind.ai/registry"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


KEYS = LogKeys(ORIGIN, key("log"), ORIGIN + "/clock", key("clock"))


class Clock:
    """A clock the test moves; whole seconds, as cosignatures have them."""

    def __init__(self, now: int = 1_790_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


Twist = Callable[[str, Any, Any], Any]


class Liar(registry_pb2_grpc.RegistryServiceServicer):
    """Passes calls on to the honest servicer; `twist(method, request, answer)` may change what comes back."""

    def __init__(self, honest: RegistryServicer) -> None:
        self.honest = honest
        self.twist: Twist = lambda method, request, answer: answer
        self.calls: list[str] = []

    async def _pass(self, method: str, request: Any, context: Any) -> Any:
        self.calls.append(method)
        return self.twist(method, request, await getattr(self.honest, method)(request, context))

    async def SubmitOperation(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._pass("SubmitOperation", request, context)

    async def GetHandle(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._pass("GetHandle", request, context)

    async def GetHead(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._pass("GetHead", request, context)

    async def SearchHandles(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._pass("SearchHandles", request, context)

    async def ListLogKeys(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._pass("ListLogKeys", request, context)

    async def ListEntries(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._pass("ListEntries", request, context)


@dataclass
class Rig:
    """One running registry; `liar` stands between it and `stub`."""

    registry: Registry
    liar: Liar
    stub: Any
    clock: Clock
    directory: Path
    policy: NetworkPolicy = field(
        default_factory=lambda: NetworkPolicy.of_registry(KEYS.verifier, KEYS.time_verifier)
    )

    def resolver(self, state: Path | None = None) -> Resolver:
        return Resolver(self.stub, self.policy, self.clock, state)

    async def submit(self, operation: Envelope) -> registry_pb2.SubmitOperationResponse:
        answer: registry_pb2.SubmitOperationResponse = await self.stub.SubmitOperation(
            registry_pb2.SubmitOperationRequest(operation=operation.raw)
        )
        return answer

    def claim(self, handle: str, **more: Any) -> Envelope:
        agent = new_agent_key(key("agent-" + handle[-8:]).public_key, self.clock())
        more.setdefault("rotation_keys", [key("root"), key("spare")])
        return claim(handle, ORIGIN, now_ms=self.clock(), agent_keys=[agent], **more)


@asynccontextmanager
async def run_registry(
    pool: Any,
    directory: Path,
    clock: Clock,
    witnesses: TlogPolicy | None = None,
    later_keys: LaterKeys = tuple,
) -> AsyncIterator[Rig]:
    async with Registry.open(pool, KEYS, directory, clock, witnesses, later_keys) as registry:
        liar = Liar(RegistryServicer(registry))
        add = registry_pb2_grpc.add_RegistryServiceServicer_to_server
        server = await RpcServer.start("127.0.0.1:0", [Service(add, liar)])
        channel = plain_channel(server.address)
        try:
            stub = registry_pb2_grpc.RegistryServiceStub(channel)
            yield Rig(registry, liar, stub, clock, directory)
        finally:
            await channel.close()
            await server.stop(0)


Start = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def start_registry(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a registry on a database; all of them end with the test."""
    clock = Clock()
    async with AsyncExitStack() as stack:

        async def start(
            pool: Any,
            directory: str = "log",
            own_clock: Clock | None = None,
            later_keys: LaterKeys = tuple,
        ) -> Rig:
            running = run_registry(pool, tmp_path / directory, own_clock or clock, None, later_keys)
            return await stack.enter_async_context(running)

        yield start


@pytest.fixture
async def rig(database: Any, start_registry: Start) -> Rig:
    return await start_registry(database.pool)
