"""Two organisations on one node, their people at the desk, visitors who talk to their agents, and a citizen
on another node who files requests with an office that is lent to one of them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, CookieJar
from indai.client.channels import plain_channel
from indai.node.web_role import WebPlan, WebRole, web_role
from indai.v1 import asking_pb2, conversation_pb2, desk_pb2, tenant_pb2, tiers_pb2
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.conversation_pb2_grpc import ConversationServiceStub
from indai.v1.desk_pb2_grpc import DeskServiceStub
from indai.v1.tenant_pb2_grpc import LendingServiceStub, TenantDeskServiceStub
from indai.v1.tiers_pb2_grpc import TierServiceStub

from tests.databases import Databases
from tests.service.node.world import Node, Owner, World, world
from tests.service.web.conftest import Browser

CITIZENS = """\
version: 1
timezone: Asia/Kolkata
rules:
  - { id: file, allow: ask, with: anyone, request: true }
"""
OFFICES = """\
version: 1
timezone: Asia/Kolkata
rules:
  - { id: filed, allow: ask, with: verified, request: true, require_receipt: true, peer_limit: 50 }
"""
SHOP = """
kind: tenant
slug: {slug}
name: {name}
---
kind: human
slug: ann
name: Ann
identity: A helper.
voice: {{tone: warm}}
languages: [en, hi]
greetings: {{en: "Hello from {name}."}}
---
kind: team
slug: sales
name: Sales
department: Shop
role: Help people.
escalation: {{when: ["a refund"], to: Meera}}
guardrails:
  - {{id: no-shrug, check: pattern, pattern: "did not understand", words: "Never shrug people off."}}
---
kind: agent
slug: a
name: A
---
kind: binding
slug: shop
human: ann
team: sales
agent: a
door: distribution
channels: [whatsapp, web]
routing_keys: ["{slug}.example"]
"""


@dataclass
class City:
    """`b` has the desks of `riverton` and `acme`, and the office; the citizen lives on `a`."""

    world: World
    a: Node
    b: Node
    citizen: Owner
    office: Owner
    pages: WebRole  # of node-b

    def stub(self, stub: Any, token: str, node: Node | None = None) -> Any:
        return stub(plain_channel((node or self.b).info.addresses["owner"], token=token))

    @property
    def root(self) -> str:
        return (self.b.data / "operator.token").read_text().strip()

    def base(self, node: Node | None = None) -> str:
        return (node or self.b).info.addresses["desk"].removesuffix("/desk")

    async def code(self, scope: str, role: str, name: str = "") -> str:
        """A sign-in code of somebody who is let in."""
        desk, who = self.stub(DeskServiceStub, self.root), name or f"{role}@{scope.strip('*') or 'node'}.in"
        await desk.GrantAccount(desk_pb2.GrantAccountRequest(scope=scope, role=role, name=who))
        made = await desk.CreateSignInCode(desk_pb2.CreateSignInCodeRequest(scope=scope, name=who))
        return str(made.code)

    @contextlib.asynccontextmanager
    async def browser(self) -> AsyncIterator[Browser]:
        """Nobody's."""
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http:
            yield Browser(self.base(), http)

    @contextlib.asynccontextmanager
    async def owner(self) -> AsyncIterator[Browser]:
        """The office's owner, signed in."""
        desk = self.stub(DeskServiceStub, self.office.token)
        code = (await desk.CreateSignInCode(desk_pb2.CreateSignInCodeRequest())).code
        async with self.browser() as browser:
            assert (await browser.sign_in(code)).path == "/desk"
            yield browser

    @contextlib.asynccontextmanager
    async def person(self, scope: str, role: str) -> AsyncIterator[Browser]:
        """A browser that is signed in."""
        async with self.browser() as browser:
            page = await browser.sign_in(await self.code(scope, role))
            assert page.status == 200, page.text
            yield browser

    async def desk(self, scope: str, role: str) -> Any:
        """The tenant's service as somebody with a session calls it."""
        async with self.person(scope, role) as browser:
            cookies = {one.key: one.value for one in browser.http.cookie_jar}
        return self.stub(TenantDeskServiceStub, cookies["indai-desk"])

    async def says(
        self, host: str, text: str, who: Owner | None = None, name: str = "Asha"
    ) -> conversation_pb2.TurnEvent:
        """A visitor writes to the agent behind a host; the last event of the turn."""
        talks = self.stub(ConversationServiceStub, (who or self.office).token)
        message = conversation_pb2.InboundMessage(
            handle=host, text=text, provider_message_id=str(uuid.uuid4()), time_zone="Asia/Kolkata"
        )
        message.sender.display_name = name
        last = conversation_pb2.TurnEvent()
        async for response in talks.SendMessage(conversation_pb2.SendMessageRequest(message=message)):
            if response.HasField("event"):
                last = response.event
                if last.HasField("accepted"):
                    session = last.accepted.session_id
        assert last.HasField("finished")
        self.session = session
        return last

    async def files(self, subject: str) -> str:
        """The citizen files a request; the thread's id."""
        asking = self.stub(AskingServiceStub, self.citizen.token, self.a)
        made = await asking.FileRequest(
            asking_pb2.FileRequestRequest(
                request_id=str(uuid.uuid4()),
                office=self.office.handle,
                subject=subject,
                text="It has been so for a week.",
                category="street-lights",
            )
        )
        return (await self.citizen.rest(made.thread.thread_id)).thread_id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def city(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> AsyncIterator[City]:
    base: Path = tmp_path_factory.mktemp("city")
    served: list[WebRole] = []

    @contextlib.asynccontextmanager
    async def kept(plan: WebPlan) -> AsyncIterator[WebRole]:
        async with web_role(plan) as role:
            served.append(role)
            yield role

    patch = pytest.MonkeyPatch()
    patch.setattr("indai.node.front_role.web_role", kept)
    async with (
        world(base, databases) as registry,
        registry.node("node-a") as a,
        registry.node("node-b", "127.0.0.1:0", "edge", "memory", "llm") as b,
    ):
        citizen = await a.agent("ind.ai/citizen", CITIZENS)
        office = await b.agent("ind.ai/office", OFFICES)
        patch.undo()
        made = City(registry, a, b, citizen, office, served[-1])
        tiers = made.stub(TierServiceStub, made.root)
        for slug, name in (("riverton", "Riverton"), ("acme", "Acme")):
            text = SHOP.format(slug=slug, name=name)
            await tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant=slug, yaml=text))
        asking = made.stub(AskingServiceStub, office.token)
        lights = asking_pb2.Department(
            name="electric", title="Street lighting", service_minutes=7 * 1440, categories=["street-lights"]
        )
        await asking.SetDepartments(asking_pb2.SetDepartmentsRequest(departments=[lights]))
        lending = made.stub(LendingServiceStub, office.token)
        await lending.LendHandle(tenant_pb2.LendHandleRequest(tenant="riverton", lend=True))
        yield made
