"""Tells the memory role what was agreed and what became of it, from the node's own threads.

Memory keeps one entry for each commitment and takes the same one again without harm, so a start tells
everything
anew and nothing has to be remembered here. An erased thread's entry goes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

import asyncpg
import structlog
from indai.node import views
from indai.node.agents import Agents
from indai.node.store import Store
from indai.protocol.errors import IndaiError
from indai.v1 import memory_pb2 as pb
from indai.v1 import owner_pb2

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

POLL_S = 5.0
MAX_ROWS = 200
CALL_TIMEOUT_S = 10.0

_CHANGED = """
    SELECT t.*, false AS in_calendar FROM node.threads t
    WHERE t.owner = ANY ($1) AND t.phase = 'COMMITTED' AND t.mid IS NOT NULL AND (t.updated_ms, t.thread) >
        ($2, $3)
    ORDER BY t.updated_ms, t.thread LIMIT $4
"""

log = structlog.get_logger(__name__)


class MemoryFeed:
    """Polls for threads that changed since the last look."""

    def __init__(self, store: Store, agents: Agents, memory: MemoryServiceAsyncStub) -> None:
        self._store = store
        self._agents = agents
        self._memory = memory
        self._after = (0, b"")
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
                while await self.step():
                    pass
            except IndaiError as error:
                log.warning("memory not told", reason=error.reason.name, error=error.message)
            await asyncio.sleep(POLL_S)

    async def step(self) -> bool:
        """Tell what changed; whether there may be more."""
        owners = list(self._agents)
        if not owners:
            return False
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(_CHANGED, owners, *self._after, MAX_ROWS)
        told: dict[str, list[pb.CommitmentMemory]] = defaultdict(list)
        for row in rows:
            told[row["owner"]].append(self._memory_of(row))
        for owner, commitments in told.items():
            access = pb.Access(tenant=owner, door=pb.DOOR_PRIVATE)
            request = pb.RecordCommitmentsRequest(access=access, commitments=commitments)
            await self._memory.RecordCommitments(request, timeout=CALL_TIMEOUT_S)
        if rows:
            self._after = rows[-1]["updated_ms"], rows[-1]["thread"]
        return len(rows) == MAX_ROWS

    def _memory_of(self, row: asyncpg.Record) -> pb.CommitmentMemory:
        thread = views.thread(row, "")
        state = owner_pb2.CommitmentState.Name(thread.commitment_state).removeprefix("COMMITMENT_STATE_")
        told = pb.CommitmentMemory(mid=row["mid"], peer=row["peer"], state=state.lower())
        told.update_time.FromMilliseconds(row["updated_ms"])
        if not thread.erased:
            told.text = f"{thread.kind} with {row['peer']}: {row['title']}{self._when(row)}"
            if row["start_ms"]:
                told.due_time.FromMilliseconds(row["start_ms"])
        return told

    def _when(self, row: asyncpg.Record) -> str:
        if not row["start_ms"]:
            return ""
        start = datetime.fromtimestamp(row["start_ms"] / 1000, self._agents.get(row["owner"]).zone)
        return f", {start:%a %-d %b %Y, %H:%M}"
