"""A failing run made short: steps are left out as long as it still fails in the same way (delta debugging,
Zeller and Hildebrandt 2002), and what remains is told step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Fails = Callable[[Sequence[int]], str]
"""What goes wrong when only these steps are taken; "" for nothing."""


def shrink(fails: Fails, steps: int) -> list[int]:
    """A smallest set of steps, none of which can be left out alone, that fails as all of them do."""
    kept, wanted = list(range(steps)), fails(range(steps))
    size = max(1, len(kept) // 2)
    while size:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if fails(fewer) == wanted:
                kept = fewer
            else:
                at += size
        size //= 2
    return kept
