"""Two nodes with desks, two owners who deal with each other, and browsers that know forms and cookies."""

from __future__ import annotations

import contextlib
import inspect
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from aiohttp import ClientResponse, ClientSession, CookieJar
from indai.client.channels import plain_channel
from indai.node.conversation_role import ConversationPlan, Conversations, conversations
from indai.node.tools_role import Tools, ToolsPlan, open_tools
from indai.v1 import desk_pb2
from indai.v1.desk_pb2_grpc import DeskServiceStub

from tests.databases import Databases
from tests.service.edge.street import SPEECH
from tests.service.node.world import Node, Owner, World, world

ALICES = """\
version: 1
timezone: Asia/Kolkata
circles:
  friends: [ind.ai/bob, ind.ai/carol]
rules:
  - id: friends
    allow: meet
    with: friends
    duration: { max: 2h }
"""
BOBS = """\
version: 1
timezone: Asia/Kolkata
circles:
  friends: [ind.ai/alice]
rules:
  - id: short
    say: "Meetings of up to 30 minutes with friends"
    allow: meet
    with: friends
    duration: { max: 30m }
  - id: longer
    say: "Ask me about meetings of up to an hour"
    ask: meet
    with: friends
    duration: { min: 31m, max: 60m }
"""
MODELS = """\
version: 1
currency: INR
providers:
  local: {kind: local}
models:
  local: {provider: local, model: local, input: 2000, output: 9000}
  e5: {provider: local, model: multilingual-e5-small, embeds: true}
routes:
  default: [local]
"""
"""The built-in provider, with a price, so that what is spent is something."""
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')
HOUR_MS = 3_600_000


@dataclass
class Page:
    """What came back: the text is what a person would read, tags included."""

    status: int
    path: str
    text: str
    answer: ClientResponse


class Browser:
    """A visitor with cookies of their own."""

    def __init__(self, base: str, http: ClientSession) -> None:
        self.base, self.http, self.csrf = base, http, ""

    async def get(self, path: str, **headers: str) -> Page:
        async with self.http.get(self.base + path, headers=headers) as answer:
            page = Page(answer.status, answer.url.path_qs, await answer.text(), answer)
        self.csrf = found[1] if (found := _CSRF.search(page.text)) else self.csrf
        return page

    async def post(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> Page:
        """Send a form as the last page would have."""
        fields = {"csrf": self.csrf} | fields
        async with self.http.post(self.base + path, data=fields, headers=headers) as answer:
            page = Page(answer.status, answer.url.path_qs, await answer.text(), answer)
        self.csrf = found[1] if (found := _CSRF.search(page.text)) else self.csrf
        return page

    async def sign_in(self, code: str) -> Page:
        await self.get("/desk/sign-in")
        return await self.post("/desk/sign-in", code=code)


def desk_of(node: Node) -> Any:
    """The desks' service as the node's operator."""
    token = (node.data / "operator.token").read_text().strip()
    return DeskServiceStub(plain_channel(node.info.addresses["owner"], token=token))


@dataclass
class Desks:
    """alice on node-a, bob on node-b, each with a desk."""

    world: World
    a: Node
    b: Node
    alice: Owner
    bob: Owner
    tools: Tools  # of node-b
    pool: asyncpg.Pool  # on node-b's database
    talks: Conversations  # of node-b, as its channels reach them

    def base(self, node: Node) -> str:
        return node.info.addresses["desk"].removesuffix("/desk")

    def service(self, node: Node, token: str) -> Any:
        return DeskServiceStub(plain_channel(node.info.addresses["owner"], token=token))

    def operator(self, node: Node) -> Any:
        return desk_of(node)

    async def code(self, node: Node, owner: Owner) -> str:
        made = await self.service(node, owner.token).CreateSignInCode(desk_pb2.CreateSignInCodeRequest())
        return str(made.code)

    @contextlib.asynccontextmanager
    async def browser(self, node: Node, owner: Owner | None = None) -> AsyncIterator[Browser]:
        """A new browser, signed in as an owner if one is named."""
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http:
            browser = Browser(self.base(node), http)
            if owner is not None:
                page = await browser.sign_in(await self.code(node, owner))
                assert (page.status, page.path) == (200, "/desk"), page.text
            yield browser

    async def asked(self, minutes: int = 45, title: str = "Planning") -> tuple[str, str]:
        """Alice asks Bob for something his rules leave to him: her thread, and the hash of the terms."""
        now = time.time_ns() // 1_000_000
        thread = await self.alice.meet(
            "ind.ai/bob",
            minutes=minutes,
            title=title,
            from_ms=now + HOUR_MS,
            until_ms=now + 14 * 24 * HOUR_MS,
        )
        async with self.browser(self.b, self.bob) as desk:
            page = await desk.get("/desk")
        at = page.text.index(escape(title))
        start = page.text.rindex('<article class="card waits"', 0, at)
        found = re.search(r"/desk/approvals/([0-9a-f]{64})", page.text[start:])
        assert found, unescape(page.text)
        return thread.thread_id, found[1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desks(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> AsyncIterator[Desks]:
    base: Path = tmp_path_factory.mktemp("desks")
    opened: list[tuple[Tools, asyncpg.Pool]] = []
    (base / "node-b").mkdir()
    (base / "node-b" / "speech.yaml").write_text(SPEECH)
    (base / "node-b.llm.yaml").write_text(MODELS)

    def watching(plan: ToolsPlan) -> Tools:
        opened.append((open_tools(plan), plan.pool))
        return opened[-1][0]

    talking: list[Conversations] = []

    @contextlib.asynccontextmanager
    async def overheard(plan: ConversationPlan) -> AsyncIterator[Conversations]:
        async with conversations(plan) as talks:
            talking.append(talks)
            yield talks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indai.node.node_role.open_tools", watching)
        patch.setattr("indai.node.node_role.conversations", overheard)
        async with (
            world(base, databases) as registry,
            registry.node("node-a", "127.0.0.1:0", "edge") as a,
            registry.node("node-b", "127.0.0.1:0", "edge", "memory", "llm") as b,
        ):
            alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
            yield Desks(registry, a, b, alice, bob, *opened[-1], talking[-1])


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every test here shares the module's event loop, since the nodes live on it."""
    for item in items:
        if "service/web" in str(item.path) and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
