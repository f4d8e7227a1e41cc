"""Two nodes on one registry, shared by the tests of a module: starting Postgres thrice takes seconds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from indai.node import clock

from tests.databases import Databases
from tests.service.node.scene import ASK_ALWAYS, Scene
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


Jump = Callable[[int], None]


@dataclass
class Pair:
    """alice on node-a, bob on node-b."""

    world: World
    a: Node
    b: Node
    alice: Owner
    bob: Owner


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory, databases: Databases | None) -> AsyncIterator[Pair]:
    base: Path = tmp_path_factory.mktemp("world")
    async with world(base, databases) as registry, registry.node("node-a") as a, registry.node("node-b") as b:
        yield Pair(registry, a, b, await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(pair: Pair) -> Scene:
    carol = await pair.a.agent("ind.ai/carol", ASK_ALWAYS)
    return Scene(pair, carol, await pair.world.stranger("ind.ai/eve"))


@pytest.fixture(scope="module")
def jump() -> Iterator[Jump]:
    """Sets every clock of this process over a database to that time, ms; only forward."""
    patch, start = pytest.MonkeyPatch(), time.time_ns() // 1_000_000

    def to(at_ms: int) -> None:
        shift = at_ms - time.time_ns() // 1_000_000
        assert at_ms > start
        patch.setattr(clock, "_SKEW_MS", shift)
        patch.setattr(clock, "_monotonic_ms", lambda: time.monotonic_ns() // 1_000_000 + shift)

    yield to
    patch.undo()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every test here shares the module's event loop, since the nodes live on it."""
    for item in items:
        if "service/node" in str(item.path):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
