"""A tenant's jobs that were given up, and its sums: of what is its own, each counted once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
from indai.llm.config import BUILT_IN, parse_config
from indai.llm.servicer import LlmService
from indai.llm.store import Store
from indai.llm.values import Embedder
from indai.node import auth
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.node.tenancy.access import Access, Post
from indai.node.tenancy.ahead import Ahead
from indai.node.tenancy.figures import Figures
from indai.node.tenancy.rollup import Rollup, percentile
from indai.node.tenancy.usage import Usage
from indai.node.tenancy.work import Work
from indai.node.tier_role import proposals
from indai.protocol.errors import NotFound
from indai.runtime.bindings import Bindings
from indai.runtime.tier_service import TierServicer
from indai.runtime.tierstore import TierStore
from indai.storage.pool import transaction
from indai.tools.jobs import Jobs
from indai.tools.values import Caller, Outcome
from indai.v1 import tiers_pb2
from indai.v1.channels_pb2_grpc import ChannelServiceStub
from indai.v1.llm_pb2_grpc import LlmServiceStub, add_LlmServiceServicer_to_server
from indai.web.audit import AuditLog

from tests.conftest import Database


def post(tenant: str) -> Post:
    return Post(tenant, (tenant,), auth.Caller(operator=True), "operator")


def clock() -> int:
    return time.time_ns() // 1_000_000


async def nobody(_: Caller, __: Outcome) -> None:
    """Nobody is told."""


async def test_a_job_that_was_given_up_is_tried_again_by_its_own_tenant_alone(database: Database) -> None:
    jobs = Jobs(database.pool, clock, nobody)
    caller = Caller("acme", "shop", "", "s", "p", "distribution", "web")
    async with transaction(database.pool, ["tenant:acme"]) as connection:
        dead = await jobs.put(connection, caller, "run", "create-payment-link", {})
        waits = await jobs.put(connection, caller, "run", "look-up", {})
        await connection.execute(
            "UPDATE tools.jobs SET state = 'dead', attempts = 5, error = 'UNAVAILABLE' WHERE id = $1", dead
        )
    work = Work(database.pool, clock, None, ChannelServiceStub(local_channel([])))
    listed = await work.listed(post("acme"))
    assert [(one.job_id, one.state, one.reason) for one in listed] == [
        (str(dead), "dead", "UNAVAILABLE"),
        (str(waits), "waiting", ""),
    ]
    assert await work.listed(post("riverton")) == []
    for tenant, job in (("riverton", dead), ("acme", waits)):
        with pytest.raises(NotFound):
            await work.replay(post(tenant), "tool", str(job))
    for source, name in (("memory", "1"), ("elsewhere", str(dead))):
        with pytest.raises(NotFound):
            await work.replay(post("acme"), source, name)
    await work.replay(post("acme"), "tool", str(dead))
    assert {one.state for one in await work.listed(post("acme"))} == {"waiting"}


ZONE = "Asia/Kolkata"
WHAT = ("topic", "mood", "ending", "language", "zone", "channel", "topic_zone", "stage")
_SESSIONS = """
    INSERT INTO runtime.sessions (id, owner, tenant, binding, handle, door, person, scope_person, channel,
                                  language, time_zone, segment)
    SELECT md5($1 || n)::uuid, $2, $1, CASE WHEN n < 3 THEN 'shop' ELSE 'help' END, '', $3, p, p, 'web',
           CASE WHEN n % 2 = 0 THEN 'hi' ELSE '' END, CASE WHEN n = 1 THEN 'Asia/Kathmandu' ELSE '' END, p
    FROM generate_series(1, 4) AS n, LATERAL (SELECT md5('person' || n)::uuid AS p) AS who
"""
_TURNS = """
    INSERT INTO runtime.turns (id, owner, session, person, message, request, state, ending, stage_ms, trace,
                               accepted_at, finished_at)
    SELECT md5($1 || 'turn' || n)::uuid, $2, md5($1 || (n % 4 + 1))::uuid, md5('person' || n % 4 + 1)::uuid,
           md5('m' || n)::uuid, '', CASE WHEN n = 1 THEN 'running' ELSE 'finished' END,
           CASE WHEN n % 5 = 0 THEN 'degraded' ELSE 'answered' END,
           jsonb_build_object('total', n * n * 0.01, 'plan', n),
           CASE WHEN n % 3 = 0 THEN '{"route": "buy", "tags": ["complaint"]}'::jsonb
                ELSE '{"mood": "curt"}' END,
           now() - n * interval '13 minutes',
           CASE WHEN n <> 1 THEN now() - n * interval '13 minutes' END
    FROM generate_series(0, 400) AS n
"""
_CALL = """
    INSERT INTO llm.calls (id, generation, attempt, tenant, binding, owner, session, model_class, provider,
                           model, why, started_at, input_tokens, output_tokens, cache_hit_tokens,
                           cache_write_tokens, cost_micros, currency, latency_ms, ttft_ms, finish, error,
                           metadata, stored_at)
    SELECT gen_random_uuid(), gen_random_uuid(), 0, $1, 'shop', '', '', 'fast', 'p', 'm', '',
           now() - interval '1 hour', 1, 1, 0, 0, 900, 'INR', 1, 1, 'stop', '', '{}',
           now() - interval '1 hour'
"""
_EXACT = """
    SELECT count(*), count(*) FILTER (WHERE t.trace ->> 'route' = 'buy'),
           count(DISTINCT (t.accepted_at AT TIME ZONE $2)::date), count(*) FILTER (WHERE s.binding = 'shop'),
           percentile_cont(0.95) WITHIN GROUP (ORDER BY (t.stage_ms ->> 'total')::float8)
    FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session WHERE s.tenant = $1
"""


async def _filled(database: Database) -> None:
    """Two tenants, and an owner's own talk in the rows of the first."""
    owners = ["acme", "riverton", "ind.ai/alice"]
    async with transaction(database.pool, owners) as connection:
        people = [f"person{n}" for n in range(1, 5)]
        await connection.execute(
            "SELECT set_config('indai.people', string_agg(md5(name)::uuid::text, ','), true)"
            " FROM unnest($1::text[]) AS name",
            people,
        )
        await connection.execute(
            "INSERT INTO runtime.users (id) SELECT md5(name)::uuid FROM unnest($1::text[]) AS name", people
        )
        for tenant, owner, door in (
            ("acme", "acme", "distribution"),
            ("riverton", "riverton", "distribution"),
            ("personal", "ind.ai/alice", "private"),
        ):
            await connection.execute(_SESSIONS, tenant, owner, door)
            await connection.execute(_TURNS, tenant, owner)


async def test_sums_are_those_of_the_turns_however_often_and_by_how_many_they_are_asked_for(
    database: Database,
) -> None:
    await _filled(database)
    rollup = Rollup(database.pool)
    acme = Post("acme", ("acme", "ind.ai/alice"), auth.Caller(operator=True), "operator")

    async def summed() -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {what: Counter() for what in WHAT}
        for one in await rollup.counts(acme, 30, ZONE, WHAT):
            found[one.what][one.name] += one.turns
        return found

    first, *more = await asyncio.gather(*(summed() for _ in range(4)))
    assert all(each == first for each in more)
    assert await summed() == first
    async with transaction(database.pool, acme.owners, "acme") as connection:
        exact = await connection.fetchrow(_EXACT, "acme", ZONE)
        kept = await connection.fetchval("SELECT sum(turns) FROM runtime.desk_counts WHERE what = 'topic'")
    assert exact[0] == 401
    assert {what: sum(counts.values()) for what, counts in first.items()} == dict.fromkeys(WHAT, 401) | {
        "stage": 802
    }
    assert kept == 399  # all but the one that runs and the one that has just finished
    assert first["topic"]["buy"] == first["mood"]["complaint"] == exact[1]
    assert first["ending"]["running"] == 1
    counts = await rollup.counts(acme, 30, ZONE, ["topic", "stage"])
    assert len({one.day for one in counts if one.day}) == exact[2]
    assert sum(one.turns for one in counts if one.what == "topic" and one.binding == "shop") == exact[3]
    total = [(one.bucket, one.turns) for one in counts if one.what == "stage" and one.name == "total"]
    assert percentile(total, 0.95) == pytest.approx(exact[4], rel=0.06)
    async with transaction(database.pool, ["acme"]) as connection:
        await connection.execute(
            "UPDATE runtime.turns SET state = 'finished', ending = 'answered',"
            " finished_at = now() WHERE state = 'running'"
        )
    assert (await summed())["ending"]["running"] == 0
    assert sum((await summed())["topic"].values()) == 401


async def test_numbers_are_counted_before_anybody_opens_a_page(database: Database) -> None:
    await _filled(database)
    tiers = TierStore(database.pool)
    bindings = Bindings(database.pool, tiers)
    service = TierServicer(tiers, bindings, proposals(database.pool, clock), lambda _: "operator", lambda: ())
    for slug in ("acme", "riverton"):
        text = f"kind: tenant\nslug: {slug}\nname: A\ntime_zone: {ZONE}\n"
        await service.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant=slug, yaml=text), None)
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT llm.act_for('riverton')")
        await connection.execute(_CALL, "riverton")
    gateway = LlmService(parse_config(BUILT_IN), Store(database.pool), _no_secret, clock, _no_embedder)
    llm = LlmServiceStub(local_channel([Service(add_LlmServiceServicer_to_server, gateway)]))
    access = Access(database.pool, tiers, AuditLog(database.pool, clock))
    figures, usage = Figures(database.pool, bindings), Usage(llm, bindings, clock)
    await Ahead(access, figures, usage).count()
    await gateway.close()
    for tenant in ("acme", "riverton"):
        async with transaction(database.pool, [tenant], tenant) as connection:
            assert await connection.fetchval(
                "SELECT sum(turns) FROM runtime.desk_counts WHERE what = 'topic'"
            )
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT llm.act_for('riverton')")
        kept = await connection.fetch("SELECT zone, cost_micros FROM llm.day_costs")
    assert [tuple(row) for row in kept] == [(ZONE, 900)]


async def _no_secret(reference: str) -> str:
    raise AssertionError(reference)


def _no_embedder() -> Embedder:
    raise AssertionError


async def test_the_database_shows_a_tenant_s_sums_to_its_own_desk_alone(database: Database) -> None:
    await _filled(database)
    rollup = Rollup(database.pool)
    for tenant in ("acme", "riverton"):
        await rollup.fold(post(tenant), ZONE)

    async def seen(owners: list[str], desk: str) -> set[str]:
        async with transaction(database.pool, owners, desk) as connection:
            rows = await connection.fetch("SELECT DISTINCT tenant FROM runtime.desk_counts")
        return {row["tenant"] for row in rows}

    both = ["acme", "riverton"]
    assert await seen(both, "acme") == {"acme"}
    assert await seen(both, "*") == {"acme", "riverton"}
    assert await seen(both, "") == await seen([], "acme") == await seen(["riverton"], "acme") == set()
