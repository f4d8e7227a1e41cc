"""Free stretches of a calendar: meeting hours without what stands in it and the margins around that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from indai.v1 import calendar_pb2

Span = tuple[int, int]  # milliseconds since the epoch, half-open
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Free:
    """Where to look: [start_ms, end_ms), and the owner's settings, whose hours are meant in `zone`."""

    start_ms: int
    end_ms: int
    zone: ZoneInfo
    settings: calendar_pb2.MeetSettings


def free_windows(where: Free, busy: Iterable[Span], least_ms: int) -> list[Span]:
    """Stretches of at least `least_ms` in which nothing is, in order."""
    before = where.settings.buffer_before_minutes * MINUTE_MS
    after = where.settings.buffer_after_minutes * MINUTE_MS
    # What ends shortly before a meeting lies in the meeting's own margin before it, and the other way round.
    taken = sorted((start - after, end + before) for start, end in busy)
    found = [piece for hours in _hours(where) for piece in _without(hours, taken)]
    return [(start, end) for start, end in found if end - start >= least_ms]


def _hours(where: Free) -> list[Span]:
    if not where.settings.hours:
        return [(where.start_ms, where.end_ms)]
    day = datetime.fromtimestamp(where.start_ms / 1000, where.zone).date()
    last = datetime.fromtimestamp(where.end_ms / 1000, where.zone).date()
    found = []
    while day <= last:
        for hours in where.settings.hours:
            if hours.weekday == day.isoweekday():
                midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a wall clock, placed below
                start, end = (
                    _at(midnight + timedelta(minutes=minute), where.zone)
                    for minute in (hours.start_minute, hours.end_minute)
                )
                found.append((max(start, where.start_ms), min(end, where.end_ms)))
        day += timedelta(days=1)
    return sorted(span for span in found if span[0] < span[1])


def _at(wall: datetime, zone: ZoneInfo) -> int:
    return round(wall.replace(tzinfo=zone).timestamp() * 1000)


def _without(hours: Span, taken: Sequence[Span]) -> list[Span]:
    start, end = hours
    pieces = []
    for begin, until in taken:
        if until <= start:
            continue
        if begin >= end:
            break
        if begin > start:
            pieces.append((start, begin))
        start = max(start, until)
    if start < end:
        pieces.append((start, end))
    return pieces
