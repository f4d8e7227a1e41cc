"""An organisation's desk under load: what its roll-ups cost, its pages, and 500 of its desks open at once.

    python -m bench.tenant_desk [--turns N] [--streams N] [--rounds N]

One node in a process of its own on Postgres of its own, as in `bench.desk`. The roll-ups stand beside what
they replace: the same sums over every turn, in the same database, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import asyncpg
import psutil
from aiohttp import ClientSession, ClientTimeout, StreamReader, TCPConnector
from indai.cli.session import owner_channel
from indai.llm.daycosts import Asked, DayCosts
from indai.llm.records import Scope
from indai.node.auth import Caller
from indai.node.clock import DatabaseClock
from indai.node.tenancy.access import Post
from indai.node.tenancy.rollup import Rollup
from indai.storage.cluster import discard
from indai.storage.pool import transaction
from indai.v1 import tiers_pb2
from indai.v1.tiers_pb2_grpc import TierServiceStub
from indai.web.accounts import Accounts
from indai.web.live import MAX_STREAMS
from indai.web.sessions import Sessions

from bench.desk import Place, Times, _event, _node, _times

TENANT: Final = "riverton"
ZONE: Final = "Asia/Kolkata"
PAGES: Final = ("", "/talks", "/guardrails", "/costs", "/board", "/work", "/log")
WHAT: Final = ("topic", "mood", "ending", "language", "zone", "channel", "topic_zone", "stage")
_TIERS: Final = "kind: tenant\nslug: riverton\nname: Riverton\n"
_FILLED: Final = ("runtime.users", "runtime.sessions", "runtime.turns", "llm.calls")
_PEOPLE: Final = """
    INSERT INTO runtime.users (id) SELECT md5('person' || n)::uuid FROM generate_series(1, $1) AS n
"""
_SESSIONS: Final = """
    INSERT INTO runtime.sessions (id, owner, tenant, binding, handle, door, person, scope_person, channel,
                                  language, time_zone, segment, last_active_at)
    SELECT md5('s' || n)::uuid, $1, $1, 'desk-' || n % 4, '', 'distribution', p, p,
           (ARRAY['whatsapp', 'web', 'voice'])[n % 3 + 1], (ARRAY['hi', 'en', 'ta', 'bn'])[n % 4 + 1],
           'Asia/Kolkata', p, now() - n * interval '1 minute'
    FROM generate_series(1, $2) AS n, LATERAL (SELECT md5('person' || n)::uuid AS p) AS who
"""
_TURNS: Final = """
    INSERT INTO runtime.turns (id, owner, session, person, message, request, state, ending, stage_ms, trace,
                               accepted_at, finished_at)
    SELECT gen_random_uuid(), $1, md5('s' || (n % $3 + 1))::uuid, md5('person' || (n % $3 + 1))::uuid,
           gen_random_uuid(), '', 'finished', (ARRAY['answered', 'answered', 'degraded'])[n % 3 + 1],
           jsonb_build_object('total', n % 900 + 40, 'plan', n % 700, 'perceive', n % 9, 'recall', n % 30,
                              'classify', n % 12, 'execute', n % 300, 'respond', n % 500),
           jsonb_build_object('route', 'topic-' || n % 12, 'mood', (ARRAY['plain', 'curt'])[n % 2 + 1]),
           at, at
    FROM generate_series(1, $2) AS n, LATERAL (
        SELECT now() - $4::interval * n / $2 - $5::interval AS at) AS past
"""
_PAST: Final = (timedelta(days=14), timedelta(minutes=10))
_RECENT: Final = (timedelta(minutes=4), timedelta(minutes=5, seconds=1))
_CALLS: Final = """
    INSERT INTO llm.calls
    SELECT gen_random_uuid(), gen_random_uuid(), 0, $1, 'desk-' || n % 4, '', '', 'fast', 'bench', 'bench',
           '',
           at, n % 900, n % 200, n % 300, 0, n % 50, 'INR', 400, 100, 'stop',
           '',
           jsonb_build_object('tokens_by_tier',
                              jsonb_build_object('HUMAN', 40, 'TEAM', 60, 'AGENT', n % 3000)),
           at
    FROM generate_series(1, $2) AS n, LATERAL (
        SELECT now() - interval '14 days' * n / $2 - interval '10 minutes' AS at) AS past
"""
_TOUCH: Final = "UPDATE runtime.sessions SET last_active_at = now() WHERE id = md5('s1')::uuid"
_DIRECT: Final = """
    SELECT count(*) FROM (
        SELECT day, topic, mood, ending, count(*) FROM (
            SELECT (t.accepted_at AT TIME ZONE 'Asia/Kolkata')::date AS day, t.trace ->> 'route' AS topic,
                   t.trace ->> 'mood' AS mood, t.ending
            FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session
            WHERE s.tenant = $1 AND t.owner = $1 AND t.accepted_at >= now() - interval '14 days') AS each
        GROUP BY GROUPING SETS ((day), (topic), (mood), (ending))
        UNION ALL
        SELECT NULL, part.stage, NULL, NULL,
               percentile_cont(0.95) WITHIN GROUP (ORDER BY part.took::float8)::bigint
        FROM runtime.turns t JOIN runtime.sessions s ON s.id = t.session,
             jsonb_each_text(t.stage_ms) AS part (stage, took)
        WHERE s.tenant = $1 AND t.owner = $1 AND t.accepted_at >= now() - interval '14 days'
        GROUP BY part.stage) AS whole
"""


async def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="indai-bench-") as folder:
        base = Path(folder)
        if os.geteuid() == 0:
            base.chmod(0o711)  # noqa: ASYNC240 - before anything runs
        try:
            async with _node(base, {}) as place:
                await _set_up(place, chosen.turns)
                await _rollups(place, chosen.turns)
                await _costs(place)
                await _pages(place, chosen.rounds)
                await _desks(place, chosen.streams)
        finally:
            discard(base)


async def _set_up(place: Place, turns: int) -> None:
    async with await owner_channel(place.home.running(), place.home.operator_token()) as channel:
        await TierServiceStub(channel).ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant=TENANT, yaml=_TIERS))
    connection = await asyncpg.connect(place.admin)
    talks = max(1, turns // 5)
    for table in _FILLED:  # rows of everybody at once, which the program never writes
        await connection.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    await connection.execute(_PEOPLE, talks, timeout=600)
    await connection.execute(_SESSIONS, TENANT, talks, timeout=600)
    await connection.execute(_TURNS, TENANT, turns, talks, *_PAST, timeout=600)
    await connection.execute(_CALLS, TENANT, turns, timeout=600)
    for table in _FILLED:
        await connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    await connection.execute("ANALYZE")
    await connection.close()
    print(f"{talks:,} conversations, {turns:,} turns and {turns:,} calls of models in 14 days")


async def _rollups(place: Place, turns: int) -> None:
    """What the sums cost: over every turn, when they are made first, and with what came since."""
    post, rollup = Post(TENANT, (TENANT,), Caller(operator=True), "bench"), Rollup(place.pool)

    async def read() -> float:
        begun = time.perf_counter()
        await rollup.counts(post, 14, ZONE, WHAT)
        return (time.perf_counter() - begun) * 1000

    direct = []
    for _ in range(3):
        begun = time.perf_counter()
        async with transaction(place.pool, [TENANT], TENANT) as connection:
            await connection.fetchval(_DIRECT, TENANT, timeout=120)
        direct.append((time.perf_counter() - begun) * 1000)
    print(f"{'every turn summed anew':34} {min(direct):8.1f} ms")
    print(f"{'roll-ups, made for the first time':34} {await read():8.1f} ms")
    kept = Times(tuple([await read() for _ in range(20)]))
    print(f"{'roll-ups, read':34} {kept.at(0.5):8.1f} ms   {min(direct) / kept.at(0.5):.0f} times less")
    admin = await asyncpg.connect(place.admin)
    talks = max(1, turns // 5)
    await admin.execute("ALTER TABLE runtime.turns NO FORCE ROW LEVEL SECURITY")
    await admin.execute(_TURNS, TENANT, 1_000, talks, *_RECENT, timeout=120)
    await admin.execute("ALTER TABLE runtime.turns FORCE ROW LEVEL SECURITY")
    print(f"{'roll-ups, after 1,000 more turns':34} {await read():8.1f} ms")
    await admin.execute("SELECT set_config('indai.owners', $1, false)", TENANT)
    await admin.execute("SELECT set_config('indai.desk', $1, false)", TENANT)
    rows, size = await admin.fetchrow(
        "SELECT count(*), pg_total_relation_size('runtime.desk_counts') FROM runtime.desk_counts"
    )
    print(f"{'their rows':34} {rows:8,}      {size / 1024 / 1024:.1f} MiB")
    await admin.close()


async def _costs(place: Place) -> None:
    """The same of what models cost: by binding and day, with tokens by tier and the sizes of prompts."""
    days = DayCosts(place.pool)

    async def read(first: date) -> float:
        asked, begun = Asked(Scope(TENANT), first, ZONE), time.perf_counter()
        await days.costs(asked, 0, 500)
        await days.tiers(asked)
        return (time.perf_counter() - begun) * 1000

    recent = datetime.now(UTC).date() - timedelta(days=13)
    print(f"{'costs, made for the first time':34} {await read(recent):8.1f} ms")
    # Before the sums begin there are rows alone; here they are the same rows.
    direct = min([await read(date(2020, 1, 1)) for _ in range(3)])
    print(f"{'every call summed anew':34} {direct:8.1f} ms")
    kept = Times(tuple([await read(recent) for _ in range(20)]))
    print(f"{'costs, read':34} {kept.at(0.5):8.1f} ms   {direct / kept.at(0.5):.0f} times less")


async def _pages(place: Place, rounds: int) -> None:
    async with await _person(place, 0) as http:
        for page in PAGES:
            url = f"{place.desk}/tenant/{TENANT}{page}"
            print(f"{page or '/':34} {await _times(http, url, rounds)}")


async def _person(place: Place, number: int) -> ClientSession:
    """An operator of the tenant, signed in."""
    clock = await DatabaseClock.start(place.pool)
    account = await Accounts(place.pool, clock).grant(TENANT, "operator", f"person-{number}")
    token = await Sessions(place.pool, clock).begin(account, "code", "a benchmark")
    return ClientSession(
        headers={"Cookie": f"indai-desk={token}"},
        connector=TCPConnector(limit=0),
        timeout=ClientTimeout(total=600),
    )


async def _desks(place: Place, count: int) -> None:
    process = psutil.Process(place.pid)
    before = process.memory_info().rss
    async with contextlib.AsyncExitStack() as stack:
        opened: list[StreamReader] = []
        for number in range(-(-count // MAX_STREAMS)):
            http = await stack.enter_async_context(await _person(place, number))
            for _ in range(min(MAX_STREAMS, count - len(opened))):
                url = f"{place.desk}/tenant/{TENANT}/live"
                answer = await stack.enter_async_context(http.get(url))
                assert answer.status == 200, answer.status
                opened.append(answer.content)
        await asyncio.gather(*(stream.readline() for stream in opened))
        grown = (process.memory_info().rss - before) / len(opened) / 1024
        used, begun = sum(process.cpu_times()[:2]), time.perf_counter()
        await asyncio.sleep(10)
        idle = (sum(process.cpu_times()[:2]) - used) / (time.perf_counter() - begun)
        print(
            f"{len(opened)} desks of one tenant open: {grown:.0f} KiB each, {idle:.1%} of a processor at rest"
        )
        took = []
        admin = await asyncpg.connect(place.admin)
        await admin.execute("SELECT set_config('indai.owners', $1, false)", TENANT)
        for _ in range(5):
            heard = asyncio.gather(*map(_event, opened))
            begun = time.perf_counter()
            await admin.execute(_TOUCH)
            await heard
            took.append((time.perf_counter() - begun) * 1000)
        await admin.close()
        print(f"{f'a change, seen by {len(opened)} desks':34} {Times(tuple(took))}   (a look each 2 s)")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
