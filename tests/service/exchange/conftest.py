"""A citizen, an office and a friend on two nodes, one with memory, for all tests of this directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.databases import Databases
from tests.service.exchange.neighbours import ALICES, BOBS, OFFICES, Neighbours, friend
from tests.service.node.world import world


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def near(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> AsyncIterator[Neighbours]:
    base = tmp_path_factory.mktemp("exchange")
    async with (
        world(base, databases) as registry,
        registry.node("node-a") as a,
        registry.node("node-b", "127.0.0.1:0", "memory") as b,
    ):
        yield Neighbours(
            registry,
            a,
            b,
            friend(await a.agent("ind.ai/alice", ALICES), a),
            friend(await b.agent("ind.ai/bob", BOBS), b),
            friend(await b.agent("ind.ai/office", OFFICES), b),
            friend(await a.agent("ind.ai/mallory", ALICES), a),
        )


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every test here shares one event loop, since the nodes live on it."""
    for item in items:
        if "service/exchange" in str(item.path):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
