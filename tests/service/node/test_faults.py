"""Parts fail under a running node: it says so, loses nothing, and goes on when they are back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from indai.client.channels import plain_channel
from indai.client.handlekeys import new_agent_key, rotate_agent_key
from indai.ledger.entries import prepare_decision
from indai.ledger.vault import Vault
from indai.node.draft import ledger_rows
from indai.node.store import Store
from indai.protocol.errors import IndaiError, Reason
from indai.tlog.append import take_over
from indai.v1 import owner_pb2, policy_pb2, registry_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub

from tests.ports import free_address
from tests.service.node.conftest import ALICES, BOBS, Pair
from tests.service.node.world import now_ms, world

HOUR, DAY = 3_600_000, 86_400_000
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED


@pytest.fixture(scope="module")
def databases() -> None:
    """None that others share: a node's own Postgres is killed here."""


async def meet(pair: Pair, title: str) -> owner_pb2.Thread:
    return await pair.alice.meet(
        "ind.ai/bob", title=title, from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
    )


async def test_a_killed_database_comes_back_and_the_node_with_it(pair: Pair) -> None:
    assert (await meet(pair, "Before")).state == COMMITTED
    # The cluster may lie elsewhere when root runs this.
    pointer = pair.b.data / "postgres" / "postgres.location"
    cluster = Path(pointer.read_text().strip()) if pointer.exists() else pair.b.data / "postgres"
    pid = int((cluster / "cluster" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert (await meet(pair, "During")).state == COMMITTED


async def test_a_rotated_key_signs_and_the_old_one_is_refused(pair: Pair) -> None:
    token = (pair.a.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(pair.a.info.addresses["owner"], token=token))
    known = await pair.world.resolver().resolve("ind.ai/alice")
    old = known.state.agent_keys[0].key_id
    made = await operator.CreateAgentKey(owner_pb2.CreateAgentKeyRequest(handle="ind.ai/alice"))
    operation = rotate_agent_key(
        known.chain,
        pair.world.rotation["ind.ai/alice"],
        old,
        new_agent_key(made.agent_key.public_key, now_ms()),
        now_ms=now_ms(),
    )
    await pair.world.stub().SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))
    await operator.SyncRegistry(owner_pb2.SyncRegistryRequest())
    thread = await meet(pair, "New key")
    assert thread.state == COMMITTED, (thread.reason, thread.words)


async def test_a_peer_that_is_away_is_reached_when_it_is_back(tmp_path: Path) -> None:
    address = free_address()
    async with world(tmp_path) as registry, registry.node("node-a") as a:
        alice = await a.agent("ind.ai/alice", ALICES)
        async with registry.node("node-b", peer=address) as b:
            bob = await b.agent("ind.ai/bob", BOBS)
        waiting = asyncio.create_task(
            alice.meet("ind.ai/bob", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY)
        )
        async with registry.node("node-b", peer=address):
            assert (await waiting).state == COMMITTED
        assert bob.handle == "ind.ai/bob"


async def test_a_node_whose_ledger_another_process_took_is_told_and_changes_nothing(
    make_database: Callable[[], Awaitable[Any]],
) -> None:
    pool, log = (await make_database()).pool, "ind.ai/node-a/ledger/2026"
    first = await take_over(pool, log)
    store = Store(pool, log)
    line = {"owner": "ind.ai/alice", "at_ms": 1, "peer": "", "event": "e", "reason": "r", "words": "w"}
    entry = prepare_decision(policy_pb2.DecisionRecord(owner="ind.ai/alice", mid=b"m" * 32), 1)
    doc = {"journal": [line], "ledger": ledger_rows([entry], Vault(b"\x01" * 32))}
    await take_over(pool, log)
    with pytest.raises(IndaiError) as refused:
        await store.apply(["ind.ai/alice"], doc, first.epoch, None)
    assert refused.value.reason is Reason.LOG_FENCED
    assert store.fenced.is_set()
    async with store.scope("ind.ai/alice") as connection:
        assert await connection.fetchval("SELECT count(*) FROM node.journal") == 0
