"""Streamable HTTP: the owner's token as bearer, Host and Origin checked by the SDK against DNS rebinding."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from socket import socket

import uvicorn
from indai.client.addresses import parse_address
from indai.mcp.server import make_server
from indai.mcp.session import Session
from indai.protocol.errors import InvalidInput, Reason
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

PATH = "/mcp"
MAX_BODY_BYTES = 256 * 1024
MAX_SESSIONS = 64


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen. Beyond loopback a certificate and its key (files) are needed; `name` is what clients
    call this host by there.
    """

    address: str
    certificate: str = ""
    key: str = ""
    name: str = ""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.certificate else "http"


class OwnerToken:
    """The one token that opens this server."""

    def __init__(self, token: str, handle: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._handle = handle

    async def verify_token(self, token: str) -> AccessToken | None:
        """See `mcp.server.auth.provider.TokenVerifier`."""
        if not hmac.compare_digest(hashlib.sha256(token.encode()).digest(), self._digest):
            return None
        return AccessToken(token="", client_id=self._handle, scopes=[], subject=self._handle)


def application(session: Session, listen: Listen, token: str, version: str = "") -> Starlette:
    """The application, which `token` opens. Raises InvalidInput for a port beyond loopback without TLS."""
    address = parse_address(listen.address)
    if not address.is_loopback and not (listen.certificate and listen.key and listen.name):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{address} is not this machine alone, and there is no certificate for it.",
            hint="listen on 127.0.0.1, or give --tls-cert, --tls-key and --name",
        )
    # No OAuth server issues this token: the owner brings it from their node's data directory.
    auth = AuthSettings(issuer_url=AnyHttpUrl(f"{listen.scheme}://{address}"), resource_server_url=None)
    server = make_server(session, version, auth=auth, token_verifier=OwnerToken(token, session.handle))
    names = ["127.0.0.1", "localhost", "[::1]"] if address.is_loopback else [listen.name]
    return server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[*names, *(f"{name}:*" for name in names)],
            allowed_origins=[f"{listen.scheme}://{name}{port}" for name in names for port in ("", ":*")],
        ),
        host=address.host,
    )


async def serve_http(app: Starlette, listen: Listen, listener: socket) -> None:
    """Serve on a listening socket until the process is told to end."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        ssl_certfile=listen.certificate or None,
        ssl_keyfile=listen.key or None,
        server_header=False,
    )
    await uvicorn.Server(config).serve(sockets=[listener])
