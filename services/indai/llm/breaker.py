"""Keeps a failing provider out: closed, open until an instant, then half open for one attempt at a time.

It opens after `THRESHOLD` failures in a row, or until the instant that the provider itself named
(`retry-after`). A success closes it. Times are ms of a monotonic clock that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable

THRESHOLD = 5
OPEN_MS = 30_000
MAX_OPEN_MS = 600_000
_PROBE_MS = 30_000


class Breaker:
    """One provider's."""

    __slots__ = ("_clock", "_failures", "_open_until", "_probing_until", "problem")

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0
        self._probing_until = 0
        self.problem = ""

    @property
    def is_open(self) -> bool:
        """True when no attempt may be made now."""
        now = self._clock()
        return now < self._open_until or now < self._probing_until

    def allow(self) -> bool:
        """True when an attempt may be made now. After an opening, one attempt at a time may: its end must
        be told, and if it is not, the next may come half a minute later."""
        if self.is_open:
            return False
        if self._open_until:
            self._probing_until = self._clock() + _PROBE_MS
        return True

    def succeed(self) -> None:
        """An attempt got an answer."""
        self._failures = self._open_until = self._probing_until = 0
        self.problem = ""

    def fail(self, problem: str, retry_after_ms: int | None = None) -> None:
        """An attempt failed."""
        self._failures += 1
        self._probing_until = 0
        self.problem = problem
        if retry_after_ms is not None:
            self._open(min(retry_after_ms, MAX_OPEN_MS))
        elif self._failures >= THRESHOLD or self._open_until:
            self._open(OPEN_MS)

    def abandon(self) -> None:
        """An attempt was given up by the caller: it says nothing about the provider."""
        self._probing_until = 0

    def _open(self, for_ms: int) -> None:
        self._open_until = max(self._open_until, self._clock() + for_ms)
