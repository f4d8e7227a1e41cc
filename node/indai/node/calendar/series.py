"""The times of a meeting that repeats: at one local time, whatever the clocks do in between."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from indai.node.calendar.slots import Interval
from indai.protocol.kinds.meet import Repeats

DAY_MS = 86_400_000


def zone_of(repeats: Repeats) -> ZoneInfo | None:
    """The zone it names, None where this machine knows none of that name."""
    try:
        return ZoneInfo(repeats.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def again(start_ms: int, repeats: Repeats | None, zone: ZoneInfo | None) -> tuple[int, ...]:
    """The starts of all but the first, ms. A time that the clock jumps over is the one an hour later."""
    if repeats is None or zone is None:
        return ()
    first = datetime.fromtimestamp(start_ms / 1000, zone)
    days = (timedelta(days=repeats.every_days * number) for number in range(1, repeats.count))
    return tuple(round((first + each).astimezone(UTC).timestamp() * 1000) for each in days)


def folded(busy: Iterable[Interval], repeats: Repeats | None, start_ms: int, end_ms: int) -> list[Interval]:
    """What is busy at any of the times, as if it were at the first, which lies in [start_ms, end_ms)."""
    found = list(busy)
    if repeats is None:
        return found
    moved = list(found)
    for number in range(1, repeats.count):
        by = number * repeats.every_days * DAY_MS
        moved += [
            Interval(each.start_ms - by, each.end_ms - by)
            for each in found
            if each.start_ms - by < end_ms and each.end_ms - by > start_ms
        ]
    return moved


def reach_ms(repeats: Repeats | None) -> int:
    """How long after the first the last begins, about."""
    return repeats.every_days * (repeats.count - 1) * DAY_MS if repeats else 0
