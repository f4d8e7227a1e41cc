"""The last messages of a session, as a prompt gets them."""

from __future__ import annotations

from typing import Final

import asyncpg
from indai.runtime.conversations.keeping import last_summary
from indai.runtime.conversations.rows import seeing
from indai.runtime.conversations.values import Turn
from indai.runtime.prompt import MAX_HISTORY, Said

MAX_SHOWN: Final = 4_000

_LAST = """
    SELECT outgoing, text, untrusted FROM (
        SELECT m.place, m.outgoing, m.text,
               coalesce((t.trace->>'untrusted')::boolean, false) AS untrusted
        FROM runtime.messages m LEFT JOIN runtime.turns t ON t.id = m.turn
        WHERE m.session = $1 AND m.place < (SELECT place FROM runtime.messages WHERE id = $2)
          AND m.text <> ''
          AND (m.segment = $4 OR NOT coalesce((t.trace->>'untrusted')::boolean, false))
        ORDER BY m.place DESC LIMIT $3
    ) newest ORDER BY place
"""


async def history(pool: asyncpg.Pool, turn: Turn) -> tuple[tuple[Said, ...], bool, str]:
    """Oldest first, those before the message that is answered now; whether an answer among them came of
    reading outsiders: what they wrote may speak through it; and what the segment before this one was about.
    After a long silence answers of outsiders are left out.
    """
    async with seeing(pool, [turn.owner]) as connection:
        rows = await connection.fetch(_LAST, turn.session.id, turn.message, MAX_HISTORY, turn.session.segment)
        before = await last_summary(connection, turn.session.id, turn.session.segment)
    said = tuple(Said("agent" if row["outgoing"] else "user", row["text"][:MAX_SHOWN]) for row in rows)
    return said, any(row["untrusted"] for row in rows), before
