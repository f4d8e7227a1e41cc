"""A page's stream of changes ends when its server stops: nobody waits for it, and it is no broken one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import ClientSession, web
from indai.node.http_server import HttpServer
from indai.web.live import Live
from indai.web.sessions import Session
from indai.web.site import Place, Site
from indai.web.visit import Visit

ASHA = Session("1", "asha", "ind.ai/asha", "owner", "", "code", "", 0, 0, 1)


async def _one_change() -> AsyncIterator[str]:
    yield "changed"
    await asyncio.Event().wait()


async def test_a_server_that_stops_ends_its_streams_whole() -> None:
    nothing: Any = None
    site = Site(nothing, nothing, b"s" * 32, lambda: 0, lambda: Place("http://localhost", secure=True), {})
    live = Live(site, beat_s=3600.0)

    async def stream(request: web.Request) -> web.StreamResponse:
        return await live.answer(Visit(request, nothing, nothing, ASHA, "", ""), _one_change())

    server = await HttpServer.start("127.0.0.1:0", [web.get("/live", stream)])
    async with ClientSession() as http, http.get(f"http://{server.address}/live") as answer:
        assert await answer.content.readuntil(b"data: 1\n\n")
        stopping = asyncio.create_task(server.stop())
        assert await answer.content.read() == b""  # a cut one has no end, and reading it raises
        await stopping
