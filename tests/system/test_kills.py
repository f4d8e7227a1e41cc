"""A node is killed with SIGKILL at every point of a negotiation: nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.audit import Verdict, audit
from indai.client.channels import plain_channel
from indai.node.faults import POINTS
from indai.node.settings import RunInfo
from indai.protocol.errors import IndaiError
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub

from tests.service.node.world import Node, Owner, World, now_ms

SERVE = Path(__file__).with_name("serve.py")
RULES = "version: 1\ntimezone: UTC\nrules:\n  - allow: meet\n    with: anyone\n"
HOUR, DAY = 3_600_000, 86_400_000
ENDS_S = 60.0

T = TypeVar("T")

pytestmark = pytest.mark.system


@dataclass
class Process:
    """One process of the program, started and killed at will; it keeps its data and its ports."""

    data: Path
    plan: dict[str, object]
    running: subprocess.Popen[bytes] | None = None
    addresses: dict[str, str] = field(default_factory=dict)

    async def start(self, kill_at: str = "") -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        settings = self.data / "settings.json"
        settings.write_text(json.dumps(self.plan | {"listen": self.addresses}))
        (self.data / "run.json").unlink(missing_ok=True)
        environment = os.environ | {"INDAI_KILL_AT": kill_at, "PYTHONPATH": os.pathsep.join(sys.path)}
        with (self.data / "output.txt").open("ab") as output:
            self.running = subprocess.Popen(
                [sys.executable, str(SERVE), str(settings)], env=environment, stderr=output, stdout=output
            )
        async with asyncio.timeout(ENDS_S):
            while not (self.data / "run.json").exists():
                if self.running.poll() is not None:
                    if kill_at and self.running.returncode == -signal.SIGKILL:
                        return await self.start()
                    raise AssertionError((self.data / "output.txt").read_text()[-3000:])
                await asyncio.sleep(0.02)
        self.addresses = json.loads((self.data / "run.json").read_text())
        return None

    async def died(self) -> None:
        assert self.running is not None
        async with asyncio.timeout(ENDS_S):
            while self.running.poll() is None:
                await asyncio.sleep(0.02)
        assert self.running.returncode == -signal.SIGKILL

    async def stop(self) -> None:
        if self.running is not None and self.running.poll() is None:
            self.running.terminate()
            await asyncio.to_thread(self.running.wait, 30)


@dataclass
class Pair:
    world: World
    a: Process
    b: Process
    alice: Owner
    bob: Owner


def process(base: Path, name: str, registry: Process | None = None) -> Process:
    roles = ["policy", "ledger", "node"] if registry else ["registry"]
    network = str(registry.data / "network.policy") if registry else ""
    plan: dict[str, object] = {
        "data": str(base / name),
        "roles": roles,
        "handle": f"ind.ai/{name}",
        "neighbours": {"registry": registry.addresses["registry"]} if registry else {},
        "network": network,
    }
    return Process(base / name, plan)


@contextlib.asynccontextmanager
async def two_nodes(base: Path) -> AsyncIterator[Pair]:
    async with contextlib.AsyncExitStack() as stack:
        registry = process(base, "registry")
        stack.push_async_callback(registry.stop)
        await registry.start()
        world = World(base, registry.addresses["registry"], registry.data / "network.policy")
        a, b = process(base, "node-a", registry), process(base, "node-b", registry)
        for node in (a, b):
            stack.push_async_callback(node.stop)
        await asyncio.gather(a.start(), b.start())
        alice = await node_of(world, a).agent("ind.ai/alice", RULES)
        bob = await node_of(world, b).agent("ind.ai/bob", RULES)
        yield Pair(world, a, b, alice, bob)


def node_of(world: World, of: Process) -> Node:
    return Node(world, of.data, RunInfo(str(of.plan["handle"]), of.addresses))


async def ask(owner: Owner, title: str) -> str:
    """StartMeet, repeated with the same request id until a node answers; the thread's id."""
    request = owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()),
        peer="ind.ai/bob",
        title=title,
        duration_minutes=30,
        start_time=Timestamp(seconds=(now_ms() + HOUR) // 1000),
        end_time=Timestamp(seconds=(now_ms() + 20 * DAY) // 1000),
    )
    return (await repeated(lambda: owner.stub.StartMeet(request, timeout=5))).thread.thread_id


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(ENDS_S):
        while True:
            try:
                return await call()
            except IndaiError as error:
                if error.reason.status.grpc not in ("UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED"):
                    raise
                await asyncio.sleep(0.05)


async def committed(owner: Owner, thread_id: str) -> owner_pb2.Thread:
    async with asyncio.timeout(ENDS_S):
        request = owner_pb2.GetThreadRequest(thread_id=thread_id)
        while True:
            thread = (await repeated(lambda: owner.stub.GetThread(request, timeout=5))).thread
            if thread.state == owner_pb2.THREAD_STATE_COMMITTED and thread.in_calendar:
                return thread
            await asyncio.sleep(0.05)


async def keep_alive(victim: Process, finished: asyncio.Event) -> int:
    """Restart the victim, without the fault, when it has died."""
    deaths = 0
    while not finished.is_set():
        if victim.running is not None and victim.running.poll() is not None:
            assert victim.running.returncode == -signal.SIGKILL
            deaths += 1
            await victim.start()
        await asyncio.sleep(0.02)
    return deaths


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.timeout(300)
async def test_a_node_killed_anywhere_completes_with_exactly_one_commitment(
    tmp_path: Path, side: str
) -> None:
    async with two_nodes(tmp_path) as pair:
        victim = pair.a if side == "a" else pair.b
        titles, survived = [], []
        for point in POINTS:
            await victim.stop()
            await victim.start(kill_at=point)
            finished = asyncio.Event()
            guard = asyncio.create_task(keep_alive(victim, finished))
            title = f"killed {point}"
            thread_id = await ask(pair.alice, title)
            for owner in (pair.alice, pair.bob):
                await committed(owner, thread_id)
            finished.set()
            if not await guard:
                survived.append(point)
            titles.append(title)
        await check_everything_once(pair, titles)
        # An initiator makes no offer and no receipt; a responder does all.
        assert survived == (["after-offer", "before-receipt"] if side == "a" else [])


async def check_everything_once(pair: Pair, titles: list[str]) -> None:
    exports = []
    for owner, at in ((pair.alice, pair.a), (pair.bob, pair.b)):
        text = (at.data / "calendars" / f"{owner.handle.replace('/', '_')}.ics").read_bytes()
        assert [text.count(f"SUMMARY:{title}\r\n".encode()) for title in titles] == [1] * len(titles)
        path = at.data / "export.jsonl"
        stub = OwnerServiceStub(plain_channel(at.addresses["owner"], token=owner.token))
        with path.open("wb") as file:
            async for part in stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
                file.write(part.lines)
        exports.append(path)
    registry = await pair.world.mirror(pair.world.base / "registry.jsonl")
    report = audit(exports, registry, pair.world.policy.policy)
    assert [finding.to_json() for finding in report.findings] == []
    assert [one.verdict for one in report.commitments] == [Verdict.VALID] * len(titles)
