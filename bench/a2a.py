"""`make bench-a2a`: SendMessage on the three bindings of A2A, beside the published SDK's own server.

Both answer a message with a task that is completed at once. Ours is stored in Postgres before it is answered
(the embedded server, as `indai up` starts it); the SDK's lives in memory. One client for both, in this
process; rounds alternate, so that what else the machine does falls on both.

    python -m bench.a2a [--json] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from grpc import aio

LEVELS = (1, 16, 64)
BINDINGS = ("grpc", "jsonrpc", "rest")
ROUNDS = 5
CALLS = {1: 60, 16: 320, 64: 640}
VERSION = {"A2A-Version": "1.0"}

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Server:
    """Where one server's bindings are."""

    grpc: str
    jsonrpc: str
    rest: str


async def measure(rounds: int, calls: dict[int, int]) -> dict[str, Any]:
    """Figures of both servers by binding and level."""
    async with contextlib.AsyncExitStack() as stack:
        ours, sdk = await stack.enter_async_context(_ours()), await stack.enter_async_context(_sdk())
        servers = {"ours": ours, "sdk": sdk}
        found: dict[str, Any] = {}
        for binding in BINDINGS:
            made = {
                name: await stack.enter_async_context(_caller(server, binding))
                for name, server in servers.items()
            }
            for name in made:
                await _run(made[name], 8, 64)
            for level in LEVELS:
                rows: dict[str, list[tuple[float, float, float]]] = {"ours": [], "sdk": []}
                for at in range(rounds):
                    for name in ("ours", "sdk") if at % 2 else ("sdk", "ours"):
                        rows[name].append(await _run(made[name], level, calls[level]))
                found[f"{binding} {level}"] = _figures(rows)
        return found


def _figures(rows: dict[str, list[tuple[float, float, float]]]) -> dict[str, Any]:
    figures = {
        name: {
            "per_second": round(statistics.median(row[0] for row in given)),
            "p50_ms": round(statistics.median(row[1] for row in given), 1),
            "p99_ms": round(statistics.median(row[2] for row in given), 1),
        }
        for name, given in rows.items()
    }
    ratios = [ours[0] / sdk[0] for ours, sdk in zip(rows["ours"], rows["sdk"], strict=True)]
    return figures | {"ratio": round(statistics.median(ratios), 2)}


async def _run(call: Call, level: int, count: int) -> tuple[float, float, float]:
    """Calls a second, p50 and p99 in ms."""
    took: list[float] = []

    async def worker() -> None:
        for _ in range(count // level):
            began = time.perf_counter()
            await call()
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(level)))
    spent = time.perf_counter() - began
    took.sort()
    return len(took) / spent, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3


@contextlib.asynccontextmanager
async def _caller(server: Server, binding: str) -> AsyncIterator[Call]:
    if binding == "grpc":
        async with aio.insecure_channel(server.grpc) as channel:
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]

            async def over_grpc() -> None:
                message = pb.Message(message_id=_id(), role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
                answer = await stub.SendMessage(
                    pb.SendMessageRequest(message=message), metadata=(("a2a-version", "1.0"),), timeout=60
                )
                assert answer.task.status.state == pb.TASK_STATE_COMPLETED

            yield over_grpc
        return
    async with aiohttp.ClientSession(headers=VERSION, connector=aiohttp.TCPConnector(limit=100)) as session:

        async def over_http() -> None:
            body: dict[str, Any] = {
                "message": {"messageId": _id(), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
            }
            url = server.rest + "/message:send"
            if binding == "jsonrpc":
                url = server.jsonrpc
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body}
            async with session.post(url, json=body) as answer:
                said = await answer.json(content_type=None)
            task = (said["result"] if binding == "jsonrpc" else said)["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"

        yield over_http


def _id() -> str:
    return f"tck-complete-task-{uuid.uuid4().hex}"


@contextlib.asynccontextmanager
async def _ours() -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="indai-bench-a2a-") as folder:
        Path(folder).chmod(0o711)  # noqa: ASYNC240 - before anything is measured
        options = ["--data", f"{folder}/data", "--listen", "http=127.0.0.1:0", "--listen", "a2a=127.0.0.1:0"]
        words = ["-m", "indai.cli.main", "up", "--role", "edge", "--conformance", *options, "--json"]
        async with _child(words) as line:
            roles = json.loads(line)["roles"]
            yield Server(roles["a2a"], f"http://{roles['http']}/a2a/jsonrpc", f"http://{roles['http']}/a2a")


@contextlib.asynccontextmanager
async def _sdk() -> AsyncIterator[Server]:
    async with _child(["-m", "bench.a2a", "--serve"]) as line:
        grpc, http = line.split()
        yield Server(grpc, f"http://{http}/rpc", f"http://{http}")


@contextlib.asynccontextmanager
async def _child(words: list[str]) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def serve_sdk() -> None:
    """The SDK's own server on all three bindings, its tasks in memory."""
    import uvicorn  # noqa: PLC0415 - only in this child
    from a2a.helpers.proto_helpers import new_task_from_user_message  # noqa: PLC0415
    from a2a.server.agent_execution import AgentExecutor  # noqa: PLC0415
    from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler  # noqa: PLC0415
    from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes  # noqa: PLC0415
    from a2a.server.routes.rest_routes import create_rest_routes  # noqa: PLC0415
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater  # noqa: PLC0415
    from starlette.applications import Starlette  # noqa: PLC0415

    class Agent(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.complete(updater.new_agent_message([pb.Part(text="Hello from TCK")]))

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    card = pb.AgentCard(name="bench", description="Answers.", version="1", capabilities={"streaming": True})
    card.default_input_modes.append("text/plain")
    card.default_output_modes.append("text/plain")
    card.supported_interfaces.add(url="127.0.0.1", protocol_binding="GRPC", protocol_version="1.0")
    card.skills.add(id="hello", name="hello", description="Says hello.", tags=["hello"])
    handler = DefaultRequestHandler(Agent(), InMemoryTaskStore(), card)
    server = aio.server()
    add: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
    add(GrpcHandler(handler), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    app = Starlette(routes=[*create_jsonrpc_routes(handler, "/rpc"), *create_rest_routes(handler)])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
    site = uvicorn.Server(config)
    running = asyncio.create_task(site.serve())
    while not site.started:  # noqa: ASYNC110 - it offers no event
        await asyncio.sleep(0.01)
    http = site.servers[0].sockets[0].getsockname()[1]
    print(f"127.0.0.1:{port} 127.0.0.1:{http}", flush=True)
    await running


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.a2a", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it runs")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        uvloop.run(serve_sdk())
        return
    calls = dict.fromkeys(LEVELS, 64) if arguments.quick else CALLS
    found = uvloop.run(measure(1 if arguments.quick else ROUNDS, calls))
    if arguments.json:
        print(json.dumps(found))
        return
    print("| binding, at once | ours /s | p50 / p99 ms | SDK in memory /s | p50 / p99 ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, row in found.items():
        ours, sdk = row["ours"], row["sdk"]
        print(
            f"| {name} | {ours['per_second']} | {ours['p50_ms']} / {ours['p99_ms']} "
            f"| {sdk['per_second']} | {sdk['p50_ms']} / {sdk['p99_ms']} | {row['ratio']} |"
        )


if __name__ == "__main__":
    main()
