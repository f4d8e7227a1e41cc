"""`python -m bench.memory_load`: what the memory service costs, without the embedding model.

python -m bench.memory_load            a few minutes; 100,000 chunks in 1,000 scopes
python -m bench.memory_load --quick    seconds: shows that it runs, and measures nothing well

An embedded Postgres and the service in this process, called as in-process neighbours call it. Vectors are
made from each text's hash, as wide as the model's: the database's work is the same, the model's is left out.

- *written*: turns a second, stored with terms, places and jobs; in calls of 100 and of 1,000.
- *recall*: a question to one scope of so many, by words, and by words and vectors; both with neighbours.
- *flat*: the same question when there are a tenth of the scopes, and all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import uvloop
from indai.memory.interfaces import Embedder
from indai.memory.queue import Job, Task
from indai.memory.servicer import MemoryService
from indai.memory.session import SCHEMA
from indai.memory.work import Work
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import DatabaseUrls, open_pool
from indai.v1 import memory_pb2 as pb

from bench.loads import Load, run

TENANT = "ind.ai/bench"
WIDTH = 384
CONTEXT: Any = None
_WORDS = [f"{one}{two}" for one in "bdfghjklmn" for two in ("alan", "emir", "idos", "otek", "uvun", "apal")]
_WORDS += [f"{word}{number}" for word in _WORDS for number in range(20)]


class Hashed:
    """Vectors from hashes."""

    model, width = "hashed", WIDTH

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        """One vector of `width` numbers for each text."""
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
        return [np.random.default_rng(seed).standard_normal(WIDTH).round(4).tolist() for seed in seeds]


def service(pool: asyncpg.Pool, embedder: Embedder | None) -> MemoryService:
    """The service on this machine's clock."""
    return MemoryService(pool, _now_ms, embedder)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def access(scope: int) -> pb.Access:
    """One end user of a branded agent: a scope of their own."""
    return pb.Access(tenant=TENANT, door=pb.DOOR_DISTRIBUTION, person=f"person-{scope}", binding="bench")


def sentence(chance: random.Random) -> str:
    """Twelve words, the frequent ones more often."""
    return " ".join(_WORDS[int(len(_WORDS) * chance.random() ** 2)] for _ in range(12))


async def fill(memory: MemoryService, scopes: range, chunks: int) -> float:
    """Turns a second, in calls of `chunks`."""
    chance = random.Random(scopes.start)
    begun = time.perf_counter()
    for scope in scopes:
        turns = [
            pb.Turn(
                source_id=str(n), session="s", speaker="p", role=pb.SPEAKER_ROLE_PERSON, text=sentence(chance)
            )
            for n in range(chunks)
        ]
        await memory.Remember(pb.RememberRequest(access=access(scope), turns=turns), CONTEXT)
    return len(scopes) * chunks / (time.perf_counter() - begun)


async def embed(pool: asyncpg.Pool, work: Work) -> None:
    """Vectors for all that lacks one."""
    for row in await pool.fetch("SELECT DISTINCT scope FROM memory.scope_models WHERE model = ''"):
        await work.embed(Job(Task.EMBED, row["scope"]))


async def asked(memory: MemoryService, scopes: int, calls: int) -> Load:
    """One question after the other, to one scope each."""
    chance = random.Random(7)
    questions = iter([(access(chance.randrange(scopes)), sentence(chance)[:40]) for _ in range(2 * calls)])

    async def ask() -> None:
        who, query = next(questions)
        await memory.Recall(pb.RecallRequest(access=who, query=query), CONTEXT)

    await run(ask, 1, calls)  # plans and pages are warm, as in a service that runs
    return await run(ask, 1, calls)


async def measure(base: Path, scopes: int, chunks: int, calls: int) -> dict[str, Any]:
    """Everything, one after the other."""
    async with EmbeddedPostgres(base / "postgres") as server:
        urls = DatabaseUrls.from_server(server)
        await migrate(urls.admin, [SCHEMA])
        pool = await open_pool(urls.app)
        found = await _measured(pool, urls.admin, scopes, chunks, calls)
        await pool.close()
    return found


async def _measured(pool: asyncpg.Pool, admin: str, scopes: int, chunks: int, calls: int) -> dict[str, Any]:
    words, both = service(pool, None), service(pool, Hashed())
    work = Work(pool, None, Hashed(), _now_ms)
    written = {f"calls of {chunks}": await fill(words, range(scopes // 10), chunks)}
    recall = {}
    for part in (range(scopes // 10), range(scopes // 10, scopes)):
        if part.start:
            await fill(words, part, chunks)
        await embed(pool, work)
        await _settle(admin)
        for name, memory in (("words", words), ("words and vectors", both)):
            load = await asked(memory, part.stop, calls)
            label = f"{name}, {part.stop * chunks:,} chunks in {part.stop:,} scopes"
            recall[label] = load.figures() | {"p95_ms": round(load.quantile(0.95), 2)}
    large = range(scopes, scopes + max(1, 5 * chunks * scopes // 100_000))
    written["calls of 1,000"] = await fill(words, large, 1_000)
    return {"written_per_second": {name: round(rate) for name, rate in written.items()}, "recall": recall}


async def _settle(admin: str) -> None:
    """What autovacuum does in its own time."""
    connection = await asyncpg.connect(admin)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


def render(found: dict[str, Any]) -> str:
    """The table, 80 columns wide."""
    lines = [f"{'':52}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}"]
    for name, row in found["recall"].items():
        lines.append(f"{name:52}{row['p50_ms']:>9.2f}{row['p95_ms']:>9.2f}{row['p99_ms']:>9.2f}")
    rates = (f"{name}: {rate:,} turns/s" for name, rate in found["written_per_second"].items())
    return "\n".join(itertools.chain(lines, ["written, " + "; ".join(rates)]))


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory_load")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    plan = (20, 20, 20) if arguments.quick else (1_000, 100, 500)
    try:
        found = uvloop.run(measure(base, *plan))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(json.dumps(found) if arguments.json else render(found))


if __name__ == "__main__":
    main()
