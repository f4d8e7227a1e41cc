"""The tools of this node's agents, put together: what they act through, who may use them, where rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from indai.node.auth import Authenticate, Caller
from indai.node.inprocess import local_channel
from indai.node.kinds.money import spoken
from indai.node.service import Service
from indai.node.tool_service import ApprovalServicer, ToolServicer
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.approvals import Approvals
from indai.tools.desk import Desk, Desks
from indai.tools.intents.table import intents, remembering
from indai.tools.intents.threads import ThreadsOf
from indai.tools.jobs import Jobs
from indai.tools.jobwork import JobWork
from indai.tools.people import People, Resolve
from indai.tools.queue import Worker
from indai.tools.scoping import Lists, Scoping, read_lists
from indai.tools.store import CallStore
from indai.tools.toolbox import Connected, NodeToolbox, nothing_connected
from indai.tools.values import Caller as ToolCaller
from indai.tools.values import Outcome, Push, Tool
from indai.v1 import tools_pb2_grpc
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.group_pb2_grpc import GroupServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub

if TYPE_CHECKING:
    import asyncpg
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

FILE: Final = "tools.yaml"


@dataclass(frozen=True, slots=True)
class ToolsPlan:
    """What the tools are built from. `services` are those of the owner's port whose caller is an owner."""

    pool: asyncpg.Pool
    data: Path
    services: Sequence[Service]
    registry: RegistryServiceAsyncStub
    memory: MemoryServiceAsyncStub | None
    resolve: Resolve
    clock: Callable[[], int]
    admit: Authenticate
    zone_of: Callable[[str], str]
    more: Sequence[Tool] = ()
    connected: Connected = nothing_connected


@dataclass(slots=True)
class Tools:
    """The tools of a node. Jobs are done from `start` on, when there is somewhere to tell of them."""

    toolbox: NodeToolbox
    services: tuple[Service, ...]
    _jobs: Jobs
    _worker: Worker

    def start(self, push: Push) -> None:
        """Begin to do what waits."""
        self._jobs.push = push
        self._worker.start()

    async def close(self) -> None:
        """Stop after what runs."""
        await self._worker.close()


def open_tools(plan: ToolsPlan) -> Tools:
    """Put together, not started. Raises InvalidInput for a file of lists that can't be used."""
    desks, people = _desks(plan), People(plan.resolve)
    tools: list[Tool] = [*intents(desks, people, spoken), *plan.more]
    if plan.memory is not None:
        tools += remembering(plan.memory)
    calls, approvals = CallStore(plan.pool), Approvals(plan.pool)
    jobs = Jobs(plan.pool, plan.clock, _nobody)
    toolbox = NodeToolbox(
        tools,
        calls,
        approvals,
        plan.clock,
        spoken,
        Scoping(_lists(plan.data / FILE)),
        plan.connected,
        jobs,
        ThreadsOf(desks).answer,
    )
    jobs.handlers = JobWork(toolbox, approvals, ThreadsOf(desks).look, plan.clock).handlers
    tool_servicer = ToolServicer(toolbox, calls, jobs, plan.zone_of, plan.clock)
    approval_servicer = ApprovalServicer(toolbox, approvals, plan.zone_of, plan.clock)
    services = (
        Service(tools_pb2_grpc.add_ToolServiceServicer_to_server, tool_servicer, plan.admit),
        Service(tools_pb2_grpc.add_ApprovalServiceServicer_to_server, approval_servicer, plan.admit),
    )
    return Tools(toolbox, services, jobs, Worker(plan.pool, jobs.work))


async def _nobody(_: ToolCaller, __: Outcome) -> None:
    """Before conversations run, nobody can be told."""


def _lists(path: Path) -> Lists:
    if not path.exists():
        return Lists()
    try:
        return read_lists(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The file {path} cannot be read.") from None


def _desks(plan: ToolsPlan) -> Desks:
    """Desks by owner: the same services as at the owner's port, with the owner as their caller."""
    made: dict[str, Desk] = {}

    def desk(owner: str) -> Desk:
        if owner not in made:
            acting = [replace(each, authenticate=_acting(owner)) for each in plan.services]
            made[owner] = _desk(local_channel(acting), plan)
        return made[owner]

    return desk


def _desk(channel: Any, plan: ToolsPlan) -> Desk:
    return Desk(
        OwnerServiceStub(channel),
        GroupServiceStub(channel),
        SharingServiceStub(channel),
        AskingServiceStub(channel),
        CalendarServiceStub(channel),
        CommerceServiceStub(channel),
        plan.registry,
    )


def _acting(owner: str) -> Authenticate:
    """Admits the tools of one owner as that owner; nothing but this process can reach such a channel."""

    async def authenticate(_: Any) -> Caller:
        return Caller(owner=owner)

    return authenticate
