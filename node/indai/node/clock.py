"""The node's clock: the database's, so that every process over one database agrees on what is late.

Between readings the machine's monotonic clock carries it, so a jump of the wall clock changes nothing.
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

    def __init__(self, reading_ms: int) -> None:
        self._offset = 0
        self.read(reading_ms)

    @classmethod
    async def start(cls, pool: asyncpg.Pool) -> DatabaseClock:
        """One reading to begin with."""
        with translate_errors():
            return cls(await pool.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))

    def read(self, reading_ms: int) -> None:
        """The database said this just now."""
        self._offset = reading_ms + _SKEW_MS - _monotonic_ms()

    def __call__(self) -> int:
        return _monotonic_ms() + self._offset


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
