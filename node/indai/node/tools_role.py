"""The tools of this node's agents, put together: what they act through, who may use them, where rows are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from indai.mcp.external import load
from indai.memory.translit import romanise
from indai.node import auth
from indai.node.auth import Authenticate, Caller
from indai.node.draft import ThreadState
from indai.node.engine import EVERY_THREAD, Engine
from indai.node.inprocess import local_channel
from indai.node.keystore import KeyStore
from indai.node.kinds.money import spoken
from indai.node.outgoing import keeper
from indai.node.record_service import RecordServicer
from indai.node.service import Service
from indai.node.tool_news import News
from indai.node.tool_service import ApprovalServicer, ToolServicer
from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.conversations.forgetting import Forgetting
from indai.runtime.conversations.outbound import Outbound
from indai.storage.queue import Worker
from indai.tools.approvals import Approvals
from indai.tools.desk import Desk, Desks
from indai.tools.external import ExternalTools
from indai.tools.followed import Followed
from indai.tools.intents.table import intents, remembering
from indai.tools.intents.threads import ThreadsOf
from indai.tools.jobs import Jobs
from indai.tools.jobwork import JobWork
from indai.tools.library import library
from indai.tools.office import BusinessMembers, Notify, ScheduleJob, stock_tools
from indai.tools.people import People, Resolve
from indai.tools.queue import make_worker
from indai.tools.records import RecordStore, record_tools
from indai.tools.room import room
from indai.tools.scoping import Lists, Scoping, read_lists
from indai.tools.sealed import Sealer
from indai.tools.store import CallStore
from indai.tools.toolbox import Connected, NodeToolbox, nothing_connected
from indai.tools.values import Tool
from indai.v1 import tools_pb2_grpc
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.group_pb2_grpc import GroupServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub
from indai.web.accounts import Accounts

if TYPE_CHECKING:
    import asyncpg
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

FILE: Final = "tools.yaml"
_LONG: Final = re.compile(r"([aeiou])\1")
MCP_FILE: Final = "mcp-servers.yaml"


@dataclass(frozen=True, slots=True)
class ToolsPlan:
    """What the tools are built from. `services` are those of the owner's port whose caller is an owner."""

    pool: asyncpg.Pool
    data: Path
    keystore: KeyStore
    services: Sequence[Service]
    registry: RegistryServiceAsyncStub
    memory: MemoryServiceAsyncStub | None
    resolve: Resolve
    clock: Callable[[], int]
    admit: Authenticate
    operators: Authenticate
    zone_of: Callable[[str], str]
    more: Sequence[Tool] = ()
    connected: Connected = nothing_connected


@dataclass(slots=True)
class Tools:
    """The tools of a node. Jobs are done from `start` on, when there is somewhere to tell of them."""

    toolbox: NodeToolbox
    services: tuple[Service, ...]
    desks: Desks
    people: People
    _approvals: Approvals
    _followed: Followed
    _news: News
    _worker: Worker
    _external: ExternalTools

    def committed(self, states: Collection[ThreadState]) -> None:
        """See `Follower`: conversations that wait for a negotiation hear of it at once."""
        for state in states:
            self._followed.changed(state.columns["owner"], state.side.thread_id.hex())

    def doubted(self, owners: Collection[str]) -> None:
        """See `Follower`."""
        for owner in owners:
            self._followed.doubted(owner)

    def beside(self, engine: Engine) -> Tools:
        """Hear what the engine commits, and tell open desks what waits for their owner's word or no more."""
        engine.follow(self)
        self._approvals.changed = lambda holder: engine.changed(holder, EVERY_THREAD)
        return self

    def start(self, outbound: Outbound) -> None:
        """Begin to do what waits, and to ask other servers for their tools."""
        self._news.outbound = outbound
        self._followed.start()
        self._worker.start()
        self._external.start()

    async def tell_owner(self, owner: str, words: str, key: str) -> bool:
        """See `indai.tools.toolbox.TellOwner`."""
        return await self._news.tell_owner(owner, words, key)

    async def close(self) -> None:
        """Stop after what runs."""
        await self._external.close()
        await self._worker.close()
        await self._followed.close()


def open_tools(plan: ToolsPlan) -> Tools:
    """Put together, not started. Raises InvalidInput for a file of lists that can't be used."""
    desks, news, lists = _desks(plan), News(plan.pool), _lists(plan.data / FILE)
    people = People(plan.resolve, _latin)
    sealer = Sealer(plan.keystore.seal, plan.keystore.unseal)
    calls, approvals = CallStore(plan.pool), Approvals(plan.pool, sealer)
    keep = keeper(plan.data)
    jobs, threads = Jobs(plan.pool, plan.clock, news.push, sealer), ThreadsOf(desks, keep)
    toolbox = NodeToolbox(
        _tools(plan, desks, people, jobs, news),
        calls,
        approvals,
        plan.clock,
        spoken,
        Scoping(lists),
        plan.connected,
        jobs,
        threads.answer,
        news.tell_owner,
    )
    jobs.handlers = JobWork(toolbox, approvals, threads.look, plan.clock).handlers
    tool_servicer = ToolServicer(toolbox, calls, jobs, plan.zone_of, plan.clock)
    approval_servicer = ApprovalServicer(toolbox, approvals, plan.zone_of, plan.clock)
    services = (
        Service(tools_pb2_grpc.add_ToolServiceServicer_to_server, tool_servicer, plan.admit),
        Service(tools_pb2_grpc.add_ApprovalServiceServicer_to_server, approval_servicer, plan.admit),
        Service(
            tools_pb2_grpc.add_RecordServiceServicer_to_server,
            RecordServicer(RecordStore(plan.pool, plan.clock)),
            auth.either(plan.admit, plan.operators),
        ),
    )
    aliases = {name: (place.server, place.tool) for name, place in lists.aliases.items()}
    external = ExternalTools(load(plan.data / MCP_FILE), aliases, toolbox.add)
    assert toolbox.followed is not None  # noqa: S101 - it was given jobs
    worker = make_worker(plan.pool, jobs.work)
    return Tools(toolbox, services, desks, people, approvals, toolbox.followed, news, worker, external)


def _tools(plan: ToolsPlan, desks: Desks, people: People, jobs: Jobs, news: News) -> list[Tool]:
    """All that this node has of its own."""
    accounts = Accounts(plan.pool, plan.clock)

    async def members(tenant: str) -> list[tuple[str, str]]:
        return [(each.name, each.role) for each in await accounts.listed(tenant)]

    found: list[Tool] = [
        *intents(desks, people, spoken, keeper(plan.data), room(plan.pool, plan.clock)),
        *record_tools(RecordStore(plan.pool, plan.clock)),
        *stock_tools(desks),
        *library(plan.memory),
        ScheduleJob(jobs),
        Notify(news.tell_owner),
        BusinessMembers(members),
        *plan.more,
    ]
    if plan.memory is None:
        return found
    everywhere = Forgetting(plan.pool, plan.memory, plan.clock)
    return [*found, *remembering(plan.memory, everywhere.tool)]


def _latin(name: str) -> str:
    """`राहुल` as people write it: `rahul`, long vowels once."""
    return " ".join(_LONG.sub(r"\1", romanise(word)) for word in name.split())


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
            acting = [replace(each, authenticate=acting_as(owner)) for each in plan.services]
            made[owner] = _desk(local_channel(acting, carries=True), plan)
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


def acting_as(owner: str) -> Authenticate:
    """Admits the tools of one owner as that owner; nothing but this process can reach such a channel."""

    async def authenticate(_: Any) -> Caller:
        return Caller(owner=owner)

    return authenticate
