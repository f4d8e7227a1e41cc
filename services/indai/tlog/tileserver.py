"""A log over plain HTTP: checkpoint, hash tiles and entry bundles (C2SP tlog-tiles), for anyone.

Everything here is public and proves itself, so any cache in between is welcome: what is immutable may be kept
for a year, the checkpoint for a few seconds. Partial tiles are served from the full ones, so none is ever
missing that a checkpoint needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from indai.protocol.errors import IndaiError
from indai.protocol.tiles import Tile
from indai.tlog.reader import LogReader

CHECKPOINT_AGE_S = 5
IMMUTABLE = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class PublicLog:
    """A log to serve under `/<its origin>`: `checkpoint` gives the newest signed note."""

    origin: str
    reader: LogReader
    checkpoint: Callable[[], Awaitable[bytes]]


def tile_routes(log: PublicLog) -> list[web.RouteDef]:
    """`GET /<origin>/checkpoint` and `GET /<origin>/tile/...`."""

    newest = _Newest(log.checkpoint)

    async def checkpoint(_: web.Request) -> web.Response:
        try:
            note = await newest()
        except IndaiError as error:
            return _failed(error)
        headers = {"Cache-Control": f"public, max-age={CHECKPOINT_AGE_S}"}
        return web.Response(body=note, content_type="text/plain", charset="utf-8", headers=headers)

    async def tile(request: web.Request) -> web.Response:
        try:
            place = Tile.parse(f"tile/{request.match_info['path']}")
            data = await log.reader.tile(place)
        except IndaiError as error:
            return _failed(error)
        response = web.Response(
            body=data, content_type="application/octet-stream", headers={"Cache-Control": IMMUTABLE}
        )
        if place.level is None:  # hashes don't compress
            response.enable_compression()
        return response

    return [
        web.get(f"/{log.origin}/checkpoint", checkpoint),
        web.get(f"/{log.origin}/tile/{{path:.+}}", tile),
    ]


class _Newest:
    """The checkpoint, made at most once a second however many ask."""

    def __init__(self, make: Callable[[], Awaitable[bytes]]) -> None:
        self._make = make
        self._note = b""
        self._until = 0.0
        self._making = asyncio.Lock()

    async def __call__(self) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._making:  # who comes meanwhile gets what is being made
            if not self._note or loop.time() >= self._until:
                self._note = await self._make()
                self._until = loop.time() + 1
            return self._note


def _failed(error: IndaiError) -> web.Response:
    """A path that is no tile's is as little there as a tile that is not."""
    status = 404 if error.reason.status.http == 400 else error.reason.status.http
    headers = {"Cache-Control": "no-store"}
    return web.Response(status=status, text=f"{error.message}\n", headers=headers)
