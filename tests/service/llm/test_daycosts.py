"""Sums by day are those of the rows: whoever counts them, however late one is stored, wherever days begin."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from indai.llm.config import BUILT_IN
from indai.llm.daycosts import Asked, DayCosts
from indai.llm.records import DayCost, Scope
from indai.protocol.errors import InvalidInput
from indai.v1 import llm_pb2 as pb

from tests.service.llm.conftest import CONTEXT, SCOPE, MakeGateway

ACME = Scope("acme")
_ROWS = """
    INSERT INTO llm.calls (id, generation, attempt, tenant, binding, owner, session, model_class, provider,
                           model, why, started_at, input_tokens, output_tokens, cache_hit_tokens,
                           cache_write_tokens, cost_micros, currency, latency_ms, ttft_ms, finish, error,
                           metadata, stored_at)
    SELECT gen_random_uuid(), gen_random_uuid(), 0, $1, 'desk-' || n % 3,
           CASE WHEN n % 4 = 0 THEN 'ind.ai/alice' ELSE '' END, '', 'fast', 'p', 'm', '',
           now() - n * interval '67 minutes' - interval '1 hour', n % 900, n % 200, n % 300, n % 7, n % 50,
           CASE WHEN n % 10 = 9 THEN 'EUR' ELSE 'INR' END, 400, 100,
           CASE WHEN n % 11 = 0 THEN '' ELSE 'stop' END, '',
           CASE WHEN n % 5 = 4 THEN '{}'::jsonb
                ELSE jsonb_build_object('tokens_by_tier', jsonb_build_object('HUMAN', 40, 'AGENT', n)) END,
           -- Rows from before sums were kept say nothing of when they were stored.
           CASE WHEN $3::interval IS NOT NULL THEN now() - $3::interval END
    FROM generate_series(1, $2) AS n
"""
_EXACT = """
    SELECT binding, (started_at AT TIME ZONE $2)::date::text AS day, count(*) AS calls,
           count(*) FILTER (WHERE finish = '') AS failed, sum(input_tokens)::bigint AS input_tokens,
           sum(output_tokens)::bigint AS output_tokens, sum(cache_hit_tokens)::bigint AS cache_hit_tokens,
           sum(cache_write_tokens)::bigint AS cache_write_tokens, sum(cost_micros)::bigint AS micros, currency
    FROM llm.calls WHERE tenant = $1 AND (started_at AT TIME ZONE $2)::date >= $3 AND ($4 = '' OR owner = $4)
    GROUP BY binding, day, currency
"""
_EXACT_TIERS = """
    SELECT day::text, binding, tier, sum(tokens::bigint)::bigint, count(*), max(tokens::bigint),
           percentile_disc(0.95) WITHIN GROUP (ORDER BY tokens::bigint)
    FROM (SELECT *, (started_at AT TIME ZONE $2)::date AS day FROM llm.calls) AS call,
         jsonb_each_text(metadata -> 'tokens_by_tier') AS part (tier, tokens)
    WHERE tenant = $1 AND day >= $3 GROUP BY GROUPING SETS ((day, binding, tier), (binding, tier))
"""


async def _see(pool: asyncpg.Pool, tenant: str, query: str, *arguments: object) -> Any:
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT llm.act_for($1)", tenant)
        return await connection.fetch(query, *arguments)


def _plain(days: list[DayCost]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            one.binding,
            one.day,
            one.calls,
            one.failed,
            one.usage.input_tokens,
            one.usage.output_tokens,
            one.usage.cache_hit_tokens,
            one.usage.cache_write_tokens,
            one.cost_micros,
            one.currency,
        )
        for one in days
    )


async def _hold(pool: asyncpg.Pool, counters: list[DayCosts], zone: str, first: date) -> None:
    """What all of them say at once is what the rows say."""
    for scope in (ACME, Scope("acme", owner="ind.ai/alice")):
        exact = await _see(pool, "acme", _EXACT, "acme", zone, first, scope.owner)
        asked = Asked(scope, first, zone)
        for found in await asyncio.gather(*(each.costs(asked, 0, 10_000) for each in counters)):
            assert _plain(found) == sorted(tuple(row) for row in exact)
    rows = await _see(pool, "acme", _EXACT_TIERS, "acme", zone, first)
    days, sizes = await counters[0].tiers(Asked(ACME, first, zone))
    assert sorted((str(one.day), one.binding, one.tier, one.tokens) for one in days) == sorted(
        tuple(row)[:4] for row in rows if row[0]
    )
    whole = {(row[1], row[2]): tuple(row)[4:] for row in rows if row[0] is None}
    assert {(one.binding, one.tier): (one.calls, one.largest) for one in sizes} == {
        key: (calls, largest) for key, (calls, largest, _) in whole.items()
    }
    for one in sizes:
        exact_p95 = whole[one.binding, one.tier][2]
        assert exact_p95 <= one.p95 <= exact_p95 * 1.06


async def test_sums_are_those_of_the_rows_however_late_a_row_comes_and_wherever_days_begin(
    pool: asyncpg.Pool,
) -> None:
    first = datetime.now(UTC).date() - timedelta(days=9)
    await _see(pool, "acme", _ROWS, "acme", 400, None)
    await _see(pool, "other", _ROWS, "other", 30, None)
    for zone in ("Asia/Kathmandu", "America/St_Johns"):
        await _hold(pool, [DayCosts(pool) for _ in range(4)], zone, first)
    # Rows of the same days, which only now came to be stored; then some that are not settled yet.
    await _see(pool, "acme", _ROWS, "acme", 100, timedelta(minutes=6))
    await _see(pool, "acme", _ROWS, "acme", 40, timedelta(0))
    rested = DayCosts(pool)
    await _hold(pool, [rested, DayCosts(pool)], "Asia/Kathmandu", first)
    kept = "SELECT zone, sum(calls)::int FROM llm.day_costs GROUP BY zone"
    assert dict(await _see(pool, "acme", kept)) == {"Asia/Kathmandu": 500, "America/St_Johns": 400}
    hers = kept.replace("day_costs", "owner_costs WHERE owner = 'ind.ai/alice'")
    assert dict(await _see(pool, "acme", hers)) == {"Asia/Kathmandu": 125, "America/St_Johns": 100}
    await _see(pool, "acme", _ROWS, "acme", 7, timedelta(minutes=6, seconds=-1))
    await _hold(pool, [rested], "Asia/Kathmandu", first)
    # Days from before the sums begin are summed from their rows.
    await _hold(pool, [DayCosts(pool)], "Asia/Kathmandu", date(2020, 1, 1))


async def test_the_database_shows_a_tenant_s_sums_to_it_alone_and_an_owner_s_to_them(
    pool: asyncpg.Pool,
) -> None:
    for tenant in ("acme", "other"):
        await _see(pool, tenant, _ROWS, tenant, 5, None)
        for owner in ("", "ind.ai/alice", "ind.ai/bob"):
            await DayCosts(pool).fold(Asked(Scope(tenant, owner=owner), date(2020, 1, 1)))
    for table in ("owner_costs", "owner_folds"):
        seen = f"SELECT DISTINCT tenant, owner FROM llm.{table}"  # noqa: S608
        for owner in ("ind.ai/alice", "ind.ai/bob"):
            async with pool.acquire() as connection, connection.transaction():
                assert await connection.fetch(seen) == []
                await connection.execute("SELECT llm.act_for('acme')")
                await connection.execute("SELECT set_config('indai.owners', $1, true)", owner)
                found = [tuple(row) for row in await connection.fetch(seen)]
                assert found == ([("acme", owner)] if owner == "ind.ai/alice" else [])  # bob called nothing
    for table in ("day_costs", "day_tiers", "day_folds"):
        async with pool.acquire() as connection, connection.transaction():
            seen = f"SELECT DISTINCT tenant FROM llm.{table}"  # noqa: S608
            assert await connection.fetch(seen) == []
            await connection.execute("SELECT llm.act_for('acme')")
            assert [row["tenant"] for row in await connection.fetch(seen)] == ["acme"]
            await connection.execute("SELECT set_config('indai.owners', 'ind.ai/alice', true)")
            assert await connection.fetch(seen) == []


async def test_a_settled_call_says_when_it_was_stored_and_counts_on_a_day_of_the_zone_asked_for(
    gateway: MakeGateway, pool: asyncpg.Pool
) -> None:
    asking = await gateway(BUILT_IN)
    await asking.answer()
    (row,) = await _see(pool, "acme", "SELECT started_at, stored_at FROM llm.calls")
    assert row["stored_at"] is not None  # the test's clock, not the database's, says when it started
    for zone, day in (("", "2026-11-23"), ("Pacific/Pago_Pago", "2026-11-22")):
        request = pb.ListCostsRequest(scope=SCOPE, time_zone=zone)
        (one,) = (await asking.service.ListCosts(request, CONTEXT)).costs
        assert one.day == day
    for zone in ("Asia/Nowhere", "../../etc/passwd", "x" * 5_000):
        with pytest.raises(InvalidInput, match="time_zone"):
            await asking.service.ListCosts(pb.ListCostsRequest(scope=SCOPE, time_zone=zone), CONTEXT)
