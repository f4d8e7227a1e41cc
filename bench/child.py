"""One process of the measured system: the roles it is told, driven by lines of JSON on its standard streams.

    python -m bench.child '{"data": "...", "roles": ["registry"]}'

It answers one line when it serves, and one for each command: `{"do": "sample"}` begins to sample its CPU,
`{"do": "report"}` ends that. The end of its input ends it.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import structlog
import uvloop
from indai.client.channels import plain_channel
from indai.client.handlekeys import claim
from indai.client.network import NetworkPolicy
from indai.node.app import running, spare_the_collector
from indai.node.settings import Settings
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.v1 import registry_pb2
from indai.v1.registry_pb2_grpc import RegistryServiceStub

from bench.sampling import Sampler


async def serve(plan: dict[str, Any]) -> None:
    """Run the roles until standard input ends."""
    settings = Settings(
        data=Path(plan["data"]),
        roles=frozenset(plan["roles"]),
        handle=plan.get("handle", ""),
        listen=plan.get("listen", {}),
        neighbours=plan.get("neighbours", {}),
        network=Path(plan["network"]) if plan.get("network") else None,
    )

    async def enrol(registry: str, handle: str, record: registry_pb2.NodeRecord) -> None:
        await _enrol(settings, registry, handle, record)

    sampler = Sampler()
    async with running(settings, enrol) as info:
        spare_the_collector()
        _say({"addresses": info.addresses})
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            _say(_command(json.loads(line), sampler))


async def _enrol(settings: Settings, registry: str, handle: str, record: registry_pb2.NodeRecord) -> None:
    if settings.network is None:
        raise RuntimeError("a node needs the network's policy file")
    policy = NetworkPolicy.load(settings.network)
    wanted = NodeRecord.from_proto(record)
    channel = plain_channel(registry)
    operation = claim(handle, policy.origin, [SigningKey.generate()], now_ms=_now_ms(), node_record=wanted)
    request = registry_pb2.SubmitOperationRequest(operation=operation.raw)
    try:
        await RegistryServiceStub(channel).SubmitOperation(request)
    except IndaiError as error:
        if error.reason is not Reason.HANDLE_TAKEN:  # by this node's last start, on the same ports
            raise
    await channel.close()


def _command(command: dict[str, Any], sampler: Sampler) -> dict[str, Any]:
    match command["do"]:
        case "sample":
            sampler.start()
        case "report":
            sampler.stop()
            return {"parts": sampler.parts, "stacks": sampler.stacks.most_common(4000), **cpu()}
    return cpu()


def cpu() -> dict[str, float]:
    """Seconds of CPU so far: this process, and the Postgres it started."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    servers = psutil.Process().children(recursive=True)
    return {"python": own.ru_utime + own.ru_stime, "postgres": sum(map(_seconds, servers))}


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(serve(json.loads(sys.argv[1])))
