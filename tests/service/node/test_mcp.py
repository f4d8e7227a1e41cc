"""The MCP server against real nodes, by the published SDK's client, in both generations of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from indai.cli.home import Home
from indai.cli.mcp import mcp_session
from indai.mcp.server import TOOLS, make_server
from indai.mcp.session import Session
from indai.v1 import owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.hosts import Person, client, home_of, value_of
from tests.service.node.scene import DAY, HOUR, Scene
from tests.service.node.world import now_ms

MODES = ["legacy", "2026-07-28"]


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def wish(title: str, minutes: int = 30, **more: Any) -> dict[str, Any]:
    return {
        "peer": "ind.ai/bob",
        "title": title,
        "minutes": minutes,
        "earliest": at(now_ms() + HOUR),
        "latest": at(now_ms() + 9 * DAY),
        **more,
    }


@pytest.fixture(scope="module")
def home(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Home:
    return home_of(pair.a, pair.alice, tmp_path_factory.mktemp("home"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alice(home: Home) -> AsyncIterator[Session]:
    async with mcp_session(home, "ind.ai/alice") as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def carol(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    home = home_of(scene.pair.a, scene.carol, tmp_path_factory.mktemp("carol"))
    async with mcp_session(home, "ind.ai/carol") as session:
        yield session


async def waiting(scene: Scene, title: str, day: int) -> owner_pb2.Approval:
    """What waits for carol: eve asks her for half an hour."""
    sent = await scene.proposal((now_ms() // DAY + day) * DAY + 10 * HOUR, title)
    assert not (await scene.say(sent)).error.reason
    found = (await scene.carol.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    return next(one for one in found if title in one.terms)


async def test_every_tool_has_schemas_and_says_honestly_what_it_does(alice: Session) -> None:
    async with client(make_server(alice)) as host:
        tools = {tool.name: tool for tool in (await host.list_tools()).tools}
    assert len(tools) == len(TOOLS)
    for tool in tools.values():
        assert tool.output_schema
        assert tool.input_schema["type"] == "object"
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not None
        assert not {"ctx", "answer", "waiting", "start"} & tool.input_schema.get("properties", {}).keys()
    read_only = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
    writing = {"start_meeting", "ask_peer", "request_payment", "book_item", "withdraw_thread"}
    binding = {"approve", "decline", "cancel_commitment", "reschedule_commitment"}
    assert set(tools) - read_only == writing | binding


@pytest.mark.parametrize("mode", MODES)
async def test_a_meeting_is_agreed_once_the_owner_has_typed_the_code(alice: Session, mode: str) -> None:
    person, told = Person(), list[str | None]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with client(make_server(alice), person, mode) as host:
        made = value_of(await host.call_tool("start_meeting", wish("Lunch"), progress_callback=progress))
    assert (made["state"], made["title"]["text"]) == ("COMMITTED", "Lunch")
    assert told[-1] == "COMMITTED"
    assert len(person.seen) == 1
    assert "| meet: Lunch" in person.seen[0]
