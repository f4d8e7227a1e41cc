"""Durable background work: enqueued in the transaction that makes it necessary.

A payload names a scope and a session by id and places in it; what is there is read when the job runs. So what
was forgotten in between is not in any job. Work that fails for good stays in the queue as `failed`, where
ListJobs shows it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

import asyncpg
import structlog
from indai.protocol.errors import IndaiError, Reason
from indai.storage.queue import Queue, Worker
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job as QueuedJob
from pgqueuer.qm import QueueManager

MAX_ATTEMPTS = 8
_TRANSIENT = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "RESOURCE_EXHAUSTED")
_QUEUE = Queue("memory", "ch_pgqueuer")

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


async def enqueue(connection: asyncpg.Connection, jobs: Sequence[Job]) -> None:
    """Put jobs into the queue, in the caller's transaction."""
    if not jobs:
        return
    await _QUEUE.within(connection).enqueue(
        [job.task.value for job in jobs],
        [job.payload for job in jobs],
        [1 if job.task is Task.EXTRACT else 0 for job in jobs],
        [timedelta(seconds=job.delay_s) for job in jobs],
        [f"{job.task}:{job.scope}:{job.session or ''}" if job.once else None for job in jobs],
        [{"scope": str(job.scope), "session": str(job.session or "")} for job in jobs],
        on_conflict="skip",
    )


async def wake(connection: asyncpg.Connection) -> None:
    """The workers look again when the caller's transaction commits."""
    await _QUEUE.wake(connection)


def make_worker(pool: asyncpg.Pool, handlers: Mapping[Task, Handler], retry_s: float = 5.0) -> Worker:
    """Does the jobs while it runs."""

    def handle(manager: QueueManager) -> None:
        for task, handler in handlers.items():
            limit = 1 if task is Task.EMBED else 4
            manager.entrypoint(task.value, concurrency_limit=limit, on_failure="hold")(
                _guarded(task, handler, retry_s)
            )

    return Worker(pool, _QUEUE, handle)


def _guarded(task: Task, handler: Handler, retry_s: float) -> Callable[[QueuedJob], Awaitable[None]]:
    async def work(job: QueuedJob) -> None:
        try:
            await handler(Job.parse(task.value, job.payload))
        except NotYet as later:
            raise RetryRequested(timedelta(seconds=later.delay_s), "NOT_YET") from None
        except Exception as error:  # noqa: BLE001 - the boundary: the queue keeps a reason
            reason = error.reason if isinstance(error, IndaiError) else Reason.INTERNAL
            if reason.status.grpc in _TRANSIENT and job.attempts < MAX_ATTEMPTS:
                raise RetryRequested(timedelta(seconds=retry_s * 2**job.attempts), reason.name) from None
            # An unforeseen error's text may hold what was remembered: its kind has to do.
            kind = type(error).__name__
            log.error("memory job failed", task=task.value, job=int(job.id), reason=reason.name, error=kind)
            raise Failed(reason.name) from None

    return work
