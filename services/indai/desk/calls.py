"""The node's services as the desks call them: always with the visitor's own session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.desk_pb2_grpc import DeskServiceStub, SteeringServiceStub
from indai.v1.goals_pb2_grpc import GoalServiceStub
from indai.v1.llm_pb2_grpc import LlmServiceStub
from indai.v1.memory_pb2_grpc import MemoryServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub
from indai.v1.tenant_pb2_grpc import TenantDeskServiceStub
from indai.v1.tools_pb2_grpc import ApprovalServiceStub, ToolServiceStub

if TYPE_CHECKING:
    from grpc import aio
    from indai.v1.calendar_pb2_grpc import CalendarServiceAsyncStub
    from indai.v1.commerce_pb2_grpc import CommerceServiceAsyncStub
    from indai.v1.desk_pb2_grpc import DeskServiceAsyncStub, SteeringServiceAsyncStub
    from indai.v1.goals_pb2_grpc import GoalServiceAsyncStub
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from indai.v1.owner_pb2_grpc import OwnerServiceAsyncStub
    from indai.v1.sharing_pb2_grpc import SharingServiceAsyncStub
    from indai.v1.tenant_pb2_grpc import TenantDeskServiceAsyncStub
    from indai.v1.tools_pb2_grpc import ApprovalServiceAsyncStub, ToolServiceAsyncStub


@dataclass(frozen=True, slots=True)
class Calls:
    """Stubs over one channel to the node's owner services; each call shows `visit.metadata`. `has_memory`,
    `has_llm`: whether the node has those roles."""

    owner: OwnerServiceAsyncStub
    desk: DeskServiceAsyncStub
    steering: SteeringServiceAsyncStub
    calendars: CalendarServiceAsyncStub
    sharing: SharingServiceAsyncStub
    commerce: CommerceServiceAsyncStub
    memory: MemoryServiceAsyncStub
    llm: LlmServiceAsyncStub
    tools: ApprovalServiceAsyncStub
    toolbox: ToolServiceAsyncStub
    tenant: TenantDeskServiceAsyncStub
    goals: GoalServiceAsyncStub
    has_memory: bool
    has_llm: bool

    @classmethod
    def over(cls, channel: aio.Channel, *, memory: bool, llm: bool) -> Calls:
        """All of them over one channel."""
        return cls(
            OwnerServiceStub(channel),
            DeskServiceStub(channel),
            SteeringServiceStub(channel),
            CalendarServiceStub(channel),
            SharingServiceStub(channel),
            CommerceServiceStub(channel),
            MemoryServiceStub(channel),
            LlmServiceStub(channel),
            ApprovalServiceStub(channel),
            ToolServiceStub(channel),
            TenantDeskServiceStub(channel),
            GoalServiceStub(channel),
            memory,
            llm,
        )
