"""Sums of a tenant's turns, by day and binding, kept as rows: a page costs what is new since the last one.

A turn is counted into `desk_counts` once, some minutes after it finished, when a page asks: `desk_folds` says
up to which moment that was done. What finished since then, and what runs, is counted as it lies. A day is one
of the tenant's zone at the time of counting; who changes the zone keeps the days that were.

Times of stages are kept as a histogram whose classes grow by e^0.1, so a percentile read from it is at most
5 % off: percentiles of days cannot be added, classes can.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

import asyncpg
from indai.node.tenancy.access import Post
from indai.node.tenancy.talks import THEIRS
from indai.storage.pool import transaction

LAG: Final = "5 minutes"
"""Longer than any transaction may last: what was finished before then is committed, and counted once."""
REST_S: Final = 60.0
"""Between two times that this process counts for one tenant and owner."""
STEP: Final = 20_000
"""Turns that one transaction counts."""
OLDEST_DAYS: Final = 92
STAGE: Final = "stage"
PAIR: Final = "topic_zone"
_STEPS_OF_E, _FIRST = 10, 30

_FACTS: Final = """
    SELECT (t.accepted_at AT TIME ZONE $3)::date AS day, s.binding, t.stage_ms,
           left(coalesce(nullif(t.trace ->> 'route', ''), 'other'), 100) AS topic,
           CASE WHEN t.trace -> 'tags' ? 'complaint' THEN 'complaint'
                ELSE left(coalesce(nullif(t.trace ->> 'mood', ''), 'plain'), 100) END AS mood,
           CASE WHEN t.state = 'finished' THEN t.ending ELSE 'running' END AS ending,
           coalesce(nullif(s.language, ''), 'unknown') AS language,
           left(coalesce(nullif(s.time_zone, ''), 'unknown'), 100) AS zone, s.channel
    FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session
"""
_NAMED: Final = f"""
    SELECT day, binding, what, name, 0::smallint AS bucket, count(*) AS turns
    FROM facts, LATERAL (VALUES ('topic', topic), ('mood', mood), ('ending', ending), ('language', language),
                                ('zone', zone), ('channel', channel), ('{PAIR}', topic || E'\\n' || zone)
                        ) AS each (what, name)
    GROUP BY day, binding, what, name
    UNION ALL
    SELECT day, binding, '{STAGE}', left(stage, 100),
           least(floor(ln(greatest(took::float8, 0.1)) * {_STEPS_OF_E} + {_FIRST}), 300)::smallint AS bucket,
           count(*)
    FROM facts, jsonb_each_text(stage_ms) AS part (stage, took)
    GROUP BY day, binding, left(stage, 100), bucket
"""  # noqa: S608 - of constants, as all below
_UNTIL: Final = """
    SELECT until FROM runtime.desk_folds WHERE tenant = $1 AND owner = $2
"""
_NEXT: Final = f"""
    SELECT max(finished_at) FROM (
        SELECT finished_at FROM runtime.turns
        WHERE owner = $1 AND state = 'finished' AND finished_at > $2
          AND finished_at <= now() - interval '{LAG}'
        ORDER BY finished_at LIMIT {STEP}) AS next_ones
"""  # noqa: S608
_FOLD: Final = f"""
    WITH facts AS MATERIALIZED (
        {_FACTS} WHERE {THEIRS} AND t.owner = ANY ($2) AND t.state = 'finished'
                   AND t.finished_at > $4 AND t.finished_at <= $5)
    INSERT INTO runtime.desk_counts AS kept (owner, tenant, day, binding, what, name, bucket, turns)
    SELECT ($2::text[])[1], $1, named.* FROM ({_NAMED}) AS named
    ON CONFLICT (owner, tenant, day, binding, what, name, bucket)
        DO UPDATE SET turns = kept.turns + excluded.turns
"""  # noqa: S608
_MARK: Final = """
    INSERT INTO runtime.desk_folds (tenant, owner, until) VALUES ($1, $2, $3)
    ON CONFLICT (owner, tenant) DO UPDATE SET until = excluded.until
"""
# A moment before all of those: the index reads from there on, whatever the planner makes of the join.
_FLOOR: Final = f"""
    SELECT min(coalesce(f.until, now() - interval '{OLDEST_DAYS} days'))
    FROM unnest($2::text[]) AS each (owner)
    LEFT JOIN runtime.desk_folds f ON f.owner = each.owner AND f.tenant = $1
"""  # noqa: S608
# One statement, so one snapshot: a turn is in the sums or in the rest, whoever counts meanwhile.
_READ: Final = f"""
    WITH done AS (
        SELECT each.owner, coalesce(f.until, now() - interval '{OLDEST_DAYS} days') AS until
        FROM unnest($2::text[]) AS each (owner)
        LEFT JOIN runtime.desk_folds f ON f.owner = each.owner AND f.tenant = $1),
    facts AS MATERIALIZED (
        {_FACTS} JOIN done ON done.owner = t.owner
            WHERE {THEIRS} AND t.state = 'finished' AND t.finished_at > done.until AND t.finished_at > $6
        UNION ALL
        {_FACTS} WHERE {THEIRS} AND t.owner = ANY ($2) AND t.state <> 'finished'),
    named AS ({_NAMED}),
    first AS (SELECT (now() AT TIME ZONE $3)::date - ($4::int - 1) AS day)
    SELECT CASE WHEN what = 'topic' THEN day END AS day,
           CASE WHEN what IN ('topic', 'zone', '{PAIR}') THEN binding ELSE '' END AS binding,
           what, name, bucket, sum(turns)::bigint AS turns
    FROM (SELECT day, binding, what, name, bucket, turns FROM runtime.desk_counts
          WHERE tenant = $1 AND owner = ANY ($2) AND day >= (SELECT day FROM first) AND what = ANY ($5)
          UNION ALL
          SELECT * FROM named WHERE day >= (SELECT day FROM first) AND what = ANY ($5)) AS both_of_them
    GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Count:
    """How many turns have a `name` in the dimension `what`. The day is told for topics alone, the binding for
    topics and zones."""

    day: date | None
    binding: str
    what: str
    name: str
    bucket: int
    turns: int


class Rollup:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._folded: dict[tuple[str, str], float] = {}

    async def counts(self, post: Post, days: int, zone: str, what: Sequence[str]) -> list[Count]:
        """The last `days`, today included, of these dimensions."""
        await self.fold(post, zone)
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            floor = await connection.fetchval(_FLOOR, post.tenant, post.owners)
            rows = await connection.fetch(_READ, post.tenant, post.owners, zone, days, list(what), floor)
        return [Count(**dict(row)) for row in rows]

    async def fold(self, post: Post, zone: str) -> None:
        """Count what finished since the last time. While somebody else does, there is nothing to do."""
        for owner in post.owners:
            key, now = (post.tenant, owner), time.monotonic()
            if now - self._folded.get(key, -REST_S) < REST_S:
                continue  # the few turns since then are counted as they lie
            self._folded[key] = now
            while await self._step(post, owner, zone):
                pass

    async def _step(self, post: Post, owner: str, zone: str) -> bool:
        """One transaction's worth; whether there is more."""
        async with transaction(self._pool, [owner], post.tenant) as connection:
            if not await connection.fetchval(
                "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))",
                f"desk_folds\n{post.tenant}\n{owner}",
            ):
                return False
            until: datetime = await connection.fetchval(_UNTIL, post.tenant, owner) or (
                await connection.fetchval(f"SELECT now() - interval '{OLDEST_DAYS} days'")
            )
            upto: datetime | None = await connection.fetchval(_NEXT, owner, until)
            if upto is None:
                return False
            await connection.execute(_FOLD, post.tenant, [owner], zone, until, upto)
            await connection.execute(_MARK, post.tenant, owner, upto)
        return True


def percentile(buckets: Iterable[tuple[int, int]], part: float) -> float:
    """ms below which `part` of the turns lie, from (class, turns); 0 without any."""
    found = sorted(buckets)
    left = part * sum(turns for _, turns in found)
    for bucket, turns in found:
        left -= turns
        if left <= 0:
            return math.exp((bucket - _FIRST + 0.5) / _STEPS_OF_E)
    return 0.0
