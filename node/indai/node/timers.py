"""Wakes threads whose time has come: offers that lapse, questions nobody answered, acceptances in doubt,
meetings that begin soon or are past due.

The table says when each thread is due (`wake_ms`, set by whoever changes it). Here is kept of each owner when
their next one is, at the latest: read at start, lowered at each commit. Only owners for whom something may be
due are looked at, so a node of a hundred thousand asks the database no more often than one of ten.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Collection, Sequence

import structlog
from indai.client.tasks import end_tasks
from indai.node.agents import Agents
from indai.node.draft import ThreadState
from indai.node.following import portions
from indai.node.store import Store
from indai.protocol.errors import IndaiError
from indai.protocol.party import wakes_at

POLL_S = 0.5
MAX_DUE = 256
MAX_OWNERS = 64  # looked at with one query
REST_MS = 60_000
SOON_MS = 1_000  # what is only away now, such as a fresh head of the registry, is asked for again soon

log = structlog.get_logger(__name__)


class Timers:
    """Follows the engine; see the module."""

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
        self._next: dict[str, int] = {}  # by owner, ms: never later than their next thread is due
        self._soonest: list[tuple[int, str]] = []  # a heap; entries that `_next` does not have count no more

    def start(self) -> None:
        """Begin to wake threads."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        await end_tasks(self._task)

    def committed(self, states: Collection[ThreadState]) -> None:
        """See `Follower`."""
        for state in states:
            wake_ms = wakes_at(state.side)
            if wake_ms is not None:
                self._expect(state.columns["owner"], wake_ms)

    def doubted(self, owners: Collection[str]) -> None:
        """See `Follower`."""
        for owner in owners:
            self._expect(owner, 0)

    def _expect(self, owner: str, wake_ms: int) -> None:
        known = self._next.get(owner)
        if known is None or wake_ms < known:
            self._next[owner] = wake_ms
            heapq.heappush(self._soonest, (wake_ms, owner))

    def _take_due(self) -> list[str]:
        """Owners for whom something may be due, the longest overdue first; they are expected no more."""
        now, due = self._clock(), list[str]()
        while self._soonest and self._soonest[0][0] <= now:
            wake_ms, owner = heapq.heappop(self._soonest)
            if self._next.get(owner) == wake_ms:
                del self._next[owner]
                due.append(owner)
        return due

    async def _run(self) -> None:
        for owners in portions(list(self._agents)):
            if not await self._look_up(owners):
                self.doubted(owners)
        while True:
            due = self._take_due()
            for start in range(0, len(due), MAX_OWNERS):
                await self._turn(due[start : start + MAX_OWNERS])
            await asyncio.sleep(POLL_S)

    async def _turn(self, owners: Sequence[str]) -> None:
        """Wake what is due of these owners, and expect what is due next."""
        try:
            due = await self._due(owners)
        except IndaiError as error:
            log.warning("timers wait", reason=error.reason.name, error=error.message)
            self.doubted(owners)
            return
        await asyncio.gather(*(self._wake(owner, thread) for owner, thread in due))
        if not await self._look_up(owners):
            self.doubted(owners)

    async def _wake(self, owner: str, thread: bytes) -> None:
        """One thread's turn. One that fails (its key revoked, say) rests, so that others have theirs."""
        try:
            await self._tick(owner, thread)
        except IndaiError as error:
            log.warning("timer failed", owner=owner, reason=error.reason.name, error=error.message)
            transient = error.reason.status.grpc == "UNAVAILABLE"
            self._resting[thread] = self._clock() + (SOON_MS if transient else REST_MS)
            self._expect(owner, self._resting[thread])

    async def _due(self, owners: Sequence[str]) -> list[tuple[str, bytes]]:
        now = self._clock()
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

    async def _look_up(self, owners: Sequence[str]) -> bool:
        """Expect what the table says is due next for each of these owners; False if it can't be read now."""
        try:
            async with self._store.scope(*owners) as connection:
                rows = await connection.fetch(
                    "SELECT o.owner, (SELECT min(t.wake_ms) FROM node.threads t WHERE t.owner = o.owner"
                    " AND t.wake_ms IS NOT NULL AND t.erased_ms IS NULL AND NOT t.thread = ANY($2))"
                    " AS wake_ms FROM unnest($1::text[]) AS o (owner)",
                    owners,
                    list(self._resting),
                )
        except IndaiError as error:
            log.warning("timers wait", reason=error.reason.name, error=error.message)
            return False
        for row in rows:
            if row["wake_ms"] is not None:
                self._expect(row["owner"], row["wake_ms"])
        return True
