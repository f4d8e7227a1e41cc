"""Runs of the pure machine by their numbers: what is tried for a seed, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from indai.protocol.errors import ProtocolError

from tests.simulate.malice import MALICE
from tests.simulate.shrink import shrink
from tests.simulate.store import Violation
from tests.simulate.world import STEPS, World

NAMES = tuple(MALICE)
FAILURES = (Violation, ProtocolError, RuntimeError)


def world(seed: int, mutation: str = "", keep: Collection[int] | None = None) -> World:
    """Each seed is a day of its own; every third is one with a peer that lies."""
    malice = NAMES[seed // 3 % len(NAMES)] if seed % 3 == 0 else ""
    return World(seed, mutation=mutation, malice=malice, keep=keep)


def failure(seed: int, mutation: str = "", keep: Collection[int] | None = None) -> str:
    """What is wrong with this run; "" for nothing."""
    try:
        world(seed, mutation, keep).run()
    except FAILURES as error:
        return f"{type(error).__name__}: {error}"
    return ""


def explain(seed: int, mutation: str, say: Callable[[str], None]) -> list[int]:
    """Tell the shortest run that fails as this one does; the steps it takes."""
    kept = shrink(lambda steps: failure(seed, mutation, steps), STEPS)
    told = world(seed, mutation, kept)
    told.tell = say
    try:
        told.run()
    except FAILURES as error:
        say(f"{type(error).__name__}: {error}")
    return kept
