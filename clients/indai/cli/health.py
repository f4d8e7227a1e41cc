"""`indai health`: whether what runs on a data directory serves, by gRPC's health protocol.

For containers and supervisors: exit status 0 when every port of the process answers SERVING.
"""

from __future__ import annotations

import asyncio
import os

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from indai.cli.framework import command, run
from indai.cli.home import Home, Run, data_option
from indai.cli.output import emit
from indai.cli.session import owner_channel
from indai.client.cell import cell_channel, registry_channel
from indai.client.channels import CheckedChannel
from indai.node.settings import CELL_TOKEN
from indai.protocol.errors import Reason, Unavailable

TIMEOUT_S = 4.0
# The peer port, which demands a node's certificate, starts before the owners' port does.
PORTS = {"registry", "policy", "ledger", "llm", "memory", "owner"}


@command("health", "indai health")
@data_option
def health(home: Home) -> None:
    """Say whether the process on this data directory serves."""
    process = home.running()
    ports = sorted(PORTS & set(process.roles))
    run(_check(process, ports))
    emit({"serving": ports}, lambda page: page.line(f"Serving: {', '.join(ports)}.", "green"))


async def _check(process: Run, ports: list[str]) -> None:
    await asyncio.gather(*(_check_port(process, port) for port in ports))


async def _check_port(process: Run, port: str) -> None:
    async with await _channel(process, port) as channel:
        answer = await HealthStub(channel).Check(HealthCheckRequest(), timeout=TIMEOUT_S)
    if answer.status != HealthCheckResponse.SERVING:
        raise Unavailable(
            Reason.UNREACHABLE,
            f"The port {port} at {process.roles[port]} does not serve now.",
            hint="it is starting or stopping: try again, or read its log",
        )


async def _channel(process: Run, port: str) -> CheckedChannel:
    if port == "owner":
        return await owner_channel(process, "")
    if port == "registry":
        return registry_channel(process.roles[port])
    return cell_channel(process.roles[port], os.environ.get(CELL_TOKEN, ""))
