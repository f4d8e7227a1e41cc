"""What an owner likes in a meeting: hours, free time around it, ways between places, notice, how many a day.

Pure. The policy says what may be agreed with whom; this says where in free time a meeting fits the owner.
Every condition is one on intervals, so that each slot wholly inside what `room` leaves meets all of them: a
side reveals only windows that its own rules allow, and what both sides' windows have in common satisfies
both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from indai.node.calendar.busy import CalendarEvent
from indai.node.calendar.slots import MINUTE_MS, Interval, intersect, merge, subtract
from indai.protocol.errors import InvalidInput, Reason

DAY_MINUTES = 1440
MAX_GAP_MINUTES = 24 * 60
REMINDER_MINUTES = 15
MORNING_MINUTE = 480
MAX_NOTICE_MINUTES = 60 * 24 * 60
MAX_ENTRIES = 100
MAX_PLACE = 200
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LINK = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hours:
    """A part of a weekday (0 is Monday), in minutes after local midnight, `[start, end)`."""

    weekday: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Way:
    """Minutes between two places, either way. An empty place is any other."""

    here: str
    there: str
    minutes: int


@dataclass(frozen=True, slots=True)
class Preferences:
    """See `indai.v1.MeetSettings`. Empty `hours` are all hours; `max_per_day` 0 is any number,
    `reminder_minutes` and `morning_minute` 0 never."""

    hours: tuple[Hours, ...] = ()
    preferred: tuple[Hours, ...] = ()
    before_minutes: int = 0
    after_minutes: int = 0
    ways: tuple[Way, ...] = ()
    notice_minutes: int = 0
    max_per_day: int = 0
    reminder_minutes: int = REMINDER_MINUTES
    morning_minute: int = MORNING_MINUTE

    @property
    def reach_ms(self) -> int:
        """How far from a slot an event may stand and still matter."""
        minutes = (self.before_minutes, self.after_minutes, *(way.minutes for way in self.ways))
        return max(minutes) * MINUTE_MS


def check(preferences: Preferences) -> None:
    """Raises InvalidInput for what no day, clock or map has."""
    gaps = (preferences.before_minutes, preferences.after_minutes, *(way.minutes for way in preferences.ways))
    wrong = ""
    if any(not (0 <= h.weekday < 7 and 0 <= h.start < h.end <= DAY_MINUTES) for h in _all_hours(preferences)):
        wrong = "Hours have a weekday from 1 to 7, and end after they start, within the day."
    elif not all(0 <= gap <= MAX_GAP_MINUTES for gap in gaps):
        wrong = "A buffer and a way are at most a day."
    elif not 0 <= preferences.reminder_minutes <= MAX_NOTICE_MINUTES:
        wrong = f"The reminder is at most {MAX_NOTICE_MINUTES // DAY_MINUTES} days before."
    elif not 0 <= preferences.morning_minute < DAY_MINUTES:
        wrong = "The morning's reminder is at a minute of the day."
    elif not 0 <= preferences.notice_minutes <= MAX_NOTICE_MINUTES:
        wrong = f"The notice is at most {MAX_NOTICE_MINUTES // DAY_MINUTES} days."
    elif not 0 <= preferences.max_per_day <= MAX_ENTRIES:
        wrong = f"At most {MAX_ENTRIES} meetings a day are counted."
    elif any(max(len(way.here), len(way.there)) > MAX_PLACE for way in preferences.ways):
        wrong = f"A place has at most {MAX_PLACE} characters."
    elif max(len(_all_hours(preferences)), len(preferences.ways)) > MAX_ENTRIES:
        wrong = f"There are at most {MAX_ENTRIES} hours and {MAX_ENTRIES} ways."
    if wrong:
        raise InvalidInput(Reason.INVALID_ARGUMENT, wrong)


def room(
    base: Iterable[Interval],
    events: Iterable[CalendarEvent],
    agreed: Iterable[int],
    preferences: Preferences,
    *,
    place: str,
    now_ms: int,
    zone: ZoneInfo,
) -> list[Interval]:
    """The part of `base` in which every slot suits the owner, for a meeting at `place`.

    `events` are those that touch `base` widened by `reach_ms`, free ones too (they are passed over);
    `agreed` are the starts (ms) of meetings agreed or promised, for the number a day.
    """
    left = [
        Interval(max(each.start_ms, now_ms + preferences.notice_minutes * MINUTE_MS), each.end_ms)
        for each in merge(base)
    ]
    left = subtract(left, (_guarded(event, preferences, place) for event in events if event.busy))
    if preferences.max_per_day:
        left = subtract(left, _full_days(agreed, preferences.max_per_day, zone))
    left = merge(left)
    if preferences.hours and left:
        left = intersect(left, local_hours(preferences.hours, left[0].start_ms, left[-1].end_ms, zone))
    return left


def local_hours(hours: Sequence[Hours], start_ms: int, end_ms: int, zone: ZoneInfo) -> list[Interval]:
    """Those hours of each local day that touches `[start_ms, end_ms)`, merged and sorted.

    Where a clock change makes a bound ambiguous or skips it, the narrower reading is taken: no instant is in
    the result whose wall clock is outside the hours.
    """
    day, last = _day(start_ms, zone), _day(end_ms, zone)
    found: list[Interval] = []
    while day <= last:
        for each in hours:
            if each.weekday == day.weekday():
                found.append(
                    Interval(max(_instants(day, each.start, zone)), min(_instants(day, each.end, zone)))
                )
        day += _DAY
    return merge(found)


def travel_minutes(ways: Iterable[Way], here: str, there: str) -> int:
    """Minutes between two places; none where either is unknown or a link, or both are the same."""
    ends = {_place(here), _place(there)}
    if "" in ends or len(ends) == 1:
        return 0
    best = (-1, 0)
    for way in ways:
        named = {_place(way.here), _place(way.there)} - {""}
        if named <= ends:
            best = max(best, (len(named), way.minutes))
    return best[1]


def _guarded(event: CalendarEvent, preferences: Preferences, place: str) -> Interval:
    """An event with the free time that a meeting at `place` needs around it. Whole days have no edges that
    one could be late from."""
    if event.all_day:
        return Interval(event.start_ms, event.end_ms)
    way = travel_minutes(preferences.ways, event.place, place)
    ahead, behind = max(preferences.after_minutes, way), max(preferences.before_minutes, way)
    return Interval(event.start_ms - ahead * MINUTE_MS, event.end_ms + behind * MINUTE_MS)


def _full_days(agreed: Iterable[int], most: int, zone: ZoneInfo) -> list[Interval]:
    per_day = Counter(_day(start, zone) for start in agreed)
    return [
        Interval(min(_instants(day, 0, zone)), max(_instants(day + _DAY, 0, zone)))
        for day, count in per_day.items()
        if count >= most
    ]


def _instants(day: date, minute: int, zone: ZoneInfo) -> tuple[int, int]:
    """The two readings of a local time, ms; they are the same but beside a clock change."""
    local = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)  # noqa: DTZ001 - local
    first, second = (
        (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) - _EPOCH) // _MS for fold in (0, 1)
    )
    return first, second


def _day(instant_ms: int, zone: ZoneInfo) -> date:
    return (_EPOCH + instant_ms * _MS).astimezone(zone).date()


def _place(text: str) -> str:
    """A place in the form in which places are compared; links are no places."""
    plain = " ".join(text.casefold().split())
    return "" if _LINK.match(plain) else plain


def _all_hours(preferences: Preferences) -> tuple[Hours, ...]:
    return (*preferences.hours, *preferences.preferred)
