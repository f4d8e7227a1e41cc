"""Runs by their numbers: what is tried for a seed, on the pure machine or on nodes, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog
from indai.protocol.errors import ProtocolError

from tests.simulate.malice import MALICE
from tests.simulate.nodes import NodeWorld
from tests.simulate.shrink import shrink
from tests.simulate.store import Violation
from tests.simulate.world import STEPS, World

NAMES = tuple(MALICE)
FAILURES = (Violation, ProtocolError, RuntimeError, AssertionError)
Say = Callable[[str], None]


def failure(
    seed: int,
    mutation: str = "",
    keep: Collection[int] | None = None,
    say: Say | None = None,
    *,
    nodes: bool = False,
) -> str:
    """What is wrong with this run; "" for nothing. On the pure machine every third seed has a peer that
    lies."""
    try:
        if nodes:
            with structlog.testing.capture_logs():
                asyncio.run(NodeWorld(seed, mutation=mutation, keep=keep, tell=say).run())
        else:
            malice = NAMES[seed // 3 % len(NAMES)] if seed % 3 == 0 else ""
            World(seed, mutation=mutation, malice=malice, keep=keep, tell=say).run()
    except FAILURES as error:
        return f"{type(error).__name__}: {error}"
    return ""


def explain(seed: int, mutation: str, say: Say, *, nodes: bool = False) -> list[int]:
    """Tell the shortest run that fails as this one does; the steps it takes."""
    kept = shrink(lambda steps: failure(seed, mutation, steps, nodes=nodes), STEPS)
    say(failure(seed, mutation, kept, say, nodes=nodes))
    return kept
