"""A toolbox whose tools act for owners of running nodes, and the built-in provider that wishes its calls."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
from indai.client.channels import plain_channel
from indai.llm.local.provider import answer
from indai.llm.values import Message, ModelRequest, Role
from indai.llm.values import Tool as Offered
from indai.node.kinds.money import spoken
from indai.tools.approvals import Approvals
from indai.tools.desk import Desk
from indai.tools.people import People
from indai.tools.store import CallStore
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Outcome, Tool
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.group_pb2_grpc import GroupServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub

from tests.service.node.world import Node, Owner, World, now_ms


def desk_of(world: World, node: Node, owner: Owner) -> Desk:
    """The same stubs as a node's own tools have, over the owner's port."""
    channel = plain_channel(node.info.addresses["owner"], token=owner.token)
    return Desk(
        OwnerServiceStub(channel),
        GroupServiceStub(channel),
        SharingServiceStub(channel),
        AskingServiceStub(channel),
        CalendarServiceStub(channel),
        CommerceServiceStub(channel),
        world.stub(),
    )


@dataclass
class Talk:
    """One owner's tools, called as the built-in provider understands what is said."""

    owner: Owner
    box: NodeToolbox
    names: tuple[str, ...]
    turns: int = 0
    told: tuple[str, ...] = ()

    def caller(self, **more: Any) -> Caller:
        self.turns += 1
        handle = self.owner.handle
        made = Caller("personal", "b", handle, "s", handle, "private", "web", verified=True, now_ms=now_ms())
        return replace(made, turn=f"t{self.turns}", **more)

    def wish(self, text: str) -> tuple[str, dict[str, Any]]:
        """The call that the provider wishes; fails where it wishes none."""
        specs = self.box.offered(self.names, "private", "web")
        tools = tuple(Offered(each.name, each.description, dict(each.arguments)) for each in specs)
        said, calls = answer(ModelRequest("rules", (Message(Role.USER, text),), tools=tools))
        assert calls, said
        return calls[0].name, json.loads(calls[0].arguments_json)

    async def say(self, text: str) -> Outcome:
        name, arguments = self.wish(text)
        return await self.call(name, arguments)

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller | None = None) -> Outcome:
        async def heard(words: str) -> None:
            self.told += (words,)

        return await self.box.call(caller or self.caller(), self.names, name, arguments, heard)


def talk(pool: asyncpg.Pool, owner: Owner, tools: Iterable[Tool]) -> Talk:
    made = list(tools)
    box = NodeToolbox(made, CallStore(pool), Approvals(pool), now_ms, spoken)
    return Talk(owner, box, tuple(tool.spec.name for tool in made))


def people(world: World) -> People:
    return People(world.resolver().resolve)
