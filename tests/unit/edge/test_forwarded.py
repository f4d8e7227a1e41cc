"""Behind a proxy, who calls is told by the proxy alone."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from indai.edge.forwarded import caller, networks
from indai.node.http_server import HttpServer
from indai.protocol.errors import InvalidInput

OURS = networks(["10.0.0.0/8", "::1"])
TABLE = [
    ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # no proxy of ours says it
    ("10.0.0.1", "", "10.0.0.1"),
    ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
    ("10.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),  # the left is what the caller made up
    ("10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
    ("::1", "2001:db8::7", "2001:db8::7"),
    ("10.0.0.1", "<script>", ""),
]


@pytest.mark.parametrize(("peer", "said", "found"), TABLE)
def test_only_proxies_of_ours_say_who_calls(peer: str, said: str, found: str) -> None:
    assert caller(peer, said, OURS) == found


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(InvalidInput):
        networks(["proxy.example"])


@pytest.mark.parametrize(("trusted", "found"), [(["127.0.0.0/8"], "198.51.100.1"), ([], "127.0.0.1")])
async def test_limits_by_address_count_who_calls_and_not_the_proxy(trusted: list[str], found: str) -> None:
    async def remote(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.remote} {await request.text()}")

    server = await HttpServer.start("127.0.0.1:0", [web.post("/", remote)], proxies=networks(trusted))
    try:
        headers = {"X-Forwarded-For": "1.2.3.4, 198.51.100.1"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{server.address}/", headers=headers, data="x") as answer,
        ):
            assert await answer.text() == f"{found} x"
    finally:
        await server.stop()
