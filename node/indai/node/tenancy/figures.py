"""A tenant's conversations in numbers: sums and percentiles, made in the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import asyncpg
from indai.node.tenancy.access import Post
from indai.node.tenancy.talks import THEIRS
from indai.protocol.errors import InvalidInput, Reason
from indai.storage.pool import transaction
from indai.v1 import tenant_pb2 as pb

MAX_DAYS: Final = 90
USUAL_DAYS: Final = 14
USUAL_STAGE_DAYS: Final = 7
_SINCE: Final = "now() - make_interval(days => $3)"

_NOW: Final = f"""
    SELECT count(*) FILTER (WHERE status = 'active') AS active,
           count(*) FILTER (WHERE status = 'handed_off' AND taken_by = '') AS waiting,
           count(*) FILTER (WHERE status = 'handed_off' AND taken_by <> '') AS taken,
           min(handed_at) FILTER (WHERE status = 'handed_off' AND taken_by = '') AS since
    FROM runtime.sessions s
    WHERE {THEIRS} AND (status = 'handed_off' OR last_active_at >= now() - interval '24 hours')
      AND status <> 'closed'
"""  # noqa: S608 - of constants
# One pass over the turns of these days: each dimension is a grouping set of its own.
_TURNS: Final = f"""
    SELECT day, topic, mood, ending, count(*) AS count FROM (
        SELECT (t.accepted_at AT TIME ZONE 'UTC')::date::text AS day,
               coalesce(nullif(t.trace ->> 'route', ''), 'other') AS topic,
               CASE WHEN t.trace -> 'tags' ? 'complaint' THEN 'complaint'
                    ELSE coalesce(nullif(t.trace ->> 'mood', ''), 'plain') END AS mood,
               CASE WHEN t.state = 'finished' THEN t.ending ELSE 'running' END AS ending
        FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session
        WHERE {THEIRS} AND t.owner = ANY ($2) AND t.accepted_at >= {_SINCE}
    ) AS each
    GROUP BY GROUPING SETS ((day), (topic), (mood), (ending)) ORDER BY count DESC, day, topic, mood, ending
"""  # noqa: S608
_TALKS: Final = f"""
    SELECT language, zone, channel, count(*) AS count FROM (
        SELECT coalesce(nullif(s.language, ''), 'unknown') AS language,
               coalesce(nullif(s.time_zone, ''), 'unknown') AS zone, s.channel
        FROM runtime.sessions s WHERE {THEIRS} AND s.last_active_at >= {_SINCE}
    ) AS each
    GROUP BY GROUPING SETS ((language), (zone), (channel)) ORDER BY count DESC, language, zone, channel
"""  # noqa: S608
_GUARDED: Final = f"""
    SELECT count(*) FROM runtime.guardrail_violations v JOIN runtime.sessions s ON s.id = v.session
    WHERE {THEIRS} AND v.owner = ANY ($2) AND v.severity <> 'log' AND v.created_at >= {_SINCE}
"""  # noqa: S608
_STAGES: Final = f"""
    SELECT part.stage, count(*) AS turns,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY part.took::float8) AS p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY part.took::float8) AS p95
    FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session,
         jsonb_each_text(t.stage_ms) AS part (stage, took)
    WHERE {THEIRS} AND t.owner = ANY ($2) AND t.accepted_at >= {_SINCE}
    GROUP BY part.stage ORDER BY p95 DESC, part.stage LIMIT 100
"""  # noqa: S608


class Figures:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def of(self, post: Post, days: int) -> pb.GetTenantFiguresResponse:
        """Four queries, whatever the number of conversations."""
        about = (post.tenant, post.owners, checked_days(days, USUAL_DAYS))
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            now = await connection.fetchrow(_NOW, *about[:2])
            turns = await connection.fetch(_TURNS, *about)
            talks = await connection.fetch(_TALKS, *about)
            guarded = await connection.fetchval(_GUARDED, *about)
        made = pb.GetTenantFiguresResponse(
            active=now["active"],
            waiting=now["waiting"],
            taken=now["taken"],
            days=sorted(_shares(turns, "day"), key=lambda each: each.name),
            topics=_shares(turns, "topic"),
            moods=_shares(turns, "mood"),
            endings=_shares(turns, "ending"),
            languages=_shares(talks, "language"),
            zones=_shares(talks, "zone"),
            channels=_shares(talks, "channel"),
            guarded=guarded,
        )
        if now["since"] is not None:
            made.waiting_since.FromDatetime(now["since"])
        return made

    async def stages(self, post: Post, days: int) -> pb.GetStageTimesResponse:
        """The slowest first."""
        about = (post.tenant, post.owners, checked_days(days, USUAL_STAGE_DAYS))
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            rows = await connection.fetch(_STAGES, *about)
        return pb.GetStageTimesResponse(
            stages=[
                pb.StageTime(stage=row["stage"], turns=row["turns"], p50_ms=row["p50"], p95_ms=row["p95"])
                for row in rows
            ]
        )


def checked_days(days: int, usual: int) -> int:
    """How far back; raises InvalidInput for too far."""
    if days > MAX_DAYS:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"At most {MAX_DAYS} days are shown.")
    return days or usual


def _shares(rows: Iterable[Any], name: str) -> list[pb.Share]:
    return [pb.Share(name=row[name], count=row["count"]) for row in rows if row[name] is not None]
