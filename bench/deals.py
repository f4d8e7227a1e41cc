"""Negotiations a second: owners on node A meet owners on node B, each deal durable on both sides.

A deal begins when the initiator's request is sent and ends when the initiator's watch shows COMMITTED, which
it does only after the responder's RECEIPT is stored. By then both nodes have committed the deal to disk.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.channels import CheckedChannel, plain_channel
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub

from bench.loads import Load, run
from bench.system import Pair, System

if TYPE_CHECKING:
    from indai.v1.owner_pb2_grpc import OwnerServiceAsyncStub

MINUTES = 15
A_DAY = 86_400
PER_DAY = 24  # meetings a pair agrees on for one day before it takes the next
WINDOW_S = 8 * 3600
ENDED = {
    owner_pb2.THREAD_STATE_COMMITTED,
    owner_pb2.THREAD_STATE_REJECTED,
    owner_pb2.THREAD_STATE_WITHDRAWN,
    owner_pb2.THREAD_STATE_LAPSED,
    owner_pb2.THREAD_STATE_IN_DOUBT,
    owner_pb2.THREAD_STATE_ASKING_OWNER,
    owner_pb2.THREAD_STATE_ON_HOLD,
}


class Owners:
    """The initiators. Each meets their own peer, again and again; `first` is the number of the first meeting,
    which says on what day it is."""

    def __init__(self, address: str, pairs: list[Pair], first: int = 0) -> None:
        self._channels: list[CheckedChannel] = []
        self._owners: list[tuple[OwnerServiceAsyncStub, str, Iterator[int]]] = []
        for pair in pairs:
            channel = plain_channel(address, token=pair.token)
            self._channels.append(channel)
            self._owners.append((OwnerServiceStub(channel), pair.peer, itertools.count(first)))

    async def run(self, system: System, concurrency: int, deals: int) -> Load:
        """`deals` negotiations, `concurrency` at once, no two of them of one pair."""
        before, own_before, busy_before = await system.ask("cpu"), time.process_time(), _busy_s()
        idle = deque(range(len(self._owners)))

        async def deal() -> None:
            # The owner who rested longest.
            place = idle.popleft()
            await self._deal(place)
            idle.append(place)

        load = await run(deal, concurrency, deals)
        own, busy, after = time.process_time() - own_before, _busy_s() - busy_before, await system.ask("cpu")
        cpu = {"load generator": own * 1000 / deals}
        for name, now in after.items():
            for kind in ("python", "postgres"):
                cpu[f"{name} {kind}"] = (now[kind] - before[name][kind]) * 1000 / deals
        others = busy - sum(cpu.values()) * deals / 1000
        elsewhere = max(0.0, others) / load.seconds / (psutil.cpu_count() or 1)
        return replace(load, cpu_ms=cpu, elsewhere=elsewhere)

    async def sizes(self) -> list[int]:
        """Bytes of the four messages of a deal, in order."""
        stub, _, _ = self._owners[0]
        threads = (await stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=1))).threads
        request = owner_pb2.GetThreadRequest(thread_id=threads[0].thread_id)
        return [len(message.envelope) for message in (await stub.GetThread(request)).messages]

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _deal(self, place: int) -> None:
        stub, peer, numbers = self._owners[place]
        request = _request(peer, next(numbers))
        started = await stub.StartMeet(request, timeout=60)
        seen = started.thread
        if seen.state not in ENDED:
            watch = owner_pb2.WatchThreadRequest(thread_id=seen.thread_id)
            async for update in stub.WatchThread(watch, timeout=60):
                seen = update.thread
                if seen.state in ENDED:
                    break
        if seen.state != owner_pb2.THREAD_STATE_COMMITTED:
            state = owner_pb2.ThreadState.Name(seen.state)
            raise RuntimeError(f"a negotiation ended as {state}: {seen.reason} {seen.words}")


def _busy_s() -> float:
    """Seconds that all processors together have worked so far, for anybody."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _request(peer: str, number: int) -> owner_pb2.StartMeetRequest:
    """The pair's n-th meeting: some time in the first eight hours of a day."""
    day = int(time.time()) // A_DAY + 2 + number // PER_DAY
    return owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()),
        peer=peer,
        title="Benchmark",
        duration_minutes=MINUTES,
        start_time=Timestamp(seconds=day * A_DAY),
        end_time=Timestamp(seconds=day * A_DAY + WINDOW_S),
    )
