"""Recurrence rules (RFC 5545 section 3.3.10), expanded in local time and only inside the window asked for.

Written here because the usual engine walks every occurrence since the first one, and never returns from a
rule that matches nothing: a calendar from a stranger could hold a thread for minutes. This one jumps to the
window wherever the rule has no COUNT, and pays for each day or time it looks at from a budget. The tests
hold it against two independent implementations.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time, timedelta

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_SUB_DAILY = {
    "HOURLY": timedelta(hours=1),
    "MINUTELY": timedelta(minutes=1),
    "SECONDLY": timedelta(seconds=1),
}
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", *_SUB_DAILY)
# Inclusive ranges of the BY parts; a negative number counts from the end where `signed`.
_RANGES: dict[str, tuple[int, int, bool]] = {
    "BYSECOND": (0, 60, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
_END_OF_TIME = datetime(MAXYEAR, 1, 1)  # noqa: DTZ001 - local by definition
_BYDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)$")


class BudgetSpent(Exception):
    """The rules of one calendar take more steps than a calendar of a person ever would."""


class Budget:
    """Steps that all rules of one query may take together."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps, or raise `BudgetSpent`."""
        self._left -= steps
        if self._left < 0:
            raise BudgetSpent


@dataclass(frozen=True, slots=True)
class Rule:
    """One RRULE. `until` is inclusive and in the local time of the event; (0, weekday) is every such
    weekday."""

    freq: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    by_day: tuple[tuple[int, int], ...] = ()
    by: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def numbers(self, part: str) -> tuple[int, ...]:
        """The numbers of a BY part, empty when it is absent."""
        return next((numbers for name, numbers in self.by if name == part), ())


def parse_rule(text: str, until: Callable[[str], datetime]) -> Rule:
    """Read an RRULE value; `until` turns its UNTIL into the event's local time. Raises ValueError with the
    reason."""
    parts: dict[str, str] = {}
    for part in text.strip().rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        name = name.strip().upper()
        if not equals or not value.strip() or name in parts:
            raise ValueError(f"the rule part {part[:40]!r} cannot be read")
        parts[name] = value.strip().upper()
    known = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES}
    unknown = [name for name in parts if name not in known and not name.startswith("X-")]
    if unknown:
        raise ValueError(f"the rule part {unknown[0][:40]} is unknown")
    freq = parts.get("FREQ", "")
    if freq not in _FREQUENCIES:
        raise ValueError(f"FREQ={freq[:20]} is no frequency")
    rule = Rule(
        freq,
        _positive("INTERVAL", parts.get("INTERVAL", "1")),
        _positive("COUNT", parts["COUNT"]) if "COUNT" in parts else None,
        until(parts["UNTIL"]) if "UNTIL" in parts else None,
        _weekday(parts.get("WKST", "MO")),
        tuple(_by_day(item) for item in parts["BYDAY"].split(",")) if "BYDAY" in parts else (),
        tuple((name, _by_numbers(name, parts[name])) for name in _RANGES if name in parts),
    )
    if freq in _SUB_DAILY and (rule.numbers("BYSETPOS") or rule.numbers("BYWEEKNO")):
        raise ValueError(f"BYSETPOS and BYWEEKNO are not understood with FREQ={freq}")
    return rule


def occurrences(
    rule: Rule, first: datetime, after: datetime, before: datetime, budget: Budget
) -> Iterator[datetime]:
    """Local starts of the rule with `after <= start < before`, ascending; `first` is DTSTART (naive).

    As RFC 5545 has it, `first` itself counts only if it fits the rule; the caller adds it. Raises
    BudgetSpent.
    """
    last = before if rule.until is None else min(before, rule.until + timedelta(seconds=1))
    # With COUNT every occurrence from the first on has to be counted; without it the past can be skipped.
    begin = first if rule.count is not None else max(first, after)
    left = rule.count
    for start in _starts(rule, first, begin, last, budget):
        if start < first:
            continue
        if start >= last or left == 0:
            return
        if left is not None:
            left -= 1
        if start >= after:
            yield start


def _starts(
    rule: Rule, first: datetime, begin: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    if rule.freq in _SUB_DAILY:
        yield from _sub_daily(rule, first, begin, last, budget)
        return
    chosen = _day_filter(rule, first)
    times = _times(rule, first)
    positions = rule.numbers("BYSETPOS")
    for days in _periods(rule, first, begin.date(), last.date()):
        budget.spend(len(days))
        fitting = [day for day in days if chosen(day)]
        budget.spend(len(fitting) * len(times))
        starts: Sequence[datetime] = [datetime.combine(day, moment) for day in fitting for moment in times]
        yield from _at_positions(starts, positions) if positions else starts


def _at_positions(starts: Sequence[datetime], positions: Sequence[int]) -> list[datetime]:
    indexes = {p - 1 if p > 0 else len(starts) + p for p in positions}
    return [starts[i] for i in sorted(indexes) if 0 <= i < len(starts)]


def _periods(rule: Rule, first: datetime, begin: date, last: date) -> Iterator[list[date]]:
    """The days of each year, month, week or day the rule visits, from the period of `begin` to that of
    `last`."""
    origin = first.date()
    if rule.freq == "YEARLY":
        index = (begin.year - origin.year) // rule.interval * rule.interval
        for year in range(origin.year + index, min(last.year, MAXYEAR - 1) + 1, rule.interval):
            yield _days_of_year(year)
    elif rule.freq == "MONTHLY":
        zero = origin.year * 12 + origin.month - 1
        index = (begin.year * 12 + begin.month - 1 - zero) // rule.interval * rule.interval
        for month in range(zero + index, last.year * 12 + last.month, rule.interval):
            yield _days_of_month(month // 12, month % 12 + 1)
    else:
        length = 7 if rule.freq == "WEEKLY" else 1
        day = origin.toordinal() - ((origin.weekday() - rule.week_start) % 7 if length == 7 else 0)
        stride = length * rule.interval
        day += (begin.toordinal() - day) // stride * stride
        for start in range(max(day, 1), min(last.toordinal(), date.max.toordinal() - 7) + 1, stride):
            yield [date.fromordinal(start + i) for i in range(length)]


def _days_of_year(year: int) -> list[date]:
    new_year = date(year, 1, 1).toordinal()
    return [date.fromordinal(new_year + i) for i in range(366 if isleap(year) else 365)]


def _days_of_month(year: int, month: int) -> list[date]:
    return [date(year, month, day) for day in range(1, monthrange(year, month)[1] + 1)]


def _day_filter(rule: Rule, first: datetime) -> Callable[[date], bool]:
    """Which days of a period are meant: every BY part given must agree; DTSTART fills in what none of them
    says."""
    by_day, month_days = rule.by_day, rule.numbers("BYMONTHDAY")
    months, year_days, weeks = rule.numbers("BYMONTH"), rule.numbers("BYYEARDAY"), rule.numbers("BYWEEKNO")
    if not (by_day or month_days or year_days or weeks):
        if rule.freq == "YEARLY" and not months:
            months = (first.month,)
        if rule.freq in ("YEARLY", "MONTHLY"):
            month_days = (first.day,)
        elif rule.freq == "WEEKLY":
            by_day = ((0, first.weekday()),)
    nth_in_year = rule.freq == "YEARLY" and not months
    counted = rule.freq in ("YEARLY", "MONTHLY")

    def fits(day: date) -> bool:
        return (
            (not months or day.month in months)
            and (not by_day or _is_weekday(day, by_day, counted, nth_in_year))
            and (not month_days or _is_numbered(day.day, monthrange(day.year, day.month)[1], month_days))
            and (
                not year_days
                or _is_numbered(day.timetuple().tm_yday, 366 if isleap(day.year) else 365, year_days)
            )
            and (not weeks or _is_in_week(day, rule.week_start, weeks))
        )

    return fits


def _is_numbered(position: int, length: int, numbers: Sequence[int]) -> bool:
    return position in numbers or position - length - 1 in numbers


def _is_weekday(day: date, by_day: Sequence[tuple[int, int]], counted: bool, nth_in_year: bool) -> bool:
    """`2TU` is the second Tuesday of the month (or year); in a weekly or daily rule the number has no
    meaning."""
    weekday = day.weekday()
    for nth, wanted in by_day:
        if wanted != weekday:
            continue
        if nth == 0 or not counted:
            return True
        position = day.timetuple().tm_yday if nth_in_year else day.day
        year_length = 366 if isleap(day.year) else 365
        length = year_length if nth_in_year else monthrange(day.year, day.month)[1]
        if nth == (position - 1) // 7 + 1 or nth == -((length - position) // 7 + 1):
            return True
    return False


def _is_in_week(day: date, week_start: int, weeks: Sequence[int]) -> bool:
    """Week 1 is the first with at least four days in the year. A day of the year that lies in a week of a
    neighbouring year belongs to that neighbour's numbering, and is reached from this year."""
    first = _first_week(day.year, week_start)
    following = _first_week(day.year + 1, week_start)
    ordinal = day.toordinal()
    if first <= ordinal < following:
        return _is_numbered((ordinal - first) // 7 + 1, (following - first) // 7, weeks)
    if ordinal >= following:
        return 1 in weeks
    previous = _first_week(day.year - 1, week_start) if day.year > 1 else first
    length = (first - previous) // 7
    return _is_numbered(length, length, weeks)


def _first_week(year: int, week_start: int) -> int:
    new_year = date(year, 1, 1)
    into_week = (new_year.weekday() - week_start) % 7
    return new_year.toordinal() - into_week + (7 if into_week > 3 else 0)


def _times(rule: Rule, first: datetime) -> list[time]:
    hours = rule.numbers("BYHOUR") or (first.hour,)
    minutes = rule.numbers("BYMINUTE") or (first.minute,)
    seconds = rule.numbers("BYSECOND") or (first.second,)
    # A leap second is the last second of its minute here: the platform's time has none.
    return sorted({time(h, m, min(s, 59)) for h in hours for m in minutes for s in seconds})


def _sub_daily(
    rule: Rule, first: datetime, begin: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    step = _SUB_DAILY[rule.freq] * rule.interval
    fits_day = _day_filter(rule, first)
    hours, minutes, seconds = (sorted(rule.numbers(part)) for part in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    current = first + (begin - first) // step * step
    while current < last + timedelta(hours=1):
        budget.spend()
        if fits_day(current.date()) and (not hours or current.hour in hours):
            unit = current.replace(minute=0, second=0) if rule.freq == "HOURLY" else current
            for minute in minutes or [current.minute]:
                for second in seconds or [current.second]:
                    moment = unit.replace(minute=minute, second=min(second, 59))
                    budget.spend()
                    if rule.freq == "HOURLY" or _is_same_unit(rule.freq, moment, current):
                        yield moment
        if _END_OF_TIME - current <= step:
            return
        current += step


def _is_same_unit(freq: str, moment: datetime, current: datetime) -> bool:
    """Minutely rules expand seconds within their own minute; secondly rules only choose."""
    if freq == "MINUTELY":
        return moment.minute == current.minute
    return moment == current


def _positive(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
        raise ValueError(f"{name}={text[:20]} is no positive number")
    return int(text)


def _weekday(text: str) -> int:
    if text not in WEEKDAYS:
        raise ValueError(f"{text[:20]} is no weekday")
    return WEEKDAYS.index(text)


def _by_day(text: str) -> tuple[int, int]:
    match = _BYDAY.match(text.strip())
    if match is None or (match[1] is not None and not 1 <= abs(int(match[1])) <= 53):
        raise ValueError(f"BYDAY={text[:20]} is no weekday")
    return int(match[1] or 0), WEEKDAYS.index(match[2])


def _by_numbers(name: str, text: str) -> tuple[int, ...]:
    low, high, signed = _RANGES[name]
    numbers: list[int] = []
    for item in text.split(","):
        if not re.fullmatch(r"[+-]?[0-9]{1,3}", item.strip()):
            raise ValueError(f"{name}={item[:20]} is no number")
        number = int(item)
        if not low <= (abs(number) if signed else number) <= high:
            raise ValueError(f"{name}={number} is out of range")
        numbers.append(number)
    return tuple(sorted(set(numbers)))
