"""A first party that is silent keeps no objection out of the record."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from indai.v1 import negotiation_pb2, owner_pb2

from tests.databases import Databases
from tests.service.node.conftest import ALICES, BOBS, Jump
from tests.service.node.lives import events, until
from tests.service.node.test_meeting import DAY, HOUR
from tests.service.node.world import now_ms, world

MINUTE = 60_000


@pytest.mark.rule("LIF-21")
async def test_an_objection_is_recorded_though_the_other_node_is_gone(
    tmp_path: Path, databases: Databases, jump: Jump
) -> None:
    async with world(tmp_path, databases) as registry, registry.node("node-a") as a:
        alice = await a.agent("ind.ai/alice", ALICES)
        async with registry.node("node-b") as b:
            bob = await b.agent("ind.ai/bob", BOBS)
            thread = await alice.meet("ind.ai/bob", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY)
            await bob.rest(thread.thread_id)
        await alice.stub.DisputeCommitment(owner_pb2.DisputeCommitmentRequest(thread_id=thread.thread_id))
        assert not (await until(alice, thread.thread_id, lambda _: True)).disputed
        jump(time.time_ns() // 1_000_000 + 11 * MINUTE)
        await until(alice, thread.thread_id, lambda seen: seen.disputed)
        asked, said = await events(alice, thread)
        kind = negotiation_pb2.EVENT_KIND_DISPUTE
        assert [(one.kind, one.seq, one.header.sender) for one in (asked, said)] == [
            (kind, 0, "ind.ai/alice"),
            (kind, 1, "ind.ai/alice"),
        ]
