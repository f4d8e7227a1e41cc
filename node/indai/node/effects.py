"""Effects outside the database that follow from committed state: today, events in owners' calendar files.

The row is written in the transaction that commits the deal; this worker carries it out and marks it done. Put
is idempotent by UID, so a crash between the file and the mark repeats a write that changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import structlog
from indai.node import faults
from indai.node.agents import Agents
from indai.node.calendar import MeetingEvent
from indai.node.store import Store
from indai.protocol.errors import IndaiError

RETRY_S = 5.0

log = structlog.get_logger(__name__)


class Effects:
    """One worker for each owner with something to do; all waiting writes of an owner go in one file write."""

    def __init__(
        self, store: Store, agents: Agents, clock: Callable[[], int], done: Callable[[str, bytes], None]
    ) -> None:
        self._store = store
        self._agents = agents
        self._clock = clock
        self._done = done
        self._dirty: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}

    def wake(self, owner: str) -> None:
        """Something was committed for this owner."""
        self._dirty.add(owner)
        if owner not in self._running:
            self._running[owner] = asyncio.create_task(self._run(owner))

    async def close(self) -> None:
        """Stop; what is not done stays stored."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, owner: str) -> None:
        try:
            while owner in self._dirty:
                self._dirty.discard(owner)
                try:
                    await self._carry_out(owner)
                except IndaiError as error:
                    log.warning(
                        "calendar not written", owner=owner, reason=error.reason.name, error=error.message
                    )
                    await self._tell(owner, error)
                    self._dirty.add(owner)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._running.pop(owner, None)

    async def _carry_out(self, owner: str) -> None:
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT key, doc, thread FROM node.effects"
                " WHERE owner = $1 AND NOT done ORDER BY created_ms LIMIT 256",
                owner,
            )
        if not rows:
            return
        events = [MeetingEvent(**json.loads(row["doc"])) for row in rows]
        faults.reach("before-calendar")
        await self._agents.get(owner).calendar.put_many(events)
        faults.reach("after-calendar")
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "UPDATE node.effects SET done = true"
                " WHERE owner = $1 AND kind = 'calendar-put' AND key = ANY($2)",
                owner,
                [row["key"] for row in rows],
            )
        for row in rows:
            self._done(owner, row["thread"])

    async def _tell(self, owner: str, error: IndaiError) -> None:
        """Once for each run of failures: the last line of the journal says so already."""
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "INSERT INTO node.journal (owner, at_ms, peer, event, reason, words)"
                " SELECT $1, $2, '', 'effect', $3, $4 WHERE NOT EXISTS"
                " (SELECT FROM (SELECT words FROM node.journal WHERE owner = $1 AND event = 'effect'"
                " ORDER BY id DESC LIMIT 1) AS last WHERE last.words = $4)",
                owner,
                self._clock(),
                error.reason.name,
                f"The agreed meetings could not be written into your calendar: {error}",
            )
