"""Deals a second by kind of intent, and meetings of five: `python -m bench.kinds`, some two minutes.

Every deal is durable on both nodes when it counts, as in `bench.deals`. A payment is offered to a known
address and signed; that money arrived is not part of it. A question is answered from the profile, a request
filed with a department; what is shared is sealed to the receiver's key. Of a meeting of five, each on one of
the two nodes, all five have it when it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

# Children are started while gRPC runs in this process; they replace themselves at once and never use it.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import uvloop
from indai.client.channels import CheckedChannel, plain_channel
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub

from bench.deals import ENDED
from bench.intents import KINDS, POLICY, Begin, group, prepare
from bench.loads import Load, run
from bench.system import System, system

PAIRS, DEALS = 16, 320
FIVE = 5


@dataclass(slots=True)
class Asker:
    """Who begins, and with whom."""

    channel: CheckedChannel
    peers: list[str]
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def deal(self, begin: Begin) -> None:
        """One of them, to its end."""
        seen = await begin(self.channel, self.peers, next(self.numbers))
        if seen.state not in ENDED:
            watch = owner_pb2.WatchThreadRequest(thread_id=seen.thread_id)
            async for update in OwnerServiceStub(self.channel).WatchThread(watch, timeout=60):
                seen = update.thread
                if seen.state in ENDED:
                    break
        if seen.state != owner_pb2.THREAD_STATE_COMMITTED:
            raise RuntimeError(f"{owner_pb2.ThreadState.Name(seen.state)}: {seen.reason} {seen.words}")

    async def messages(self) -> int:
        """Of the newest thread; what a coordinator of several said to each of the others counts each time."""
        stub = OwnerServiceStub(self.channel)
        threads = (await stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=1))).threads
        request = owner_pb2.GetThreadRequest(thread_id=threads[0].thread_id)
        return len((await stub.GetThread(request)).messages)


async def load_of(running: System, askers: list[Asker], begin: Begin, count: int) -> tuple[Load, float]:
    """All of them at once, no two deals of one asker; ms of the nodes' and databases' processors for each."""
    idle = deque(askers)

    async def deal() -> None:
        asker = idle.popleft()
        await asker.deal(begin)
        idle.append(asker)

    before = await running.ask("cpu")
    load = await run(deal, len(askers), count)
    after = await running.ask("cpu")
    spent = sum(after[name][kind] - before[name][kind] for name in after for kind in ("python", "postgres"))
    return load, spent * 1000 / count


def fives(askers: list[Asker]) -> list[Asker]:
    """Groups of five that share nobody: one who begins, and four others of both nodes."""
    count = 2 * len(askers) // FIVE
    handles = [f"ind.ai/alice-{number}" for number in range(count, len(askers))]
    both = [
        one for pair in itertools.zip_longest((asker.peers[0] for asker in askers), handles) for one in pair
    ]
    others = [handle for handle in both if handle]
    return [
        Asker(asker.channel, others[number::count][: FIVE - 1]) for number, asker in enumerate(askers[:count])
    ]


async def rounds(running: System, deals: int) -> list[tuple[str, Load]]:
    """So many deals of each kind, a fifth as many of five; prints a line for each."""
    home = {name: running.processes[name].addresses["owner"] for name in "AB"}
    for pair in running.pairs:
        channel = plain_channel(home["B"], token=pair.peer_token)
        await prepare(channel)
        await channel.close()
    askers = [Asker(plain_channel(home["A"], token=pair.token), [pair.peer]) for pair in running.pairs]
    print("kind     at once  deals/s  p50 ms  p99 ms  cpu ms  messages")
    found = []
    plans = [*((name, begin, askers) for name, begin in KINDS.items()), ("five", group, fives(askers))]
    for name, begin, some in plans:
        await load_of(running, some, begin, len(some))
        messages = await some[0].messages()
        count = deals if some is askers else max(len(some), deals // FIVE)
        load, spent = await load_of(running, some, begin, count)
        times = f"{load.quantile(0.5):7.1f} {load.quantile(0.99):7.1f}"
        print(f"{name:8} {len(some):7} {load.per_second:8.1f} {times} {spent:7.2f} {messages:9}", flush=True)
        found.append((name, load))
    await asyncio.gather(*(asker.channel.close() for asker in askers))
    return found


async def measure(base: Path, deals: int) -> None:
    """Everything, with data under `base`."""
    async with system(base, PAIRS, POLICY) as running:
        await rounds(running, deals)


def main() -> None:
    """In a directory that is gone afterwards."""
    parser = argparse.ArgumentParser(prog="python -m bench.kinds")
    parser.add_argument("--deals", type=int, default=DEALS, help="of each kind; a fifth as many of five")
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    try:
        uvloop.run(measure(base, parser.parse_args().deals))
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
