"""Nodes know each other by the hash of their keys: both directions, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from indai.client import tls
from indai.client.channels import CheckedChannel, plain_channel
from indai.client.peers import PeerChannels
from indai.client.tls import (
    NodeIdentity,
    caller_spki,
    make_node_identity,
    peer_server_credentials,
    pinned_channel,
    spki_sha256,
)
from indai.node.server import PEER_MESSAGE_BYTES, RpcServer
from indai.node.service import Service
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.v1 import peer_pb2 as pb
from indai.v1.peer_pb2_grpc import PeerServiceServicer, PeerServiceStub, add_PeerServiceServicer_to_server

from tests.ports import free_address

if TYPE_CHECKING:
    from indai.v1.peer_pb2_grpc import PeerServiceAsyncStub

ALICE = make_node_identity("ind.ai/node-a")
OPEN_CA_PIN = "ef96fa167d8b5046a49d8f65fec1358e541e16f80f777afdced4083684bb62e1"
BOB = make_node_identity("ind.ai/node-b")
MALLORY = make_node_identity("ind.ai/node-b")


class Registered(PeerServiceServicer):
    """Takes mail only from the node whose pin it was given; counts what it was asked."""

    def __init__(self, pin: bytes = ALICE.spki_sha256) -> None:
        self.pin = pin
        self.seen: list[bytes | None] = []

    async def Deliver(self, request: Any, context: Any) -> pb.DeliverResponse:  # noqa: N802
        self.seen.append(caller_spki(context))
        if self.seen[-1] != self.pin:
            raise Refused(Reason.UNKNOWN_PEER, "This is not the sender's node.")
        return pb.DeliverResponse(results=[pb.DeliverResult() for _ in request.envelopes])

    async def GetRegistryHead(  # noqa: N802
        self, request: Any, context: Any
    ) -> pb.GetRegistryHeadResponse:
        raise NotFound(Reason.NOT_FOUND, "This node of a test has no heads.")

    async def GetWebAddress(  # noqa: N802
        self, request: pb.GetWebAddressRequest, context: Any
    ) -> pb.GetWebAddressResponse:
        raise NotFound(Reason.NOT_FOUND, "This node of a test has no pages.")


@pytest.fixture
def servicer() -> Registered:
    return Registered()


@pytest.fixture
async def bob(servicer: Registered) -> AsyncIterator[RpcServer]:
    """Bob's node, listening."""
    server = await serve(servicer, BOB)
    yield server
    await server.stop(0)


async def serve(servicer: Registered, identity: NodeIdentity, bind: str = "127.0.0.1:0") -> RpcServer:
    service = Service(add_PeerServiceServicer_to_server, servicer)
    return await RpcServer.start(bind, [service], credentials=peer_server_credentials(identity))


def stub(channel: CheckedChannel) -> PeerServiceAsyncStub:
    return PeerServiceStub(channel)


async def test_each_side_sees_the_others_pin(bob: RpcServer, servicer: Registered) -> None:
    async with await pinned_channel(bob.address, BOB.spki_sha256, ALICE) as channel:
        await stub(channel).Deliver(pb.DeliverRequest(envelopes=[b"x"]))
    assert servicer.seen == [ALICE.spki_sha256]


async def test_a_server_with_another_key_under_the_open_ca_is_refused(servicer: Registered) -> None:
    server = await serve(servicer, MALLORY)
    with pytest.raises(Refused) as caught:
        await pinned_channel(server.address, BOB.spki_sha256, ALICE)
    await server.stop(0)
    assert caught.value.reason is Reason.PIN_MISMATCH
    assert MALLORY.spki_sha256.hex()[:12] in caught.value.message
    assert BOB.spki_sha256.hex()[:12] in caught.value.message
    assert server.address in caught.value.message
    assert servicer.seen == []


async def test_a_client_with_another_key_under_the_open_ca_shows_another_pin(
    bob: RpcServer, servicer: Registered
) -> None:
    async with await pinned_channel(bob.address, BOB.spki_sha256, MALLORY) as channel:
        with pytest.raises(Refused):
            await stub(channel).Deliver(pb.DeliverRequest())
    assert servicer.seen == [MALLORY.spki_sha256]


async def test_a_client_that_is_not_under_the_open_ca_does_not_get_in(
    bob: RpcServer, servicer: Registered
) -> None:
    async with await pinned_channel(bob.address, BOB.spki_sha256, self_signed(ALICE)) as channel:
        with pytest.raises(Unavailable):
            await stub(channel).Deliver(pb.DeliverRequest(), timeout=2)
    assert servicer.seen == []


async def test_a_client_without_a_certificate_does_not_get_in(bob: RpcServer, servicer: Registered) -> None:
    async with await pinned_channel(bob.address, BOB.spki_sha256) as channel:
        with pytest.raises(Unavailable):
            await stub(channel).Deliver(pb.DeliverRequest(), timeout=2)
    assert servicer.seen == []


async def test_a_client_that_shows_alices_certificate_without_her_key_does_not_get_in(bob: RpcServer) -> None:
    forged = NodeIdentity(MALLORY.key_pem, ALICE.cert_pem, ALICE.spki_sha256)
    with pytest.raises((Unavailable, Refused, InvalidInput)):
        async with await pinned_channel(bob.address, BOB.spki_sha256, forged) as channel:
            await stub(channel).Deliver(pb.DeliverRequest(), timeout=2)


async def test_a_server_that_swaps_its_certificate_after_the_check_is_not_talked_to(
    servicer: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def shows_bobs(where: Any) -> x509.Certificate:
        return x509.load_pem_x509_certificate(BOB.cert_pem)

    server = await serve(servicer, MALLORY)
    monkeypatch.setattr(tls, "_fetch_certificate", shows_bobs)
    async with await pinned_channel(server.address, BOB.spki_sha256, ALICE) as channel:
        with pytest.raises(Unavailable):
            await stub(channel).Deliver(pb.DeliverRequest(), timeout=2)
    await server.stop(0)
    assert servicer.seen == []


async def test_plaintext_is_not_taken_on_the_peer_port(bob: RpcServer, servicer: Registered) -> None:
    async with plain_channel(bob.address) as channel:
        with pytest.raises(Unavailable):
            await stub(channel).Deliver(pb.DeliverRequest(), timeout=2)
    assert servicer.seen == []


async def test_nobody_at_the_address_is_said_with_the_address(unused_address: str) -> None:
    with pytest.raises(Unavailable) as caught:
        await pinned_channel(unused_address, BOB.spki_sha256, ALICE)
    assert caught.value.reason is Reason.UNREACHABLE
    assert unused_address in caught.value.message
    assert "connection refused" in caught.value.message


async def test_a_port_that_says_nothing_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await hang_up(writer, gone)

    monkeypatch.setattr(tls, "CONNECT_TIMEOUT_S", 0.2)
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="timed out"):
            await pinned_channel(f"127.0.0.1:{port}", BOB.spki_sha256, ALICE)
        await gone.wait()


async def test_a_port_that_speaks_no_tls_is_named() -> None:
    gone = asyncio.Event()

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await hang_up(writer, gone)

    async with await asyncio.start_server(chatty, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="TLS"):
            await pinned_channel(f"127.0.0.1:{port}", BOB.spki_sha256, ALICE)
        await gone.wait()


async def test_an_address_cannot_choose_another_transport() -> None:
    for text in ("unix:/run/x.sock", "xds:///x:1", "127.0.0.1", "a b:1", "127.0.0.1:99999", "1.2.3:4"):
        with pytest.raises(InvalidInput):
            await pinned_channel(text, BOB.spki_sha256, ALICE)


async def test_a_full_delivery_fits_and_more_does_not(bob: RpcServer) -> None:
    full = pb.DeliverRequest(envelopes=[bytes(64 * 1024)] * 64)
    assert full.ByteSize() <= PEER_MESSAGE_BYTES
    async with await pinned_channel(bob.address, BOB.spki_sha256, ALICE) as channel:
        assert len((await stub(channel).Deliver(full)).results) == 64
        with pytest.raises(InvalidInput) as caught:
            await stub(channel).Deliver(pb.DeliverRequest(envelopes=[bytes(64 * 1024)] * 65))
    assert caught.value.reason is Reason.TOO_LARGE


async def test_a_peers_channel_is_kept_until_the_record_names_another_key(bob: RpcServer) -> None:
    peers = PeerChannels(ALICE, lambda: 0, public_only=False)
    first, same = await asyncio.gather(*(peers.get(bob.address, BOB.spki_sha256) for _ in range(2)))
    assert first is same
    with pytest.raises(Refused):
        await peers.get(bob.address, MALLORY.spki_sha256)
    assert await peers.get(bob.address, BOB.spki_sha256) is first
    await peers.close()


async def test_a_peer_that_restarts_with_a_renewed_certificate_is_found_again(servicer: Registered) -> None:
    server = await serve(servicer, BOB, free_address())
    peers = PeerChannels(ALICE, lambda: 0, public_only=False)
    channel = await peers.get(server.address, BOB.spki_sha256)
    await stub(channel).Deliver(pb.DeliverRequest())
    await server.stop(0)
    with pytest.raises(Unavailable):
        await stub(channel).Deliver(pb.DeliverRequest(), timeout=2)
    with pytest.raises(Unavailable):
        await peers.get(server.address, BOB.spki_sha256)
    again = await serve(servicer, renewed(BOB), bind=server.address)
    channel = await peers.get(server.address, BOB.spki_sha256)
    await stub(channel).Deliver(pb.DeliverRequest())
    await peers.close()
    await again.stop(0)


async def test_a_strangers_record_cannot_point_into_our_own_network(
    bob: RpcServer, servicer: Registered
) -> None:
    peers = PeerChannels(ALICE, lambda: 0)
    for address in (bob.address, f"localhost:{bob.port}", f"[::ffff:127.0.0.1]:{bob.port}"):
        with pytest.raises(Refused) as caught:
            await peers.get(address, BOB.spki_sha256)
        assert caught.value.reason is Reason.INSECURE
    await peers.close()
    assert servicer.seen == []


async def test_a_host_name_is_resolved_and_its_addresses_tried(bob: RpcServer) -> None:
    async with await pinned_channel(f"localhost:{bob.port}", BOB.spki_sha256, ALICE) as channel:
        await stub(channel).Deliver(pb.DeliverRequest())


async def test_an_unknown_host_name_is_named() -> None:
    with pytest.raises(Unavailable, match="host name is unknown"):
        await pinned_channel("nowhere.invalid:7400", BOB.spki_sha256, ALICE)


async def test_an_idle_channel_is_closed_and_a_used_one_is_kept(bob: RpcServer) -> None:
    now = 0
    peers = PeerChannels(ALICE, lambda: now, idle_ms=1000, public_only=False)
    channel = await peers.get(bob.address, BOB.spki_sha256)
    now = 999
    assert await peers.close_idle() == 0
    now = 1000
    assert await peers.close_idle() == 1
    with pytest.raises(Unavailable, match="closed"):
        await stub(channel).Deliver(pb.DeliverRequest())
    assert await peers.get(bob.address, BOB.spki_sha256) is not channel
    await peers.close()


async def test_the_pin_of_an_operators_own_certificate_works_too(
    tmp_path: Path, servicer: Registered
) -> None:
    own = by_openssl(tmp_path)
    server = await serve(servicer, own)
    async with await pinned_channel(server.address, own.spki_sha256, ALICE) as channel:
        await stub(channel).Deliver(pb.DeliverRequest())
    await server.stop(0)


def test_the_pin_is_the_hash_that_openssl_computes(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_bytes(BOB.cert_pem)
    public = openssl("x509", "-in", "cert.pem", "-pubkey", "-noout", where=tmp_path)
    der = openssl("pkey", "-pubin", "-outform", "DER", where=tmp_path, given=public)
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    assert digest.finalize() == BOB.spki_sha256 == spki_sha256(BOB.cert_pem)


def test_the_open_ca_is_the_same_on_every_machine() -> None:
    tls._open_ca.cache_clear()
    first = tls.open_ca_certificate()
    tls._open_ca.cache_clear()
    assert tls.open_ca_certificate() == first
    assert spki_sha256(first).hex() == OPEN_CA_PIN
    assert b"authenticates nobody" in ssl.PEM_cert_to_DER_cert(first.decode())


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(Refused) as caught:
        spki_sha256(pem)
    assert caught.value.reason is Reason.PIN_MISMATCH


def test_an_identity_never_shows_its_key() -> None:
    assert "PRIVATE" not in repr(ALICE)
    assert "PRIVATE" not in str(ALICE)


def test_a_long_handle_still_gets_a_certificate() -> None:
    assert len(make_node_identity("ind.ai/" + "a" * 90).spki_sha256) == 32


@pytest.fixture
async def unused_address() -> str:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"127.0.0.1:{port}"


async def hang_up(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
    """Closes the server's side of a connection whose other side may have broken it off."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    gone.set()


def self_signed(identity: NodeIdentity) -> NodeIdentity:
    """The same key in a certificate of its own making."""
    key: Any = load_pem_private_key(identity.key_pem, None)
    name = x509.Name([])
    cert = tls._certificate("x", key.public_key(), name).sign(key, hashes.SHA256())
    return NodeIdentity(identity.key_pem, cert.public_bytes(Encoding.PEM), identity.spki_sha256)


def renewed(identity: NodeIdentity) -> NodeIdentity:
    """Another certificate for the same key."""
    old = x509.load_pem_x509_certificate(identity.cert_pem)
    ca_key, ca = tls._open_ca()
    key: Any = old.public_key()
    builder = tls._certificate("renewed", key, ca.subject)
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    cert = builder.sign(ca_key, hashes.SHA256())
    return NodeIdentity(identity.key_pem, cert.public_bytes(Encoding.PEM), identity.spki_sha256)


def openssl(*arguments: str, where: Path, given: bytes = b"") -> bytes:
    """What the independent implementation prints."""
    run = subprocess.run(["openssl", *arguments], cwd=where, input=given, capture_output=True, check=True)
    return run.stdout


def by_openssl(where: Path) -> NodeIdentity:
    """A self-signed certificate as an operator would make it."""
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    names = ["-subj", "/CN=node.example", "-addext", "subjectAltName=DNS:node.example"]
    openssl("req", "-x509", *kind, *names, "-keyout", "key.pem", "-out", "cert.pem", where=where)
    cert = (where / "cert.pem").read_bytes()
    return NodeIdentity((where / "key.pem").read_bytes(), cert, spki_sha256(cert))
