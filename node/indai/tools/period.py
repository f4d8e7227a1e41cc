"""Words for a stretch of days ("this week", "next monday", "25 august", "within 3 days",
"2026-12-01..2026-12-05") in an owner's time zone.

Weeks begin on Monday; "within 3 days" is the rest of today and the three days after it. A weekday is the next
one after today, "next monday" the one of next week; a date without a year is the next such date.

The words and the window must fit the moment: on a Friday evening "this week" has no working hour left, so
`fit_period` moves on to the next stretch that has room and says so in its words.
"""

from __future__ import annotations

import contextlib
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
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_NAMED = re.compile(
    rf"(?:on )?(?:(this|next|coming) )?({'|'.join(_WEEKDAYS)})|(?:the )?(\d{{1,2}})(?:st|nd|rd|th)?"
    rf"(?: (?:of )?({'|'.join(_MONTHS)}|{'|'.join(name[:3] for name in _MONTHS)}))?(?: (\d{{4}}))?"
)
_SAME = {
    "aaj": "today",
    "आज": "today",
    "kal": "tomorrow",
    "कल": "tomorrow",
    "parso": "day after tomorrow",
    "parson": "day after tomorrow",
    "परसों": "day after tomorrow",
    "week": "this week",
    "weekend": "this weekend",
    "month": "this month",
}
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
    text = _SAME.get(text, text)
    if text in ("today", "tomorrow", "day after tomorrow"):
        ahead = {"today": 0, "tomorrow": 1, "day after tomorrow": 2}[text]
        return _day(today, today + ahead * _DAY)
    if text in ("this week", "next week"):
        return _week(today, 0 if text == "this week" else 1)
    if (within := _WITHIN.match(text)) is not None:
        return _within(words, today, int(within[1]) * (7 if within[2] == "week" else 1))
    if (dates := _DATES.match(text)) is not None:
        return _dates(words, today, dates[1], dates[2] or dates[1])
    if text in ("this weekend", "next weekend"):
        return _weekend(today, 0 if text == "this weekend" else 1)
    if text in ("this month", "next month"):
        return _month(today, 0 if text == "this month" else 1)
    if (named := _NAMED.fullmatch(text)) is not None:
        beside, weekday, number, month, year = named.groups()
        if weekday:
            return _weekday(today, beside or "", _WEEKDAYS.index(weekday))
        return _next_date(words, today, int(number), month or "", int(year or 0))
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


def _weekend(today: date, ahead: int) -> _Days:
    saturday = today + (5 - today.weekday()) * _DAY + ahead * 7 * _DAY
    near = {0: "this weekend", 1: "next weekend"}
    words = near.get(ahead, f"the weekend of {saturday.day} {saturday:%B}")
    return _Days(saturday, saturday + _DAY, words, lambda: _weekend(today, ahead + 1))


def _month(today: date, ahead: int) -> _Days:
    first = _first_of(today, ahead)
    words = {0: "this month", 1: "next month"}.get(ahead, f"{first:%B}")
    return _Days(first, _first_of(today, ahead + 1) - _DAY, words, lambda: _month(today, ahead + 1))


def _first_of(today: date, ahead: int) -> date:
    months = today.year * 12 + today.month - 1 + ahead
    return date(months // 12, months % 12 + 1, 1)


def _weekday(today: date, beside: str, weekday: int) -> _Days:
    monday = today - today.weekday() * _DAY
    day = monday + (weekday + 7 * (beside == "next")) * _DAY
    if day <= today and beside != "this":
        day += 7 * _DAY
    if day < today:
        raise _refused(f"This week's {_WEEKDAYS[weekday]} has passed", "Name a day from today on.")
    return _day(today, day)


def _next_date(words: str, today: date, number: int, month: str, year: int) -> _Days:
    """The next day of that number, in that month where one is named."""
    wanted = next((at for at, name in enumerate(_MONTHS, 1) if month and name.startswith(month)), 0)
    for ahead in range(0 if not year else (year - today.year) * 12 - today.month + 1, 60):
        first = _first_of(today, ahead)
        if (wanted and first.month != wanted) or (year and first.year != year):
            continue
        with contextlib.suppress(ValueError):
            day = first.replace(day=number)
            if day >= today:
                return _Days(day, day, f"{day:%A} {day.day} {day:%B}")
    raise _refused(f"{words[:60]!r} names no day to come", "Name a day from today on.")


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
