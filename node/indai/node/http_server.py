"""The process's HTTP port: public logs and the witness. All it serves is public and signed by itself, so it
may stand without TLS on any address, behind any cache; with a certificate it speaks HTTPS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self

from aiohttp import web
from indai.client.addresses import Address, parse_address
from indai.edge.forwarded import Network, caller
from indai.protocol.errors import InvalidInput, Reason, Unavailable
from indai.web.live import ENDING

MAX_BODY = 128 * 1024
STOP_GRACE_S = 2.0


class HttpServer:
    """A running HTTP server; `address` is where it can be reached, with the real port."""

    def __init__(self, runner: web.AppRunner, address: str) -> None:
        self._runner = runner
        self.address = address

    @classmethod
    async def start(
        cls,
        bind: str,
        routes: Sequence[web.RouteDef],
        certificate: tuple[Path, Path] | None = None,
        *,
        max_body: int = MAX_BODY,
        proxies: Sequence[Network] = (),
    ) -> Self:
        """Serve `routes` at `bind`; `proxies` are believed when they say who calls through them. Raises
        InvalidInput for a bad address or certificate, Unavailable (ADDRESS_IN_USE) when the port is taken."""
        at = parse_address(bind)
        app = web.Application(client_max_size=max_body, middlewares=[_behind(proxies)] if proxies else [])
        app.add_routes(routes)
        app[ENDING] = asyncio.Event()
        app.on_shutdown.append(_end)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_GRACE_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, at.host, at.port, ssl_context=_context(certificate)).start()
        except OSError as error:
            await runner.cleanup()
            raise Unavailable(
                Reason.ADDRESS_IN_USE,
                f"{bind} can't be served: {error.strerror}.",
                hint="stop what listens there, or choose another port with --listen http=HOST:PORT"
                " (all of them: --base-port)",
            ) from None
        host, port = runner.addresses[0][:2]
        return cls(runner, str(Address(host, port)))

    async def stop(self) -> None:
        """Finish what is being answered, and stop."""
        await self._runner.cleanup()


async def _end(app: web.Application) -> None:
    """Streams that tell of changes would hold up a stop for as long as it has patience."""
    app[ENDING].set()


def _behind(proxies: Sequence[Network]) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Every limit by address counts who calls, not the proxy that they all come through."""

    @web.middleware
    async def told(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        said = request.headers.get("X-Forwarded-For", "")
        found = caller(request.remote or "", said, proxies)
        return await handler(request if found == request.remote else request.clone(remote=found))

    return told


def _context(certificate: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(*certificate)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The certificate can't be used: {error}.") from None
    return context
