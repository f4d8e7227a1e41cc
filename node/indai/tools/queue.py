"""Wakes whoever does a job, on PgQueuer: enqueued in the transaction that makes the job.

A payload is a holder and the id of a row of `tools.jobs`. Running one twice changes nothing, so a process
that dies in the middle is followed by one that does it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
import structlog
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.domain.settings import DBSettings
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Channel
from pgqueuer.models import Job as QueuedJob
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

RESTART_S: Final = 1.0
AT_ONCE: Final = 8
AGAIN_S: Final = 10.0  # after the database was away
_WORK: Final = "tool"
_SETTINGS: Final = DBSettings(db_schema="tools", channel=Channel("ch_pgqueuer_tools"))

Work = Callable[[str, UUID], Awaitable[float | None]]
"""Does one job of a holder; seconds until it is to be tried again, None when it is over."""

log = structlog.get_logger(__name__)


def _queries(driver: Any) -> Queries:
    return Queries(
        driver,
        qbe=QueryBuilderEnvironment(_SETTINGS),
        qbq=QueryQueueBuilder(_SETTINGS),
        qbs=QuerySchedulerBuilder(_SETTINGS),
    )


async def enqueue(connection: asyncpg.Connection, holder: str, job: UUID, delay_s: float) -> None:
    """Put a job into the queue, in the caller's transaction."""
    payload = json.dumps({"holder": holder, "job": str(job)}).encode()
    await _queries(AsyncpgDriver(connection)).enqueue(
        [_WORK], [payload], [0], [timedelta(seconds=max(0.0, delay_s))], [str(job)], on_conflict="skip"
    )


class Worker:
    """Wakes `work` until it is closed; a lost database is waited for."""

    def __init__(self, pool: asyncpg.Pool, work: Work) -> None:
        self._pool = pool
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._manager: QueueManager | None = None
        self._closing = False

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop after what runs; what is cut off comes again at the next start."""
        self._closing = True
        if self._task is None:
            return
        if self._manager is not None:
            self._manager.shutdown.set()
        done, _ = await asyncio.wait({self._task}, timeout=5)
        if not done:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while not self._closing:
            manager = self._manager = QueueManager(
                _queries(AsyncpgPoolDriver(self._pool)), channel=_SETTINGS.channel
            )
            manager.entrypoint(_WORK, concurrency_limit=AT_ONCE, on_failure="hold")(self._one)
            try:
                await manager.run(dequeue_timeout=timedelta(seconds=10), shutdown_on_listener_failure=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, work goes on afterwards
                log.warning("jobs of tools stopped; they start again", error=type(error).__name__)
            if not self._closing:
                await asyncio.sleep(RESTART_S)

    async def _one(self, job: QueuedJob) -> None:
        named = json.loads(job.payload or b"{}")
        try:
            again_s = await self._work(named["holder"], UUID(named["job"]))
        except Exception as error:  # noqa: BLE001 - the row says what is left to do: it is read again
            log.warning("job of a tool not done", job=named["job"], error=type(error).__name__)
            again_s = AGAIN_S
        if again_s is not None:
            raise RetryRequested(timedelta(seconds=again_s), "NOT_YET")
