"""Words for a stretch of days ("this week", "within 3 days", "2026-12-01..2026-12-05") in an owner's time
zone.

Weeks begin on Monday; "within 3 days" is the rest of today and the three days after it.

The words and the window must fit the moment: on a Friday evening "this week" has no working hour left, so
`fit_period` moves on to the next stretch that has room and says so in its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from indai.protocol.errors import InvalidInput, Reason

MAX_DAYS = 366
_MAX_MOVES = 9
_WITHIN = re.compile(r"(?:within|in the next|next) (\d{1,3}) (day|week)s?$")
_DATES = re.compile(r"(\d{4}-\d\d-\d\d)(?:\s*\.\.\s*(\d{4}-\d\d-\d\d))?$")
_EXAMPLES = "today, tomorrow, this week, next week, within 3 days, 2026-12-01, 2026-12-01..2026-12-05"
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """`[start_ms, end_ms)` and the words a person would use for it at this moment."""

    start_ms: int
    end_ms: int
    words: str


@dataclass(frozen=True, slots=True)
class _Days:
    """Whole days `[first, last]`; `follow` makes the next stretch when this one is full, or is None."""

    first: date
    last: date
    words: str
    follow: Callable[[], _Days] | None = None


def parse_period(words: str, now_ms: int, zone: ZoneInfo) -> Period:
    """The stretch those words name at that moment; never before now. Raises InvalidInput for words unknown
    or past."""
    return _period(_days(words, _today(now_ms, zone)), now_ms, zone)


def fit_period(words: str, now_ms: int, zone: ZoneInfo, has_room: Callable[[int, int], bool]) -> Period:
    """The stretch those words name, or the next such stretch for which `has_room(start_ms, end_ms)` is true.

    Dates that were named exactly never move. Raises InvalidInput when nothing has room.
    """
    days: _Days | None = _days(words, _today(now_ms, zone))
    for _ in range(_MAX_MOVES):
        if days is None:
            break
        period = _period(days, now_ms, zone)
        if period.start_ms < period.end_ms and has_room(period.start_ms, period.end_ms):
            return period
        days = days.follow() if days.follow else None
    raise InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"There is no usable time in {words!r}.",
        hint="Name a later time (next week), or allow more hours or weekdays in the policy.",
    )


def _days(words: str, today: date) -> _Days:
    text = " ".join(words.lower().split())
    if text in ("today", "tomorrow"):
        return _day(today, today + (_DAY if text == "tomorrow" else timedelta(0)))
    if text in ("this week", "next week"):
        return _week(today, 0 if text == "this week" else 1)
    if (within := _WITHIN.match(text)) is not None:
        return _within(words, today, int(within[1]) * (7 if within[2] == "week" else 1))
    if (dates := _DATES.match(text)) is not None:
        return _dates(words, today, dates[1], dates[2] or dates[1])
    raise _refused(f"{words[:60]!r} is no period", f"Say one of: {_EXAMPLES}.")


def _day(today: date, day: date) -> _Days:
    near = {0: "today", 1: "tomorrow"}
    words = near.get((day - today).days, f"{day:%A} {day.day} {day:%B}")
    return _Days(day, day, words, lambda: _day(today, day + _DAY))


def _week(today: date, ahead: int) -> _Days:
    monday = today - today.weekday() * _DAY + ahead * 7 * _DAY
    near = {0: "this week", 1: "next week"}
    words = near.get(ahead, f"the week of {monday.day} {monday:%B}")
    return _Days(monday, monday + 6 * _DAY, words, lambda: _week(today, ahead + 1))


def _within(words: str, today: date, count: int) -> _Days:
    if not 1 <= count <= MAX_DAYS:
        raise _refused(f"{words[:60]!r} is not between 1 and {MAX_DAYS} days", "Name a shorter time.")

    def longer(total: int) -> _Days:
        plural = "day" if total == 1 else "days"
        return _Days(today, today + total * _DAY, f"within {total} {plural}", lambda: longer(total + count))

    return longer(count)


def _dates(words: str, today: date, first_text: str, last_text: str) -> _Days:
    try:
        first, last = date.fromisoformat(first_text), date.fromisoformat(last_text)
    except ValueError as error:
        raise _refused(
            f"{words[:60]!r} names a day that does not exist", "Dates are year-month-day."
        ) from error
    if last < first:
        raise _refused(f"{words[:60]!r} ends before it begins", "Put the earlier date first.")
    if last < today:
        raise _refused(f"{words[:60]!r} has passed", "Name a day from today on.")
    if (last - first).days >= MAX_DAYS or last.year > 9990:
        raise _refused(f"{words[:60]!r} is longer than {MAX_DAYS} days", "Name a shorter time.")
    return _Days(first, last, first_text if first == last else f"{first_text}..{last_text}")


def _period(days: _Days, now_ms: int, zone: ZoneInfo) -> Period:
    start, end = _midnight_ms(days.first, zone), _midnight_ms(days.last + _DAY, zone)
    return Period(max(start, now_ms), end, days.words)


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    """The first instant of a local day (where midnight is skipped, the instant of the change)."""
    moment = datetime.combine(day, time(), tzinfo=zone)
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def _today(now_ms: int, zone: ZoneInfo) -> date:
    return (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone).date()


def _refused(message: str, hint: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, f"{message}.", hint=hint)
