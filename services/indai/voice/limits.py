"""How many calls at once, from everybody and from one address, and how long each may be."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from indai.protocol.errors import Reason, Refused

LONGEST_CALL_S = 15 * 60
IDLE_S = 60


@dataclass(slots=True)
class Lines:
    """The lines there are."""

    most: int = 20
    most_of_one: int = 3
    _open: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        """Calls now."""
        return self._open.total()

    @contextlib.contextmanager
    def one(self, whose: str) -> Iterator[None]:
        """A line for as long as the block runs. Raises Refused (RATE_LIMITED) when there is none left."""
        if self.open >= self.most or self._open[whose] >= self.most_of_one:
            raise Refused(Reason.RATE_LIMITED, "All lines are busy.", hint="call again in a minute")
        self._open[whose] += 1
        try:
            yield
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]
