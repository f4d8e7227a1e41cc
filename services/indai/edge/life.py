"""Signs of life while an answer is made: that the message has arrived, and after a while that work goes on.

They are best effort: nothing waits for them, nothing repeats them after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import structlog
from indai.edge.accounts import Served
from indai.edge.channels.base import Request
from indai.edge.http import Http
from indai.protocol.errors import IndaiError

AFTER_S: Final = 3.0

log = structlog.get_logger(__name__)


class Life:
    """Shows them."""

    def __init__(self, http: Http, after_s: float = AFTER_S) -> None:
        self._http = http
        self._after_s = after_s
        self._last: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def shown(self, message_id: str, address: str, served: Served) -> AsyncIterator[None]:
        """For the time of the block, unless the channel is in trouble anyway."""
        if served.trouble:
            yield
            return
        task = asyncio.create_task(self._show(message_id, address, served))
        try:
            yield
        finally:
            task.cancel()

    async def _show(self, message_id: str, address: str, served: Served) -> None:
        adapter, account = served.adapter, served.account
        await self._send(adapter.seen(message_id, address, account))
        await asyncio.sleep(self._after_s)
        try:
            while (thinking := adapter.thinking(message_id, address, account)) is not None:
                await self._send(thinking)
                if not adapter.thinks_every_s:
                    await asyncio.Event().wait()
                await asyncio.sleep(adapter.thinks_every_s)
        except asyncio.CancelledError:
            if (thought := adapter.thought(message_id, address, account)) is not None:
                last = asyncio.create_task(self._send(thought))
                self._last.add(last)
                last.add_done_callback(self._last.discard)
            raise

    async def _send(self, request: Request | None) -> None:
        if request is None:
            return
        try:
            await self._http.send(request)
        except IndaiError as error:
            log.debug("a sign of life was not shown", reason=error.reason.name)
