"""A node is killed with SIGKILL while a meeting is called off or moved: both sides hold one life."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from indai.client.audit import Verdict, audit
from indai.client.channels import plain_channel
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub

from tests.service.node.world import Owner, now_ms
from tests.system.test_kills import (
    DAY,
    ENDS_S,
    Pair,
    ask,
    committed,
    died_everywhere,
    keep_alive,
    repeated,
    two_nodes,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
# Who dies, where: before anything is stored, and when it is stored and nobody was told.
DEATHS = (("b", "after-apply", "moved"), ("a", "after-apply", "off"), ("a", "before-apply", "moved"))
CANCELLED, SUPERSEDED = owner_pb2.COMMITMENT_STATE_CANCELLED, owner_pb2.COMMITMENT_STATE_SUPERSEDED
Call = Callable[[], Awaitable[object]]


async def state_of(owner: Owner, thread_id: str, wanted: int) -> None:
    request = owner_pb2.GetThreadRequest(thread_id=thread_id)
    async with asyncio.timeout(ENDS_S):
        while True:
            seen = (await repeated(lambda: owner.stub.GetThread(request, timeout=5))).thread
            if seen.commitment_state == wanted:
                return
            await asyncio.sleep(0.05)


def cancelling(owner: Owner, thread_id: str) -> Call:
    request = owner_pb2.CancelCommitmentRequest(thread_id=thread_id, reason="ILL")
    return lambda: owner.stub.CancelCommitment(request, timeout=5)


def moving(owner: Owner, thread_id: str) -> tuple[Call, list[str]]:
    request = owner_pb2.RescheduleCommitmentRequest(request_id=str(uuid.uuid4()), thread_id=thread_id)
    request.start_time.FromMilliseconds(now_ms() + 30 * DAY)
    request.end_time.FromMilliseconds(now_ms() + 50 * DAY)
    found: list[str] = []

    async def move() -> None:
        found[:] = [(await owner.stub.RescheduleCommitment(request, timeout=5)).thread.thread_id]

    return move, found


async def test_a_node_killed_while_a_meeting_is_called_off_or_moved(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as pair:
        for number, (side, point, what) in enumerate(DEATHS):
            thread_id = await ask(pair.alice, f"{what} {number}")
            for owner in (pair.alice, pair.bob):
                await committed(owner, thread_id)
            victim = pair.a if side == "a" else pair.b
            await victim.stop()
            await victim.start(point)
            finished = asyncio.Event()
            guard = asyncio.create_task(keep_alive(victim, finished))
            move, found = moving(pair.alice, thread_id)
            await repeated(move if what == "moved" else cancelling(pair.alice, thread_id))
            for owner in (pair.alice, pair.bob):
                await state_of(owner, thread_id, SUPERSEDED if found else CANCELLED)
                for new in found:
                    await committed(owner, new)
            await died_everywhere(victim)
            finished.set()
            await guard
        await check_lives(pair, tmp_path)


async def check_lives(pair: Pair, folder: Path) -> None:
    """Each ledger shows each life once, and the auditor finds nothing wrong with any."""
    paths = []
    for owner, at in ((pair.alice, pair.a), (pair.bob, pair.b)):
        path = folder / f"{at.data.name}.jsonl"
        stub = OwnerServiceStub(plain_channel(at.addresses["owner"], token=owner.token))
        with path.open("wb") as file:
            async for part in stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
                file.write(part.lines)
        paths.append(path)
    registry = await pair.world.mirror(folder / "registry.jsonl")
    report = audit(paths, registry, pair.world.policy.policy)
    assert [finding.to_json() for finding in report.findings] == []
    assert {one.verdict for one in report.commitments} == {Verdict.VALID}
    states = sorted(one.state for one in report.commitments)
    assert states == ["CANCELLED", "COMMITTED", "COMMITTED", "SUPERSEDED", "SUPERSEDED"]
