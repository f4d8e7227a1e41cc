"""The owner's desk under load: every room's time to the first byte with 100,000 threads, what it costs of the
processor and how many statements it makes, and 500 open desks.

    python -m bench.desk [--threads N] [--streams N] [--rounds N]

One node in a process of its own on Postgres of its own; pages are fetched over loopback by this process, one
after another. Beside them stands a bare aiohttp handler with the same client, for what HTTP alone costs here.
Statements are counted on a second node, whose Postgres writes each one down, without BEGIN and COMMIT.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import TypeVar

import asyncpg
import psutil
from aiohttp import ClientSession, ClientTimeout, StreamReader, TCPConnector, web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.cli.enrolment import claim_handle
from indai.cli.home import Home
from indai.cli.session import owner_channel
from indai.node.clock import DatabaseClock
from indai.storage.cluster import discard
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.pool import DatabaseUrls, open_pool, transaction
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.web.accounts import Accounts
from indai.web.live import MAX_STREAMS
from indai.web.sessions import Sessions

T = TypeVar("T")
OWNERS = "ind.ai/owner-{}"
PAGES = (
    "/desk",
    "/desk/threads",
    "/desk/threads?page=",
    "/desk/threads/",
    "/desk/commitments",
    "/desk/calendar",
    "/desk/rules",
    "/desk/people",
    "/desk/people?page=",
    "/desk/shared",
    "/desk/goals",
    "/desk/memory",
    "/desk/spend",
    "/desk/access",
    "/desk/settings",
    "/desk/pause",
    "/desk/more",
)
FEW_THREADS = 1_000
READY_S = 120.0
HOUR_MS = 3_600_000
_OWN = re.compile(r"LOG:  (?:statement|execute [^:]*): +(?!BEGIN|COMMIT|ROLLBACK)")
_FILL = """
INSERT INTO node.threads
  (owner, thread, peer, side, outgoing, phase, kind, title, words, reason, created_ms, updated_ms)
SELECT $1, decode(md5(n::text), 'hex'), 'ind.ai/peer-' || n % 500, '', false, 'REJECTED', 'meet',
  'Matter ' || n, 'refused', 'POLICY_DENIED', $2::bigint - n * 60000::bigint, $2::bigint - n * 60000::bigint
FROM generate_series(1, $3) AS n
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A node in a process of its own; `pool` is on its database."""

    home: Home
    pool: asyncpg.Pool
    pid: int
    postmaster: int
    log: Path
    admin: str = field(repr=False)

    @property
    def desk(self) -> str:
        return self.home.running().roles["desk"].removesuffix("/desk")

    def processor_ms(self) -> tuple[float, float]:
        """Of the processor so far: the node's, and its Postgres backends'."""
        node = psutil.Process(self.pid).cpu_times()
        backends = 0.0
        for one in psutil.Process(self.postmaster).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                backends += sum(one.cpu_times()[:2])
        return (node.user + node.system) * 1000, backends * 1000

    @contextlib.asynccontextmanager
    async def browser(self, owner: str) -> AsyncIterator[ClientSession]:
        """Signed in as that owner."""
        clock = await DatabaseClock.start(self.pool)
        account = await Accounts(self.pool, clock).of_owner(owner)
        token = await Sessions(self.pool, clock).begin(account, "code", "a benchmark")
        async with ClientSession(
            headers={"Cookie": f"indai-desk={token}"},
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=600),
        ) as http:
            yield http


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds to the first byte."""

    values: tuple[float, ...]

    def at(self, share: float) -> float:
        """A percentile."""
        return sorted(self.values)[min(len(self.values) - 1, int(len(self.values) * share))]

    def __str__(self) -> str:
        return f"p50 {self.at(0.5):6.1f} ms   p95 {self.at(0.95):6.1f} ms"


async def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=100)
    chosen = parser.parse_args()
    owners = [OWNERS.format(n) for n in range(-(-chosen.streams // MAX_STREAMS) or 1)]
    counted = await _with_node(owners[:1], FEW_THREADS, {"log_statement": "all"}, _statements)

    async def measure(place: Place) -> None:
        await _measure(place, owners, chosen, counted)

    await _with_node(owners, chosen.threads, {}, measure)


async def _with_node(
    owners: list[str], threads: int, settings: dict[str, str], run: Callable[[Place], Awaitable[T]]
) -> T:
    """A node with these owners, of whom the first has so many threads."""
    with tempfile.TemporaryDirectory(prefix="indai-bench-") as folder:
        base = Path(folder)
        if os.geteuid() == 0:
            base.chmod(0o711)  # noqa: ASYNC240 - before anything runs
        try:
            async with _node(base, settings) as place:
                for owner in owners:
                    await claim_handle(place.home, owner)
                await _fill(place, owners[0], threads)
                return await run(place)
        finally:
            discard(base)


async def _statements(place: Place) -> dict[str, int]:
    """How many each page makes: the fewest of some, since the node's own work goes on beside them."""
    counted = {}
    async with place.browser(OWNERS.format(0)) as http:
        for page in PAGES:
            path, few = await _path_of(http, place, page), []
            for _ in range(6):
                before = len(_OWN.findall(place.log.read_text(errors="replace")))
                async with http.get(place.desk + path) as answer:
                    await answer.read()
                few.append(len(_OWN.findall(place.log.read_text(errors="replace"))) - before)
            counted[page] = min(few[1:])
    return counted


async def _measure(
    place: Place, owners: list[str], chosen: argparse.Namespace, counted: dict[str, int]
) -> None:
    async with place.browser(owners[0]) as http:
        print(f"{chosen.threads:,} threads, {chosen.rounds} rounds, one page after another")
        print(f"{'a bare handler':24} {await _bare(chosen.rounds)}")
        for page in PAGES:
            path, before = await _path_of(http, place, page), place.processor_ms()
            times = await _times(http, place.desk + path, chosen.rounds)
            node, backends = (
                (after - began) / len(times.values)
                for after, began in zip(place.processor_ms(), before, strict=True)
            )
            spent = f"CPU {node:5.1f} ms node {backends:5.1f} ms Postgres   {counted[page]:3} statements"
            print(f"{page:24} {times}   {spent}")
        await _streams(http, place, owners, chosen.streams)


async def _path_of(http: ClientSession, place: Place, page: str) -> str:
    """A second page, or one thread, by the first link to it in the list; else the page itself."""
    if page[-1] not in "=/":
        return page
    room = page.rstrip("/").removesuffix("?page=")
    async with http.get(place.desk + room) as answer:
        found = re.search(re.escape(page) + r'[^"&]+', unescape(await answer.text()))
    return found[0] if found else room


async def _times(http: ClientSession, url: str, rounds: int) -> Times:
    values = []
    for number in range(rounds + 5):
        begun = time.perf_counter()
        async with http.get(url) as answer:
            await answer.content.readany()
            took = (time.perf_counter() - begun) * 1000
            await answer.read()
            assert answer.status == 200, answer.status
        if number >= 5:
            values.append(took)
    return Times(tuple(values))


async def _bare(rounds: int) -> Times:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="x" * 8_000, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with ClientSession() as http:
            return await _times(http, f"http://127.0.0.1:{runner.addresses[0][1]}/", rounds)
    finally:
        await runner.cleanup()


async def _streams(http: ClientSession, place: Place, owners: list[str], count: int) -> None:
    """Open desks, at most 8 for an owner; then something is asked of the first: until all its desks know."""
    before = psutil.Process(place.pid).memory_info().rss
    async with contextlib.AsyncExitStack() as stack:
        opened: list[StreamReader] = []
        for owner in owners:
            browser = await stack.enter_async_context(place.browser(owner))
            for _ in range(min(MAX_STREAMS, count - len(opened))):
                answer = await stack.enter_async_context(browser.get(f"{place.desk}/desk/live"))
                assert answer.status == 200, answer.status
                opened.append(answer.content)
        await asyncio.gather(*map(_event, opened))
        grown = (psutil.Process(place.pid).memory_info().rss - before) / len(opened) / 1024
        print(f"{len(opened)} desks open, {grown:.0f} KiB each")
        print(f"{'/desk beside them':24} {await _times(http, place.desk + '/desk', 50)}")
        took = [await _change(place, owners, opened[:MAX_STREAMS]) for _ in range(10)]
        print(f"{'a change, seen by 8':24} {Times(tuple(took))}")


async def _change(place: Place, owners: list[str], streams: list[StreamReader]) -> float:
    now = time.time_ns() // 1_000_000
    request = owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()),
        peer=owners[0],
        title="Seen at once",
        duration_minutes=30,
        start_time=Timestamp(seconds=(now + HOUR_MS) // 1000),
        end_time=Timestamp(seconds=(now + 100 * HOUR_MS) // 1000),
    )
    token = place.home.owner_token(owners[-1])
    async with await owner_channel(place.home.running(), token) as channel:
        heard = asyncio.gather(*map(_event, streams))
        begun = time.perf_counter()
        await OwnerServiceStub(channel).StartMeet(request)
        await heard
    return (time.perf_counter() - begun) * 1000


async def _event(content: StreamReader) -> None:
    while line := await content.readline():
        if line.startswith(b"event: "):
            return


async def _fill(place: Place, owner: str, threads: int) -> None:
    """Rows as the engine would have left them."""
    async with transaction(place.pool, (owner,)) as connection:
        await connection.execute(_FILL, owner, time.time_ns() // 1_000_000, threads, timeout=120)
    # What autovacuum does within a minute.
    connection = await asyncpg.connect(place.admin)
    await connection.execute("ANALYZE node.threads")
    await connection.close()


@contextlib.asynccontextmanager
async def _node(base: Path, settings: dict[str, str]) -> AsyncIterator[Place]:
    home = Home(base / "node")
    home.path.mkdir(mode=0o711)
    async with EmbeddedPostgres(base / "postgres", settings) as server:
        urls = DatabaseUrls.from_server(server)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INDAI_")}
        environment |= {"INDAI_DATABASE_URL": urls.app, "INDAI_DATABASE_ADMIN_URL": urls.admin}
        listen = [
            option
            for port in ("registry", "owner", "peer", "http", "a2a")
            for option in ("--listen", f"{port}=127.0.0.1:0")
        ]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "indai.cli.main", "up", "--json", "--log-level", "warning"),
            *("--data", str(home.path), *listen),
            stdout=asyncio.subprocess.PIPE,
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert child.stdout is not None
        try:
            await asyncio.wait_for(child.stdout.readline(), READY_S)
            pool = await open_pool(urls.app, statement_timeout_ms=120_000)
            backend = psutil.Process(await pool.fetchval("SELECT pg_backend_pid()"))
            log = base / "postgres" / "postgres.log"
            yield Place(home, pool, child.pid, backend.ppid(), log, urls.admin)
            await pool.close()
        finally:
            if child.returncode is None:
                child.terminate()
            await child.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
