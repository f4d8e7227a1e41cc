"""What calls cost by day and binding, kept as rows: a page costs what is new since the last one.

A call is counted into `day_costs` and `day_tiers` once, some minutes after its row was stored, when somebody
asks: `day_folds` says up to which moment of storing that was done. What was stored since then is counted as
it lies. A call that is stored long after it began (its database was away) counts for the day it began on.

A day is one of the zone that is asked for, and each such zone has sums of its own: whoever moves loses none.
One owner's are kept beside them, in `owner_costs` and `owner_folds`. Days before the roll-ups begin are
summed from their calls, and so are an owner's tiers.

How large a tier's part gets is kept as a histogram whose classes grow by e^0.05: percentiles of days cannot
be added, classes can.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

import asyncpg
from indai.llm.records import DayCost, Scope
from indai.llm.values import Usage
from indai.storage.pool import transaction

LAG: Final = "5 minutes"
"""Longer than any transaction may last: what was stored before then is committed, and counted once."""
REST_S: Final = 60.0
"""Between two times that this process counts for one tenant and zone."""
STEP: Final = 20_000
"""Calls that one transaction counts."""
OLDEST_DAYS: Final = 92
MAX_TOKEN_ROWS: Final = 5_000
MAX_SIZES: Final = 1_000
_STEPS_OF_E: Final = 20

_STORED: Final = "(CASE WHEN stored_at IS NULL THEN started_at ELSE stored_at END)"
"""As the index has it; see the migration for why it is no coalesce()."""
_SUMS: Final = """
    count(*) AS calls, count(*) FILTER (WHERE finish = '') AS failed, sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens, sum(cache_hit_tokens) AS cache_hit_tokens,
    sum(cache_write_tokens) AS cache_write_tokens, sum(cost_micros) AS cost_micros
"""
_PARTS: Final = f"""
    SELECT day, binding, left(tier, 100) AS tier,
           floor(ln(greatest(tokens::float8, 1)) * {_STEPS_OF_E})::smallint AS bucket,
           count(*) AS calls, sum(tokens::bigint) AS tokens, max(tokens::bigint) AS largest
    FROM facts, jsonb_each_text(metadata -> 'tokens_by_tier') AS part (tier, tokens)
    GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants, as all below
# Of a tenant: $1 tenant, $2 zone, $3 the owner, who is none, $4 from, $5 to. Of an owner likewise.
_ADDED: Final = """
    DO UPDATE SET
        calls = kept.calls + excluded.calls, failed = kept.failed + excluded.failed,
        input_tokens = kept.input_tokens + excluded.input_tokens,
        output_tokens = kept.output_tokens + excluded.output_tokens,
        cache_hit_tokens = kept.cache_hit_tokens + excluded.cache_hit_tokens,
        cache_write_tokens = kept.cache_write_tokens + excluded.cache_write_tokens,
        cost_micros = kept.cost_micros + excluded.cost_micros
"""
_NEW: Final = f"""
    facts AS MATERIALIZED (
        SELECT *, (started_at AT TIME ZONE $2)::date AS day FROM llm.calls
        WHERE tenant = $1 AND ($3 = '' OR owner = $3) AND {_STORED} > $4 AND {_STORED} <= $5)
"""  # noqa: S608
_NEXT: Final = f"""
    SELECT max(stored) FROM (
        SELECT {_STORED} AS stored FROM llm.calls
        WHERE tenant = $1 AND {{of}} AND {_STORED} > $3 AND {_STORED} <= now() - interval '{LAG}'
        ORDER BY {_STORED} LIMIT {STEP}) AS next_ones
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class _Kept:
    """The statements over one pair of tables."""

    costs: str
    folds: str
    folded: str
    next: str
    fold: str
    mark: str


_TENANT: Final = _Kept(
    costs="SELECT *, '' AS owner FROM llm.day_costs",
    folds="SELECT *, '' AS owner FROM llm.day_folds",
    folded="SELECT since, until FROM llm.day_folds WHERE tenant = $1 AND zone = $2 AND $3 = ''",
    next=_NEXT.format(of="$2 = ''"),
    fold=f"""
        WITH {_NEW}, costs AS (
            INSERT INTO llm.day_costs AS kept
            SELECT $1, $2, day, binding, currency, {_SUMS} FROM facts GROUP BY day, binding, currency
            ON CONFLICT (tenant, zone, day, binding, currency) {_ADDED})
        INSERT INTO llm.day_tiers AS kept SELECT $1, $2, parts.* FROM ({_PARTS}) AS parts
        ON CONFLICT (tenant, zone, day, binding, tier, bucket) DO UPDATE SET
            calls = kept.calls + excluded.calls, tokens = kept.tokens + excluded.tokens,
            largest = greatest(kept.largest, excluded.largest)
    """,  # noqa: S608
    mark="""
        INSERT INTO llm.day_folds (tenant, zone, since, until) SELECT $1, $2, $4, $5 WHERE $3 = ''
        ON CONFLICT (tenant, zone) DO UPDATE SET until = excluded.until
    """,
)
_OWNER: Final = _Kept(
    costs="SELECT * FROM llm.owner_costs",
    folds="SELECT * FROM llm.owner_folds",
    folded="SELECT since, until FROM llm.owner_folds WHERE tenant = $1 AND zone = $2 AND owner = $3",
    next=_NEXT.format(of="owner = $2"),
    fold=f"""
        WITH {_NEW}
        INSERT INTO llm.owner_costs AS kept
        SELECT $1, $3, $2, day, binding, currency, {_SUMS} FROM facts GROUP BY day, binding, currency
        ON CONFLICT (tenant, owner, zone, day, binding, currency) {_ADDED}
    """,  # noqa: S608
    mark="""
        INSERT INTO llm.owner_folds (tenant, zone, owner, since, until) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, owner, zone) DO UPDATE SET until = excluded.until
    """,
)
# $1 tenant, $2 zone, $3 first day, $4 binding, $5 owner, $6 whether roll-ups go as far back, $7 a moment not
# after their end: the index reads from there on. Sums and what is not in them are of one statement, so of one
# snapshot, whoever counts meanwhile.
_REST: Final = f"""
    facts AS MATERIALIZED (
        SELECT *, (started_at AT TIME ZONE $2)::date AS day FROM llm.calls
        WHERE tenant = $1 AND ($4 = '' OR binding = $4) AND ($5 = '' OR owner = $5)
          AND started_at >= $3::date - interval '2 days' AND (started_at AT TIME ZONE $2)::date >= $3
          AND {_STORED} > $7
          AND {_STORED} > coalesce((SELECT until FROM ({{folds}}) AS folds
                                    WHERE tenant = $1 AND zone = $2 AND owner = $5 AND $6), '-infinity'))
"""  # noqa: S608
_COSTS: Final = f"""
    WITH {_REST}
    SELECT binding, day, currency, sum(calls)::bigint AS calls, sum(failed)::bigint AS failed,
           sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
           sum(cache_hit_tokens)::bigint AS cache_hit_tokens,
           sum(cache_write_tokens)::bigint AS cache_write_tokens, sum(cost_micros)::bigint AS cost_micros
    FROM (SELECT binding, day, currency, calls, failed, input_tokens, output_tokens, cache_hit_tokens,
                 cache_write_tokens, cost_micros
          FROM ({{costs}}) AS costs
          WHERE tenant = $1 AND zone = $2 AND owner = $5 AND day >= $3 AND ($4 = '' OR binding = $4) AND $6
          UNION ALL
          SELECT binding, day, currency, {_SUMS} FROM facts GROUP BY binding, day, currency) AS both_of_them
    GROUP BY binding, day, currency ORDER BY day DESC, binding, currency OFFSET $8 LIMIT $9
"""  # noqa: S608
_TIERS: Final = f"""
    WITH {_REST}, both_of_them AS (
        SELECT day, binding, tier, bucket, calls, tokens, largest FROM llm.day_tiers
        WHERE tenant = $1 AND zone = $2 AND day >= $3 AND ($4 = '' OR binding = $4) AND $6
        UNION ALL {_PARTS})
    SELECT day, binding, tier, bucket, sum(calls)::bigint AS calls, sum(tokens)::bigint AS tokens,
           max(largest) AS largest
    FROM both_of_them GROUP BY GROUPING SETS ((day, binding, tier), (binding, tier, bucket))
    ORDER BY day DESC NULLS LAST, binding, tier, bucket
"""  # noqa: S608
_BEFORE_ALL: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TierDay:
    """Tokens of a tier in all prompts of one day of one binding."""

    day: date
    binding: str
    tier: str
    tokens: int


@dataclass(frozen=True, slots=True)
class TierSize:
    """How large a tier's part is in the prompts of a binding; `p95` is at most 5 % too large."""

    binding: str
    tier: str
    calls: int
    p95: int
    largest: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose calls, from which day on, and where days begin."""

    scope: Scope
    first_day: date
    zone: str = "UTC"


class DayCosts:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._folded: dict[tuple[str, str, str], float] = {}

    async def costs(self, asked: Asked, offset: int, count: int) -> list[DayCost]:
        """Sums by binding and day, newest day first."""
        await self.fold(asked)
        async with self._seeing(asked.scope) as connection:
            about = await self._about(connection, asked)
            kept = _kept(asked.scope)
            query = _COSTS.format(costs=kept.costs, folds=kept.folds)
            rows = await connection.fetch(query, *about, offset, count)
        return [_cost(asked.scope.tenant, row) for row in rows]

    async def tiers(self, asked: Asked) -> tuple[list[TierDay], list[TierSize]]:
        """Tokens of prompts by day, binding and tier; and how large a tier's part gets, by binding."""
        if not asked.scope.owner:
            await self.fold(asked)
        async with self._seeing(asked.scope) as connection:
            about = list(await self._about(connection, asked))
            if asked.scope.owner:
                about[5:] = [False, _BEFORE_ALL]
            rows = await connection.fetch(_TIERS.format(folds=_TENANT.folds), *about)
        days = [
            TierDay(row["day"], row["binding"], row["tier"], row["tokens"])
            for row in rows
            if row["day"] is not None
        ]
        buckets: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            if row["day"] is None:  # the smallest class first
                buckets[row["binding"], row["tier"]].append((row["largest"], row["calls"]))
        sizes = [
            TierSize(binding, tier, sum(calls for _, calls in found), _at(found, 0.95), found[-1][0])
            for (binding, tier), found in buckets.items()
        ]
        return days[:MAX_TOKEN_ROWS], sizes[:MAX_SIZES]

    async def fold(self, asked: Asked) -> None:
        """Count what was stored since the last time. While somebody else does, there is nothing to do."""
        key, now = (asked.scope.tenant, asked.zone, asked.scope.owner), time.monotonic()
        if now - self._folded.get(key, -REST_S) < REST_S:
            return  # the few calls since then are counted as they lie
        self._folded = {one: at for one, at in self._folded.items() if now - at < REST_S} | {key: now}
        while await self._step(asked.scope, asked.zone):
            pass

    async def _step(self, scope: Scope, zone: str) -> bool:
        """One transaction's worth; whether there is more."""
        kept, whose = _kept(scope), (scope.tenant, zone, scope.owner)
        async with self._seeing(Scope(scope.tenant, owner=scope.owner)) as connection:
            if not await connection.fetchval(
                "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", "\n".join(("day_folds", *whose))
            ):
                return False
            since, until = await connection.fetchrow(kept.folded, *whose) or (None, None)
            if until is None:
                since = until = await connection.fetchval(f"SELECT now() - interval '{OLDEST_DAYS} days'")
            upto: datetime | None = await connection.fetchval(kept.next, scope.tenant, scope.owner, until)
            if upto is None:
                return False
            await connection.execute(kept.fold, *whose, until, upto)
            await connection.execute(kept.mark, *whose, since, upto)
        return True

    async def _about(self, connection: asyncpg.Connection, asked: Asked) -> tuple[object, ...]:
        """What both queries are told."""
        scope = asked.scope
        folded = await connection.fetchrow(_kept(scope).folded, scope.tenant, asked.zone, scope.owner)
        kept = (
            folded is not None and asked.first_day > folded["since"].astimezone(ZoneInfo(asked.zone)).date()
        )
        floor = folded["until"] if kept else _BEFORE_ALL
        return (scope.tenant, asked.zone, asked.first_day, scope.binding, scope.owner, kept, floor)

    @asynccontextmanager
    async def _seeing(self, scope: Scope) -> AsyncIterator[asyncpg.Connection]:
        """A transaction that sees the tenant's rows, or only the owner's when the scope names one."""
        owners = [scope.owner] if scope.owner else []
        async with transaction(self._pool, owners, settings={"indai.tenant": scope.tenant}) as connection:
            yield connection


def _kept(scope: Scope) -> _Kept:
    return _OWNER if scope.owner else _TENANT


def _cost(tenant: str, row: asyncpg.Record) -> DayCost:
    return DayCost(
        tenant,
        row["binding"],
        row["day"].isoformat(),
        row["calls"],
        row["failed"],
        Usage(row["input_tokens"], row["output_tokens"], row["cache_hit_tokens"], row["cache_write_tokens"]),
        row["cost_micros"],
        row["currency"],
    )


def _at(buckets: Sequence[tuple[int, int]], part: float) -> int:
    """The largest of the class in which `part` of the calls end, from (largest, calls) in order of size."""
    left = part * sum(calls for _, calls in buckets)
    for largest, calls in buckets:
        left -= calls
        if left <= 0:
            return largest
    return buckets[-1][0]
