"""What other processes tell through Postgres (LISTEN, NOTIFY): one connection for all that a process hears.

A lost connection hears nothing, and Postgres keeps nothing for it: whoever listens is told when it is deaf,
and when it hears again, so that what was told meanwhile is looked up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import structlog
from indai.protocol.errors import IndaiError
from indai.storage.pool import translate_errors

AGAIN_S: Final = (0.1, 0.5, 2.0, 5.0)
"""Between tries to listen again; the last one lasts."""

ACQUIRE_S: Final = 10.0

log = structlog.get_logger(__name__)


def _nothing() -> None:
    """Where being deaf, or hearing again, changes nothing."""


@dataclass(frozen=True, slots=True)
class Listener:
    """`told` gets a payload; `deaf` and `again` are called when the connection is lost and back. None of them
    may block or raise."""

    channel: str
    told: Callable[[str], None]
    deaf: Callable[[], None] = _nothing
    again: Callable[[], None] = _nothing


class Hearing:
    """See the module. `async with`: from then on what is told is heard."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._listeners: list[Listener] = []
        self._connection: asyncpg.Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Hearing:
        connection, lost = await self._open()
        self._task = asyncio.create_task(self._keep(connection, lost))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def add(self, listener: Listener) -> None:
        """One more; from the return on it hears, or has been told that it is deaf."""
        self._listeners.append(listener)
        try:
            if self._connection is not None:
                await self._connection.add_listener(listener.channel, self._told)
                return
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass  # lost at this moment: the others are told so, too
        listener.deaf()

    async def _open(self) -> tuple[asyncpg.Connection, asyncio.Event]:
        """A connection that listens, and what is set when it is lost. Raises IndaiError."""
        with translate_errors():
            connection = await self._pool.acquire(timeout=ACQUIRE_S)
            try:
                lost = asyncio.Event()
                connection.add_termination_listener(lambda _: lost.set())
                for channel in dict.fromkeys(each.channel for each in self._listeners):
                    await connection.add_listener(channel, self._told)
            except BaseException:
                await self._let_go(connection)
                raise
        self._connection = connection
        return connection, lost

    async def _keep(self, connection: asyncpg.Connection, lost: asyncio.Event) -> None:
        while True:
            try:
                await lost.wait()
            finally:
                self._connection = None
                await self._let_go(connection)
            log.warning("what other processes tell is not heard")
            for each in self._listeners:
                each.deaf()
            connection, lost = await self._reopened()
            for each in self._listeners:
                each.again()

    async def _reopened(self) -> tuple[asyncpg.Connection, asyncio.Event]:
        tries = 0
        while True:
            await asyncio.sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
            try:
                return await self._open()
            except IndaiError:
                tries += 1

    async def _let_go(self, connection: asyncpg.Connection) -> None:
        """Back to the pool, hearing nothing."""
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            for channel in dict.fromkeys(each.channel for each in self._listeners):
                await connection.remove_listener(channel, self._told)
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await self._pool.release(connection)

    def _told(self, _: Any, __: int, channel: str, payload: str) -> None:
        for each in self._listeners:
            if each.channel == channel:
                each.told(payload)
