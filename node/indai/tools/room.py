"""How much an owner's receipts and exports, sent as files of chats, take up on a node's disk.

Each is kept for thirty days, and its size is up to whoever asks for it again and again: together they have a
limit for an owner. What goes with a deal (an invitation, a code to pay by) is small, and never held back.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
from indai.protocol.errors import Reason, Refused
from indai.storage.pool import transaction

MOST_BYTES: Final = 200 * 1024 * 1024
"""Ten of the largest."""
DAY_MS: Final = 86_400_000
KEPT_MS: Final = 30 * DAY_MS

Room = Callable[[str, bytes], Awaitable[None]]
"""Makes room for a file of an owner's, or raises Refused(RATE_LIMITED)."""


async def unlimited(_: str, __: bytes) -> None:
    """Where nobody counts."""


def room(pool: asyncpg.Pool, clock: Callable[[], int], most_bytes: int = MOST_BYTES) -> Room:
    """Counts them in `tools.given_files`; the very same file counts once."""

    async def take(holder: str, content: bytes) -> None:
        digest = await asyncio.to_thread(lambda: hashlib.sha256(content).digest())
        now_ms = clock()
        async with transaction(pool, (holder,)) as connection:
            # Of several at once each sees those before it.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 20261124))", holder)
            await connection.execute(
                "DELETE FROM tools.given_files WHERE holder = $1 AND given_ms <= $2", holder, now_ms - KEPT_MS
            )
            used, oldest_ms = await connection.fetchrow(
                "SELECT coalesce(sum(size), 0)::bigint, min(given_ms) FROM tools.given_files"
                " WHERE holder = $1 AND digest <> $2",
                holder,
                digest,
            )
            if used + len(content) > most_bytes:
                raise _full(used, most_bytes, oldest_ms, now_ms)
            await connection.execute(
                "INSERT INTO tools.given_files (holder, digest, size, given_ms) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (holder, digest) DO UPDATE SET given_ms = excluded.given_ms",
                holder,
                digest,
                len(content),
                now_ms,
            )

    return take


def _full(used: int, most: int, oldest_ms: int | None, now_ms: int) -> Refused:
    days = 1 if oldest_ms is None else max(1, -(-(oldest_ms + KEPT_MS - now_ms) // DAY_MS))
    return Refused(
        Reason.RATE_LIMITED,
        f"Your receipts and exports of the last 30 days take up {used >> 20} of {most >> 20} MB; "
        f"there is room again in {days} {'day' if days == 1 else 'days'}.",
        hint="your node writes them at once: indai ledger export",
    )
