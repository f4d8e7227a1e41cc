"""What strangers cost those who negotiate: `python -m bench.crowd`, some two minutes.

Deals as in `bench.deals`, 16 at once, in turns without and with a flood: strangers who deliver 64 messages
with invalid signatures to the node of those who are asked, as fast as it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop
from indai.client.channels import plain_channel
from indai.client.resolver import Resolver
from indai.client.tls import make_node_identity, pinned_channel
from indai.protocol.envelope import payload_type, seal
from indai.protocol.errors import IndaiError
from indai.protocol.header import new_id
from indai.protocol.keys import SigningKey
from indai.v1 import envelope_pb2, intents_pb2, negotiation_pb2, peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub
from indai.v1.registry_pb2_grpc import RegistryServiceStub

from bench.deals import Owners
from bench.system import POLICY, System, system

AT_ONCE, PAIRS, DEALS, TURNS = 16, 32, 320, 3
STRANGERS = 32


def now_ms() -> int:
    """The load generator's clock."""
    return time.time_ns() // 1_000_000


async def forged(resolver: Resolver, running: System) -> bytes:
    """A wish that says it is from alice-0 to bob-0, and is signed by neither."""
    alice, bob = await resolver.resolve("ind.ai/alice-0"), await resolver.resolve("ind.ai/bob-0")
    now = now_ms()
    header = envelope_pb2.Header(
        id=new_id(now, os.urandom(10)),
        network=running.network.network,
        sender=alice.handle,
        sender_subject=alice.subject_id,
        recipient=bob.handle,
        recipient_subject=bob.subject_id,
        key_id=alice.chain.state.agent_keys[0].key_id,
        issued_at_ms=now,
        expires_at_ms=now + 3_600_000,
        nonce=os.urandom(16),
        thread=new_id(now, os.urandom(10)),
    )
    window = intents_pb2.Window(start_ms=now + 3_600_000, end_ms=now + 7_200_000)
    wish = intents_pb2.MeetWish(title="Flood", duration_minutes=30, windows=[window])
    move = negotiation_pb2.Move(header=header, propose=negotiation_pb2.Propose(meet=wish))
    return seal(payload_type("move"), move.SerializeToString(), [SigningKey.generate()]).raw


@contextlib.asynccontextmanager
async def flood(running: System) -> AsyncIterator[list[int]]:
    """Strangers at full rate; how many messages the node was sent so far."""
    registry = plain_channel(running.processes["registry"].addresses["registry"])
    resolver = Resolver(RegistryServiceStub(registry), running.network, now_ms)
    message = await forged(resolver, running)
    record = (await resolver.resolve("ind.ai/node-b")).state.node_record
    if record is None:
        raise RuntimeError("node B has no record")
    sent = [0]

    async def stranger(number: int) -> None:
        identity = make_node_identity(f"ind.ai/stranger-{number}")
        async with await pinned_channel(record.address, record.tls_spki_sha256, identity) as channel:
            stub = PeerServiceStub(channel)
            while True:
                sent[0] += 64
                with contextlib.suppress(IndaiError):
                    await stub.Deliver(peer_pb2.DeliverRequest(envelopes=[message] * 64))

    flooding = [asyncio.create_task(stranger(number)) for number in range(STRANGERS)]
    try:
        yield sent
    finally:
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)
        await registry.close()


async def deals(owners: Owners, running: System, what: str) -> float:
    """One line; deals a second."""
    load = await owners.run(running, AT_ONCE, DEALS)
    p50, p99, cpu = load.quantile(0.5), load.quantile(0.99), sum(load.cpu_ms.values())
    others = f"{100 * load.elsewhere:.0f} %"
    print(f"{what:34} {load.per_second:8.1f} {p50:7.1f} {p99:7.1f} {cpu:9.1f} {others:>8}", flush=True)
    print("   " + ", ".join(f"{name} {ms:.1f}" for name, ms in load.cpu_ms.items() if ms >= 0.1))
    return load.per_second


async def measure(base: Path) -> None:
    """Print the table."""
    async with system(base, PAIRS, POLICY) as running:
        owners = Owners(running.processes["A"].addresses["owner"], running.pairs)
        await owners.run(running, AT_ONCE, DEALS // 2)
        print(f"{AT_ONCE} at once {'deals/s':>34} {'p50 ms':>7} {'p99 ms':>7} {'cpu ms':>9} {'others':>8}")
        quiet, loud = 0.0, 0.0
        for _ in range(TURNS):
            quiet += await deals(owners, running, "quiet")
            async with flood(running) as sent:
                loud += await deals(owners, running, "beside a flood of bad signatures")
            print(f"  {sent[0]} bad messages were delivered")
        print(f"  {loud / quiet:.2f} of the quiet rate")
        await owners.close()


def main() -> None:
    """Measure in a temporary directory."""
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    try:
        uvloop.run(measure(base))
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
