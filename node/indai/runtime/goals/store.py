"""Goals, what was done for them, and gates, in Postgres. Every statement sees one owner's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.runtime.goals.values import Gates, Goal
from indai.storage.pool import one_trip, transaction

MOST: Final = 100
"""Goals of one owner."""
_COLUMNS: Final = (
    "id, owner, kind, person, words, every_ms, minutes, may_act, paused, due_ms, look_ms, created_ms"
)
_INSERT = f"""
    INSERT INTO runtime.goals ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (id) DO NOTHING
"""  # noqa: S608 - constants
_BEGIN = """
    INSERT INTO runtime.goal_acts (id, owner, goal, did, words, thread, at_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (id) DO UPDATE SET did = EXCLUDED.did, words = EXCLUDED.words, at_ms = EXCLUDED.at_ms
    WHERE goal_acts.did IN ('held', 'begun')
"""


class GoalStore:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def add(self, goal: Goal) -> Goal:
        """Store it, or find the one that was stored under its id. Raises Refused for more than `MOST`."""
        async with transaction(self._pool, (goal.owner,)) as connection:
            await connection.execute(
                "INSERT INTO runtime.goal_owners (owner) VALUES ($1) ON CONFLICT DO NOTHING", goal.owner
            )
            # Two at once wait for each other here, so that the count holds.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 7))", goal.owner)
            count = await connection.fetchval(
                "SELECT count(*) FROM runtime.goals WHERE owner = $1", goal.owner
            )
            known = await connection.fetchrow("SELECT * FROM runtime.goals WHERE id = $1", goal.id)
            if known is None and count >= MOST:
                raise Refused(
                    Reason.RATE_LIMITED,
                    f"You have {MOST} goals already.",
                    hint="remove one: indai goal remove",
                )
            await connection.execute(_INSERT, *(getattr(goal, name) for name in _COLUMNS.split(", ")))
            row = known or await connection.fetchrow("SELECT * FROM runtime.goals WHERE id = $1", goal.id)
        return _goal(row)

    async def listed(self, owner: str, after: tuple[int, UUID] | None, limit: int) -> list[Goal]:
        """Oldest first."""
        async with transaction(self._pool, (owner,)) as connection:
            rows = await connection.fetch(
                "SELECT * FROM runtime.goals WHERE owner = $1"
                " AND ($2::bigint IS NULL OR (created_ms, id) > ($2, $3)) ORDER BY created_ms, id LIMIT $4",
                owner,
                *(after or (None, None)),
                limit,
            )
        return [_goal(row) for row in rows]

    async def change(self, owner: str, goal: UUID, paused: bool | None, may_act: bool | None) -> Goal:
        """Raises NotFound."""
        async with transaction(self._pool, (owner,)) as connection:
            row = await connection.fetchrow(
                "UPDATE runtime.goals SET paused = coalesce($3, paused), may_act = coalesce($4, may_act)"
                " WHERE owner = $1 AND id = $2 RETURNING *",
                owner,
                goal,
                paused,
                may_act,
            )
            if row is not None and row["may_act"] and row["kind"] != "meet":
                raise InvalidInput(  # and nothing of it is kept
                    Reason.INVALID_ARGUMENT, "Only for a meeting can the agent do something by itself."
                )
        if row is None:
            raise _no_goal()
        return _goal(row)

    async def remove(self, owner: str, goal: UUID) -> None:
        """With what it did. Raises NotFound."""
        async with transaction(self._pool, (owner,)) as connection:
            row = await connection.fetchrow(
                "DELETE FROM runtime.goals WHERE owner = $1 AND id = $2 RETURNING id", owner, goal
            )
        if row is None:
            raise _no_goal()

    async def owners(self) -> list[str]:
        """All that ever had a goal."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch("SELECT owner FROM runtime.goal_owners ORDER BY owner")
        return [row["owner"] for row in rows]

    async def due(self, owner: str, now_ms: int) -> list[Goal]:
        """What is to be looked at, the longest overdue first."""
        async with transaction(self._pool, (owner,)) as connection:
            rows = await connection.fetch(
                "SELECT * FROM runtime.goals WHERE owner = $1 AND NOT paused AND look_ms <= $2"
                " ORDER BY look_ms, id",
                owner,
                now_ms,
            )
        return [_goal(row) for row in rows]

    async def note(self, goal: Goal, act: UUID, did: str, words: str, now_ms: int, thread: str = "") -> None:
        """What is done at an occasion: what has ended stays as it is."""
        async with transaction(self._pool, (goal.owner,)) as connection:
            await connection.execute(_BEGIN, act, goal.owner, goal.id, did, words[:500], thread, now_ms)

    async def ended(self, goal: Goal, act: UUID) -> bool:
        """Whether an act is over."""
        async with transaction(self._pool, (goal.owner,)) as connection:
            did = await connection.fetchval("SELECT did FROM runtime.goal_acts WHERE id = $1", act)
        return did not in (None, "begun", "held")

    async def move_on(self, goal: Goal, due_ms: int, look_ms: int) -> None:
        """To the next occasion, or to a later look at this one; unless somebody moved it meanwhile."""
        async with transaction(self._pool, (goal.owner,)) as connection:
            await connection.execute(
                "UPDATE runtime.goals SET due_ms = $3, look_ms = $4 WHERE id = $1 AND due_ms = $2",
                goal.id,
                goal.due_ms,
                due_ms,
                look_ms,
            )

    async def done_since(self, owner: str, since_ms: int) -> int:
        """How often the owner was told of something, or something was done for them."""
        async with transaction(self._pool, (owner,)) as connection:
            return int(
                await connection.fetchval(
                    "SELECT count(*) FROM runtime.goal_acts"
                    " WHERE owner = $1 AND at_ms >= $2 AND did IN ('begun', 'told', 'acted', 'asked')",
                    owner,
                    since_ms,
                )
            )

    async def acts(
        self, owner: str, goal: UUID | None, before: int | None, limit: int
    ) -> Sequence[asyncpg.Record]:
        """Newest first."""
        async with transaction(self._pool, (owner,)) as connection:
            rows: Sequence[asyncpg.Record] = await connection.fetch(
                "SELECT * FROM runtime.goal_acts WHERE owner = $1 AND ($2::uuid IS NULL OR goal = $2)"
                " AND ($3::bigint IS NULL OR place < $3) ORDER BY place DESC LIMIT $4",
                owner,
                goal,
                before,
                limit,
            )
        return rows

    async def gates(self, owner: str) -> Gates:
        """The owner's, or the usual ones."""
        async with transaction(self._pool, (owner,)) as connection:
            row = await connection.fetchrow("SELECT * FROM runtime.goal_gates WHERE owner = $1", owner)
        if row is None:
            return Gates()
        return Gates(row["allowed"], row["quiet_from"], row["quiet_until"], row["most_per_day"])

    async def set_gates(self, owner: str, gates: Gates) -> None:
        """All of them; what they held back is looked at again."""
        async with transaction(self._pool, (owner,)) as connection:
            await connection.execute(
                "INSERT INTO runtime.goal_gates (owner, allowed, quiet_from, quiet_until, most_per_day)"
                " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner) DO UPDATE SET allowed = EXCLUDED.allowed,"
                " quiet_from = EXCLUDED.quiet_from, quiet_until = EXCLUDED.quiet_until,"
                " most_per_day = EXCLUDED.most_per_day",
                owner,
                gates.allowed,
                gates.quiet_from,
                gates.quiet_until,
                gates.most_per_day,
            )
            await connection.execute(
                "UPDATE runtime.goals SET look_ms = due_ms WHERE owner = $1 AND look_ms > due_ms", owner
            )


async def for_prompt(pool: asyncpg.Pool, owner: str, limit: int = 5) -> tuple[str, ...]:
    """What an owner's own agent knows of their goals; nothing for nobody."""
    rows = await one_trip(pool, "SELECT * FROM runtime.goals_of($1, $2)", owner, limit) if owner else []
    return tuple(in_words(_goal(row)) for row in rows)


def in_words(goal: Goal) -> str:
    """A goal as a sentence, in one line."""
    hours = goal.every_ms // 3_600_000
    often = f"{hours // 24} days" if hours % 24 == 0 else f"{hours} hours"
    words = " ".join(goal.words.split())
    if goal.kind == "meet":
        return f"meet {goal.person} every {often}"
    if goal.kind == "remind":
        return f"be reminded every {often}: {words}"
    return f"hear of what has waited {often} for an answer"


def _goal(row: asyncpg.Record) -> Goal:
    return Goal(**{name: row[name] for name in _COLUMNS.split(", ")})


def _no_goal() -> NotFound:
    return NotFound(Reason.NOT_FOUND, "There is no such goal here.", hint="indai goal list")
