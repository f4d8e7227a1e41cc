"""The last messages of a session, as a prompt gets them."""

from __future__ import annotations

from typing import Final

import asyncpg
from indai.runtime.conversations.rows import seeing
from indai.runtime.conversations.values import Turn
from indai.runtime.prompt import MAX_HISTORY, Said

MAX_SHOWN: Final = 4_000

_LAST = """
    SELECT outgoing, text FROM (
        SELECT place, outgoing, text FROM runtime.messages
        WHERE session = $1 AND place < (SELECT place FROM runtime.messages WHERE id = $2) AND text <> ''
        ORDER BY place DESC LIMIT $3
    ) newest ORDER BY place
"""


async def history(pool: asyncpg.Pool, turn: Turn) -> tuple[Said, ...]:
    """Oldest first; those before the message that is answered now."""
    async with seeing(pool, [turn.owner]) as connection:
        rows = await connection.fetch(_LAST, turn.session.id, turn.message, MAX_HISTORY)
    return tuple(Said("agent" if row["outgoing"] else "user", row["text"][:MAX_SHOWN]) for row in rows)
