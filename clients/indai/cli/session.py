"""Connections of a command: to the owner's, the operator's and the registry's service of a data directory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from indai.cli.home import Home, Run
from indai.client.cell import registry_channel
from indai.client.channels import CheckedChannel, bearer, plain_channel
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.client.tls import pinned_channel
from indai.protocol.errors import NotFound, Reason
from indai.v1 import calendar_pb2
from indai.v1.a2a_pb2_grpc import A2AKeyServiceStub
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.channels_pb2_grpc import ChannelServiceStub
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.connections_pb2_grpc import ConnectionServiceStub
from indai.v1.desk_pb2_grpc import SteeringServiceStub
from indai.v1.group_pb2_grpc import GroupServiceStub
from indai.v1.owner_pb2_grpc import OperatorServiceStub, OwnerServiceStub
from indai.v1.registry_pb2_grpc import RegistryServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub
from indai.v1.tiers_pb2_grpc import TierServiceStub
from indai.v1.tools_pb2_grpc import ApprovalServiceStub, RecordServiceStub, ToolServiceStub

if TYPE_CHECKING:
    from indai.v1.a2a_pb2_grpc import A2AKeyServiceAsyncStub
    from indai.v1.asking_pb2_grpc import AskingServiceAsyncStub
    from indai.v1.calendar_pb2_grpc import CalendarServiceAsyncStub
    from indai.v1.channels_pb2_grpc import ChannelServiceAsyncStub
    from indai.v1.commerce_pb2_grpc import CommerceServiceAsyncStub
    from indai.v1.connections_pb2_grpc import ConnectionServiceAsyncStub
    from indai.v1.desk_pb2_grpc import SteeringServiceAsyncStub
    from indai.v1.group_pb2_grpc import GroupServiceAsyncStub
    from indai.v1.owner_pb2_grpc import OperatorServiceAsyncStub, OwnerServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub
    from indai.v1.sharing_pb2_grpc import SharingServiceAsyncStub
    from indai.v1.tiers_pb2_grpc import TierServiceAsyncStub
    from indai.v1.tools_pb2_grpc import (
        ApprovalServiceAsyncStub,
        RecordServiceAsyncStub,
        ToolServiceAsyncStub,
    )


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner's services."""

    handle: str
    stub: OwnerServiceAsyncStub
    calendars: CalendarServiceAsyncStub
    commerce: CommerceServiceAsyncStub
    sharing: SharingServiceAsyncStub
    asking: AskingServiceAsyncStub
    groups: GroupServiceAsyncStub
    connections: ConnectionServiceAsyncStub
    tools: ToolServiceAsyncStub
    approvals: ApprovalServiceAsyncStub
    steering: SteeringServiceAsyncStub

    async def zone(self) -> ZoneInfo:
        """The owner's time zone, as their policy states it."""
        answer = await self.calendars.GetMeetSettings(calendar_pb2.GetMeetSettingsRequest())
        return ZoneInfo(answer.time_zone or "UTC")


@dataclass(frozen=True, slots=True)
class Registry:
    """The registry's service, and what verifies it."""

    address: str
    stub: RegistryServiceAsyncStub
    network: NetworkPolicy
    resolver: Resolver


def now_ms() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000


@contextlib.asynccontextmanager
async def owner_session(home: Home, acting: str) -> AsyncIterator[Owner]:
    """The owner's services as the handle `acting`, or the only one that lives here."""
    run, handle = home.running(), home.owner(acting)
    async with await owner_channel(run, home.owner_token(handle)) as channel:
        yield Owner(
            handle,
            OwnerServiceStub(channel),
            CalendarServiceStub(channel),
            CommerceServiceStub(channel),
            SharingServiceStub(channel),
            AskingServiceStub(channel),
            GroupServiceStub(channel),
            ConnectionServiceStub(channel),
            ToolServiceStub(channel),
            ApprovalServiceStub(channel),
            SteeringServiceStub(channel),
        )


@contextlib.asynccontextmanager
async def operator_session(home: Home) -> AsyncIterator[OperatorServiceAsyncStub]:
    """The operator's service."""
    async with await owner_channel(home.running(), home.operator_token()) as channel:
        yield OperatorServiceStub(channel)


@contextlib.asynccontextmanager
async def a2a_key_session(home: Home, acting: str) -> AsyncIterator[A2AKeyServiceAsyncStub]:
    """An owner's keys for A2A clients."""
    handle = home.owner(acting)
    async with await owner_channel(home.running(), home.owner_token(handle)) as channel:
        yield A2AKeyServiceStub(channel)


@contextlib.asynccontextmanager
async def channel_session(home: Home) -> AsyncIterator[ChannelServiceAsyncStub]:
    """The operator's service for channels."""
    async with await owner_channel(home.running(), home.operator_token()) as channel:
        yield ChannelServiceStub(channel)


@contextlib.asynccontextmanager
async def tier_session(home: Home) -> AsyncIterator[TierServiceAsyncStub]:
    """The operator's service for configurations."""
    async with await owner_channel(home.running(), home.operator_token()) as channel:
        yield TierServiceStub(channel)


@contextlib.asynccontextmanager
async def record_session(home: Home, acting: str, tenant: str) -> AsyncIterator[RecordServiceAsyncStub]:
    """What agents took down: for a tenant as the operator, else as the owner."""
    token = home.operator_token() if tenant else home.owner_token(home.owner(acting))
    async with await owner_channel(home.running(), token) as channel:
        yield RecordServiceStub(channel)


@contextlib.asynccontextmanager
async def registry_session(home: Home, address: str = "") -> AsyncIterator[Registry]:
    """The registry, verified against the network's policy. `address` overrides where it is."""
    where = address or _registry_address(home)
    network = home.network()
    async with registry_channel(where) as channel:
        stub = RegistryServiceStub(channel)
        yield Registry(where, stub, network, Resolver(stub, network, now_ms, home.head_file))


async def owner_channel(run: Run, token: str) -> CheckedChannel:
    """A channel to the owner's port of a running node. Raises NotFound when that process has no node."""
    address = run.roles.get("owner")
    if address is None:
        raise NotFound(
            Reason.NOT_FOUND,
            "The process that runs here has no node, only " + ", ".join(sorted(run.roles)) + ".",
            hint="name the data directory of a node with --data",
        )
    if run.tls:
        return await pinned_channel(address, bytes.fromhex(run.tls), metadata=bearer(token), carries=True)
    return plain_channel(address, token=token, carries=True)


def _registry_address(home: Home) -> str:
    run = home.running()
    address = run.roles.get("registry") or run.neighbours.get("registry")
    if address is None:
        raise NotFound(
            Reason.NOT_FOUND,
            f"The process on {home.path} neither is a registry nor names one.",
            hint="name the registry with --registry HOST:PORT",
        )
    return address
