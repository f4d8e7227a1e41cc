"""Wakes threads whose time has come: offers that lapse, questions nobody answered, acceptances in doubt,
meetings that begin soon or are past due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from indai.node.agents import Agents
from indai.node.store import Store
from indai.protocol.errors import IndaiError

POLL_S = 0.5
MAX_DUE = 256

log = structlog.get_logger(__name__)


class Timers:
    """Polls the index of due times; a thread's `wake_ms` is set by whoever changes the thread."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        tick: Callable[[str, bytes], Awaitable[object]],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._agents = agents
        self._tick = tick
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin polling."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                due = await self._due()
                await asyncio.gather(*(self._tick(owner, thread) for owner, thread in due))
            except IndaiError as error:
                log.warning("timers wait", reason=error.reason.name, error=error.message)
            await asyncio.sleep(POLL_S)

    async def _due(self) -> list[tuple[str, bytes]]:
        owners = list(self._agents)
        if not owners:
            return []
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT owner, thread FROM node.threads"
                " WHERE wake_ms <= $1 AND owner = ANY($2) AND erased_ms IS NULL"
                " ORDER BY wake_ms LIMIT $3",
                self._clock(),
                owners,
                MAX_DUE,
            )
        return [(row["owner"], row["thread"]) for row in rows]
