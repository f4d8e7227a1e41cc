"""What was agreed is remembered by either owner's agent, through the whole node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from indai.client.channels import plain_channel
from indai.node import memory_feed
from indai.node.store import Store
from indai.v1 import memory_pb2 as pb
from indai.v1.memory_pb2_grpc import MemoryServiceStub

from tests.databases import Databases
from tests.service.node.conftest import ALICES, BOBS
from tests.service.node.test_meeting import DAY, HOUR
from tests.service.node.world import now_ms, world


async def test_a_commitment_is_remembered_by_either_owner(
    tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_feed, "POLL_S", 0.1)
    async with (
        world(tmp_path, databases) as registry,
        registry.node("node-a", "127.0.0.1:0", "memory") as node,
    ):
        alice, bob = await node.agent("ind.ai/alice", ALICES), await node.agent("ind.ai/bob", BOBS)
        await alice.meet(
            "ind.ai/bob",
            title="Talk about the zebra",
            from_ms=now_ms() + HOUR,
            until_ms=now_ms() + 20 * DAY,
        )
        for owner, peer in ((alice, "ind.ai/bob"), (bob, "ind.ai/alice")):
            async with plain_channel(node.info.addresses["owner"], token=owner.token) as channel:
                stub = MemoryServiceStub(channel)

                async def asked(stub: MemoryServiceStub = stub) -> list[pb.Hit]:
                    request = pb.RecallRequest(query="zebra", kinds=[pb.MEMORY_KIND_COMMITMENT])
                    return list((await stub.Recall(request)).hits)  # type: ignore[misc]

                (hit,) = await until(asked)
                assert hit.text.startswith(f"meet with {peer}: Talk about the zebra")
                assert hit.text.endswith("(committed)")
                assert hit.origin == "ledger"


async def test_who_has_left_is_not_told_of_again() -> None:
    nobody: Any = {}
    feed = memory_feed.MemoryFeed(Store(None, ""), nobody, None)  # type: ignore[arg-type]
    feed.doubted(["ind.ai/gone"])  # as the engine does for each thread that it erases
    assert not await feed.step()  # and no table was asked


async def until(ask: Callable[[], object]) -> list[pb.Hit]:
    async with asyncio.timeout(60):
        while not (hits := await ask()):  # type: ignore[misc]
            await asyncio.sleep(0.05)
    return hits  # type: ignore[no-any-return]
