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
REST_MS = 60_000
SOON_MS = 1_000  # what is only away now, such as a fresh head of the registry, is asked for again soon

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
        self._resting: dict[bytes, int] = {}

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
            except IndaiError as error:
                log.warning("timers wait", reason=error.reason.name, error=error.message)
            else:
                await asyncio.gather(*(self._wake(owner, thread) for owner, thread in due))
            await asyncio.sleep(POLL_S)

    async def _wake(self, owner: str, thread: bytes) -> None:
        """One thread's turn. One that fails (its key revoked, say) rests, so that others have theirs."""
        try:
            await self._tick(owner, thread)
        except IndaiError as error:
            log.warning("timer failed", owner=owner, reason=error.reason.name, error=error.message)
            transient = error.reason.status.grpc == "UNAVAILABLE"
            self._resting[thread] = self._clock() + (SOON_MS if transient else REST_MS)

    async def _due(self) -> list[tuple[str, bytes]]:
        owners, now = list(self._agents), self._clock()
        if not owners:
            return []
        self._resting = {thread: until for thread, until in self._resting.items() if until > now}
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT owner, thread FROM node.threads"
                " WHERE wake_ms <= $1 AND owner = ANY($2) AND erased_ms IS NULL"
                " AND NOT thread = ANY($3) ORDER BY wake_ms LIMIT $4",
                now,
                owners,
                list(self._resting),
                MAX_DUE,
            )
        return [(row["owner"], row["thread"]) for row in rows]
