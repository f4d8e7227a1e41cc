"""At most so many of something in a sliding span of time, for each key; in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable

MAX_KEYS = 20_000


class Throttle:
    """`most` in any `span_ms` for one key. One event loop owns it; a restart forgets."""

    def __init__(self, most: int, span_ms: int) -> None:
        self._most = most
        self._span_ms = span_ms
        self._taken: OrderedDict[Hashable, deque[int]] = OrderedDict()

    def admits(self, key: Hashable, now_ms: int) -> bool:
        """Whether one more is allowed now; if so it counts."""
        taken = self._taken.setdefault(key, deque())
        self._taken.move_to_end(key)
        if len(self._taken) > MAX_KEYS:
            self._taken.popitem(last=False)
        while taken and taken[0] <= now_ms - self._span_ms:
            taken.popleft()
        if len(taken) >= self._most:
            return False
        taken.append(now_ms)
        return True
