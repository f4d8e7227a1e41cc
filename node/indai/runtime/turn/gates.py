"""Gates before anything is thought: a paused tenant, binding or owner, and the caps of a day.

An owner who has paused their agent so that it takes on nothing new is there for themselves alone: whoever
else writes or calls hears so, in one sentence, before anything is looked up for them.

What is counted is a turn: one message that was answered, whatever its tools and models did for it.
Background work is free.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.runtime.bindings import Bindings
from indai.runtime.composed import Composed
from indai.runtime.conversations.rows import seeing
from indai.runtime.conversations.values import Place, Turn
from indai.runtime.words import say

_TODAY = """
    SELECT count(*) AS messages, coalesce(sum(t.cost_micros), 0)::bigint AS cost
    FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session
    WHERE t.owner = $1 AND s.tenant = $2 AND s.binding = $3 AND t.id <> $4
      AND t.accepted_at >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
      AND t.ending IN ('answered', 'degraded')
"""


@dataclass(frozen=True, slots=True)
class Shut:
    """Why there is no answer, in words and for machines."""

    words: str
    reason: str


Refuses = Callable[[str], Awaitable[bool]]
"""Whether the owner of a handle takes on nothing new now."""


async def never(_: str) -> bool:
    """Where nobody pauses."""
    return False


async def shut(
    pool: asyncpg.Pool, bindings: Bindings, refuses: Refuses, turn: Turn, composed: Composed, language: str
) -> Shut | None:
    """None where the way is open."""
    place = turn.session.place
    if place.door != "private" and place.handle and await refuses(place.handle):
        return Shut(say("paused", language, name=composed.human.name), "PAUSED")
    if not composed.binding.active or await bindings.is_paused(place.tenant):
        return Shut(say("paused", language, name=composed.human.name), "PAUSED")
    caps = composed.agent.caps
    if caps.messages_per_day is None and caps.cost_micros_per_day is None:
        return None
    messages, cost = await _today(pool, place, turn)
    full = caps.messages_per_day is not None and messages >= caps.messages_per_day
    spent = caps.cost_micros_per_day is not None and cost >= caps.cost_micros_per_day
    return Shut(say("quota", language), "QUOTA_EXCEEDED") if full or spent else None


async def spent_today(pool: asyncpg.Pool, owner: str, binding: str, composed: Composed) -> bool:
    """Whether an owner's agent has used up the money of its day."""
    most = composed.agent.caps.cost_micros_per_day
    if most is None:
        return False
    async with seeing(pool, [owner]) as connection:
        row = await connection.fetchrow(_TODAY, owner, "personal", binding, UUID(int=0))
    return bool(row["cost"] >= most)


async def _today(pool: asyncpg.Pool, place: Place, turn: Turn) -> tuple[int, int]:
    async with seeing(pool, [place.owner]) as connection:
        row = await connection.fetchrow(_TODAY, place.owner, place.tenant, place.binding, turn.id)
    return row["messages"], row["cost"]
