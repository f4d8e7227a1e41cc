"""Durable background work on PgQueuer: enqueued in the transaction that makes it necessary.

A payload names a scope and a session by id and places in it; what is there is read when the job runs. So what
was forgotten in between is not in any job, and running one twice changes nothing. Work that fails for good
stays in the queue as `failed`, where ListJobs shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import asyncpg
import structlog
from indai.protocol.errors import IndaiError, Reason
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.domain.settings import DBSettings
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job as QueuedJob
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

MAX_ATTEMPTS = 8
RESTART_S = 1.0
_TRANSIENT = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "RESOURCE_EXHAUSTED")
_SETTINGS = DBSettings(db_schema="memory")

log = structlog.get_logger(__name__)


class Task(StrEnum):
    """Kinds of work."""

    EXTRACT = "extract"
    EMBED = "embed"
    CONSOLIDATE = "consolidate"
    PROMOTE = "promote"


@dataclass(frozen=True, slots=True)
class Job:
    """What to do where. `first` and `last`: places in the session. `delay_s`: not before. `once`: not while
    the
    same waits already."""

    task: Task
    scope: UUID
    session: UUID | None = None
    first: int = 0
    last: int = 0
    delay_s: float = 0.0
    once: bool = False

    @property
    def payload(self) -> bytes:
        """What is stored."""
        value = {
            "scope": str(self.scope),
            "session": str(self.session or ""),
            "first": self.first,
            "last": self.last,
        }
        return json.dumps(value).encode()

    @classmethod
    def parse(cls, task: str, payload: bytes | None) -> Job:
        """The job of a payload."""
        value = json.loads(payload or b"{}")
        session = UUID(value["session"]) if value["session"] else None
        return cls(Task(task), UUID(value["scope"]), session, value["first"], value["last"])


class NotYet(Exception):
    """A handler's word that its time has not come: again after so many seconds."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(f"in {delay_s} s")
        self.delay_s = delay_s


class Failed(Exception):
    """What is recorded of a failure: the reason's name, never a text that could hold content."""


Handler = Callable[[Job], Awaitable[None]]


def _queries(driver: Any) -> Queries:
    return Queries(
        driver,
        qbe=QueryBuilderEnvironment(_SETTINGS),
        qbq=QueryQueueBuilder(_SETTINGS),
        qbs=QuerySchedulerBuilder(_SETTINGS),
    )


async def enqueue(connection: asyncpg.Connection, jobs: Sequence[Job]) -> None:
    """Put jobs into the queue, in the caller's transaction."""
    if not jobs:
        return
    await _queries(AsyncpgDriver(connection)).enqueue(
        [job.task.value for job in jobs],
        [job.payload for job in jobs],
        [1 if job.task is Task.EXTRACT else 0 for job in jobs],
        [timedelta(seconds=job.delay_s) for job in jobs],
        [f"{job.task}:{job.scope}:{job.session or ''}" if job.once else None for job in jobs],
        [{"scope": str(job.scope), "session": str(job.session or "")} for job in jobs],
        on_conflict="skip",
    )


class Worker:
    """Runs jobs until it is closed; a lost database is waited for."""

    def __init__(self, pool: asyncpg.Pool, handlers: Mapping[Task, Handler], retry_s: float = 5.0) -> None:
        self._pool = pool
        self._handlers = handlers
        self._retry_s = retry_s
        self._task: asyncio.Task[None] | None = None
        self._manager: QueueManager | None = None
        self._closing = False

    def start(self) -> None:
        """Begin to work."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop after the jobs that run; what is cut off comes again at the next start."""
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
            manager = self._manager = self._managed()
            try:
                await manager.run(dequeue_timeout=timedelta(seconds=10), shutdown_on_listener_failure=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, work goes on afterwards
                log.warning("memory jobs stopped; they start again", error=type(error).__name__)
            if not self._closing:
                await asyncio.sleep(RESTART_S)

    def _managed(self) -> QueueManager:
        manager = QueueManager(_queries(AsyncpgPoolDriver(self._pool)), channel=_SETTINGS.channel)
        for task, handler in self._handlers.items():
            limit = 1 if task is Task.EMBED else 4
            manager.entrypoint(task.value, concurrency_limit=limit, on_failure="hold")(
                self._guarded(task, handler)
            )
        return manager

    def _guarded(self, task: Task, handler: Handler) -> Callable[[QueuedJob], Awaitable[None]]:
        async def work(job: QueuedJob) -> None:
            try:
                await handler(Job.parse(task.value, job.payload))
            except NotYet as later:
                raise RetryRequested(timedelta(seconds=later.delay_s), "NOT_YET") from None
            except Exception as error:  # noqa: BLE001 - the boundary: the queue keeps a reason
                reason = error.reason if isinstance(error, IndaiError) else Reason.INTERNAL
                if reason.status.grpc in _TRANSIENT and job.attempts < MAX_ATTEMPTS:
                    raise RetryRequested(
                        timedelta(seconds=self._retry_s * 2**job.attempts), reason.name
                    ) from None
                # An unforeseen error's text may hold what was remembered: its kind has to do.
                kind = type(error).__name__
                log.error(
                    "memory job failed", task=task.value, job=int(job.id), reason=reason.name, error=kind
                )
                raise Failed(reason.name) from None

        return work
