"""Deals a second by kind of intent: `python -m bench.kinds`, a minute for meet, pay and book.

Every deal is durable on both nodes when it counts, as in `bench.deals`. A payment is offered to a known
address and signed; that money arrived is not part of it. A booking is a wish, an offer and an acceptance, as
a meeting is.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
import time
import uuid
from collections import deque
from pathlib import Path

import uvloop
from indai.client.channels import plain_channel
from indai.v1 import commerce_pb2, intents_pb2, negotiation_pb2, owner_pb2
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub

from bench.deals import A_DAY, ENDED
from bench.loads import run
from bench.system import System, system

PAIRS, DEALS = 16, 320
ADDRESS = "upi:shop@okbank"
POLICY = """\
version: 1
timezone: UTC
currency: INR
rules:
  - { id: all, allow: [meet, pay, book], with: anyone }
"""


def intent(kind: str, number: int) -> owner_pb2.StartIntentRequest:
    """A pair's n-th request of this kind."""
    request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()))
    now = int(time.time())
    if kind == "pay":
        request.pay.CopyFrom(
            intents_pb2.PayTerms(
                payee=ADDRESS, amount_minor=100, currency="INR", purpose="Bench", due_ms=(now + A_DAY) * 1000
            )
        )
        return request
    propose = negotiation_pb2.Propose()
    if kind == "book":
        propose.book.CopyFrom(intents_pb2.BookWish(item="lamp", title="lamp", quantity=1))
    else:
        start = (now // A_DAY + 2 + number // 24) * A_DAY
        window = intents_pb2.Window(start_ms=start * 1000, end_ms=(start + 8 * 3600) * 1000)
        propose.meet.CopyFrom(intents_pb2.MeetWish(title="Bench", duration_minutes=15, windows=[window]))
    request.wish.CopyFrom(propose)
    return request


async def prepare(running: System, tokens: list[str]) -> None:
    """Those on node B can be paid, and have lamps."""
    address = running.processes["B"].addresses["owner"]
    for token in tokens:
        channel = plain_channel(address, token=token)
        stub = CommerceServiceStub(channel)
        account = commerce_pb2.PayAccount(payee=ADDRESS, name="Bench")
        await stub.SetPayAccount(commerce_pb2.SetPayAccountRequest(account=account))
        lamps = commerce_pb2.StockItem(item="lamp", title="Lamp", units=1_000_000)
        await stub.SetStockItem(commerce_pb2.SetStockItemRequest(item=lamps))
        await channel.close()


async def measure(base: Path) -> None:
    """Print one line for each kind."""
    async with system(base, PAIRS, POLICY) as running:
        await prepare(running, [pair.peer_token for pair in running.pairs])
        address = running.processes["A"].addresses["owner"]
        channels = [plain_channel(address, token=pair.token) for pair in running.pairs]
        stubs = [OwnerServiceStub(channel) for channel in channels]
        counts = [itertools.count() for _ in stubs]
        idle = deque(range(PAIRS))
        messages = 0

        async def deal(kind: str) -> None:
            place = idle.popleft()
            request = intent(kind, next(counts[place]))
            request.peer = running.pairs[place].peer
            seen = (await stubs[place].StartIntent(request, timeout=60)).thread
            if seen.state not in ENDED:
                watch = owner_pb2.WatchThreadRequest(thread_id=seen.thread_id)
                async for update in stubs[place].WatchThread(watch, timeout=60):
                    seen = update.thread
                    if seen.state in ENDED:
                        break
            if seen.state != owner_pb2.THREAD_STATE_COMMITTED:
                raise RuntimeError(f"{kind}: {seen.reason} {seen.words}")
            idle.append(place)

        print("kind   at once  deals/s  p50 ms  p99 ms  messages")
        for kind in ("meet", "pay", "book"):
            await run(lambda kind=kind: deal(kind), PAIRS, PAIRS * 2)  # type: ignore[misc]
            threads = (await stubs[0].ListThreads(owner_pb2.ListThreadsRequest(page_size=1))).threads
            asked = owner_pb2.GetThreadRequest(thread_id=threads[0].thread_id)
            messages = len((await stubs[0].GetThread(asked)).messages)
            load = await run(lambda kind=kind: deal(kind), PAIRS, DEALS)  # type: ignore[misc]
            p50, p99 = load.quantile(0.5), load.quantile(0.99)
            print(f"{kind:6} {PAIRS:7} {load.per_second:8.1f} {p50:7.1f} {p99:7.1f} {messages:9}")
        await asyncio.gather(*(channel.close() for channel in channels))


def main() -> None:
    """In a directory that is gone afterwards."""
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    try:
        uvloop.run(measure(base))
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
