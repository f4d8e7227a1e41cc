"""`python -m bench.llm`: what the gateway adds to a call of a model, beside the same call made directly.

python -m bench.llm            two minutes
python -m bench.llm --quick    seconds: shows that it runs, and measures nothing well

A process of its own speaks the wire format of each provider and answers at once, so that what is measured is
ours. Requests start at fixed instants, 100 a second (20 through Anthropic's SDK), whether earlier ones have
ended or not. Direct calls and calls through the gateway take turns in blocks. Direct is the plainest client
for the format: aiohttp for an OpenAI-compatible server, Anthropic's SDK for its own. The gateway is called
through its stub, in the process, with a limit to reserve from and a row to store, in a Postgres that syncs to
disk. *abroad*: the same provider as if it were in another country, so that every prompt is searched for
personal data before it leaves, and every answer for what is put back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import aiohttp
import anthropic
import uvloop
from aiohttp import web
from indai.llm.config import Config, parse_config
from indai.llm.servicer import LlmService
from indai.llm.store import SCHEMA, Store
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import DatabaseUrls, open_pool
from indai.v1 import llm_pb2 as pb
from indai.v1.llm_pb2_grpc import LlmServiceStub, add_LlmServiceServicer_to_server

from bench.loads import quantile

RATES = {"openai": 100, "anthropic": 20}
"""Requests a second: of Anthropic's SDK, whose call alone takes several ms of processor, one process can make
fewer."""
WORDS = ("The", " answer", " is", " forty", "-two", ".")
PROMPT = "You are an agent; call +91 98765 43210 or mail shop@example.com. " + "Be kind. " * 400
SCOPE = pb.LlmScope(tenant="bench", binding="desk", owner="ind.ai/bench")
CONFIG = """\
version: 1
providers:
  openai: {{kind: openai, base_url: "{address}/v1"}}
  anthropic: {{kind: anthropic, base_url: "{address}", key: vault:any}}
models:
  openai: {{provider: openai, model: m, input: 3, output: 15}}
  anthropic: {{provider: anthropic, model: m, input: 3, output: 15}}
routes: {{default: [openai]}}
"""

Call = Callable[[], Awaitable[float]]
"""Makes a call, gives ms to its first text."""


async def measure(base: Path, blocks: int, requests: int) -> dict[str, Any]:
    """Figures for each provider."""
    with upstream() as address:
        async with _gateway(base, address) as gateway, aiohttp.ClientSession() as session:
            client = anthropic.AsyncAnthropic(
                api_key="k", base_url=address, max_retries=0, open_telemetry=False
            )
            direct: dict[str, Call] = {
                "openai": lambda: _openai(session, address),
                "anthropic": lambda: _anthropic(client),
            }
            found = {
                name: await _compare(call, gateway(name), RATES[name], blocks, requests * RATES[name] // 100)
                for name, call in direct.items()
            }
            with mock.patch.object(Config, "leaves_country", return_value=True):
                rate = RATES["openai"]
                found["abroad"] = await _compare(direct["openai"], gateway("openai"), rate, blocks, requests)
            return found


async def _compare(direct: Call, gateway: Call, rate: int, blocks: int, requests: int) -> dict[str, Any]:
    for call in (direct, gateway):
        await _block(call, rate, max(1, requests // 2))  # connections, caches, imports
    found: dict[str, list[tuple[float, float]]] = {"direct": [], "gateway": []}
    cpu = dict.fromkeys(found, 0.0)
    for _ in range(blocks):
        for name, call in (("direct", direct), ("gateway", gateway)):
            began = time.process_time()
            found[name] += await _block(call, rate, requests)
            cpu[name] += time.process_time() - began
    figures: dict[str, Any] = {
        name: {
            "first_p50_ms": _figure([first for first, _ in times], 0.5),
            "first_p99_ms": _figure([first for first, _ in times], 0.99),
            "whole_p50_ms": _figure([whole for _, whole in times], 0.5),
            "whole_p99_ms": _figure([whole for _, whole in times], 0.99),
            "cpu_ms": round(1000 * cpu[name] / len(times), 3),
        }
        for name, times in found.items()
    }
    figures["added"] = {
        key: round(figures["gateway"][key] - value, 3) for key, value in figures["direct"].items()
    }
    return figures | {"requests": blocks * requests, "per_second": rate}


async def _block(call: Call, rate: int, requests: int) -> list[tuple[float, float]]:
    """(ms to the first text, ms to the end) of requests that start at fixed instants."""
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.05

    async def one(number: int) -> tuple[float, float]:
        await asyncio.sleep(start + number / rate - loop.time())
        began = time.perf_counter()
        first = await call()
        return first, 1000 * (time.perf_counter() - began)

    return list(await asyncio.gather(*(one(number) for number in range(requests))))


@contextlib.asynccontextmanager
async def _gateway(base: Path, address: str) -> AsyncIterator[Callable[[str], Call]]:
    async def secret(_: str) -> str:
        return "k"

    async with EmbeddedPostgres(base / "postgres") as server:
        urls = DatabaseUrls.from_server(server)
        await migrate(urls.admin, [SCHEMA])
        pool = await open_pool(urls.app)
        config = parse_config(CONFIG.format(address=address))
        servicer = LlmService(config, Store(pool), secret, lambda: time.time_ns() // 1_000_000)
        stub: Any = LlmServiceStub(local_channel([Service(add_LlmServiceServicer_to_server, servicer)]))
        limit = pb.SpendingLimit(
            tenant="bench",
            key=pb.LIMIT_KEY_OWNER,
            subject=SCOPE.owner,
            period=pb.LIMIT_PERIOD_DAY,
            limit_micros=10**12,
        )
        await stub.SetSpendingLimit(pb.SetSpendingLimitRequest(limit=limit))
        try:
            yield lambda name: lambda: _through(stub, name)
        finally:
            await servicer.close()
            await pool.close()


async def _through(stub: Any, model: str) -> float:
    request = pb.GenerateRequest(
        scope=SCOPE,
        system=[pb.SystemBlock(text=PROMPT, cache_boundary=True)],
        messages=[pb.ChatMessage(role=pb.MESSAGE_ROLE_USER, text="What is it?")],
        model_class=pb.MODEL_CLASS_DEFAULT,
        model=model,
    )
    began, first = time.perf_counter(), 0.0
    async for event in stub.Generate(request):
        if event.text and not first:
            first = 1000 * (time.perf_counter() - began)
        if event.HasField("done"):
            assert event.done.finish == pb.FINISH_STOP, event.done
    return first


async def _openai(session: aiohttp.ClientSession, address: str) -> float:
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "What is it?"}]
    began, first = time.perf_counter(), 0.0
    body = {"model": "m", "messages": messages, "stream": True}
    async with session.post(f"{address}/v1/chat/completions", json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                said = json.loads(line[6:])["choices"]
                if said and said[0]["delta"].get("content") and not first:
                    first = 1000 * (time.perf_counter() - began)
    return first


async def _anthropic(client: anthropic.AsyncAnthropic) -> float:
    began, first = time.perf_counter(), 0.0
    stream = await client.messages.create(
        model="m",
        max_tokens=1024,
        system=PROMPT,
        messages=[{"role": "user", "content": "What is it?"}],
        stream=True,
    )
    async for event in stream:
        if event.type == "content_block_delta" and not first:
            first = 1000 * (time.perf_counter() - began)
    return first


def _figure(values: list[float], part: float) -> float:
    return round(quantile(sorted(values), part), 3)


@contextlib.contextmanager
def upstream() -> Iterator[str]:
    """The address of a server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", _answering(_openai_events()))
        app.router.add_post("/v1/messages", _answering(_anthropic_events()))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    uvloop.run(run())


def _answering(events: list[bytes]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(event)
        await response.write_eof()
        return response

    return answer


def _openai_events() -> list[bytes]:
    chunks = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in WORDS]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 6}}
    return [b"data: %s\n\n" % json.dumps(each).encode() for each in (*chunks, end, usage)] + [
        b"data: [DONE]\n\n"
    ]


def _anthropic_events() -> list[bytes]:
    usage = {"input_tokens": 900, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    events += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        for word in WORDS
    ]
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 6}},
        {"type": "message_stop"},
    ]
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events]


def render(found: dict[str, Any]) -> str:
    """The table, 80 columns wide."""
    lines = [f"{'ms':24}{'first text':>20}{'whole answer':>20}{'processor':>12}"]
    lines += [f"{'':24}{'p50':>10}{'p99':>10}{'p50':>10}{'p99':>10}{'each':>12}"]
    for name, figures in found.items():
        for row in ("direct", "gateway", "added"):
            *times, cpu = figures[row].values()
            cells = "".join(f"{value:>10.2f}" for value in times) + f"{cpu:>12.2f}"
            title = f"{name} {figures['per_second']}/s, {row}"
            lines.append(f"{title:24}{cells}")
    lines += [
        "added: the gateway's figure less the direct call's (aim: p50 2, p99 10)",
        "processor: of this process, in which the client and the gateway run",
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.llm")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    blocks, requests = (1, 20) if arguments.quick else (6, 400)
    try:
        found = uvloop.run(measure(base, blocks, requests))
    except BaseException:
        print(f"What was left is in {base}.", file=sys.stderr)
        raise
    shutil.rmtree(base, ignore_errors=True)
    print(json.dumps(found) if arguments.json else render(found))


if __name__ == "__main__":
    main()
