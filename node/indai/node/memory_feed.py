"""Tells the memory role what was agreed and what became of it, from the node's own threads.

Memory keeps one entry for each commitment and takes the same one again without harm, so a start tells
everything
anew and nothing has to be remembered here. An erased thread's entry goes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import asyncpg
import structlog
from indai.client.tasks import end_tasks
from indai.node import views
from indai.node.agents import Agents
from indai.node.draft import ThreadState
from indai.node.store import Store
from indai.protocol.errors import IndaiError
from indai.protocol.party_state import Phase
from indai.v1 import memory_pb2 as pb
from indai.v1 import owner_pb2

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

POLL_S = 5.0
MAX_ROWS = 200  # of one owner in one look
MAX_OWNERS = 16
CALL_TIMEOUT_S = 10.0

_CHANGED = """
    SELECT t.*, false AS in_calendar
    FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS o (owner, ms, thread)
    CROSS JOIN LATERAL (
        SELECT c.* FROM node.threads c
        WHERE c.owner = o.owner AND c.phase = 'COMMITTED' AND c.mid IS NOT NULL
            AND (c.updated_ms, c.thread) > (o.ms, o.thread)
        ORDER BY c.updated_ms, c.thread LIMIT $4
    ) AS t
"""

log = structlog.get_logger(__name__)


class MemoryFeed:
    """Follows the engine: reads what has changed of owners of whom something has, everybody's at start."""

    def __init__(self, store: Store, agents: Agents, memory: MemoryServiceAsyncStub) -> None:
        self._store = store
        self._agents = agents
        self._memory = memory
        self._changed: dict[str, None] = dict.fromkeys(agents)
        self._after: dict[str, tuple[int, bytes]] = {}  # by owner: (updated_ms, thread) of what was told last
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin polling."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop polling."""
        await end_tasks(self._task)

    def committed(self, states: Collection[ThreadState]) -> None:
        """See `Follower`."""
        agreed = (state for state in states if state.side.phase is Phase.COMMITTED)
        self._changed.update(dict.fromkeys(state.columns["owner"] for state in agreed))

    def doubted(self, owners: Collection[str]) -> None:
        """See `Follower`."""
        self._changed.update(dict.fromkeys(owners))

    async def _run(self) -> None:
        while True:
            try:
                while await self.step():
                    pass
            except IndaiError as error:
                log.warning("memory not told", reason=error.reason.name, error=error.message)
            await asyncio.sleep(POLL_S)

    async def step(self) -> bool:
        """Tell what changed of some owners; whether there may be more."""
        owners = list(islice(self._changed, MAX_OWNERS))
        if not owners:
            return False
        for owner in owners:
            del self._changed[owner]
        try:
            # Who has left is not told of again: memory would have them back.
            await self._tell([owner for owner in owners if owner in self._agents])
        except BaseException:
            self.doubted(owners)
            raise
        return bool(self._changed)

    async def _tell(self, owners: list[str]) -> None:
        if not owners:
            return
        after = [self._after.get(owner, (0, b"")) for owner in owners]
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                _CHANGED, owners, [ms for ms, _ in after], [thread for _, thread in after], MAX_ROWS
            )
        told: dict[str, list[asyncpg.Record]] = defaultdict(list)
        for row in rows:
            told[row["owner"]].append(row)
        for owner, changed in told.items():
            access = pb.Access(tenant=owner, door=pb.DOOR_PRIVATE)
            commitments = [self._memory_of(row) for row in changed]
            request = pb.RecordCommitmentsRequest(access=access, commitments=commitments)
            await self._memory.RecordCommitments(request, timeout=CALL_TIMEOUT_S)
            self._after[owner] = changed[-1]["updated_ms"], changed[-1]["thread"]
            if len(changed) == MAX_ROWS:
                self._changed[owner] = None

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
