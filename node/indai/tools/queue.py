"""Wakes whoever does a job, which is enqueued in the transaction that makes it.

A payload is a holder and the id of a row of `tools.jobs`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import asyncpg
import structlog
from indai.storage.queue import Queue, Worker
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job as QueuedJob
from pgqueuer.qm import QueueManager

AT_ONCE: Final = 8
AGAIN_S: Final = 10.0  # after the database was away
_WORK: Final = "tool"
_QUEUE: Final = Queue("tools", "ch_pgqueuer_tools")

_HASTEN: Final = """
    UPDATE tools.pgqueuer SET execute_after = least(execute_after, now()), updated = now()
    WHERE dedupe_key = ANY ($1) AND status = 'queued' RETURNING dedupe_key
"""

Work = Callable[[str, UUID], Awaitable[float | None]]
"""Does one job of a holder; seconds until it is to be tried again, None when it is over."""

log = structlog.get_logger(__name__)


async def enqueue(connection: asyncpg.Connection, holder: str, job: UUID, delay_s: float) -> None:
    """Put a job into the queue, in the caller's transaction."""
    payload = json.dumps({"holder": holder, "job": str(job)}).encode()
    await _QUEUE.within(connection).enqueue(
        [_WORK], [payload], [0], [timedelta(seconds=max(0.0, delay_s))], [str(job)], on_conflict="skip"
    )


async def hasten(connection: asyncpg.Connection, jobs: Sequence[UUID]) -> set[UUID]:
    """Those of these jobs that waited in the queue, and are due now."""
    rows = await connection.fetch(_HASTEN, [str(job) for job in jobs])
    return {UUID(row["dedupe_key"]) for row in rows}


def make_worker(pool: asyncpg.Pool, work: Work) -> Worker:
    """Wakes `work` while it runs."""

    async def one(job: QueuedJob) -> None:
        named = json.loads(job.payload or b"{}")
        try:
            again_s = await work(named["holder"], UUID(named["job"]))
        except Exception as error:  # noqa: BLE001 - the row says what is left to do: it is read again
            log.warning("job of a tool not done", job=named["job"], error=type(error).__name__)
            again_s = AGAIN_S
        if again_s is not None:
            raise RetryRequested(timedelta(seconds=again_s), "NOT_YET")

    def handle(manager: QueueManager) -> None:
        manager.entrypoint(_WORK, concurrency_limit=AT_ONCE, on_failure="hold")(one)

    return Worker(pool, _QUEUE, handle)
