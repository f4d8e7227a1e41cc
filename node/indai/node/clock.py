"""The node's clock: the database's, so that every process over one database agrees on what is late.

Between readings the machine's monotonic clock carries it, so a jump of the wall clock changes nothing. A
reading is as old as its answer was long on its way, so it only says between which bounds the clock lies
(F. Cristian, Probabilistic clock synchronization, 1989): within them it stays as it was. Taken as it comes, a
slow answer would put the clock back, and what others have just dated would lie in the future.
"""

from __future__ import annotations

import os
import time

import asyncpg
from indai.storage.pool import translate_errors

# Tests set a node's clock off by this many ms, to see what its peers make of it.
_SKEW_MS = int(os.environ.get("INDAI_CLOCK_SKEW_MS", "0"))


class DatabaseClock:
    """Milliseconds since the epoch, by the last reading of the database's clock."""

    def __init__(self, reading_ms: int, asked_ms: int | None = None) -> None:
        self._offset = -(1 << 62)  # until the first reading
        self.read(reading_ms, asked_ms)

    @classmethod
    async def start(cls, pool: asyncpg.Pool) -> DatabaseClock:
        """One reading to begin with."""
        asked = _monotonic_ms()
        with translate_errors():
            said = await pool.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        return cls(said, asked)

    @staticmethod
    def asking() -> int:
        """What `read` wants to know of a question that begins now: ms of the monotonic clock."""
        return _monotonic_ms()

    def read(self, reading_ms: int, asked_ms: int | None = None) -> None:
        """The database said this since it was asked at that moment of `asking`, else just now."""
        now = _monotonic_ms()
        least = reading_ms + _SKEW_MS - now
        most = reading_ms + _SKEW_MS - (now if asked_ms is None else asked_ms)
        self._offset = min(max(self._offset, least), most)

    def __call__(self) -> int:
        return _monotonic_ms() + self._offset


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
