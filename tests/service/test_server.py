"""The server around the servicers: health, binding, TLS rules, retries, stopping."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from indai.client.channels import CheckedChannel, is_idempotent, plain_channel
from indai.client.tls import make_node_identity, pinned_channel
from indai.node import service as service_module
from indai.node.server import Limits, RpcServer, TlsMode, owner_credentials
from indai.node.service import Service
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.v1 import owner_pb2, registry_pb2
from indai.v1 import peer_pb2 as pb
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.peer_pb2_grpc import PeerServiceServicer, PeerServiceStub, add_PeerServiceServicer_to_server
from indai.v1.registry_pb2_grpc import RegistryServiceStub

from tests.ports import free_address

if TYPE_CHECKING:
    from indai.v1.peer_pb2_grpc import PeerServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

IDENTITY = make_node_identity("ind.ai/node-a")
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Held(PeerServiceServicer):
    """Holds each call until released."""

    def __init__(self) -> None:
        self.entered, self.release = asyncio.Event(), asyncio.Event()

    async def Deliver(self, request: Any, context: Any) -> pb.DeliverResponse:  # noqa: N802
        self.entered.set()
        await self.release.wait()
        return pb.DeliverResponse()

    async def GetRegistryHead(  # noqa: N802
        self, request: Any, context: Any
    ) -> pb.GetRegistryHeadResponse:
        raise NotFound(Reason.NOT_FOUND, "This node of a test has no heads.")

    async def GetWebAddress(  # noqa: N802
        self, request: pb.GetWebAddressRequest, context: Any
    ) -> pb.GetWebAddressResponse:
        raise NotFound(Reason.NOT_FOUND, "This node of a test has no pages.")


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def server(held: Held) -> AsyncIterator[RpcServer]:
    """A server on loopback, with reflection, not ready yet."""
    running = await start(held, with_reflection=True, serving=False)
    yield running
    held.release.set()
    await running.stop(0)


async def start(held: Held, bind: str = "127.0.0.1:0", **options: Any) -> RpcServer:
    return await RpcServer.start(bind, [Service(add_PeerServiceServicer_to_server, held)], **options)


async def health(address: str, service: str) -> int:
    async with plain_channel(address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        answer: Any = await check(health_pb2.HealthCheckRequest(service=service))
        return int(answer.status)


@pytest.mark.parametrize("service", ["", "indai.v1.PeerService"])
async def test_health_follows_readiness(server: RpcServer, service: str) -> None:
    assert await health(server.address, service) == NOT_SERVING
    await server.set_serving(True)
    assert await health(server.address, service) == SERVING
    await server.set_serving(False)
    assert await health(server.address, service) == NOT_SERVING


async def test_health_of_an_unknown_service_is_not_found(server: RpcServer) -> None:
    with pytest.raises(IndaiError):
        await health(server.address, "indai.v1.Nothing")


async def test_reflection_lists_the_services(server: RpcServer) -> None:
    async def ask() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    async with aio.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        answers: Any = stub.ServerReflectionInfo(ask(), timeout=60)
        names = {s.name async for a in answers for s in a.list_services_response.service}
    assert {"indai.v1.PeerService", "grpc.health.v1.Health"} <= names


async def test_a_port_in_use_is_a_clear_error(server: RpcServer, held: Held) -> None:
    with pytest.raises(Unavailable) as caught:
        await start(held, server.address)
    assert caught.value.reason is Reason.ADDRESS_IN_USE
    assert "--listen" in caught.value.hint
    assert server.address in caught.value.message
    assert "another program" in caught.value.message
    assert caught.value.hint


async def test_an_address_of_another_machine_is_a_clear_error(held: Held) -> None:
    credentials = owner_credentials("192.0.2.1:0", TlsMode.ALWAYS, IDENTITY)
    with pytest.raises(Unavailable, match="does not have that address"):
        await start(held, "192.0.2.1:0", credentials=credentials)


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "node.example:7400", "10.0.0.1:7400"])
async def test_plaintext_that_others_could_reach_is_refused(held: Held, bind: str) -> None:
    with pytest.raises(Refused) as caught:
        await start(held, bind)
    assert caught.value.reason is Reason.INSECURE
    assert "127.0.0.1" in caught.value.hint
    with pytest.raises(Refused):
        owner_credentials(bind, TlsMode.AUTO, IDENTITY)


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.8.8:0"])
def test_plaintext_on_loopback_is_right(bind: str) -> None:
    assert owner_credentials(bind, TlsMode.AUTO, IDENTITY) is None


async def test_tls_always_uses_the_nodes_certificate_on_loopback(held: Held) -> None:
    held.release.set()
    credentials = owner_credentials("127.0.0.1:0", TlsMode.ALWAYS, IDENTITY)
    server = await start(held, credentials=credentials)
    async with await pinned_channel(server.address, IDENTITY.spki_sha256) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        await stub.Deliver(pb.DeliverRequest())
    async with plain_channel(server.address) as plain:
        stub = PeerServiceStub(plain)
        with pytest.raises(Unavailable):
            await stub.Deliver(pb.DeliverRequest(), timeout=1)
    await server.stop(0)


async def test_certificate_files_open_a_port_to_others(held: Held, tmp_path: Path) -> None:
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(InvalidInput, match=r"cert\.pem|key\.pem"):
        owner_credentials("0.0.0.0:0", TlsMode.AUTO, IDENTITY, files)
    files[0].write_bytes(IDENTITY.cert_pem)
    files[1].write_bytes(IDENTITY.key_pem)
    held.release.set()
    credentials = owner_credentials("0.0.0.0:0", TlsMode.AUTO, IDENTITY, files)
    server = await start(held, "0.0.0.0:0", credentials=credentials)
    async with await pinned_channel(f"127.0.0.1:{server.port}", IDENTITY.spki_sha256) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        await stub.Deliver(pb.DeliverRequest())
    await server.stop(0)


async def test_broken_certificate_files_are_a_clear_error(held: Held, tmp_path: Path) -> None:
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    for path in files:
        path.write_bytes(b"not PEM")
    with pytest.raises(InvalidInput, match="PEM"):
        owner_credentials("0.0.0.0:0", TlsMode.AUTO, IDENTITY, files)


async def test_stopping_lets_a_running_call_end(server: RpcServer, held: Held) -> None:
    async with plain_channel(server.address) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        running = asyncio.ensure_future(stub.Deliver(pb.DeliverRequest()))
        await held.entered.wait()
        stopping = asyncio.ensure_future(server.stop(5))
        held.release.set()
        assert await running == pb.DeliverResponse()
        await stopping
        with pytest.raises(Unavailable) as caught:
            await stub.Deliver(pb.DeliverRequest(), timeout=20)
    assert server.address in caught.value.message


async def test_a_stop_cuts_off_what_does_not_end(held: Held) -> None:
    server = await start(held)
    async with plain_channel(server.address) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        running = asyncio.ensure_future(stub.Deliver(pb.DeliverRequest()))
        await held.entered.wait()
        await server.stop(0.05)
        with pytest.raises(Unavailable) as caught:
            await running
    assert caught.value.reason is Reason.UNREACHABLE


async def test_a_repeatable_call_outlives_a_restart_of_its_server(held: Held) -> None:
    held.release.set()
    server = await start(held, free_address())
    async with plain_channel(server.address) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        await stub.Deliver(pb.DeliverRequest())
        await server.stop(0)
        again = await start(held, server.address)
        assert await stub.Deliver(pb.DeliverRequest()) == pb.DeliverResponse()
        await again.stop(0)


async def test_closing_a_channel_fails_its_calls_and_cancels_nobody(server: RpcServer, held: Held) -> None:
    channel = plain_channel(server.address)
    stub: PeerServiceAsyncStub = PeerServiceStub(channel)
    running = asyncio.ensure_future(stub.Deliver(pb.DeliverRequest()))
    await held.entered.wait()
    await channel.close()
    with pytest.raises(Unavailable, match="closed"):
        await running


async def test_more_calls_than_allowed_are_told_to_wait(held: Held) -> None:
    server = await start(held, limits=Limits(concurrent_rpcs=1))
    async with plain_channel(server.address) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        first = asyncio.ensure_future(stub.Deliver(pb.DeliverRequest()))
        await held.entered.wait()
        with pytest.raises(Unavailable) as caught:
            await stub.Deliver(pb.DeliverRequest())
        held.release.set()
        await first
    await server.stop(0)
    assert caught.value.reason is Reason.RATE_LIMITED


async def test_a_service_that_is_not_there_is_named(server: RpcServer) -> None:
    async with plain_channel(server.address) as channel:
        stub: RegistryServiceAsyncStub = RegistryServiceStub(channel)
        with pytest.raises(NotFound, match=r"does not serve indai\.v1\.RegistryService/GetHead"):
            await stub.GetHead(registry_pb2.GetHeadRequest())


async def test_a_server_that_wants_no_deadline_imposes_one(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpc import aio

    monkeypatch.setattr(service_module, "UNARY_DEADLINE_S", 0.1)
    server = await start(held)
    async with aio.insecure_channel(server.address) as channel:
        stub: PeerServiceAsyncStub = PeerServiceStub(channel)
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Deliver(pb.DeliverRequest())
    await server.stop(0)
    assert caught.value.code().name == "DEADLINE_EXCEEDED"


def test_only_what_the_contract_marks_may_be_repeated() -> None:
    assert is_idempotent("/indai.v1.PeerService/Deliver")
    assert is_idempotent("/indai.v1.RegistryService/GetHead")
    assert not is_idempotent("/indai.v1.OwnerService/AnswerApproval")
    assert not is_idempotent("/indai.v1.OperatorService/CreateAgent")
    assert not is_idempotent("/no.such.Service/Method")


async def test_a_call_that_may_not_be_repeated_is_made_once(unused_tcp_socket: socket.socket) -> None:
    failures = 0

    def count() -> None:
        nonlocal failures
        failures += 1

    address = f"127.0.0.1:{unused_tcp_socket.getsockname()[1]}"
    plain = plain_channel(address)
    async with CheckedChannel(plain._inner, address, on_unreachable=count) as channel:
        stub: Any = OwnerServiceStub(channel)
        with pytest.raises(Unavailable):
            await stub.AnswerApproval(owner_pb2.AnswerApprovalRequest())
        assert failures == 1
        with pytest.raises(Unavailable):
            await stub.GetThread(owner_pb2.GetThreadRequest())
        assert failures == 4


@pytest.fixture
def unused_tcp_socket() -> Any:
    """A port that is bound but does not listen: connections are refused."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound
