"""`python -m bench.turn`: what a turn costs its node, with the built-in provider, which takes very little.

python -m bench.turn            a minute
python -m bench.turn --quick    seconds: shows that it runs, and measures nothing well

Conversations, the gateway and memory in this process, with the real model of embeddings, over a Postgres that
syncs to disk. A message is timed from the call of `SendMessage` to its end, when everything is stored.

- *greeting*: answered by rule. *question*: recalled, asked of a model. *tool*: a model calls a tool, and is
  asked again with what it found.
- *node's share*: one message after the other, each of another person. *turns/s*: 16 at once.
- *cpu*: ms of processor a turn, with all that memory does afterwards: the clocks run until memory has taken
  everything. *loop* is the event loop's thread; *python* is the whole process, of which most is memory's
  model, in threads of its own, embedding what was said. Other programs disturb these less than the times.
- *statements*: what a turn and its memory ask of the database, each a round trip.
- *assembly*: of the prompt, from the turns' own stage times.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import uvloop
from indai.llm.config import BUILT_IN, parse_config
from indai.llm.servicer import LlmService
from indai.llm.store import Store
from indai.node.conversation_role import ConversationPlan, conversations
from indai.node.inprocess import local_channel
from indai.node.kinds.money import spoken
from indai.node.memory_role import memory_role
from indai.node.roles import ORDER
from indai.node.service import Service
from indai.protocol.errors import NotFound, Reason
from indai.runtime.bindings import Bindings
from indai.runtime.tierstore import TierStore
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import DatabaseUrls, open_pool, transaction
from indai.tools.approvals import Approvals
from indai.tools.store import CallStore
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Effect, Progress, Spec
from indai.v1 import conversation_pb2 as pb
from indai.v1 import llm_pb2_grpc, memory_pb2_grpc

from bench.child import cpu
from bench.loads import quantile

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

OWNERS = [f"ind.ai/bench{number}" for number in range(32)]
TEXTS = {
    "greeting": "hello",
    "question": "which of the three paints did we say lasts longest outside the house?",
    "tool": "Set up 30 min with bob this week",
}
AT_ONCE = 16
SETTLES_S = 180


@dataclass(frozen=True)
class Meet:
    """A tool that answers at once."""

    @property
    def spec(self) -> Spec:
        text = {"type": "string"}
        properties = {"with": text, "duration_minutes": {"type": "integer"}, "when": text}
        return Spec(
            "meet",
            "Set up a meeting.",
            {
                "type": "object",
                "properties": properties,
                "required": ["with"],
                "additionalProperties": False,
            },
            {"type": "object", "properties": {"summary": text}},
            Effect.ACT,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        return {"summary": f"Agreed with {arguments['with']}: Tuesday, 10:00."}


@dataclass(frozen=True)
class Bench:
    """What is measured. `aside`: a pool whose statements do not count."""

    stub: ConversationServiceAsyncStub
    asked: Asked
    aside: asyncpg.Pool


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@contextlib.asynccontextmanager
async def serving(pool: asyncpg.Pool) -> AsyncIterator[ConversationServiceAsyncStub]:
    """Conversations with everything that they need."""

    async def secret(_: str) -> str:
        raise NotFound(Reason.NOT_FOUND, "There are no secrets here.")

    gateway = LlmService(parse_config(BUILT_IN), Store(pool), secret, now_ms)
    add = llm_pb2_grpc.add_LlmServiceServicer_to_server
    llm = llm_pb2_grpc.LlmServiceStub(local_channel([Service(add, gateway)]))
    tiers = TierStore(pool)
    toolbox = NodeToolbox([Meet()], CallStore(pool), Approvals(pool), now_ms, spoken)
    async with memory_role(pool, now_ms, None) as service, Bindings(pool, tiers) as bindings:
        memory = memory_pb2_grpc.MemoryServiceStub(local_channel([service]))
        plan = ConversationPlan(
            pool,
            now_ms,
            1,
            tiers,
            bindings,
            set(OWNERS),
            lambda _: "Asia/Kolkata",
            (),
            toolbox,
            llm,
            memory,
        )
        async with conversations(plan) as talks:
            yield talks.stub
    await gateway.close()


async def one(stub: ConversationServiceAsyncStub, owner: str, text: str) -> float:
    """Milliseconds from the call to the end."""
    sender = pb.Identity(channel="cli", kind="handle", value=owner, verified=True)
    request = pb.SendMessageRequest(message=pb.InboundMessage(sender=sender, account=owner, text=text))
    begun = time.perf_counter()
    async for response in stub.SendMessage(request, timeout=120):
        if response.event.HasField("finished") and response.event.finished.reason:
            raise SystemExit(f"a turn failed: {response.event.finished.reason}")
    return (time.perf_counter() - begun) * 1000


@dataclass
class Asked:
    """How many statements the database was sent."""

    statements: int = 0

    async def watch(self, connection: asyncpg.Connection) -> None:
        """Count what this connection sends from now on."""
        connection.add_query_logger(self._note)

    def _note(self, _: object) -> None:
        self.statements += 1


async def measure(bench: Bench, text: str, count: int) -> dict[str, float]:
    """One after the other, then several at once."""
    owners = itertools.cycle(OWNERS)
    for _ in OWNERS:
        await one(bench.stub, next(owners), text)
    await settled(bench.aside)
    used, statements = clocks(), bench.asked.statements
    took = [await one(bench.stub, next(owners), text) for _ in range(count)]
    await settled(bench.aside)
    spent = {name: 1000 * (total - used[name]) / count for name, total in clocks().items()}
    statements = bench.asked.statements - statements
    begun, room = time.perf_counter(), asyncio.Semaphore(AT_ONCE)

    async def beside() -> None:
        async with room:
            await one(bench.stub, next(owners), text)

    await asyncio.gather(*(beside() for _ in range(count)))
    rate = count / (time.perf_counter() - begun)
    return {
        "p50_ms": round(quantile(sorted(took), 0.5), 1),
        "p95_ms": round(quantile(sorted(took), 0.95), 1),
        "turns_per_s": round(rate, 1),
        "loop_cpu_ms": round(spent["loop"], 1),
        "python_cpu_ms": round(spent["python"], 1),
        "postgres_cpu_ms": round(spent["postgres"], 1),
        "statements": round(statements / count, 1),
    }


def clocks() -> dict[str, float]:
    """Seconds of processor so far: of the event loop's thread, of this process, and of its Postgres."""
    return {"loop": time.thread_time(), **cpu()}


async def settled(pool: asyncpg.Pool) -> None:
    """Memory has taken every message, and done what is due."""
    async with asyncio.timeout(SETTLES_S):
        while True:
            async with transaction(pool, OWNERS) as connection:
                left = await connection.fetchval(
                    "SELECT (SELECT count(*) FROM runtime.messages WHERE NOT remembered)"
                    " + (SELECT count(*) FROM memory.pgqueuer"
                    "    WHERE status IN ('queued', 'picked') AND execute_after <= now())"
                )
            if not left:
                return
            await asyncio.sleep(0.05)


async def stage_times(pool: asyncpg.Pool) -> dict[str, dict[str, float]]:
    """p50 and p95 of each stage, from the rows of the turns."""
    async with transaction(pool, OWNERS) as connection:
        rows = await connection.fetch("SELECT stage_ms FROM runtime.turns WHERE state = 'finished'")
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, took in json.loads(row["stage_ms"]).items():
            found.setdefault(name, []).append(took)
    return {
        name: {
            "p50_ms": round(quantile(sorted(took), 0.5), 2),
            "p95_ms": round(quantile(sorted(took), 0.95), 2),
        }
        for name, took in sorted(found.items())
    }


async def run(count: int) -> dict[str, Any]:
    """Everything, in a database of its own."""
    data = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    try:
        async with EmbeddedPostgres(data / "postgres") as server:
            urls = DatabaseUrls.from_server(server)
            await migrate(urls.admin, ORDER)
            asked = Asked()
            pool, aside = await open_pool(urls.app, init=asked.watch), await open_pool(urls.app, max_size=1)
            try:
                async with serving(pool) as stub:
                    bench = Bench(stub, asked, aside)
                    turns = {name: await measure(bench, text, count) for name, text in TEXTS.items()}
                return {"turns": turns, "stages": await stage_times(pool)}
            finally:
                await pool.close()
                await aside.close()
    finally:
        shutil.rmtree(data, ignore_errors=True)


def main() -> None:
    """Print the tables, or with --json the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = uvloop.run(run(5 if given.quick else 200))
    if given.json:
        print(json.dumps(figures))
        return
    for title, rows in figures.items():
        names = list(next(iter(rows.values())))
        print(f"\n{title:16}" + "".join(f"{name:>16}" for name in names))
        for name, values in rows.items():
            print(f"{name:16}" + "".join(f"{values[each]:>16}" for each in names))


if __name__ == "__main__":
    main()
