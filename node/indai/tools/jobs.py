"""Work that outlives a call: kept as rows, done at least once, told to the session when it ends.

    run       a tool that takes long, or is called later
    follow    a negotiation that a tool began and that others must answer
    approved  a call that the owner approved, should the process have died before it ran
    expire    a question whose time runs out
    remind    words for the person at a time

What fails for a while is tried again, later each time; what fails for good, or too often, is dead, and shown
by `indai tool jobs`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import asyncpg
import structlog
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.storage.pool import transaction
from indai.tools.callers import dump_caller, read_caller
from indai.tools.outcomes import dumped, raised
from indai.tools.queue import enqueue, hasten
from indai.tools.sealed import Sealed, Sealer
from indai.tools.store import holder_of
from indai.tools.values import Caller, Outcome, Push

MAX_ATTEMPTS: Final = 8
RETRY_S: Final = 5.0
LONGEST_S: Final = 600.0
LIFETIME_MS: Final = 14 * 86_400_000  # of a negotiation that is followed

_INSERT = """
    INSERT INTO tools.jobs
        (id, holder, kind, tool, caller, arguments, state, due_ms, created_ms, updated_ms, sealed)
    VALUES ($1, $2, $3, $4, $5, $6, 'waiting', $7, $8, $8, $9) ON CONFLICT (id) DO NOTHING RETURNING id
"""
_END = """
    UPDATE tools.jobs SET state = $3, error = $4, outcome = $5, updated_ms = $6,
        sealed = CASE WHEN $3 = 'dead' THEN sealed END
    WHERE holder = $1 AND id = $2 AND state = 'waiting'
"""
_TRY = """
    UPDATE tools.jobs SET attempts = attempts + 1, updated_ms = $3
    WHERE holder = $1 AND id = $2 AND state = 'waiting' RETURNING *
"""
_LIST = """
    SELECT * FROM tools.jobs WHERE holder = $1 AND (created_ms, id) < ($2, $3) AND ($4 = '' OR state = $4)
    ORDER BY created_ms DESC, id DESC LIMIT $5
"""
_DROP: Final = """
    UPDATE tools.jobs SET state = 'done', updated_ms = $5
    WHERE holder = $1 AND kind = 'follow' AND state = 'waiting' AND caller ->> 'session' = $2
        AND CASE WHEN $4 = '' THEN arguments ->> 'thread_id' = $3
            ELSE starts_with(arguments ->> 'question', $4) END
    RETURNING id
"""
_JOBS: Final = UUID("0d2b9a53-7c22-5a0f-8a52-1f5d4a4c90b3")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One row."""

    id: UUID
    holder: str
    kind: str
    tool: str
    caller: Caller
    arguments: Mapping[str, Any]
    state: str
    attempts: int
    error: str
    due_ms: int
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that is over. `tell`: what the session is to hear, None for nothing."""

    tell: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """A job whose time has not come; this is no failure."""

    delay_s: float


Handler = Callable[[Job], Awaitable["Ended | Later"]]


class Jobs:
    """The rows, and what is done with one. `push` tells sessions; `handlers` are by kind."""

    def __init__(
        self, pool: asyncpg.Pool, clock: Callable[[], int], push: Push, sealer: Sealer | None = None
    ) -> None:
        self._pool = pool
        self._sealed = Sealed("jobs", sealer)
        self._clock = clock
        self.push = push
        self.handlers: dict[str, Handler] = {}

    async def add(
        self,
        caller: Caller,
        kind: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        delay_s: float = 0.0,
        key: str = "",
        shown: Mapping[str, Any] | None = None,
    ) -> UUID:
        """A job. The same `key` of the same caller and turn is the same job. `shown` is the arguments without
        what is secret in them, where something is: the row has those, and the rest sealed."""
        async with transaction(self._pool, (holder_of(caller),)) as connection:
            return await self.put(
                connection, caller, kind, tool, arguments, delay_s=delay_s, key=key, shown=shown
            )

    async def put(
        self,
        connection: asyncpg.Connection,
        caller: Caller,
        kind: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        delay_s: float = 0.0,
        key: str = "",
        shown: Mapping[str, Any] | None = None,
    ) -> UUID:
        """The same within a transaction of the caller's holder."""
        holder, now_ms = holder_of(caller), self._clock()
        name = "\n".join((holder, caller.session, caller.turn, kind, tool, key))
        id = uuid.uuid5(_JOBS, name) if key else uuid.uuid4()
        due_ms = now_ms + round(delay_s * 1000)
        said = json.dumps(dict(arguments if shown is None else shown))
        sealed = None if shown is None else self._sealed.close(id, arguments)
        made = await connection.fetchval(
            _INSERT, id, holder, kind, tool, dump_caller(caller), said, due_ms, now_ms, sealed
        )
        if made is not None:
            await enqueue(connection, holder, id, delay_s)
        return id

    async def work(self, holder: str, id: UUID) -> float | None:
        """Try a job once; seconds until the next try. See `indai.tools.queue.Work`."""
        job = await self._begin(holder, id)
        if job is None:
            return None
        try:
            done = await self.handlers[job.kind](job)
            if isinstance(done, Later):
                await self._waits(job)
                return min(done.delay_s, LONGEST_S)
            if done.tell is not None:
                await self.push(job.caller, replace(done.tell, job=str(job.id)))
            await self._end(job, "done", "", done.tell)
        except IndaiError as error:
            judged = raised(error)
            if judged.outcome.retryable and job.attempts < MAX_ATTEMPTS:
                return float(min(RETRY_S * 2**job.attempts, LONGEST_S))
            await self._bury(job, error.reason.name, judged.outcome)
        except Exception as error:  # noqa: BLE001 - the boundary: a job that breaks ends alone
            # Its text may hold what was asked: its kind has to do.
            log.error("job of a tool failed", kind=job.kind, tool=job.tool, error=type(error).__name__)
            await self._bury(job, Reason.INTERNAL.name, None)
        return None

    async def listed(self, holder: str, state: str, before: tuple[int, UUID], limit: int) -> Sequence[Job]:
        """Newest first, those before (created_ms, id)."""
        async with transaction(self._pool, (holder,)) as connection:
            rows = await connection.fetch(_LIST, holder, *before, state, limit)
        return [_job(row) for row in rows]

    async def retry(self, holder: str, id: UUID) -> None:
        """Try a dead job again. Raises NotFound."""
        now_ms = self._clock()
        async with transaction(self._pool, (holder,)) as connection:
            found = await connection.fetchval(
                "UPDATE tools.jobs SET state = 'waiting', attempts = 0, error = '', updated_ms = $3"
                " WHERE holder = $1 AND id = $2 AND state = 'dead' RETURNING id",
                holder,
                id,
                now_ms,
            )
            if found is None:
                raise NotFound(
                    Reason.NOT_FOUND, "There is no such dead job.", hint="indai tool jobs --state dead"
                )
            await enqueue(connection, holder, id, 0)

    async def drop(self, holder: str, session: str, *, thread: str = "", code: str = "") -> set[UUID]:
        """End what a session waits to hear of a thread, or of the question with this code: it knows."""
        async with transaction(self._pool, (holder,)) as connection:
            rows = await connection.fetch(_DROP, holder, session, thread, code, self._clock())
        return {row["id"] for row in rows}

    async def is_waiting(self, holder: str, id: UUID) -> bool:
        """Whether a job is not over yet."""
        async with transaction(self._pool, (holder,)) as connection:
            found = await connection.fetchval(
                "SELECT state = 'waiting' FROM tools.jobs WHERE holder = $1 AND id = $2", holder, id
            )
        return bool(found)

    async def wake(self, ids: Sequence[UUID]) -> set[UUID]:
        """Have these tried now instead of when their time comes; those that were not being tried already."""
        async with transaction(self._pool) as connection:
            return await hasten(connection, ids)

    async def _begin(self, holder: str, id: UUID) -> Job | None:
        async with transaction(self._pool, (holder,)) as connection:
            row = await connection.fetchrow(_TRY, holder, id, self._clock())
        if row is None:
            return None
        job, sealed = _job(row), row["sealed"]
        return job if sealed is None else replace(job, arguments=self._sealed.open(job.id, sealed))

    async def _waits(self, job: Job) -> None:
        """Waiting is no failed attempt."""
        async with transaction(self._pool, (job.holder,)) as connection:
            await connection.execute(
                "UPDATE tools.jobs SET attempts = 0 WHERE holder = $1 AND id = $2", job.holder, job.id
            )

    async def _bury(self, job: Job, why: str, outcome: Outcome | None) -> None:
        log.warning("job of a tool is dead", kind=job.kind, tool=job.tool, reason=why, attempts=job.attempts)
        await self._end(job, "dead", why, outcome)
        if outcome is not None and job.kind in ("run", "approved"):
            await self.push(job.caller, replace(outcome, job=str(job.id)))

    async def _end(self, job: Job, state: str, error: str, outcome: Outcome | None) -> None:
        kept = json.dumps(dumped(outcome), ensure_ascii=False) if outcome else None
        async with transaction(self._pool, (job.holder,)) as connection:
            await connection.execute(_END, job.holder, job.id, state, error, kept, self._clock())


def _job(row: asyncpg.Record) -> Job:
    return Job(
        row["id"],
        row["holder"],
        row["kind"],
        row["tool"],
        read_caller(row["caller"]),
        json.loads(row["arguments"]),
        row["state"],
        row["attempts"],
        row["error"],
        row["due_ms"],
        row["created_ms"],
        row["updated_ms"],
    )
