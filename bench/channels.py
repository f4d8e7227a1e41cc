"""`make bench-channels`: how soon a webhook is accepted durably, beside a bare handler that only stores.

Both stand in one server process, over one Postgres that syncs to disk, and are called in turns by this one.
Ours checks the signature, reads the message, keeps senders in their measure and stores what came; behind it,
messages are handed to a conversation that answers at once, and answers wait in the outbox at the provider's
pace. The bare handler stores the body in one INSERT. Each webhook is another sender's.

    python -m bench.channels [--json] [--quick]

CPU is of the serving process for one webhook, at 32 at once: for ours with handing the message on and storing
its answer, which go on meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import aiohttp
import asyncpg
import psutil
import structlog
import uvloop
from aiohttp import web
from indai.edge.accounts import SCHEMA
from indai.edge.edge import EdgePlan, edge
from indai.node.http_server import HttpServer
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import DatabaseUrls, open_pool
from indai.v1 import channels_pb2
from indai.v1 import conversation_pb2 as pb
from indai.v1.channels_pb2_grpc import ChannelServiceStub, add_ChannelServiceServicer_to_server
from indai.v1.conversation_pb2_grpc import (
    ConversationServiceServicer,
    ConversationServiceStub,
    add_ConversationServiceServicer_to_server,
)

from bench.loads import quantile

RATE = 100
AT_ONCE = 32
SECRET = "app-secret"  # noqa: S105 - of a server that lives for a minute
BARE = "CREATE TABLE public.bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"
_numbers = itertools.count(1)

Post = Callable[[], Awaitable[None]]


class _Echo(ConversationServiceServicer):
    """Answers at once."""

    async def SendMessage(  # noqa: N802
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.SendMessageResponse]:
        finished = pb.TurnFinished(reply=pb.Reply(text=request.message.text))
        yield pb.SendMessageResponse(event=pb.TurnEvent(seq=1, finished=finished))

    async def WatchOutbound(  # noqa: N802
        self, request: pb.WatchOutboundRequest, context: Any
    ) -> AsyncIterator[pb.WatchOutboundResponse]:
        await asyncio.Event().wait()
        yield pb.WatchOutboundResponse()


async def measure(rounds: int, calls: int) -> dict[str, Any]:
    """Figures of both handlers."""
    with _server() as (address, pid):
        process = psutil.Process(pid)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE * 2)) as session:
            handlers: dict[str, Post] = {
                "channels": lambda: _post(session, f"{address}/channels/wa"),
                "bare": lambda: _post(session, f"{address}/bare"),
            }
            for post in handlers.values():
                await _closed(post, AT_ONCE, calls)
            paced: dict[str, list[float]] = {name: [] for name in handlers}
            rates: dict[str, list[float]] = {name: [] for name in handlers}
            cpu: dict[str, list[float]] = {name: [] for name in handlers}
            for _ in range(rounds):
                for name, post in handlers.items():
                    paced[name] += await _paced(post, calls)
                for name, post in handlers.items():
                    before = process.cpu_times()
                    rates[name].append(await _closed(post, AT_ONCE, calls * 3))
                    after = process.cpu_times()
                    spent = after.user + after.system - before.user - before.system
                    cpu[name].append(1000 * spent / (calls * 3))
    found: dict[str, Any] = {
        name: {
            "p50_ms": round(quantile(sorted(paced[name]), 0.5), 2),
            "p95_ms": round(quantile(sorted(paced[name]), 0.95), 2),
            "p99_ms": round(quantile(sorted(paced[name]), 0.99), 2),
            "per_second": round(quantile(sorted(rates[name]), 0.5)),
            "cpu_ms": round(quantile(sorted(cpu[name]), 0.5), 2),
        }
        for name in handlers
    }
    ratio = round(found["channels"]["per_second"] / found["bare"]["per_second"], 2)
    return found | {"ratio": ratio, "rate": RATE, "at_once": AT_ONCE, "load": round(os.getloadavg()[0], 1)}


async def _paced(post: Post, calls: int) -> list[float]:
    """Times in ms of webhooks that come at fixed instants."""
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.05

    async def one(number: int) -> float:
        await asyncio.sleep(start + number / RATE - loop.time())
        began = time.perf_counter()
        await post()
        return 1000 * (time.perf_counter() - began)

    return list(await asyncio.gather(*(one(number) for number in range(calls))))


async def _closed(post: Post, level: int, calls: int) -> float:
    """Webhooks a second, so many at once."""
    began = time.perf_counter()

    async def worker() -> None:
        for _ in range(max(1, calls // level)):
            await post()

    await asyncio.gather(*(worker() for _ in range(level)))
    return max(1, calls // level) * level / (time.perf_counter() - began)


async def _post(session: aiohttp.ClientSession, url: str) -> None:
    number = next(_numbers)
    sender = f"91{9_000_000_000 + number}"
    message = {
        "from": sender,
        "id": f"wamid.{number}",
        "timestamp": str(int(time.time())),
        "type": "text",
        "text": {"body": "Set up 30 min with bob this week"},
    }
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550783881", "phone_number_id": "1"},
        "contacts": [{"profile": {"name": "Asha"}, "wa_id": sender}],
        "messages": [message],
    }
    entry = [{"id": "2", "changes": [{"value": value, "field": "messages"}]}]
    body = json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    async with session.post(url, data=body, headers={"X-Hub-Signature-256": f"sha256={signature}"}) as answer:
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")


@contextlib.contextmanager
def _server() -> Iterator[tuple[str, int]]:
    """Its address, and its process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="indai-bench-") as name:
        Path(name).chmod(0o711)
        process = context.Process(target=_serve, args=(theirs, name), daemon=True)
        process.start()
        try:
            address = ours.recv()
            assert process.pid is not None
            yield address, process.pid
        finally:
            ours.send("stop")
            process.join(30)


def _serve(pipe: Connection, folder: str) -> None:
    uvloop.run(_serving(pipe, Path(folder)))


async def _serving(pipe: Connection, folder: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    async with EmbeddedPostgres(folder / "postgres") as server:
        urls = DatabaseUrls.from_server(server)
        await migrate(urls.admin, [SCHEMA])
        admin = await asyncpg.connect(urls.admin)
        await admin.execute(BARE)
        await admin.execute("GRANT INSERT ON public.bare TO indai_app")
        await admin.close()
        async with await open_pool(urls.app) as pool:
            add = add_ConversationServiceServicer_to_server
            echo = _Echo()  # type: ignore[abstract]
            plan = EdgePlan(
                pool=pool,
                conversation=ConversationServiceStub(local_channel([Service(add, echo)])),
                secret=_secret,
                key=b"k" * 32,
                clock=lambda: time.time_ns() // 1_000_000,
                media=folder / "media",
                authority="ind.ai",
                url=lambda: "",
            )

            async def bare(request: web.Request) -> web.Response:
                body = await request.read()
                await pool.execute("INSERT INTO public.bare (body) VALUES ($1)", body)
                return web.Response()

            async with edge(plan) as role:
                await _add(role.servicer)
                http = await HttpServer.start("127.0.0.1:0", [*role.routes, web.post("/bare", bare)])
                pipe.send(f"http://{http.address}")
                await asyncio.to_thread(pipe.recv)
                await http.stop()


async def _secret(_: str) -> str:
    return SECRET


async def _add(servicer: Any) -> None:
    stub = ChannelServiceStub(local_channel([Service(add_ChannelServiceServicer_to_server, servicer)]))
    references = {name: f"vault:{name}" for name in ("app_secret", "verify_token", "access_token")}
    # Nobody listens there: answers wait in the outbox, as they do when a provider is down.
    settings = {"phone_number_id": "1", "api": "http://127.0.0.1:9", **references}
    channel = channels_pb2.Channel(
        name="wa", provider="whatsapp-cloud", account="+15550783881", settings=settings
    )
    await stub.PutChannel(channels_pb2.PutChannelRequest(channel=channel))


def render(found: dict[str, Any]) -> list[str]:
    """The table."""
    lines = [f"webhooks, {found['rate']} a second; then {found['at_once']} at once (load {found['load']})"]
    lines.append(f"{'':10}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'a second':>10}{'CPU ms':>8}")
    for name in ("channels", "bare"):
        row = found[name]
        times = "".join(f"{row[key]:>9}" for key in ("p50_ms", "p95_ms", "p99_ms"))
        lines.append(f"{name:10}{times}{row['per_second']:>10}{row['cpu_ms']:>8}")
    return [*lines, f"throughput beside the bare handler: {found['ratio']}"]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    given = parser.parse_args()
    rounds, calls = (1, 60) if given.quick else (5, 500)
    found = uvloop.run(measure(rounds, calls))
    sys.stdout.write(json.dumps(found) + "\n" if given.json else "\n".join(render(found)) + "\n")


if __name__ == "__main__":
    main()
