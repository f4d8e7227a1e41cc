"""The measured system: a registry and two nodes as processes of their own, and pairs of owners who meet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indai.client.channels import CheckedChannel, plain_channel
from indai.client.handlekeys import claim, new_agent_key
from indai.client.network import NetworkPolicy
from indai.protocol.keys import SigningKey
from indai.v1 import owner_pb2, registry_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub
from indai.v1.registry_pb2_grpc import RegistryServiceStub

POLICY = """\
version: 1
timezone: UTC
rules:
  - id: meetings
    say: "Meetings of up to two hours with anyone"
    allow: meet
    with: anyone
    duration: { max: 120m }
"""
START_S = 120.0


class Child:
    """A process of `bench.child`; one line asks, one line answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.addresses: dict[str, str] = {}

    @classmethod
    async def start(cls, plan: dict[str, Any], log: Path) -> Child:
        """Returns when it serves."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bench.child",
                json.dumps(plan),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=1 << 24,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        child = cls(process)
        child.addresses = (await child._answer())["addresses"]
        return child

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def ask(self, do: str) -> dict[str, Any]:
        """`cpu`, `sample` or `report`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do}).encode() + b"\n")
        return await self._answer()

    async def stop(self) -> None:
        """End of input; waits for the end of the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(START_S):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("a process of the benchmark ended early; see its log beside its data")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True, slots=True)
class Pair:
    """An owner on node A, by token, and the one on node B whom they meet, by handle and token."""

    token: str
    peer: str
    peer_token: str


@dataclass(slots=True)
class System:
    """What runs. `processes` by name: registry, A, B."""

    processes: dict[str, Child]
    network: NetworkPolicy
    pairs: list[Pair] = field(default_factory=list)

    async def ask(self, do: str) -> dict[str, dict[str, Any]]:
        """The same question to all processes at once."""
        names = list(self.processes)
        answers = await asyncio.gather(*(self.processes[name].ask(do) for name in names))
        return dict(zip(names, answers, strict=True))

    async def populate(self, base: Path, pairs: int, policy: str) -> None:
        """Two owners for each pair, one on each node, with keys in the registry and a policy that permits."""
        async with self._claiming(base) as (sides, registry):
            for number in range(pairs):
                token = await self._agent(sides[0], registry, f"ind.ai/alice-{number}", policy)
                peer_token = await self._agent(sides[1], registry, f"ind.ai/bob-{number}", policy)
                self.pairs.append(Pair(token, f"ind.ai/bob-{number}", peer_token))

    @contextlib.asynccontextmanager
    async def _claiming(self, base: Path) -> AsyncIterator[tuple[list[CheckedChannel], CheckedChannel]]:
        """Both nodes as their operators see them, and the registry."""
        sides = []
        for name in ("A", "B"):
            token = (base / name / "operator.token").read_text().strip()
            sides.append(plain_channel(self.processes[name].addresses["owner"], token=token))
        registry = plain_channel(self.processes["registry"].addresses["registry"])
        try:
            yield sides, registry
        finally:
            for channel in (*sides, registry):
                await channel.close()

    async def _agent(self, node: CheckedChannel, registry: CheckedChannel, handle: str, policy: str) -> str:
        made = await OperatorServiceStub(node).CreateAgent(
            owner_pb2.CreateAgentRequest(handle=handle, policy_yaml=policy)
        )
        now = time.time_ns() // 1_000_000
        key = new_agent_key(made.agent_key.public_key, now)
        operation = claim(
            handle, self.network.origin, [SigningKey.generate()], now_ms=now, agent_keys=[key], node=made.node
        )
        await RegistryServiceStub(registry).SubmitOperation(
            registry_pb2.SubmitOperationRequest(operation=operation.raw)
        )
        return str(made.token)


@contextlib.asynccontextmanager
async def system(base: Path, pairs: int, policy: str = POLICY) -> AsyncIterator[System]:
    """Start everything under `base`; stop it at the end of the block."""
    async with processes(base) as running:
        await running.populate(base, pairs, policy)
        yield running


@contextlib.asynccontextmanager
async def processes(base: Path, ports: Mapping[str, int] | None = None) -> AsyncIterator[System]:
    """The processes alone, perhaps once more: then their peers find them under the same `ports`, by name."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(name: str, plan: dict[str, Any], listens: str) -> Child:
            if ports is not None:
                plan["listen"] = {listens: f"127.0.0.1:{ports[name]}"}
            child = await Child.start({"data": str(base / name), **plan}, base / f"{name}.log")
            stack.push_async_callback(child.stop)
            return child

        registry = await start("registry", {"roles": ["registry"]}, "registry")
        running = {"registry": registry}
        network = base / "registry" / "network.policy"
        for name in ("A", "B"):
            plan = {
                "roles": ["policy", "ledger", "node"],
                "handle": f"ind.ai/node-{name.lower()}",
                "neighbours": {"registry": registry.addresses["registry"]},
                "network": str(network),
            }
            running[name] = await start(name, plan, "peer")
        yield System(running, NetworkPolicy.load(network))
