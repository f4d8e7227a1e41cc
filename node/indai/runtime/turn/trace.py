"""How long each stage of a turn took, and what it found out: stored with the turn, for who asks later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

STAGES: Final = ("perceive", "recall", "classify", "plan", "execute", "reflect", "respond", "update")


class Trace:
    """`tell`, if any, hears the name of each stage that begins. A stage that comes again adds up."""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self._tell = tell
        self._begun = time.perf_counter()
        self.ms: dict[str, float] = {}
        self.found: dict[str, Any] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times the block."""
        if self._tell is not None:
            self._tell(name)
        with self.part(name):
            yield

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Times the block, without telling."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            took = (time.perf_counter() - begun) * 1000
            self.ms[name] = round(self.ms.get(name, 0.0) + took, 2)

    def note(self, **found: Any) -> None:
        """What a stage found out; plain JSON, no secrets and no message texts."""
        self.found |= found

    def whole_ms(self) -> dict[str, int]:
        """The times so far as whole milliseconds, for the row of a model's call."""
        return {name: round(took) for name, took in self.ms.items()}

    def close(self) -> dict[str, float]:
        """All times, with the total."""
        self.ms["total"] = round((time.perf_counter() - self._begun) * 1000, 2)
        return self.ms
