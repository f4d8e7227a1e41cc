"""Conversations of a cell over a real database, with the real gateway and its built-in provider."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg
from indai.llm.config import BUILT_IN, parse_config
from indai.llm.servicer import LlmService
from indai.llm.store import Store
from indai.node.auth import Caller
from indai.node.conversation_role import ConversationPlan, Conversations, conversations
from indai.node.inprocess import local_channel
from indai.node.kinds.money import spoken
from indai.node.service import Service
from indai.node.tier_role import tier_service
from indai.runtime.bindings import Bindings
from indai.runtime.tierstore import TierStore
from indai.tools.approvals import Approvals
from indai.tools.store import CallStore
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Tool
from indai.v1 import conversation_pb2 as pb
from indai.v1 import llm_pb2_grpc, tiers_pb2, tiers_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

ALICE, BOB = "ind.ai/alice", "ind.ai/bob"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def operator(_: Any) -> Caller:
    """Whoever calls is the operator of the node."""
    return Caller(operator=True)


@dataclass
class Cell:
    """A running cell. `llm` is the gateway that its agents ask."""

    pool: asyncpg.Pool
    talks: Conversations
    tiers: tiers_pb2_grpc.TierServiceAsyncStub
    llm: llm_pb2_grpc.LlmServiceAsyncStub
    here: set[str] = field(default_factory=set)

    @property
    def stub(self) -> ConversationServiceAsyncStub:
        return self.talks.stub

    async def say(self, message: pb.InboundMessage) -> Heard:
        heard = Heard()
        async for response in self.stub.SendMessage(pb.SendMessageRequest(message=message)):
            if response.HasField("event"):
                heard.events.append(response.event)
        return heard

    async def apply(self, tenant: str, yaml: str) -> None:
        await self.tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant=tenant, yaml=yaml))


@dataclass
class Heard:
    """The events of one turn."""

    events: list[pb.TurnEvent] = field(default_factory=list)

    @property
    def accepted(self) -> pb.TurnAccepted:
        return self.events[0].accepted

    @property
    def finished(self) -> pb.TurnFinished:
        return self.events[-1].finished

    @property
    def text(self) -> str:
        return self.finished.reply.text

    @property
    def turn_id(self) -> str:
        return self.events[0].turn_id

    @property
    def stages(self) -> list[str]:
        return [each.stage.stage for each in self.events if each.HasField("stage")]

    @property
    def sentences(self) -> list[str]:
        return [each.sentence.text for each in self.events if each.HasField("sentence")]

    @property
    def tools(self) -> list[pb.TurnTool]:
        return [each.tool for each in self.events if each.HasField("tool")]


def owner(who: str, text: str, **more: Any) -> pb.InboundMessage:
    """What an owner says at their own terminal."""
    sender = pb.Identity(channel="cli", kind="handle", value=who, verified=True)
    return pb.InboundMessage(sender=sender, account=who, text=text, **more)


def phone(number: str, text: str, *, verified: bool = True, **more: Any) -> pb.InboundMessage:
    """What somebody writes on WhatsApp."""
    sender = pb.Identity(channel="whatsapp", kind="phone", value=number, verified=verified)
    return pb.InboundMessage(sender=sender, text=text, **{"account": "+911100000000", **more})


@contextlib.asynccontextmanager
async def cell(
    pool: asyncpg.Pool,
    *,
    here: Iterable[str] = (ALICE, BOB),
    tools: Sequence[Tool] = (),
    config: str = BUILT_IN,
    epoch: int = 1,
    memory: MemoryServiceAsyncStub | None = None,
    llm: llm_pb2_grpc.LlmServiceAsyncStub | None = None,
) -> AsyncIterator[Cell]:
    """Everything that conversations need, in this process."""

    async def secret(_: str) -> str:
        return "a key"

    gateway = LlmService(parse_config(config), Store(pool), secret, now_ms)
    add = llm_pb2_grpc.add_LlmServiceServicer_to_server
    stub = llm or llm_pb2_grpc.LlmServiceStub(local_channel([Service(add, gateway)]))
    store, homes = TierStore(pool), set(here)
    toolbox = NodeToolbox(tools, CallStore(pool), Approvals(pool), now_ms, spoken)
    async with Bindings(pool, store) as bindings:
        tiers = tier_service(pool, store, bindings, now_ms, operator, toolbox.specs)
        plan = ConversationPlan(
            pool,
            now_ms,
            epoch,
            store,
            bindings,
            homes,
            lambda _: "Asia/Kolkata",
            ("meet", "ask"),
            toolbox,
            stub,
            memory,
        )
        try:
            async with conversations(plan) as talks:
                yield Cell(pool, talks, tiers_pb2_grpc.TierServiceStub(local_channel([tiers])), stub, homes)
        finally:
            await gateway.close()
