"""A connection kept apart for those who must not wait behind others for one: webhooks, beside answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import asyncpg


class Reserved:
    """Takes the place of a pool for one user at a time; an async context manager."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._connection: Any = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._give_back()

    @asynccontextmanager
    async def acquire(self, *, timeout: float) -> AsyncIterator[Any]:  # noqa: ASYNC109 - as a pool has it
        """The connection; another one if it was lost."""
        if self._connection is None or _is_lost(self._connection):
            await self._give_back()
            self._connection = await self._pool.acquire(timeout=timeout)
        yield self._connection

    async def _give_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(asyncpg.InterfaceError):  # the pool has taken it back by itself
                await self._pool.release(connection)


def _is_lost(connection: Any) -> bool:
    """A connection that broke is the pool's again, and answers nothing any more."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True
