"""alice's page on a node with a language model and a memory; bob beside it on a node of his own."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, CookieJar

from tests.service.node.world import world
from tests.service.web.conftest import ALICES, BOBS, Browser, Desks


@contextlib.asynccontextmanager
async def visiting(desks: Desks) -> AsyncIterator[Browser]:
    """Somebody who has never been here."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http:
        yield Browser(desks.base(desks.a), http)


def events(text: str) -> list[tuple[str, str, Any]]:
    """(id, kind, value) of each event of a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desks(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desks]:
    base: Path = tmp_path_factory.mktemp("pages")
    async with (
        world(base) as registry,
        registry.node("node-a", "127.0.0.1:0", "edge", "memory", "llm") as a,
        registry.node("node-b", "127.0.0.1:0", "edge") as b,
    ):
        alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
        yield Desks(registry, a, b, alice, bob)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every test here shares the module's event loop, since the nodes live on it."""
    for item in items:
        if "service/page" in str(item.path) and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
