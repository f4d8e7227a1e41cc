"""One process at a time hands on and sends; others take webhooks, and stand by.

Who leads holds a lock of the database's session: it falls with the process or the connection, and nothing
else need be cleaned up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
import structlog
from indai.client.tasks import end_tasks
from indai.edge.stopping import is_stopped
from indai.protocol.errors import IndaiError
from indai.storage.pool import translate_errors

_KEY: Final = 0x696E6461_65
RETRY_S: Final = 1.0

log = structlog.get_logger(__name__)


async def lead(pool: asyncpg.Pool, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` whenever this process leads. Runs until it is cancelled."""
    while not is_stopped():
        try:
            await _once(pool, work)
        except IndaiError as error:
            log.warning("the channels wait for the database", reason=error.reason.name)
        except Exception:
            # Webhooks are still taken: what came must not lie there until a restart.
            log.exception("the channels have failed, and begin again")
        await asyncio.sleep(RETRY_S)


async def _once(pool: asyncpg.Pool, work: Callable[[], Awaitable[None]]) -> None:
    with translate_errors():
        async with pool.acquire(timeout=10) as connection:
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _KEY):
                return
            lost = asyncio.Event()
            ended = lambda _: lost.set()  # noqa: E731
            connection.add_termination_listener(ended)
            try:
                await _until(work, lost)
            finally:
                connection.remove_termination_listener(ended)
                if not connection.is_closed():
                    await connection.execute("SELECT pg_advisory_unlock($1)", _KEY)


async def _until(work: Callable[[], Awaitable[None]], lost: asyncio.Event) -> None:
    """Work until the lock is lost."""
    working = asyncio.ensure_future(work())
    waiting = asyncio.ensure_future(lost.wait())
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        await end_tasks(working, waiting)
