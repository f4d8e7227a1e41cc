"""`make bench-web`: the public page under load: the first streamed token, and 1,000 open answers.

    python -m bench.web [--waves N] [--json] [--quick]

One node in a process of its own, over a Postgres that syncs to disk. A language model that this process plays
answers one sentence a second, so what the node adds is known: from the visitor's POST to the model's being
asked, and from the model's first sentence to its arrival at the visitor. Beside it stands a bare aiohttp
handler, also in a process of its own, that asks the same model and passes on what it says.

- *first token*: one visitor after another, each new, with a question that nobody has asked before.
- *open streams*: 250 answers at once, each watched by 4 windows (what one visitor may have), in waves; then
  the same number of streams of the bare handler. Memory is of the serving process, its Postgres left out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import uvloop
from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from indai.cli.enrolment import claim_handle
from indai.cli.home import Home
from indai.storage.cluster import discard
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.pool import DatabaseUrls

from bench.loads import quantile

HANDLE = "ind.ai/bench"
WINDOWS = 4
"""Open answers of one visitor, as many as the page lets them have."""
READY_S = 120.0
SENTENCE = "The paint on the north wall lasts about nine years if it is washed once every summer."
QUESTION = "Which of the three paints did we say lasts longest outside the house, number {}?"
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')
_MODEL = """
version: 1
providers:
  here: {{kind: openai, base_url: "{url}/v1", country: IN}}
models:
  slow: {{provider: here, model: slow}}
routes:
  default: [slow]
"""
_numbers = itertools.count(1)


@dataclass
class Model:
    """A language model of this process. `seconds` between sentences, `sentences` of an answer; `asked` and
    `said` are when it was last asked, and said its first word (s of the monotonic clock)."""

    seconds: float = 0.0
    sentences: int = 2
    url: str = ""
    asked: float = 0.0
    said: float = 0.0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Model]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked = time.monotonic()
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(self.sentences):
            if number == 0:
                self.said = time.monotonic()
            piece = {"index": 0, "delta": {"content": f"{SENTENCE} "}, "finish_reason": None}
            await response.write(_chunk({"choices": [piece]}))
            await asyncio.sleep(self.seconds)
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        await response.write(_chunk(end))
        await response.write(_chunk({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response


def _chunk(value: dict[str, Any]) -> bytes:
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "slow", **value}
    return f"data: {json.dumps(whole)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Side:
    """What is measured: a page, or the bare handler."""

    name: str
    pid: int
    url: str

    async def begin(self, http: ClientSession) -> tuple[ClientResponse, float]:
        """An answer's stream, and when it was asked for."""
        if self.name == "bare":
            begun = time.monotonic()
            return await http.post(f"{self.url}/"), begun
        visitor = await Visitor.new(http, self.url)
        begun = time.monotonic()
        return await visitor.say(http, self.url, QUESTION.format(next(_numbers))), begun


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody new, from an address of their own, as a proxy tells it."""

    headers: dict[str, str]
    csrf: str

    @classmethod
    async def new(cls, http: ClientSession, url: str) -> Visitor:
        number = next(_numbers)
        headers = {"X-Forwarded-For": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}
        async with http.get(f"{url}/bench", headers=headers) as answer:
            cookie, found = answer.cookies["indai-visitor"].value, _CSRF.search(await answer.text())
        assert found is not None
        return cls({**headers, "Cookie": f"indai-visitor={cookie}", "Accept": "text/event-stream"}, found[1])

    async def say(self, http: ClientSession, url: str, text: str) -> ClientResponse:
        fields = {"csrf": self.csrf, "text": text}
        return await http.post(f"{url}/bench/-/say", data=fields, headers=self.headers)

    async def watch(self, http: ClientSession, url: str, turn: str) -> ClientResponse:
        return await http.get(f"{url}/bench/-/turns/{turn}", headers=self.headers)


@dataclass
class Wave:
    """Streams that are open together. `told`: events that came; `lost`: streams that broke."""

    told: int = 0
    lost: int = 0
    open: int = 0
    most: int = 0
    mib: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    seconds: float = 0.0


async def first_token(side: Side, model: Model, calls: int) -> dict[str, float]:
    """What the side adds to the first sentence, in ms: before the model is asked, and after it spoke."""
    shares: list[float] = []
    process = psutil.Process(side.pid)
    before = process.cpu_times()
    async with _client() as http:
        for number in range(calls + 5):
            response, begun = await side.begin(http)
            async with response:
                await _until(response, b"event: sentence")
                came = time.monotonic()
                if number >= 5:
                    shares.append(1000 * (came - begun - (model.said - model.asked)))
                await response.read()
    after = process.cpu_times()
    cpu_ms = 1000 * (after.user + after.system - before.user - before.system) / (calls + 5)
    shares.sort()
    found = {f"p{share}_ms": round(quantile(shares, share / 100), 1) for share in (50, 95, 99)}
    return found | {"cpu_ms": round(cpu_ms, 1)}


async def wave(side: Side, answers: int) -> Wave:
    """So many answers, each in WINDOWS windows, read to their end."""
    found, process = Wave(), psutil.Process(side.pid)
    gate = asyncio.Semaphore(16)  # visitors who arrive at the same instant

    async def read(response: ClientResponse) -> None:
        found.open += 1
        found.most = max(found.most, found.open)
        try:
            async for line in response.content:
                found.told += line.startswith(b"event: sentence")
        except OSError:
            found.lost += 1
        finally:
            found.open -= 1
            response.release()

    async def one(http: ClientSession, visitor: Visitor | None) -> None:
        async with gate:
            if visitor is None:
                windows = [await http.post(f"{side.url}/") for _ in range(WINDOWS)]
            else:
                first = await visitor.say(http, side.url, QUESTION.format("one"))
                turn = json.loads((await _until(first, b"data: "))[6:])["turn"]
                more = [await visitor.watch(http, side.url, turn) for _ in range(WINDOWS - 1)]
                windows = [first, *more]
        assert all(each.status == 200 for each in windows), [each.status for each in windows]
        await asyncio.gather(*map(read, windows))

    async with _client() as http:
        # Everybody has the page before them already.
        known = side.name != "bare"
        visitors = [await Visitor.new(http, side.url) if known else None for _ in range(answers)]
        begun, before = time.monotonic(), process.cpu_times()
        watching = asyncio.create_task(_watch(process, found))
        await asyncio.gather(*(one(http, visitor) for visitor in visitors))
        watching.cancel()
    after = process.cpu_times()
    found.cpu_s = after.user + after.system - before.user - before.system
    found.seconds = time.monotonic() - begun
    return found


async def _watch(process: psutil.Process, found: Wave) -> None:
    while True:
        found.mib.append(process.memory_info().rss / 2**20)
        await asyncio.sleep(0.5)


async def _until(response: ClientResponse, mark: bytes) -> bytes:
    """The first line that begins so."""
    assert response.status == 200, (response.status, await response.text())
    while line := await response.content.readline():
        if line.startswith(mark):
            return line
    raise RuntimeError("the stream has ended early")


def _client() -> ClientSession:
    timeout, connector = ClientTimeout(total=120), TCPConnector(limit=0)
    return ClientSession(connector=connector, timeout=timeout, cookie_jar=DummyCookieJar())


@contextlib.asynccontextmanager
async def _node(base: Path, model: Model) -> AsyncIterator[Side]:
    home = Home(base / "node")
    home.path.mkdir(mode=0o711)
    config = base / "llm.yaml"
    config.write_text(_MODEL.format(url=model.url))
    async with EmbeddedPostgres(base / "postgres") as server:
        urls = DatabaseUrls.from_server(server)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INDAI_")}
        environment |= {"INDAI_DATABASE_URL": urls.app, "INDAI_DATABASE_ADMIN_URL": urls.admin}
        ports = ("registry", "owner", "peer", "http", "a2a")
        listen = [option for port in ports for option in ("--listen", f"{port}=127.0.0.1:0")]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "indai.cli.main", "up", "--json", "--log-level", "error", "--data", str(home.path)),
            *("--llm-config", str(config), "--proxy", "127.0.0.1", *listen),
            stdout=asyncio.subprocess.PIPE,
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert child.stdout is not None
        try:
            await asyncio.wait_for(child.stdout.readline(), READY_S)
            await claim_handle(home, HANDLE)
            yield Side("page", child.pid, home.running().roles["desk"].removesuffix("/desk"))
        finally:
            if child.returncode is None:
                child.terminate()
            await child.wait()


@contextlib.contextmanager
def _bare(model: Model) -> Iterator[Side]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, model.url), daemon=True)
    process.start()
    try:
        url = ours.recv()
        assert process.pid is not None
        yield Side("bare", process.pid, url)
    finally:
        ours.send("stop")
        process.join(30)


def _serve(pipe: Connection, url: str) -> None:
    uvloop.run(_relay(pipe, url))


async def _relay(pipe: Connection, url: str) -> None:
    """Asks the model for each request, and passes on its sentences as events: nothing else."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async with http.post(f"{url}/v1/chat/completions", json={"stream": True}) as asked:
            async for line in asked.content:
                if line.startswith(b'data: {"id"'):
                    choices = json.loads(line[6:])["choices"]
                    if choices and (text := choices[0]["delta"].get("content")):
                        await response.write(f"event: sentence\ndata: {json.dumps(text)}\n\n".encode())
        return response

    async with _client() as http:
        app = web.Application()
        app.router.add_post("/", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.to_thread(pipe.recv)
        await runner.cleanup()


async def measure(calls: int, answers: int, waves: int, seconds: float) -> dict[str, Any]:
    """All figures."""
    found: dict[str, Any] = {"load": round(os.getloadavg()[0], 1), "streams": answers * WINDOWS}
    with tempfile.TemporaryDirectory(prefix="indai-bench-") as name:
        base = Path(name)
        if os.geteuid() == 0:
            base.chmod(0o711)  # noqa: ASYNC240 - before anything runs
        try:
            async with Model().serving() as model, _node(base, model) as page:
                with _bare(model) as bare:
                    for side in (page, bare):
                        model.seconds, model.sentences = 0.02, 2
                        found[side.name] = {"first": await first_token(side, model, calls)}
                        idle = psutil.Process(side.pid).memory_info().rss / 2**20
                        model.seconds, model.sentences = seconds, 17
                        rounds = [await wave(side, answers) for _ in range(waves)]
                        found[side.name] |= {"idle_mib": round(idle), "waves": list(map(_figures, rounds))}
        finally:
            discard(base)
    return found


def _figures(one: Wave) -> dict[str, Any]:
    return {
        "open": one.most,
        "events": one.told,
        "lost": one.lost,
        "mib": round(max(one.mib)),
        "cpu": round(one.cpu_s / one.seconds, 2),
        "ms_an_event": round(1000 * one.cpu_s / max(1, one.told), 2),
    }


def render(found: dict[str, Any]) -> list[str]:
    """The tables."""
    lines = [f"first streamed sentence, without the model's own time, ms (load {found['load']})"]
    lines.append(f"{'':10}{'p50':>8}{'p95':>8}{'p99':>8}{'CPU of the whole visit':>24}")
    for side in ("page", "bare"):
        row = found[side]["first"]
        lines.append(f"{side:10}{row['p50_ms']:>8}{row['p95_ms']:>8}{row['p99_ms']:>8}{row['cpu_ms']:>24}")
    lines += ["", f"{found['streams']} open streams, one sentence a second each, in waves"]
    lines.append(f"{'':10}{'open':>8}{'events':>8}{'lost':>6}{'MiB':>6}{'cores':>7}{'ms CPU an event':>17}")
    for side in ("page", "bare"):
        lines.append(f"{side:10}{'before':>8}{'':>8}{'':>6}{found[side]['idle_mib']:>6}")
        for row in found[side]["waves"]:
            lines.append(
                f"{'':10}{row['open']:>8}{row['events']:>8}{row['lost']:>6}{row['mib']:>6}{row['cpu']:>7}"
                f"{row['ms_an_event']:>17}"
            )
    return lines


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--waves", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a few streams: shows that it runs")
    given = parser.parse_args()
    shape = (5, 4, 1, 0.05) if given.quick else (100, 250, given.waves, 1.0)
    found = uvloop.run(measure(*shape))
    sys.stdout.write(json.dumps(found) + "\n" if given.json else "\n".join(render(found)) + "\n")


if __name__ == "__main__":
    main()
