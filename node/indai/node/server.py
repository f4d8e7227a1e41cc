"""A `grpc.aio` server around given services: health, limits, one error contract, TLS rules, graceful stop.

TLS: without it a server binds to loopback only. A bind that others can reach needs certificate files, or the
node's own certificate (`--tls always` uses the latter on loopback too). PeerService always has mutual TLS
(`indai.client.tls.peer_server_credentials`), whatever it binds to.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from indai.client.addresses import Address, parse_address
from indai.client.tls import NodeIdentity, peer_server_credentials
from indai.node.service import Service, method_handlers
from indai.protocol.errors import InvalidInput, Reason, Refused, Unavailable

PEER_MESSAGE_BYTES: Final = 64 * (64 * 1024 + 16) + 1024
"""A full delivery: 64 envelopes of 64 KiB with their field headers."""

STOP_GRACE_S: Final = 5.0


class TlsMode(Enum):
    """When a server that is not for peers speaks TLS."""

    AUTO = "auto"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes upon itself."""

    message_bytes: int = PEER_MESSAGE_BYTES
    concurrent_rpcs: int = 1024
    connection_age_ms: int = 1_800_000
    streams: int = 256

    def options(self) -> list[tuple[str, int]]:
        """As gRPC's channel arguments."""
        return [
            ("grpc.so_reuseport", 0),  # else a second server on the port would silently share it
            ("grpc.max_receive_message_length", self.message_bytes),
            ("grpc.max_send_message_length", max(self.message_bytes, 16 * 1024 * 1024)),
            ("grpc.max_concurrent_streams", self.streams),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.max_connection_age_ms", self.connection_age_ms),
            ("grpc.max_connection_age_grace_ms", 30_000),
        ]


class RpcServer:
    """A running server; `address` is where it can be reached, with the real port."""

    def __init__(
        self, server: aio.Server, watch: health.aio.HealthServicer, names: list[str], at: Address
    ) -> None:
        self._server = server
        self._health = watch
        self._names = names
        self._bound = at

    @property
    def address(self) -> str:
        """`host:port`."""
        return str(self._bound)

    @property
    def port(self) -> int:
        """The port in use."""
        return self._bound.port

    @classmethod
    async def start(
        cls,
        bind: str,
        services: Sequence[Service],
        *,
        credentials: grpc.ServerCredentials | None = None,
        limits: Limits | None = None,
        with_reflection: bool = False,
        serving: bool = True,
    ) -> RpcServer:
        """Binds `host:port` (port 0: any) and serves. Health says NOT_SERVING until `set_serving` when not
        `serving`.

        Raises InvalidInput for a malformed address, Refused for an open port without TLS, Unavailable for a
        port that cannot be had.
        """
        wanted = parse_address(bind)
        if credentials is None and not wanted.is_loopback:
            raise plaintext_refused(wanted)
        limits = limits or Limits()
        server = aio.server(options=limits.options(), maximum_concurrent_rpcs=limits.concurrent_rpcs)
        handlers = method_handlers(services)
        for name, methods in handlers.items():
            server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, methods)])
        watch = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(watch, server)
        if with_reflection:
            names = (*handlers, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        running = cls(server, watch, ["", *handlers], _bind(server, wanted, credentials))
        await running.set_serving(serving)
        await server.start()
        return running

    async def set_serving(self, serving: bool) -> None:
        """What health answers, for the server and for each of its services."""
        state = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, state.SERVING if serving else state.NOT_SERVING)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Health first, so that callers go elsewhere; then running calls have `grace_s` to end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def wait(self) -> None:
        """Until stopped."""
        await self._server.wait_for_termination()


def owner_credentials(
    bind: str,
    mode: TlsMode,
    identity: NodeIdentity,
    certificate: tuple[Path, Path] | None = None,
) -> grpc.ServerCredentials | None:
    """Credentials for the ports of owners, registry and ledger; None where plaintext is right (loopback).

    `certificate` names the PEM files of the chain and of its key. Raises Refused when others could reach a
    plaintext port, InvalidInput when the files cannot be read.
    """
    where = parse_address(bind)
    if certificate is not None:
        return grpc.ssl_server_credentials([_read_pair(*certificate)])
    if mode is TlsMode.ALWAYS:
        return grpc.ssl_server_credentials([(identity.key_pem, identity.cert_pem)])
    if not where.is_loopback:
        raise plaintext_refused(where)
    return None


def a2a_credentials(
    bind: str,
    mode: TlsMode,
    identity: NodeIdentity,
    certificate: tuple[Path, Path] | None = None,
) -> grpc.ServerCredentials | None:
    """Credentials for A2A over gRPC; None where plaintext is right (loopback).

    With `certificate` anybody may call; without it TLS is mutual, with the node's own key: gRPC can't ask for
    a client's certificate without insisting on it.
    """
    if certificate is None and (mode is TlsMode.ALWAYS or not parse_address(bind).is_loopback):
        return peer_server_credentials(identity)
    return owner_credentials(bind, mode, identity, certificate)


def plaintext_refused(where: Address) -> Refused:
    """Others could read what goes over this port."""
    return Refused(
        Reason.INSECURE,
        f"{where} can be reached from other machines, and no certificate is given for it.",
        hint="bind to 127.0.0.1, name --tls-cert and --tls-key, or use --tls always",
    )


def _read_pair(chain: Path, key: Path) -> tuple[bytes, bytes]:
    found = []
    for path in (key, chain):
        try:
            found.append(path.read_bytes())
        except OSError as error:
            raise _bad_tls_file(path, error.strerror or "it cannot be read") from None
    try:
        certificate = x509.load_pem_x509_certificate(found[1])
    except ValueError:
        raise _bad_tls_file(chain, "it holds no PEM certificate") from None
    try:
        private = load_pem_private_key(found[0], None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _bad_tls_file(key, "it holds no PEM key without a passphrase") from None
    if private.public_key() != certificate.public_key():
        raise _bad_tls_file(key, f"it is not the key of {chain}")
    return found[0], found[1]


def _bad_tls_file(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"The TLS file {path} cannot be used: {why}.",
        hint="name a PEM certificate chain and its key",
    )


def _bind(server: aio.Server, wanted: Address, credentials: grpc.ServerCredentials | None) -> Address:
    try:
        if credentials is None:
            return Address(wanted.host, server.add_insecure_port(str(wanted)))
        return Address(wanted.host, server.add_secure_port(str(wanted), credentials))
    except RuntimeError:
        raise _bind_error(wanted) from None


def _bind_error(wanted: Address) -> Unavailable:
    """gRPC says only that it failed; asking the system again tells why."""
    code = 0
    try:
        family, kind, protocol, _, at = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)[
            0
        ]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(at)
    except OSError as error:
        code = error.errno or 0
    why, hint = _BIND_WORDS.get(code, ("it cannot be bound", "check the address and the TLS files"))
    return Unavailable(Reason.ADDRESS_IN_USE, f"Cannot listen on {wanted}: {why}.", hint=hint)


_BIND_WORDS: Final = {
    errno.EADDRINUSE: (
        "another program listens there",
        "stop it, or choose another port with --listen NAME=HOST:PORT (all of them: --base-port)",
    ),
    errno.EACCES: ("this user may not", "choose a port above 1023"),
    errno.EADDRNOTAVAIL: ("this machine does not have that address", "bind to an address of this machine"),
    socket.EAI_NONAME: ("the host name is unknown", "bind to an address of this machine"),
}
