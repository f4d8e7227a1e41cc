"""The small notations of the policy language: durations, hours of the day, weekdays. Parsed and printed here
only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MINUTES_PER_DAY = 1440
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MAX_MINUTES = 3660 * MINUTES_PER_DAY  # ten years: beyond it a number is a slip, not a limit

_DURATION = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_HOURS = re.compile(r"\s*([\d:]+)\s*(?:-|–|to)\s*([\d:]+)\s*")
_LONG_DAYS = {
    "monday": "mon", "tuesday": "tue", "tues": "tue", "wednesday": "wed", "thursday": "thu", "thur": "thu",
    "thurs": "thu", "friday": "fri", "saturday": "sat", "sunday": "sun",
}  # fmt: skip


class Problem(Exception):
    """What is wrong with one value, as a phrase that goes on with what to write instead."""


class Hours(NamedTuple):
    """Part of a local day in minutes since midnight: `start` inclusive, `end` exclusive, 0 <= start < end <=
    1440.
    """

    start: int
    end: int

    def __str__(self) -> str:
        return f"{clock(self.start)}-{clock(self.end)}"


def parse_duration(value: object) -> int:
    """Minutes from `30m`, `1h30m`, `2d`, `0m`. Raises Problem."""
    text = str(value).strip().lower().replace(" ", "")
    match = _DURATION.fullmatch(text)
    if isinstance(value, bool) or not text or not match:
        raise Problem(f"{_shown(value)} is not a length of time; write it like 30m, 1h30m or 2d")
    days, hours, minutes = (int(part or 0) for part in match.groups())
    total = days * MINUTES_PER_DAY + hours * 60 + minutes
    if total > _MAX_MINUTES:
        raise Problem(f"{_shown(value)} is longer than ten years; write something shorter")
    return total


def duration(minutes: int) -> str:
    """The inverse of `parse_duration`: 90 -> `1h30m`, 0 -> `0m`."""
    days, rest = divmod(minutes, MINUTES_PER_DAY)
    hours, mins = divmod(rest, 60)
    parts = (f"{days}d" if days else "", f"{hours}h" if hours else "", f"{mins}m" if mins else "")
    return "".join(parts) or "0m"


def spoken(minutes: int) -> str:
    """A length of time in words: 90 -> `1 h 30 min`."""
    days, rest = divmod(minutes, MINUTES_PER_DAY)
    hours, mins = divmod(rest, 60)
    parts = [
        f"{days} day{'s' if days > 1 else ''}" if days else "",
        f"{hours} h" if hours else "",
        f"{mins} min" if mins else "",
    ]
    return " ".join(part for part in parts if part) or "0 min"


def clock(minute: int) -> str:
    """Minute of the day as `HH:MM`; 1440 is `24:00`."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def parse_hours(value: object) -> Hours:
    """`10:00-18:00`; the end may be 24:00. A window that runs over midnight is written as two. Raises
    Problem.
    """
    match = _HOURS.fullmatch(str(value))
    if not match:
        raise Problem(f'{_shown(value)} is not a span of hours; write it like "10:00-18:00"')
    start, end = _minute(match[1]), _minute(match[2])
    if start == end:
        raise Problem(f'{match[0].strip()} is empty; for the whole day write "00:00-24:00"')
    if end < start and end == 0:
        raise Problem(f'midnight at the end of a day is 24:00; write "{clock(start)}-24:00"')
    if end < start:
        raise Problem(
            f"{match[0].strip()} ends before it starts; for hours over midnight write "
            f'["{clock(start)}-24:00", "00:00-{clock(end)}"]'
        )
    return Hours(start, end)


def merge_hours(windows: list[Hours]) -> tuple[Hours, ...]:
    """Sorted, with windows that touch or overlap joined: 10-12 and 12-14 are one window of 10-14."""
    merged: list[Hours] = []
    for window in sorted(windows):
        if merged and window.start <= merged[-1].end:
            merged[-1] = Hours(merged[-1].start, max(merged[-1].end, window.end))
        else:
            merged.append(window)
    return tuple(merged)


def parse_weekdays(value: object) -> list[str]:
    """One day (`mon`, `Monday`) or a span (`mon-fri`, `sat-mon` wraps). Raises Problem."""
    names = [part.strip() for part in str(value).strip().lower().split("-")]
    days = [_LONG_DAYS.get(name, name) for name in names]
    if len(days) > 2 or any(day not in WEEKDAYS for day in days):
        raise Problem(
            f"{_shown(value)} is not a weekday; write mon, tue, wed, thu, fri, sat, sun or like mon-fri"
        )
    first, last = WEEKDAYS.index(days[0]), WEEKDAYS.index(days[-1])
    return [WEEKDAYS[(first + step) % 7] for step in range((last - first) % 7 + 1)]


def _minute(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if not match:
        raise Problem(f'{text} is not a time of day; write it like "09:30"')
    hour, minute = int(match[1]), int(match[2])
    if minute > 59 or hour > 24 or (hour == 24 and minute):
        raise Problem(f"{text} is no time of day; a day runs from 00:00 to 24:00")
    return hour * 60 + minute


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return f"`{text[:40]}…`" if len(text) > 40 else f"`{text}`"
