"""Group commit: many callers wait, one transaction serves them.

While one batch commits, the next one gathers, so a batch is as large as the load makes it and nobody waits
for a timer. An answer is given only after COMMIT. A connection lost at COMMIT leaves the outcome unknown: it
is looked up, never tried again blindly. A batch that fails for a reason of its own is halved until the guilty
item stands alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

import asyncpg
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.storage.pool import transaction
from indai.tlog.append import Appended, Entry, Writer, append, settle

MAX_BATCH = 256
MAX_WAITING = 4096
_LOOK_UP_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)


class Owned(Protocol):
    """What a group commit takes: something whose owner's rows its transaction must see."""

    @property
    def owner(self) -> str: ...


Item = TypeVar("Item", bound=Owned)
Result = TypeVar("Result")
Write = Callable[[asyncpg.Connection, Sequence[Item]], Awaitable[Sequence[Result | IndaiError]]]
LookUp = Callable[[asyncpg.Connection, Sequence[Item]], Awaitable[Sequence[Result | None]]]


@dataclass(slots=True)
class _Waiting(Generic[Item, Result]):
    item: Item
    answer: asyncio.Future[Result] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit(Generic[Item, Result]):
    """Commits items in batches. `async with GroupCommit(...) as group: result = await group.submit(item)`.

    `write` does a batch's work in one transaction and answers one result, or one error for its caller, per
    item; `look_up` says what a former attempt committed for each item, None for nothing, and waits for one
    still under way.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        write: Write[Item, Result],
        look_up: LookUp[Item, Result],
        *,
        max_batch: int = MAX_BATCH,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._pool = pool
        self._write = write
        self._look_up = look_up
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._queue: deque[_Waiting[Item, Result]] = deque()
        self._filled = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._closed: IndaiError | None = None

    async def __aenter__(self) -> Self:
        self._worker = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Take no more, commit what waits, and end."""
        if self._closed is None:
            self._closed = _stopping()
        self._filled.set()
        if self._worker is not None:
            await self._worker
            self._worker = None

    async def submit(self, item: Item) -> Result:
        """The item's result, after COMMIT.

        Raises Unavailable (RATE_LIMITED) when too many wait already, whatever `write` raised or answered for
        it, and Unavailable with metadata `outcome: unknown` when its outcome can't be told.
        """
        if self._closed is not None:
            raise self._closed
        if len(self._queue) >= self._max_waiting:
            raise Unavailable(
                Reason.RATE_LIMITED, "The log has too many appends waiting.", hint="Try again in a moment."
            )
        waiting: _Waiting[Item, Result] = _Waiting(item)
        self._queue.append(waiting)
        self._filled.set()
        return await waiting.answer

    async def _run(self) -> None:
        while self._queue or self._closed is None:
            if not self._queue:
                self._filled.clear()
                await self._filled.wait()
                continue
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), self._max_batch))]
            await self._commit(batch)

    async def _commit(self, batch: list[_Waiting[Item, Result]]) -> None:
        items = [waiting.item for waiting in batch]
        try:
            async with transaction(self._pool, sorted({item.owner for item in items})) as connection:
                results = await self._write(connection, items)
        except Unavailable as error:
            await self._answer_lost(batch, error)
        except Exception as error:  # noqa: BLE001 - its caller's; the worker must live
            await self._answer_failed(batch, error)
        else:
            for waiting, result in zip(batch, results, strict=True):
                _answer(waiting, result)

    async def _answer_lost(self, batch: list[_Waiting[Item, Result]], error: Unavailable) -> None:
        """The database may or may not have committed: ask it."""
        items = [waiting.item for waiting in batch]
        known = await self._known(items)
        if known is None:
            error.metadata["outcome"] = "unknown"
            known = [None] * len(items)
        for waiting, result in zip(batch, known, strict=True):
            _answer(waiting, error if result is None else result)

    async def _known(self, items: Sequence[Item]) -> Sequence[Result | None] | None:
        for pause in _LOOK_UP_PAUSES_S:
            try:
                async with transaction(self._pool, sorted({item.owner for item in items})) as connection:
                    return await self._look_up(connection, items)
            except IndaiError:
                await asyncio.sleep(pause)
        return None

    async def _answer_failed(self, batch: list[_Waiting[Item, Result]], error: Exception) -> None:
        if isinstance(error, IndaiError) and error.reason is Reason.LOG_FENCED:
            self._closed = error  # for good: whoever took the log has it
        elif len(batch) > 1:
            middle = len(batch) // 2
            await self._commit(batch[:middle])
            await self._commit(batch[middle:])
            return
        for waiting in batch:
            _answer(waiting, error)


class Sequencer(GroupCommit[Entry, Appended]):
    """Appends entries one by one for callers that wait: `await sequencer.submit(entry)`."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        writer: Writer,
        *,
        max_batch: int = MAX_BATCH,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        async def write(connection: asyncpg.Connection, entries: Sequence[Entry]) -> list[Appended]:
            return await append(connection, writer, entries)

        async def look_up(connection: asyncpg.Connection, entries: Sequence[Entry]) -> list[Appended | None]:
            return await settle(connection, writer.log, entries)

        super().__init__(pool, write, look_up, max_batch=max_batch, max_waiting=max_waiting)


def _answer(waiting: _Waiting[Item, Result], result: Result | Exception) -> None:
    if waiting.answer.done():  # its caller was cancelled
        return
    if isinstance(result, Exception):
        waiting.answer.set_exception(result)
    else:
        waiting.answer.set_result(result)


def _stopping() -> Unavailable:
    return Unavailable(Reason.UNREACHABLE, "The log is stopping.", hint="Try again in a moment.")
