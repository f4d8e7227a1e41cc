"""Conversations on a node: the service for the edge of the cell, and the one at the owner's port."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg
from indai.node import auth
from indai.node.code_delivery import CodesOnRequest
from indai.node.inprocess import local_channel
from indai.node.manners import Manners
from indai.node.owner_conversation_service import OwnerConversations
from indai.node.service import Service
from indai.runtime.bindings import Bindings
from indai.runtime.conversations.keeping import Keeping
from indai.runtime.conversations.notices import Notices
from indai.runtime.conversations.outbound import Outbound
from indai.runtime.conversations.people import People
from indai.runtime.conversations.remembering import Remembering
from indai.runtime.conversations.servicer import ConversationServicer
from indai.runtime.defaults import settle_defaults
from indai.runtime.tierstore import TierStore
from indai.runtime.turn.gates import Refuses, never
from indai.runtime.turn.pipeline import Around, Pipeline
from indai.tools.values import Toolbox
from indai.v1 import conversation_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub


@dataclass(frozen=True, slots=True)
class ConversationPlan:
    """What conversations are built from. `epoch`: of the node; `here`: handles that live on it."""

    pool: asyncpg.Pool
    clock: Callable[[], int]
    epoch: int
    tiers: TierStore
    bindings: Bindings
    here: Container[str]
    zone_of: Callable[[str], str]
    intents: tuple[str, ...]
    toolbox: Toolbox
    llm: LlmServiceAsyncStub | None
    memory: MemoryServiceAsyncStub | None
    refuses: Refuses = never


@dataclass(frozen=True, slots=True)
class Conversations:
    """Running conversations. `inner` is for the edge of this cell alone: it believes who is said to write."""

    inner: Service
    stub: ConversationServiceAsyncStub
    outbound: Outbound
    owner_servicer: OwnerConversations

    def at_the_owners_port(self, admit: auth.Authenticate) -> Service:
        """The service for owners and the operator."""
        add = conversation_pb2_grpc.add_ConversationServiceServicer_to_server
        return Service(add, self.owner_servicer, admit)


@contextlib.asynccontextmanager
async def conversations(plan: ConversationPlan) -> AsyncIterator[Conversations]:
    """Start, taking over what an earlier run left half done; stop without losing what runs."""
    async with contextlib.AsyncExitStack() as stack:
        await settle_defaults(plan.tiers)
        remembering = None
        if plan.memory is not None:
            remembering = Remembering(plan.pool, plan.bindings, plan.memory)
            await remembering.start()
            stack.push_async_callback(remembering.close)
        keeping = Keeping(plan.pool, plan.clock, plan.llm)
        keeping.start()
        stack.push_async_callback(keeping.close)
        outbound = Outbound(plan.pool, plan.clock)
        around = Around(
            plan.pool,
            plan.clock,
            plan.bindings,
            People(plan.pool, plan.clock),
            plan.tiers,
            plan.toolbox,
            plan.zone_of,
            Notices(plan.pool, outbound),
            Manners(plan.pool).sentence,
            CodesOnRequest(plan.pool, outbound, plan.clock).send,
            plan.llm,
            plan.memory,
            plan.refuses,
        )
        servicer = ConversationServicer(
            plan.pool,
            plan.clock,
            plan.epoch,
            plan.bindings,
            plan.here,
            Pipeline(around).think,
            remembering.poke if remembering is not None else _nobody,
            plan.intents,
            outbound,
        )
        stack.push_async_callback(servicer.close)
        await servicer.start()
        inner = Service(conversation_pb2_grpc.add_ConversationServiceServicer_to_server, servicer)
        stub = conversation_pb2_grpc.ConversationServiceStub(local_channel([inner]))
        owners = OwnerConversations(stub, servicer.people, servicer.reading, servicer.outbound)
        yield Conversations(inner, stub, servicer.outbound, owners)


def _nobody(_: str) -> None:
    """Where there is no memory role, nobody is told what was said."""
