"""Reads stored work again after a commit whose outcome is unknown.

What a lost commit may have stored (messages to deliver, effects to carry out) is in the tables and in
nobody's memory. The owners concerned are read again, as at start, until that succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError

RETRY_S = 1.0

log = structlog.get_logger(__name__)


class Recall:
    """One reader; owners that are named while it reads are read next. `read` must be idempotent."""

    def __init__(self, read: Callable[[list[str]], Awaitable[None]]) -> None:
        self._read = read
        self._owners: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def ask(self, owners: Iterable[str]) -> None:
        """Read these owners' work again. Returns at once."""
        self._owners.update(owners)
        if self._owners and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; what is stored stays stored."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        while self._owners:
            owners, self._owners = self._owners, set()
            try:
                await self._read(sorted(owners))
            except IndaiError as error:
                log.warning("stored work not read", reason=error.reason.name, error=error.message)
                self._owners |= owners
                await asyncio.sleep(RETRY_S)
