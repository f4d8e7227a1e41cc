"""Who is told what the engine has committed, so that nobody has to look through all owners for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from indai.node.draft import ThreadState

PORTION = 500  # owners that one query at start names: each row is compared with all of them


class Follower(Protocol):
    """Called in the engine's own task, after COMMIT: it returns at once and never raises."""

    def committed(self, states: Collection[ThreadState]) -> None:
        """These threads were changed, and are stored."""

    def doubted(self, owners: Collection[str]) -> None:
        """Whether something of these owners was changed is unknown, or what it was: look it up."""


def portions(owners: Collection[str]) -> list[list[str]]:
    """All of them, some at a time."""
    names = list(owners)
    return [names[start : start + PORTION] for start in range(0, len(names), PORTION)]
