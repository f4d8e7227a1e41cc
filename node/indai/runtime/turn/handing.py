"""Hand-offs: to another team's binding of the same tenant, or to a person.

A model may wish one by the tool `hand-over`, whose list of targets is the team's own; anything else is
refused. The new session gets what the old one knew, and the person is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg
from indai.runtime.composed import Composed
from indai.runtime.conversations.values import Turn
from indai.runtime.tiers import Binding, Kind, parse
from indai.runtime.tierstore import TierStore
from indai.tools.values import Effect, Spec

NAME: Final = "hand-over"
PERSON: Final = "a-person"


def targets(composed: Composed) -> tuple[str, ...]:
    """Teams, and a person where the team escalates to one."""
    return (*composed.team.handoffs, *((PERSON,) if composed.team.escalation else ()))


def spec(composed: Composed) -> Spec | None:
    """The tool; None for a team that hands nobody on."""
    found = targets(composed)
    if not found:
        return None
    return Spec(
        NAME,
        "Hand this conversation to another team or to a person, when your procedures say so.",
        {
            "type": "object",
            "properties": {"to": {"type": "string", "enum": list(found)}, "why": {"type": "string"}},
            "required": ["to"],
            "additionalProperties": False,
        },
        {"type": "object"},
        Effect.ACT,
    )


async def binding_of(store: TierStore, turn: Turn, composed: Composed, team: str) -> str:
    """The binding of a team for this persona, else the first one of the team; empty for none."""
    after, found = ("", ""), ""
    while True:
        rows = await store.listed(turn.session.place.tenant, Kind.BINDING.value, after, 200)
        for row in rows:
            binding = parse(Kind.BINDING, row.config, row.slug)
            assert isinstance(binding, Binding)  # noqa: S101 - the kind says so
            fits = binding.team == team and binding.active and binding.door == composed.binding.door
            if fits and binding.human == composed.binding.human:
                return row.slug
            found = found or (row.slug if fits else "")
        if len(rows) < 200:
            return found
        after = (rows[-1].kind.value, rows[-1].slug)


async def redirect(connection: asyncpg.Connection, sessions: Sequence[UUID], binding: str) -> None:
    """From the next message on, another binding answers."""
    await connection.execute(
        "UPDATE runtime.sessions SET handed_to = $2 WHERE id = ANY ($1)", list(sessions), binding
    )
