"""Server-sent events (WHATWG HTML, section 9.2): a page is told that something changed, and loads it again.

An event carries a name and a number, never content: what the visitor may see is decided when the page loads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web
from indai.protocol.errors import IndaiError
from indai.web.site import Site
from indai.web.visit import Visit

MAX_STREAMS: Final = 8
"""Open streams of one account: a few windows on a few devices."""
BEAT_S: Final = 15.0
ENDING: Final = web.AppKey("ending", asyncio.Event)
"""Of a server's application: set when it begins to stop. What would go on for ever ends then."""


class Live:
    """Streams of events to pages."""

    def __init__(self, site: Site, beat_s: float = BEAT_S) -> None:
        self._site, self._beat_s = site, beat_s
        self._open: dict[str, set[asyncio.Transport]] = {}

    async def answer(self, visit: Visit, events: AsyncIterator[str]) -> web.StreamResponse:
        """Send each of `events` until they end, the visitor leaves, the session or the server ends. With too
        many streams of one account the answer is 204, on which a browser does not come again."""
        account = visit.signed_in.account
        streams = self._open.setdefault(account, set())
        # A visitor who left is noticed at the next write only; whoever goes from page to page has left many.
        streams -= {one for one in streams if one.is_closing()}
        if len(streams) >= MAX_STREAMS:
            return web.Response(status=204)
        transport = visit.request.transport
        if transport is None:
            return web.Response(status=204)
        streams.add(transport)
        try:
            return await self._send(visit, events)
        finally:
            streams.discard(transport)
            if not streams:
                self._open.pop(account, None)

    async def _send(self, visit: Visit, events: AsyncIterator[str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._site.protect(response)
        response.headers["X-Accel-Buffering"] = "no"
        await response.prepare(visit.request)
        loop, number, coming = asyncio.get_running_loop(), 0, asyncio.ensure_future(anext(events, None))
        over = asyncio.ensure_future(visit.request.app[ENDING].wait())
        checked = loop.time()
        try:
            await response.write(b"retry: 3000\n\n")
            while True:
                done, _ = await asyncio.wait(
                    {coming, over}, timeout=self._beat_s, return_when=asyncio.FIRST_COMPLETED
                )
                if over in done:
                    break
                if loop.time() - checked >= self._beat_s:  # however much happens in between
                    if await self._site.sessions.find_token(visit.token) is None:
                        break
                    checked = loop.time()
                if not done:
                    await response.write(b": still here\n\n")
                    continue
                name = coming.result()
                if name is None:
                    break
                number += 1
                await response.write(f"id: {number}\nevent: {name}\ndata: {number}\n\n".encode())
                coming = asyncio.ensure_future(anext(events, None))
        except (ConnectionError, IndaiError):
            pass  # the visitor left, or the node is away: the browser comes again by itself
        finally:
            over.cancel()
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, IndaiError, StopAsyncIteration):
                await coming
        return response
