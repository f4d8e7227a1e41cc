"""A node is killed with SIGKILL at every point of a negotiation: nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.audit import Verdict, audit
from indai.client.channels import plain_channel
from indai.node.faults import POINTS
from indai.node.settings import RunInfo
from indai.protocol.errors import IndaiError
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceStub

from tests.ports import free_address
from tests.service.node.world import Node, Owner, World, now_ms
from tests.system import serve

RULES = "version: 1\ntimezone: UTC\nrules:\n  - allow: meet\n    with: anyone\n"
HOUR, DAY = 3_600_000, 86_400_000
ENDS_S = 60.0

T = TypeVar("T")

pytestmark = pytest.mark.system


@dataclass
class Process:
    """One process of the program, started and killed at will; it keeps its data and its ports."""

    data: Path
    plan: dict[str, Any]
    running: ForkServerProcess | None = None
    addresses: dict[str, str] = field(init=False)
    armed: tuple[str, ...] = ()  # where it dies, in this life and in those after it

    def __post_init__(self) -> None:
        names = ("owner", "peer", "http") if "node" in self.plan["roles"] else ("registry", "http")
        self.addresses = {name: free_address() for name in names}

    async def start(self, *kill_at: str) -> None:
        """To die at the first of these points, and after a restart at the next."""
        self.armed = kill_at
        self.data.mkdir(parents=True, exist_ok=True)
        settings = self.data / "settings.json"
        settings.write_text(json.dumps(self.plan | {"listen": self.addresses}))
        (self.data / "run.json").unlink(missing_ok=True)
        self.running = serve.started(settings, self.data / "output.txt", next(iter(kill_at), ""))
        async with asyncio.timeout(ENDS_S):
            while not (self.data / "run.json").exists():
                if self.running.exitcode is not None:
                    if kill_at and self.running.exitcode == -signal.SIGKILL:
                        return await self.start(*kill_at[1:])
                    raise AssertionError((self.data / "output.txt").read_text()[-3000:])
                await asyncio.sleep(0.02)
        self.addresses = json.loads((self.data / "run.json").read_text())
        return None

    async def stop(self) -> None:
        if self.running is not None and self.running.exitcode is None:
            self.running.terminate()
            await asyncio.to_thread(self.running.join, 30)


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
    plan: dict[str, Any] = {
        "data": str(base / name),
        "roles": roles,
        "handle": f"ind.ai/{name}",
        "neighbours": {"registry": registry.addresses["registry"]} if registry else {},
        "network": network,
    }
    return Process(base / name, plan)


@contextlib.asynccontextmanager
async def two_nodes(
    base: Path, kill_a: Sequence[str] = (), kill_b: Sequence[str] = ()
) -> AsyncIterator[Pair]:
    """Nothing but negotiations comes by the points where they are to die."""
    async with contextlib.AsyncExitStack() as stack:
        registry = process(base, "registry")
        stack.push_async_callback(registry.stop)
        await registry.start()
        world = World(base, registry.addresses["registry"], registry.data / "network.policy")
        a, b = process(base, "node-a", registry), process(base, "node-b", registry)
        for node in (a, b):
            stack.push_async_callback(node.stop)
        await asyncio.gather(a.start(*kill_a), b.start(*kill_b))
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


async def keep_alive(victim: Process, finished: asyncio.Event) -> None:
    """Restart the victim when it has died, to die at its next point if there is one left."""
    while not finished.is_set():
        if victim.running is not None and victim.running.exitcode is not None:
            assert victim.running.exitcode == -signal.SIGKILL
            await victim.start(*victim.armed[1:])
        await asyncio.sleep(0.02)


async def died_everywhere(victim: Process) -> None:
    """Waits until it has died at each of its points, however early in a life."""
    async with asyncio.timeout(ENDS_S):
        while victim.armed:
            await asyncio.sleep(0.02)


# An initiator makes no offer and no receipt; a responder does all.
POINTS_OF_A = tuple(point for point in POINTS if point not in ("after-offer", "before-receipt"))


@pytest.mark.timeout(300)
async def test_nodes_killed_everywhere_complete_with_exactly_one_commitment(tmp_path: Path) -> None:
    """Each life ends at the next point: a negotiation that one death interrupts meets the next one too, and
    both sides die in it.
    """
    async with two_nodes(tmp_path, POINTS_OF_A, POINTS) as pair:
        titles: list[str] = []
        finished = asyncio.Event()
        guards = [asyncio.create_task(keep_alive(node, finished)) for node in (pair.a, pair.b)]
        while pair.a.armed or pair.b.armed:
            assert len(titles) < len(POINTS), (pair.a.armed, pair.b.armed)
            titles.append(f"killed {len(titles)}")
            thread_id = await ask(pair.alice, titles[-1])
            for owner in (pair.alice, pair.bob):
                await committed(owner, thread_id)
        finished.set()
        await asyncio.gather(*guards)
        await check_everything_once(pair, titles)


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
