"""What an idle session leaves behind: one summary for each stretch of it; and how unsure and unread things
fade.

A summary is extractive: the turns whose words stand for the most of their stretch, in their order and in
their
speakers' words, so that nothing is in it that was not said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import asyncpg
from indai.memory.access import Scope
from indai.memory.lexical import terms
from indai.memory.turns import Heard

_DAY_MS = 86_400_000
IDLE_MS = _DAY_MS  # after which a session is consolidated
FEW_TURNS = 20  # a session with no more of them since its last summary gets none
GAP_MS = 30 * 60_000  # of silence, after which another stretch begins
UNSURE_MS = 30 * _DAY_MS  # after which a fact that nobody repeated is dropped
FADING_MS = 90 * _DAY_MS  # after which a turn that nobody recalled counts less
SHORT = 4  # turns of a stretch that need no summary
CHOSEN = 6  # turns in a summary
MAX_CHARACTERS = 240  # of each

SESSION = "SELECT places, summarised, last_at FROM memory.sessions WHERE scope = $1 AND id = $2"
DONE = "UPDATE memory.sessions SET summarised = $3 WHERE scope = $1 AND id = $2"
DROP_UNSURE = "DELETE FROM memory.facts WHERE scope = $1 AND pending AND valid_to IS NULL AND created_at < $2"
FADE = """
    UPDATE memory.chunks c SET importance = 0.3
    WHERE c.scope = $1 AND c.kind = 'turn' AND c.importance > 0.3 AND c.said_at < $2
        AND NOT EXISTS (SELECT FROM memory.reads r WHERE r.scope = c.scope AND r.chunk = c.id)
"""
_DERIVE = """
    INSERT INTO memory.derivations (scope, tenant, derived, source)
    SELECT $1, $2, c.id, t.source FROM unnest($3::text[], $4::uuid[]) AS t (source_id, source)
    JOIN memory.chunks c ON c.scope = $1 AND c.kind = 'summary' AND c.source_id = t.source_id
    ON CONFLICT DO NOTHING
"""


def segments(heard: Sequence[Heard]) -> list[list[Heard]]:
    """Stretches of a session without a long silence in them, those that are worth a summary."""
    parts: list[list[Heard]] = []
    for one in heard:
        if not parts or one.turn.said_ms - parts[-1][-1].turn.said_ms > GAP_MS:
            parts.append([])
        parts[-1].append(one)
    return [part for part in parts if len(part) > SHORT]


def summary(part: Sequence[Heard]) -> str:
    """The turns that stand for the stretch, one a line with its speaker."""
    counted = [Counter(terms(one.turn.text)) for one in part]
    spread = Counter(term for each in counted for term in each)
    # A word of many turns tells what the stretch is about; one of every turn, nothing.
    worth = {term: n * math.log(1 + len(part) / n) for term, n in spread.items() if n > 1}
    scores = [sum(worth.get(term, 0.0) for term in each) / math.sqrt(1 + each.total()) for each in counted]
    best = sorted(range(len(part)), key=lambda number: (-scores[number], number))[:CHOSEN]
    return "\n".join(_line(part[number]) for number in sorted(best))


def _line(one: Heard) -> str:
    text = " ".join(one.turn.text.split())
    cut = text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
    return f"{one.turn.speaker}: {cut}" if one.turn.speaker else cut


async def derive(
    connection: asyncpg.Connection, scope: Scope, parts: Sequence[tuple[str, Sequence[Heard]]]
) -> None:
    """Record which turns each summary (by its source_id) was made from."""
    pairs = [(name, one.id) for name, part in parts for one in part]
    if pairs:
        await connection.execute(_DERIVE, scope.id, scope.tenant, *map(list, zip(*pairs, strict=True)))
