"""`python -m bench.commitments`: what the ledger and its auditor cost, beside bare inserts in the same run.

python -m bench.commitments                   a few minutes
python -m bench.commitments --sustained 600   ten minutes of appends at the end instead of one
python -m bench.commitments --appends         the first table alone: a minute
python -m bench.commitments --quick           seconds: shows that it runs, and measures nothing well

- *appends*: callers that each wait for an entry with its content, by group commit; the bare side is the same
  group commit over plain inserts of the same sealed rows, so batches form alike. Sides take turns.
- *proofs*: receipts made by the service from the stored tiles, one caller.
- *size*: of all tables with their indexes, for each million entries.
- *check*: the live ledger against itself, as `indai ledger fsck`.
- *sustained*: appends for so long, with the memory of this process at each tenth.
- *start*: taking over and signing a log of millions of leaves, cold: first with all of them under no head,
  then with all of them under one. The database itself makes leaves and their names, in the real form, without
  contents: a start does not read those.
- *audit*: two nodes' exports of real deals, by one process and by all cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from indai.client.audit import audit
from indai.ledger.entries import Entry, record
from indai.ledger.export import LedgerIdentity
from indai.ledger.fsck import Subject, check
from indai.ledger.servicer import LedgerService
from indai.protocol.keys import SigningKey
from indai.tlog.append import Writer, take_over
from indai.tlog.sequencer import GroupCommit
from indai.tlog.signer import LogKeys, LogSigner
from indai.v1 import ledger_pb2

from bench.database import database
from bench.ledger import LOG, OWNERS, SETUP, VAULT, Bare, some_entries
from bench.loads import Load, run
from tests.unit.audit.worlds import HOUR, NOW, Deal, World
from tests.unit.ledger_keys import held

KEYS = LogKeys(LOG, SigningKey.from_seed(b"\x01" * 32), f"{LOG}/time", SigningKey.from_seed(b"\x02" * 32))
TABLES = ("tlog.leaf", "tlog.entry", "tlog.tile", "tlog.checkpoint", "ledger.contents", "ledger.content_keys")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    at_once: tuple[int, ...]
    entries: int  # a level and side
    rounds: int
    proofs: int
    deals: int
    sustained_s: float
    leaves: int  # of the log that is started with, beside those that were appended


FULL = Plan((1, 16, 64, 256, 1024), 4096, 4, 500, 5_000, 60.0, 2_000_000)
QUICK = Plan((1, 16), 64, 1, 10, 20, 0.5, 5_000)

# A leaf is version, kind, time and a hash; here the hash is of the leaf's place, which nothing opens.
_FILL = """
    WITH numbered AS (
      SELECT i, sha256(int8send(i)) AS hash FROM generate_series($2::bigint, $3::bigint - 1) AS i
    ), leaves AS (
      INSERT INTO tlog.leaf (log, idx, leaf, time)
      SELECT $1, i, '\\x0101'::bytea || int8send($4::bigint) || hash,
        timestamptz 'epoch' + $4 * interval '1 ms'
      FROM numbered
    )
    INSERT INTO tlog.entry (log, owner, mid, kind, idx)
    SELECT $1, 'ind.ai/owner-0', hash, 1, i FROM numbered
"""


async def appends(plan: Plan, base: Path) -> dict[str, Any]:
    """Waiting callers alone."""
    async with database(base / "postgres") as (pool, admin):
        connection = await asyncpg.connect(admin)
        await connection.execute(SETUP)
        await connection.close()
        writer, bare = await take_over(pool, LOG), Bare(pool)
        return {"appends": [await _level(pool, writer, bare, plan, n) for n in plan.at_once]}


async def measure(plan: Plan, base: Path) -> dict[str, Any]:
    """Everything, one after the other."""
    async with database(base / "postgres") as (pool, admin):
        connection = await asyncpg.connect(admin)
        await connection.execute(SETUP)
        writer, bare = await take_over(pool, LOG), Bare(pool)
        found: dict[str, Any] = {"appends": [await _level(pool, writer, bare, plan, n) for n in plan.at_once]}
        signer = await LogSigner.open(pool, KEYS, base / "heads", _now_ms)
        await signer.publish()
        found["size"] = await _size(connection)
        found["proofs"] = await _proofs(pool, signer, plan.proofs)
        found["check"] = await _check(pool, signer)
        found["sustained"] = await _sustained(pool, plan.sustained_s)
        await _fill(connection, plan.leaves)
        found["start"] = await _start(pool, base / "heads")
        await connection.close()
    found["audit"] = await asyncio.to_thread(_audit, base / "exports", plan.deals)
    return found


def _ours(pool: asyncpg.Pool, writer: Writer) -> GroupCommit[Entry, int]:
    async def write(connection: asyncpg.Connection, entries: Sequence[Entry]) -> list[int]:
        return await record(connection, LOG, writer.epoch, entries, VAULT)

    async def look_up(connection: asyncpg.Connection, entries: Sequence[Entry]) -> list[None]:
        return [None] * len(entries)

    return GroupCommit(pool, write, look_up, max_batch=1024)


def _plain(pool: asyncpg.Pool, bare: Bare) -> GroupCommit[Entry, int]:
    async def write(connection: asyncpg.Connection, entries: Sequence[Entry]) -> list[int]:
        await bare.rows(connection, entries, contents=True)
        return [0] * len(entries)

    async def look_up(connection: asyncpg.Connection, entries: Sequence[Entry]) -> list[None]:
        return [None] * len(entries)

    return GroupCommit(pool, write, look_up, max_batch=1024)


async def _level(pool: asyncpg.Pool, writer: Writer, bare: Bare, plan: Plan, at_once: int) -> dict[str, Any]:
    """One number of waiting callers, both sides by turns."""
    count = min(plan.entries, 64 * at_once)
    loads: dict[str, list[Load]] = {"ours": [], "bare": []}
    async with _ours(pool, writer) as ours, _plain(pool, bare) as plain:
        for _ in range(plan.rounds):
            for name, group in (("ours", ours), ("bare", plain)):
                waiting = iter(some_entries(count))

                async def submit(group: GroupCommit[Entry, int] = group, rows: Any = waiting) -> None:
                    await group.submit(next(rows))

                loads[name].append(await run(submit, at_once, count))
    both = {name: _together(some) for name, some in loads.items()}
    figures = {name: load.figures() for name, load in both.items()}
    return {
        "at_once": at_once,
        "ratio": round(both["ours"].per_second / both["bare"].per_second, 2),
    } | figures


def _together(loads: list[Load]) -> Load:
    every = sorted(ms for load in loads for ms in load.latencies_ms)
    return Load(loads[0].concurrency, every, sum(load.seconds for load in loads))


async def _fill(connection: asyncpg.Connection, leaves: int) -> None:
    """Make the log so much longer, as the tables' owner."""
    size = await connection.fetchval("SELECT size FROM tlog.head WHERE log = $1", LOG)
    await connection.execute("SET indai.owners = 'ind.ai/owner-0'")
    for start in range(size, size + leaves, 100_000):
        end = min(start + 100_000, size + leaves)
        await connection.execute(_FILL, LOG, start, end, _now_ms())
        await connection.execute("UPDATE tlog.head SET size = $2 WHERE log = $1", LOG, end)


async def _start(pool: asyncpg.Pool, heads: Path) -> dict[str, Any]:
    """First with all that was added under no head, as after a crash or an import; then with all under one."""
    size = await pool.fetchval("SELECT size FROM tlog.head WHERE log = $1", LOG)
    signed = await pool.fetchval("SELECT max(size) FROM tlog.checkpoint WHERE log = $1", LOG)
    took = []
    for _ in range(2):
        began = time.perf_counter()
        await take_over(pool, LOG)
        signer = await LogSigner.open(pool, KEYS, heads, _now_ms)
        await signer.publish()
        took.append(time.perf_counter() - began)
    behind, even = took
    return {
        "leaves": size,
        "unsigned": size - signed,
        "behind_s": round(behind, 2),
        "ms": round(1000 * even, 1),
    }


async def _size(connection: asyncpg.Connection) -> dict[str, Any]:
    entries = await connection.fetchval("SELECT size FROM tlog.head WHERE log = $1", LOG)
    sizes = {name: await connection.fetchval("SELECT pg_total_relation_size($1)", name) for name in TABLES}
    million = {name: round(size / entries) for name, size in sizes.items()}  # bytes an entry: MB a million
    return {"entries": entries, "mb_a_million": million, "all_mb_a_million": sum(million.values())}


async def _proofs(pool: asyncpg.Pool, signer: LogSigner, count: int) -> dict[str, Any]:
    identity = LedgerIdentity("ind.ai/bench", LOG, KEYS.verifier.vkey, "net")
    service = LedgerService(pool, signer, identity, VAULT, _now_ms, held(KEYS))
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', 'ind.ai/owner-0', true)")
        rows = await connection.fetch(
            "SELECT mid FROM tlog.entry WHERE log = $1 AND owner = 'ind.ai/owner-0' LIMIT $2", LOG, count
        )
    context: Any = None
    figures = {}
    for name, encoding in (
        ("tlog-proof", ledger_pb2.RECEIPT_FORMAT_TLOG_PROOF),
        ("cose", ledger_pb2.RECEIPT_FORMAT_COSE),
    ):
        began = time.perf_counter()
        for row in rows:
            request = ledger_pb2.GetReceiptProofRequest(
                owner="ind.ai/owner-0", mid=row["mid"], format=encoding
            )
            answer = await service.GetReceiptProof(request, context)
        figures[name] = {
            "per_second": round(len(rows) / (time.perf_counter() - began)),
            "bytes": len(answer.proof),
        }
    return figures


async def _check(pool: asyncpg.Pool, signer: LogSigner) -> dict[str, Any]:
    """The live ledger against itself, as by `indai ledger fsck`: every content opened, every hash made."""
    began = time.perf_counter()
    checked = await check(pool, Subject(KEYS.verifier, VAULT, signer.head_file), OWNERS)
    seconds = time.perf_counter() - began
    if checked.findings:
        raise RuntimeError(f"the check found something: {checked.findings[:3]}")
    return {
        "leaves": checked.leaves,
        "seconds": round(seconds, 1),
        "minutes_a_million": round(seconds / checked.leaves * 1e6 / 60, 1),
    }


async def _sustained(pool: asyncpg.Pool, seconds: float) -> dict[str, Any]:
    """64 callers for so long; what this process holds in memory at each tenth, in MB."""
    writer, rows, memory = await take_over(pool, LOG), 0, list[float]()
    async with _ours(pool, writer) as group:
        for _ in range(10):
            until = time.perf_counter() + seconds / 10
            while time.perf_counter() < until:
                await asyncio.gather(*(group.submit(entry) for entry in some_entries(64)))
                rows += 64
            memory.append(round(_resident_mb(), 1))
    return {"seconds": seconds, "entries": rows, "per_second": round(rows / seconds), "mb": memory}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def _audit(folder: Path, deals: int) -> dict[str, Any]:
    folder.mkdir()
    world = World()
    for number in range(deals):
        Deal(world, number=number, start_ms=NOW + (24 + number) * HOUR, at_ms=NOW + number).run()
    paths, seconds, leaves = world.write(folder), dict[str, list[tuple[float, float]]](), 0
    # By turns, and the best of two: the machine may have other work.
    for name, processes in (("one process", 1), ("all cores", os.cpu_count() or 1)) * 2:
        began, used = time.perf_counter(), _processor_s()
        report = audit(paths, folder / "registry.jsonl", world.trust, processes=processes)
        took = (time.perf_counter() - began, _processor_s() - used)
        if report.exit_status:
            raise RuntimeError(f"the audit found something: {report.findings[:3]}")
        seconds.setdefault(name, []).append(took)
        leaves = report.counts.leaves
    found: dict[str, Any] = {}
    for name, runs in seconds.items():
        wall, used = (min(each) for each in zip(*runs, strict=True))
        found[name] = {
            "leaves": leaves,
            "seconds": round(wall, 1),
            "processor_s": round(used, 1),
            "minutes_a_million": round(wall / leaves * 1e6 / 60, 1),
        }
    return found


def _processor_s() -> float:
    """Seconds of processor, of this process and those of its children that have ended."""
    spent = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in spent)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def render(found: dict[str, Any]) -> str:
    """The tables, 80 columns wide."""
    lines = [
        f"{'appends by waiting callers':28}{'ours/s':>9}{'bare/s':>9}{'ratio':>7}{'p50 ms':>9}{'p99 ms':>9}"
    ]
    lines += [
        f"{row['at_once']:>28}{row['ours']['per_second']:>9.0f}{row['bare']['per_second']:>9.0f}"
        f"{row['ratio']:>9.2f}{row['ours']['p50_ms']:>9.1f}{row['ours']['p99_ms']:>9.1f}"
        for row in found["appends"]
    ]
    if "size" not in found:
        return "\n".join(lines)
    lines += [
        f"receipts a second: {name} {each['per_second']} ({each['bytes']} bytes)"
        for name, each in found["proofs"].items()
    ]
    size, start, held = found["size"], found["start"], found["sustained"]
    lines.append(f"database for each million entries: {size['all_mb_a_million']} MB, of which")
    lines += [f"  {name:24}{mb:>8} MB" for name, mb in size["mb_a_million"].items()]
    lines.append(f"cold start with {start['leaves']:,} leaves: {start['ms']} ms")
    lines.append(f"the same with {start['unsigned']:,} of them under no head yet: {start['behind_s']} s")
    lived = found["check"]
    lines.append(
        f"fsck of the live ledger: {lived['leaves']:,} leaves in {lived['seconds']} s,"
        f" {lived['minutes_a_million']} min a million"
    )
    lines += [
        f"audit, {name}: {each['leaves']:,} leaves in {each['seconds']} s,"
        f" {each['minutes_a_million']} min a million; {each['processor_s']} s of processor"
        for name, each in found["audit"].items()
    ]
    memory = ", ".join(f"{mb:.0f}" for mb in held["mb"])
    lines.append(f"{held['seconds']:.0f} s of appends: {held['per_second']}/s; MB at each tenth: {memory}")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.commitments")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--appends", action="store_true", help="callers that wait for appends, nothing else")
    parser.add_argument("--sustained", type=float, default=0, metavar="SECONDS", help="of appends at the end")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.sustained:
        plan = replace(plan, sustained_s=arguments.sustained)
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    try:
        found = uvloop.run((appends if arguments.appends else measure)(plan, base))
    except BaseException:
        print(f"What it left is in {base}.", file=sys.stderr)
        raise
    shutil.rmtree(base, ignore_errors=True)
    print(json.dumps(found) if arguments.json else render(found))


if __name__ == "__main__":
    main()
