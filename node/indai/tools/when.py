"""Words of a person about a time, as windows: "tomorrow evening", "this week", "25 august 15:00".

Days are `indai.tools.period`'s. A part of the day is that part of each of the days; a time of day is exactly
then. "This week" on a Sunday evening has no working hour left, so a week moves on to the next one; a day that
was named never moves. Everything is meant in the zone of the person who speaks. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from indai.protocol.errors import InvalidInput, Reason
from indai.tools.period import Period, fit_period, parse_period

MINUTE_MS: Final = 60_000
WORK: Final = (9, 18)  # hours of a weekday in which "this week" has room; what is allowed, the policies say
SOON_MS: Final = 5 * MINUTE_MS  # what is left of a day begins at such a step
MAX_WINDOWS: Final = 31
PARTS: Final = {
    "morning": (6, 12),
    "noon": (12, 14),
    "afternoon": (12, 17),
    "evening": (17, 21),
    "night": (19, 23),
}
_CLOCK: Final = re.compile(
    r"(?:^|\s)(?:at |@)?(?:(\d{1,2}):(\d\d)\s*(am|pm)?|(\d{1,2})\s*(am|pm)|at (\d{1,2}))\s*$"
)
_PART: Final = re.compile(rf"(?:^|\s)(?:in the |at )?({'|'.join(PARTS)})\s*$")
_TONIGHT: Final = {"tonight": "today night", "this evening": "today evening", "this morning": "today morning"}
_STRETCHES: Final = ("week", "month", "within", "in the next")
_NEAR: Final = ("today", "tomorrow", "day after tomorrow")
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """`[start_ms, end_ms)`."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class When:
    """Where a meeting may lie, in order of time, and the words a person would use for it now."""

    windows: tuple[Window, ...]
    words: str

    @property
    def whole(self) -> Window:
        """From the first moment to the last."""
        return Window(self.windows[0].start_ms, self.windows[-1].end_ms)


def read_when(days: str, clock: str, minutes: int, now_ms: int, zone: ZoneInfo) -> When:
    """The windows of at least `minutes` that these words name, none before now. `days` may end with a time or
    a part of the day, which may also stand in `clock`. Raises InvalidInput for words that name nothing, or
    nothing that is left."""
    said = " ".join(days.lower().split())
    said = _TONIGHT.get(said, said)
    said, inner = _split(said)
    hours = _hours(clock) if clock.strip() else inner
    period = _period(said or "today", minutes, now_ms, zone, hours)
    found = [each for each in _windows(period, hours, minutes, zone) if each.end_ms > now_ms]
    soon = -(-now_ms // SOON_MS) * SOON_MS
    cut = [Window(max(each.start_ms, soon), each.end_ms) for each in found]
    # A time that was named exactly is not begun late.
    exact = hours is not None and hours[1] is None
    fit = [
        each
        for each, whole in zip(cut, found, strict=True)
        if each.end_ms - each.start_ms >= minutes * MINUTE_MS and not (exact and each != whole)
    ]
    if not fit:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"There is no time left in {f'{days} {clock}'.strip()!r}.",
            hint="name a later time",
            metadata={"code": "TIME_PASSED"},
        )
    return When(tuple(fit[:MAX_WINDOWS]), f"{period.words}{_said(hours)}")


def fit(words: str, minutes: int, now_ms: int, zone: ZoneInfo) -> Period:
    """The stretch the words name, moved on when no working hours are left in it; dates, weekdays and weekends
    never move."""
    if not (_is_stretch(words) or words.strip().lower() in _NEAR):
        return parse_period(words, now_ms, zone)
    return fit_period(
        words, now_ms, zone, lambda start, end: working_ms(start, end, zone) >= minutes * MINUTE_MS
    )


def working_ms(start_ms: int, end_ms: int, zone: ZoneInfo) -> int:
    """The longest piece of a working day (Monday to Friday, 9 to 18) inside the stretch."""
    best = 0
    for day in _days(start_ms, end_ms, zone):
        if day.weekday() < 5:
            opens, closes = (_ms(day, hour * 60, zone) for hour in WORK)
            best = max(best, min(end_ms, closes) - max(start_ms, opens))
    return best


Hours = tuple[int, int | None]
"""A part of the day in minutes after midnight; without an end, a time of day."""


def _period(said: str, minutes: int, now_ms: int, zone: ZoneInfo, hours: Hours | None) -> Period:
    if hours is None and _is_stretch(said):
        return fit(said, minutes, now_ms, zone)
    return parse_period(said, now_ms, zone)


def _is_stretch(words: str) -> bool:
    said = words.lower()
    return "weekend" not in said and any(mark in said for mark in _STRETCHES)


def _split(said: str) -> tuple[str, Hours | None]:
    """The words of days, and the time of day that stands behind them."""
    if found := _CLOCK.search(said):
        return said[: found.start()].strip(), _clock_of(found)
    if found := _PART.search(said):
        return said[: found.start()].strip(), _part_of(found[1])
    return said, None


def _hours(text: str) -> Hours:
    said = " ".join(text.lower().split())
    if found := _CLOCK.fullmatch(said):
        return _clock_of(found)
    if found := _PART.fullmatch(said):
        return _part_of(found[1])
    raise InvalidInput(
        Reason.INVALID_ARGUMENT, f"{text[:40]!r} is no time of day.", hint="like 15:00, 3 pm or evening"
    )


def _part_of(name: str) -> Hours:
    start, end = PARTS[name]
    return start * 60, end * 60


def _clock_of(found: re.Match[str]) -> Hours:
    hour = int(found[1] or found[4] or found[6])
    minute, half = int(found[2] or 0), found[3] or found[5]
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    elif half is None and found[6] and 1 <= hour <= 7:  # "at 4": the hour people meet at
        hour += 12
    if hour > 23 or minute > 59:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{found[0].strip()!r} is no time of day.")
    return hour * 60 + minute, None


def _windows(period: Period, hours: Hours | None, minutes: int, zone: ZoneInfo) -> Iterator[Window]:
    if hours is None:
        yield Window(period.start_ms, period.end_ms)
        return
    start, end = hours[0], hours[0] + minutes if hours[1] is None else hours[1]
    for day in _days(period.start_ms, period.end_ms, zone):
        yield Window(_ms(day, start, zone), _ms(day, end, zone))


def _days(start_ms: int, end_ms: int, zone: ZoneInfo) -> Iterator[date]:
    day = datetime.fromtimestamp(start_ms / 1000, zone).date()
    last = datetime.fromtimestamp((end_ms - 1) / 1000, zone).date()
    while day <= last:
        yield day
        day += _DAY


def _ms(day: date, minute: int, zone: ZoneInfo) -> int:
    """The moment at which a wall clock in the zone shows that minute of the day."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minute)
    return round(wall.replace(tzinfo=zone).astimezone(UTC).timestamp() * 1000)


def _said(hours: Hours | None) -> str:
    if hours is None:
        return ""
    start, end = hours
    if end is None:
        return f" at {start // 60:02}:{start % 60:02}"
    return f" {next(name for name, part in PARTS.items() if (part[0] * 60, part[1] * 60) == hours)}"
