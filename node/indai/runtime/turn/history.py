"""The last messages of a session, as a prompt gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import asyncpg
from indai.runtime.conversations.values import Turn
from indai.runtime.prompt import MAX_HISTORY, Said
from indai.storage.pool import one_trip

MAX_SHOWN: Final = 4_000

_LAST = "SELECT * FROM runtime.said_before($1, $2, $3, $4, $5)"


@dataclass(frozen=True, slots=True)
class Before:
    """What was before this message. `said`: oldest first; `tainted`: an answer among them came of reading
    outsiders, who may speak through it; `summary`: what the segment before was about."""

    said: tuple[Said, ...]
    tainted: bool
    summary: str = ""


async def history(pool: asyncpg.Pool, turn: Turn) -> Before:
    """After a long silence answers that came of reading outsiders are left out."""
    session = turn.session
    (row,) = await one_trip(pool, _LAST, turn.owner, session.id, turn.message, session.segment, MAX_HISTORY)
    pairs = zip(row["outgoing"] or (), row["texts"] or (), strict=True)
    said = tuple(Said("agent" if ours else "user", text[:MAX_SHOWN]) for ours, text in pairs)
    return Before(said, any(row["untrusted"] or ()), row["summary"] or "")
