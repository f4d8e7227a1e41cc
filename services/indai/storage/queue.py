"""PgQueuer in a schema of its own: work is enqueued in the transaction that makes it necessary, and done by
one of the processes that wait for it.

Chosen for that: it is native to asyncpg, leases jobs, and wakes workers by NOTIFY instead of polling
(https://pgqueuer.readthedocs.io). Running a job twice must change nothing, since a process that dies in the
middle is followed by one that does it again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import structlog
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.domain.settings import DBSettings
from pgqueuer.models import Channel, Job, TableChangedEvent, TracebackRecord
from pgqueuer.ports.driver import NotifyCallback
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

RESTART_S: Final = 1.0
LOOK_S: Final = 10.0  # a worker that nobody woke looks for work that another one left behind
STOP_S: Final = 5.0

log = structlog.get_logger(__name__)


class _Queries(Queries):
    """PgQueuer's, and a job that is put back is known at once: a worker that saw none but running ones sleeps
    until it is told."""

    async def retry_job(self, job: Job, delay: timedelta, traceback_record: TracebackRecord | None) -> None:
        await super().retry_job(job, delay, traceback_record)
        await self.driver.notify(self.qbq.settings.channel, _changed(self.qbq.settings))


def _changed(settings: DBSettings) -> str:
    """What the trigger of the queue's table says."""
    return TableChangedEvent(
        channel=settings.channel,
        sent_at=datetime.now(UTC),
        type="table_changed_event",
        operation="update",
        table=settings.queue_table,
    ).model_dump_json()


class Queue:
    """The tables of one schema, and the channel that wakes its workers."""

    def __init__(self, schema: str, channel: str) -> None:
        self.schema = schema
        self._settings = DBSettings(db_schema=schema, channel=Channel(channel))

    def within(self, connection: asyncpg.Connection) -> Queries:
        """What enqueues in the caller's transaction."""
        return self._queries(AsyncpgDriver(connection))

    def manager(self, pool: asyncpg.Pool) -> QueueManager:
        """What takes jobs, once it knows who does them."""
        return QueueManager(self._queries(Listening(pool)), channel=self._settings.channel)

    async def wake(self, connection: asyncpg.Connection) -> None:
        """Tell the workers, when the caller's transaction commits, that jobs wait which were there before:
        the table's own trigger tells of new rows only, and a worker without work looks again in a while."""
        await self.within(connection).driver.notify(self._settings.channel, _changed(self._settings))

    def _queries(self, driver: Any) -> Queries:
        return _Queries(
            driver,
            qbe=QueryBuilderEnvironment(self._settings),
            qbq=QueryQueueBuilder(self._settings),
            qbs=QuerySchedulerBuilder(self._settings),
        )


class Listening(AsyncpgPoolDriver):
    """A manager's connections, which tell nothing before they listen.

    PgQueuer 1.6 probes its listener from one task while another still sends LISTEN, over two connections. A
    probe that Postgres saw first was heard by nobody: ten seconds later the manager gave its listener up for
    lost and stopped (9 of 40 starts, measured).
    """

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self._listens = asyncio.Event()

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """From its return on, what is told is heard."""
        await super().add_listener(channel, callback)
        self._listens.set()

    async def notify(self, channel: str, payload: str) -> None:
        """Tell, once somebody listens; only the manager's own tasks do, and they end with it."""
        await self._listens.wait()
        await super().notify(channel, payload)


class Worker:
    """Takes jobs until it is closed; a lost database is waited for. `handle` names who does which."""

    def __init__(self, pool: asyncpg.Pool, queue: Queue, handle: Callable[[QueueManager], None]) -> None:
        self._pool, self._queue, self._handle = pool, queue, handle
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
        done, _ = await asyncio.wait({self._task}, timeout=STOP_S)
        if not done:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while not self._closing:
            manager = self._manager = self._queue.manager(self._pool)
            self._handle(manager)
            try:
                await manager.run(
                    dequeue_timeout=timedelta(seconds=LOOK_S), shutdown_on_listener_failure=True
                )
            except Exception as error:  # noqa: BLE001 - whatever it is, work goes on afterwards
                log.warning(
                    "jobs stopped; they start again", of=self._queue.schema, error=type(error).__name__
                )
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError  # what failed while it ended hid that it was to end
            if not self._closing:
                await asyncio.sleep(RESTART_S)
