"""What a deal costs on a node of 100 handles and on one of 100,000: `python -m bench.handles`.

Two systems run at once, each a registry and two nodes in processes of their own: node A of the first has few
handles, node A of the second many, and the registry has them all. Deals as in `bench.deals`, 16 at once,
between owners on A and on B, begun by either side; the two systems take turns, so both sides of each ratio
were measured in the same minute. Filling 100,000 handles takes some minutes (`--handles` makes it fewer).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

# Children are started while gRPC runs in this process; they replace themselves at once and never use it.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import psutil
import uvloop
from indai.cli.demo.processes import free_ports

from bench.crowding import crowd
from bench.deals import PER_DAY, Owners
from bench.loads import Load
from bench.system import POLICY, Pair, System, processes

PAIRS, AT_ONCE, IDLE_S = 32, 16, 20.0
LATER = 100 * PER_DAY  # the meetings that those on node B begin are on other days


async def prepare(base: Path, handles: int) -> dict[str, int]:
    """Data of a registry and two nodes, with so many handles on node A; the ports to start them on."""
    ports = dict(zip(("registry", "A", "B"), free_ports(3), strict=True))
    async with processes(base, ports):
        pass  # schemas, keys, the nodes' own records
    await crowd(base, handles - PAIRS)
    return ports


def _place(base: Path, handles: int) -> Path:
    place = base / str(handles)
    place.mkdir()
    place.chmod(0o711)
    return place


def _turned(pairs: list[Pair]) -> list[Pair]:
    """The same pairs, begun by those on node B."""
    return [Pair(pair.peer_token, f"ind.ai/alice-{number}", pair.token) for number, pair in enumerate(pairs)]


class Side:
    """One of the two systems."""

    def __init__(self, name: str, running: System) -> None:
        self.name, self._running = name, running
        self._owners = {
            "A": Owners(running.processes["A"].addresses["owner"], running.pairs),
            "B": Owners(running.processes["B"].addresses["owner"], _turned(running.pairs), LATER),
        }
        self.cpu_ms: list[float] = []
        self.busy_ms: list[float] = []  # the same without what the processes do at rest
        self._rest = 0.0  # that, in processors
        self.latencies_ms: list[float] = []

    async def turn(self, deals: int, *, counts: bool = True) -> None:
        """So many deals begun on each node."""
        for begun, owners in self._owners.items():
            load = await owners.run(self._running, AT_ONCE, deals)
            if counts:
                self._add(load, begun)

    def _add(self, load: Load, begun: str) -> None:
        cpu = sum(ms for name, ms in load.cpu_ms.items() if name != "load generator")
        self.cpu_ms.append(cpu)
        self.busy_ms.append(cpu - 1000 * self._rest / load.per_second)
        self.latencies_ms += load.latencies_ms
        parts = ", ".join(f"{name} {ms:.2f}" for name, ms in load.cpu_ms.items())
        p50, p99, others = load.quantile(0.5), load.quantile(0.99), 100 * load.elsewhere
        print(
            f"{self.name:>9} handles, begun on {begun}: {load.per_second:6.1f}/s, p50 {p50:6.1f},"
            f" p99 {p99:6.1f} ms, cpu {cpu:5.2f} ms; others {others:.0f} %\n          {parts}",
            flush=True,
        )

    async def rest(self) -> None:
        """What the processes do while nobody asks them for anything."""
        before = await self._running.ask("cpu")
        await asyncio.sleep(IDLE_S)
        after = await self._running.ask("cpu")
        spent = {
            f"{name} {kind}": (after[name][kind] - before[name][kind]) / IDLE_S
            for name in after
            for kind in ("python", "postgres")
        }
        self._rest = sum(spent.values())
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in spent.items())
        print(f"{self.name:>9} handles, nobody deals: {shares} of a processor", flush=True)

    async def close(self) -> None:
        """Close the connections."""
        for owners in self._owners.values():
            await owners.close()


async def measure(base: Path, sizes: tuple[int, int], deals: int, turns: int) -> None:
    """Print a line for each turn, and the ratios."""
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for handles in sizes:
            began = time.perf_counter()
            place = _place(base, handles)
            ports = await prepare(place, handles)
            filled = time.perf_counter()
            running = await stack.enter_async_context(processes(place, ports))
            started = time.perf_counter() - filled
            await running.populate(place, PAIRS, POLICY)
            memory = psutil.Process(running.processes["A"].pid).memory_info().rss / 2**20
            print(
                f"{handles:,} handles: made in {filled - began:.0f} s, the processes started in {started:.1f}"
                f" s, node A has {memory:.0f} MB",
                flush=True,
            )
            side = Side(f"{handles:,}", running)
            stack.push_async_callback(side.close)
            sides.append(side)
        for side in sides:
            await side.turn(deals // 2, counts=False)
            await side.rest()
        for _ in range(turns):
            for side in sides:
                await side.turn(deals)
        few, many = sides
        cost, busy = sum(many.cpu_ms) / sum(few.cpu_ms), sum(many.busy_ms) / sum(few.busy_ms)
        print(f"{many.name} handles over {few.name}: {cost:.2f} of the processor's time a deal,")
        print(f"  {busy:.2f} without what the processes do when nobody deals")
        for name, share in (("median", 0.5), ("p99", 0.99)):
            values = [sorted(side.latencies_ms)[int(share * len(side.latencies_ms))] for side in sides]
            print(f"  {name} {values[0]:.1f} and {values[1]:.1f} ms: {values[1] / values[0]:.2f}")


def main() -> None:
    """Measure in a temporary directory."""
    parser = argparse.ArgumentParser(prog="python -m bench.handles")
    parser.add_argument("--handles", type=int, default=100_000, help="on the larger node")
    parser.add_argument("--deals", type=int, default=320, help="begun on each node in each turn")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    try:
        uvloop.run(measure(base, (100, arguments.handles), arguments.deals, arguments.turns))
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
