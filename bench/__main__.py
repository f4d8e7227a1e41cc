"""`python -m bench`: all measurements of docs/benchmarks.md in one run, one after the other.

python -m bench            a few minutes; tables
python -m bench --json     the same figures as one JSON object
python -m bench --quick    seconds: shows that it runs, and measures nothing well
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Children are started while gRPC runs in this process; they replace themselves at once and never use it.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import json
import sys
from typing import Any

import uvloop

from bench import ledger, parts
from bench.account import account
from bench.database import database
from bench.deals import Owners
from bench.loads import Load, run
from bench.peers import peer
from bench.report import render
from bench.system import system


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything: (at once, how many) by level."""

    pairs: int
    warm_up: int
    deals: tuple[tuple[int, int], ...]
    peers: tuple[tuple[int, int], ...]
    calls: int
    entries: int
    batches: tuple[int, ...]


FULL = Plan(
    64, 256, ((1, 100), (16, 600), (64, 1200)), ((1, 200), (16, 600), (64, 600)), 500, 8192, (16, 64, 256)
)
QUICK = Plan(4, 4, ((1, 4), (4, 12)), ((1, 10), (4, 20)), 10, 256, (64,))


async def measure(plan: Plan, base: Path) -> dict[str, Any]:
    """Everything, one after the other: nothing competes but what is compared."""
    loads, shares, sizes = await _deals(plan, base)
    found: dict[str, Any] = {"deals": [load.figures() for load in loads], "message_bytes": sizes}
    for kind in ("echo", "a2a"):
        found[kind] = await _peer(plan, kind, sizes)
    each = parts.signatures(plan.calls)
    async with database(base / "parts") as (pool, admin):
        each |= await parts.policy(pool, plan.calls)
        each |= await parts.commits(pool, admin, plan.calls)
        appends = await ledger.appends(pool, admin, plan.entries, plan.batches)
    found["parts"] = {name: round(us, 1) for name, us in each.items()}
    found["parts"]["per_deal_ms"] = {name: round(ms, 3) for name, ms in parts.per_deal_ms(each).items()}
    found["appends"] = [row.figures() for row in appends]
    found["account"] = shares
    return found


async def _deals(plan: Plan, base: Path) -> tuple[list[Load], dict[str, dict[str, float]], list[int]]:
    async with system(base, plan.pairs) as running:
        owners = Owners(running.processes["A"].addresses["owner"], running.pairs)
        await owners.run(running, min(16, plan.pairs), plan.warm_up)
        loads = [await owners.run(running, at_once, count) for at_once, count in plan.deals]
        # Once more with the sampler on, which costs a little: its shares divide the time of the run without.
        await running.ask("sample")
        await owners.run(running, *plan.deals[-1])
        shares = account(loads[-1], await running.ask("report"))
        sizes = await owners.sizes()
        await owners.close()
    return loads, shares, sizes


async def _peer(plan: Plan, kind: str, sizes: list[int]) -> list[dict[str, Any]]:
    async with peer(kind, sizes) as exchange:
        await run(exchange, 4, plan.peers[0][1])
        return [(await run(exchange, at_once, count)).figures() for at_once, count in plan.peers]


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    try:
        found = uvloop.run(measure(QUICK if arguments.quick else FULL, base))
    except BaseException:
        print(f"The logs of the processes are in {base}.", file=sys.stderr)
        raise
    shutil.rmtree(base, ignore_errors=True)
    print(json.dumps(found) if arguments.json else render(found))


if __name__ == "__main__":
    main()
