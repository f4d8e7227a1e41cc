"""Busy times from an iCalendar file (RFC 5545): recurrence, overrides, time zones, all-day events,
free/busy.

The rule of this module: a meeting is never lost in silence. Whatever could not be read stops the reading,
with its line; where programs differ, the reading with more busy time is taken (two versions of one event
both count, an unanswered invitation counts). Free are only events that say so: TRANSP:TRANSPARENT,
STATUS:CANCELLED, or Outlook's own mark where TRANSP is absent.

Content lines are read by `content` rather than by a general parser, for the line numbers, for byte spans,
and because the general parser keeps the zones of all files in one table of the process, so that one owner's
VTIMEZONE could shift another's meetings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from icalendar import vDuration
from indai.node.calendar.content import Component, Property, invalid, read_components, unescape
from indai.node.calendar.recurrence import Budget, BudgetSpent, Rule, occurrences, parse_rule
from indai.node.calendar.slots import Interval, merge
from indai.node.calendar.zones import UTC_ZONE, Zone, Zones, from_utc, parse_stamp, to_local, to_ms

# Days and times all rules of one file may look at in one query: a few seconds at the very worst, and fifty
# times what a full working calendar needs for a year.
MAX_STEPS = 1_000_000
MAX_LENGTH = timedelta(days=3660)
DAY_MS = 86_400_000
_DAY = timedelta(days=1)
_EARLIEST = datetime(3, 1, 1, tzinfo=UTC)
_LATEST = datetime(9997, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """One occurrence. `busy` is False for transparent and cancelled ones; `ours` were agreed by us. The place
    says where, not which: two events that differ in it alone are equal."""

    start_ms: int
    end_ms: int
    uid: str
    summary: str
    all_day: bool
    busy: bool
    ours: bool
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as the file states it: naive local time with its zone, or a date."""

    local: datetime
    zone: Zone
    is_date: bool

    @property
    def ms(self) -> int:
        """The instant; for a date, the owner's midnight."""
        return to_ms(self.local, self.zone)


@dataclass(frozen=True, slots=True)
class Length:
    """How long an event lasts: whole days of the calendar, then exact milliseconds (RFC 5545 section
    3.8.5.3)."""

    days: int
    rest_ms: int

    def end_ms(self, start: datetime, zone: Zone) -> int:
        """The end of an event that starts at that local time."""
        return to_ms(start + self.days * _DAY, zone) + self.rest_ms


@dataclass(frozen=True, slots=True)
class Event:
    """One VEVENT as it stands in the file."""

    uid: str
    summary: str
    start: Moment
    length: Length
    busy: bool
    ours: bool
    sequence: int
    line: int
    recurrence_id: Moment | None = None
    and_future: bool = False
    rules: tuple[Rule, ...] = ()
    added: tuple[tuple[Moment, Length], ...] = ()
    removed: tuple[Moment, ...] = ()
    place: str = ""

    def at(self, start_ms: int, end_ms: int) -> CalendarEvent:
        """This event, taking place at that time."""
        return CalendarEvent(
            start_ms, end_ms, self.uid, self.summary, self.start.is_date, self.busy, self.ours, self.place
        )

    @property
    def repeats(self) -> bool:
        """True when the event needs expansion."""
        return bool(self.rules or self.added or self.recurrence_id)


@dataclass(frozen=True, slots=True)
class Span:
    """Where one VEVENT stands in the file, in bytes, its SEQUENCE, and whether we wrote it."""

    start: int
    end: int
    sequence: int
    ours: bool


@dataclass(slots=True)
class Calendar:
    """A whole calendar file, read once. `insert_at` is the offset of the last END:VCALENDAR line."""

    zone: ZoneInfo
    singles: dict[str, CalendarEvent] = field(default_factory=dict)
    series: dict[str, list[Event]] = field(default_factory=dict)
    periods: list[Interval] = field(default_factory=list)
    spans: dict[str, list[Span]] = field(default_factory=dict)
    insert_at: int = 0

    def events(self, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """Occurrences that touch `[start_ms, end_ms)`, in order of time. Raises InvalidInput for endless
        rules."""
        found = [e for e in self.singles.values() if _touches(e, start_ms, end_ms)]
        budget = Budget(MAX_STEPS)
        for members in self.series.values():
            try:
                found.extend(_expand(members, start_ms, end_ms, budget, self.zone))
            except BudgetSpent as error:
                hint = "Give the rule an UNTIL, or ask for a shorter time."
                raise invalid(
                    "this event repeats more often than can be followed", members[0].line, hint
                ) from error
        return sorted(found, key=lambda e: (e.start_ms, e.end_ms, e.uid))

    def busy(self, start_ms: int, end_ms: int) -> list[Interval]:
        """Busy time within `[start_ms, end_ms)`: merged, sorted, cut to the window."""
        taken = [Interval(e.start_ms, e.end_ms) for e in self.events(start_ms, end_ms) if e.busy]
        return merge(
            Interval(max(i.start_ms, start_ms), min(i.end_ms, end_ms)) for i in (*taken, *self.periods)
        )

    def standing(self, uid: str, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """What stands under a UID: the event wherever it is, or the occurrences of a series that touch
        `[start_ms, end_ms)`. Raises InvalidInput for endless rules."""
        if uid in self.singles:
            return [self.singles[uid]]
        if uid not in self.series:
            return []
        lone = Calendar(self.zone, series={uid: self.series[uid]})
        return lone.events(start_ms, end_ms)


def read_busy(data: bytes, *, owner_zone: ZoneInfo, start_ms: int, end_ms: int) -> list[Interval]:
    """Busy time of a calendar file within `[start_ms, end_ms)`: merged, sorted, cut to the window.

    Raises InvalidInput (INVALID_CALENDAR) naming the line when anything in the file cannot be read;
    (TOO_LARGE).
    """
    return read_calendar(data, owner_zone).busy(start_ms, end_ms)


def read_calendar(data: bytes, owner_zone: ZoneInfo) -> Calendar:
    """The whole file, ready for any number of queries. Raises as `read_busy`."""
    calendar = Calendar(owner_zone)
    found: dict[str, list[Event]] = {}
    for component in read_components(data):
        calendar.insert_at = component.closing
        zones = Zones(owner_zone, (c for c in component.children if c.name == "VTIMEZONE"))
        for child in component.children:
            if child.name == "VEVENT":
                event = _read_event(child, zones)
                found.setdefault(event.uid, []).append(event)
                calendar.spans.setdefault(event.uid, []).append(
                    Span(child.start, child.end, event.sequence, event.ours)
                )
            elif child.name == "VFREEBUSY":
                calendar.periods.extend(_read_periods(child, zones))
    for uid, members in found.items():
        if len(members) == 1 and not members[0].repeats:
            only = members[0]
            calendar.singles[uid] = only.at(
                only.start.ms, only.length.end_ms(only.start.local, only.start.zone)
            )
        else:
            calendar.series[uid] = members
    return calendar


def _touches(event: CalendarEvent, start_ms: int, end_ms: int) -> bool:
    """A zero-length event touches the window that holds its instant."""
    return event.start_ms < end_ms and (event.end_ms > start_ms or event.start_ms >= start_ms)


# Reading one VEVENT


def _read_event(component: Component, zones: Zones) -> Event:
    start_property = component.one("DTSTART")
    if start_property is None:
        raise invalid("the event that begins here has no DTSTART", component.line)
    start = _moment(start_property, start_property.value, zones)
    length = _length(component, start, zones)
    recurrence_id = component.one("RECURRENCE-ID")
    uid = component.one("UID")
    summary, location = component.one("SUMMARY"), component.all("LOCATION")
    return Event(
        # Old programs leave the UID out; such an event is itself only.
        unescape(uid.value) if uid and uid.value else f"line {component.line}",
        unescape(summary.value) if summary else "",
        start,
        length,
        _is_busy(component),
        bool(component.all("X-INDAI-MEETING")),
        _sequence(component),
        component.line,
        _moment(recurrence_id, recurrence_id.value, zones) if recurrence_id else None,
        bool(recurrence_id and recurrence_id.params.get("RANGE", "").upper() == "THISANDFUTURE"),
        tuple(_rule(prop, start) for prop in component.all("RRULE")),
        tuple(_added(component, length, zones)),
        tuple(_moment(p, text, zones) for p in component.all("EXDATE") for text in _items(p)),
        unescape(location[0].value) if location else "",
    )


def _items(prop: Property) -> list[str]:
    """The values of a list; some programs leave an empty one, or a comma at the end."""
    return [text for text in prop.value.split(",") if text.strip()]


def _moment(prop: Property, text: str, zones: Zones) -> Moment:
    local, is_utc = parse_stamp(text, prop.line)
    if "T" not in text:
        return Moment(local, zones.owner, True)
    return Moment(local, UTC_ZONE if is_utc else zones.find(prop), False)


def _length(component: Component, start: Moment, zones: Zones) -> Length:
    end, duration = component.one("DTEND"), component.one("DURATION")
    if end is not None:
        return _length_until(_moment(end, end.value, zones), start, end.line)
    if duration is not None:
        return _duration(duration.value, duration.line)
    return Length(1, 0) if start.is_date else Length(0, 0)


def _length_until(end: Moment, start: Moment, line: int) -> Length:
    if start.is_date and end.is_date:
        # An all-day event that ends on the day it starts is meant to fill that day.
        days = (end.local - start.local).days or 1
        length = Length(days, 0)
    else:
        length = Length(0, end.ms - start.ms)
    return _checked(length, line)


def _duration(text: str, line: int) -> Length:
    try:
        value: timedelta = vDuration.from_ical(text)  # type: ignore[no-untyped-call]
    except (ValueError, OverflowError) as error:
        raise invalid(f"{text[:40]!r} is no duration", line) from error
    exact = value - value.days * _DAY
    return _checked(Length(value.days, exact // timedelta(milliseconds=1)), line)


def _checked(length: Length, line: int) -> Length:
    total = length.days * DAY_MS + length.rest_ms
    if total < 0:
        raise invalid(
            "the event ends before it starts", line, "Correct its start or its end in your calendar."
        )
    if total > MAX_LENGTH // timedelta(milliseconds=1):
        raise invalid("the event lasts longer than ten years", line, "Correct its end in your calendar.")
    return length


def _is_busy(component: Component) -> bool:
    status, transparent = component.one("STATUS"), component.one("TRANSP")
    if status and status.value.upper() == "CANCELLED":
        return False
    if transparent:
        return transparent.value.upper() != "TRANSPARENT"
    outlook = component.one("X-MICROSOFT-CDO-BUSYSTATUS")
    return not (outlook and outlook.value.upper() == "FREE")


def _sequence(component: Component) -> int:
    prop = component.one("SEQUENCE")
    if prop is None:
        return 0
    if not prop.value.isascii() or not prop.value.isdigit() or len(prop.value) > 10:
        raise invalid("SEQUENCE is no number", prop.line)
    return int(prop.value)


def _rule(prop: Property, start: Moment) -> Rule:
    def until(text: str) -> datetime:
        local, is_utc = parse_stamp(text, prop.line)
        if "T" not in text:
            return local + _DAY - timedelta(seconds=1)  # the whole of that day
        return from_utc(local, start.zone) if is_utc and not start.is_date else local

    try:
        return parse_rule(prop.value, until)
    except ValueError as error:
        raise invalid(str(error), prop.line) from error


def _added(component: Component, length: Length, zones: Zones) -> Iterator[tuple[Moment, Length]]:
    for prop in component.all("RDATE"):
        for text in _items(prop):
            begin, slash, end = text.partition("/")
            start = _moment(prop, begin, zones)
            yield start, _period_length(prop, start, end, zones) if slash else length


def _period_length(prop: Property, start: Moment, end: str, zones: Zones) -> Length:
    if end.lstrip("+-").startswith("P"):
        return _duration(end, prop.line)
    return _length_until(_moment(prop, end, zones), start, prop.line)


def _read_periods(component: Component, zones: Zones) -> Iterator[Interval]:
    for prop in component.all("FREEBUSY"):
        if prop.params.get("FBTYPE", "BUSY").upper() == "FREE":
            continue
        for text in _items(prop):
            begin, _, end = text.partition("/")
            start = _moment(prop, begin, zones)
            yield Interval(start.ms, _period_length(prop, start, end, zones).end_ms(start.local, start.zone))


# Expanding one series: the events that share a UID


def _expand(
    members: list[Event], start_ms: int, end_ms: int, budget: Budget, owner: ZoneInfo
) -> Iterator[CalendarEvent]:
    masters = _newest([e for e in members if e.recurrence_id is None])
    changes = [e for e in members if e.recurrence_id is not None]
    for change in _current(changes, owner):
        moved = change.at(change.start.ms, change.length.end_ms(change.start.local, change.start.zone))
        if _touches(moved, start_ms, end_ms):
            yield moved
    for master in masters:
        # What one master costs before its first occurrence; a thousand copies of one event must not multiply.
        budget.spend(1 + len(changes) + len(master.removed) + len(master.added) + len(master.rules))
        replaced = {_key(e.recurrence_id, master, owner) for e in changes if e.recurrence_id}
        for event in _occurrences(master, changes, replaced, (start_ms, end_ms), budget, owner):
            if _touches(event, start_ms, end_ms):
                yield event


def _newest(masters: list[Event]) -> list[Event]:
    """The highest SEQUENCE; when two copies tie, both count."""
    highest = max((e.sequence for e in masters), default=0)
    return [e for e in masters if e.sequence == highest]


def _current(changes: Iterable[Event], owner: ZoneInfo) -> list[Event]:
    """For each occurrence changed, the change with the highest SEQUENCE, the later one in the file on a
    tie."""
    latest: dict[int, Event] = {}
    for change in changes:
        if change.recurrence_id is None:
            continue
        key = change.recurrence_id.ms
        if key not in latest or latest[key].sequence <= change.sequence:
            latest[key] = change
    return list(latest.values())


def _key(moment: Moment, master: Event, owner: ZoneInfo) -> int | date:
    """What an EXDATE or RECURRENCE-ID points at: an instant, or a day when either side has only a date."""
    if moment.is_date:
        return moment.local.date()
    if master.start.is_date:
        return to_local(moment.ms, owner).date() if moment.zone is UTC_ZONE else moment.local.date()
    return moment.ms


def _occurrences(
    master: Event,
    changes: list[Event],
    replaced: set[int | date],
    window: tuple[int, int],
    budget: Budget,
    owner: ZoneInfo,
) -> Iterator[CalendarEvent]:
    gone = replaced | {_key(moment, master, owner) for moment in master.removed}
    future = sorted((e for e in changes if e.and_future and e.recurrence_id), key=lambda e: _rid_ms(e))
    after, before = _local_window(master, future, window)
    for start, length, zone in _starts(master, after, before, budget):
        budget.spend(1 + len(future))
        instant = to_ms(start, zone)
        if start.date() in gone or instant in gone:
            continue
        change = next((e for e in reversed(future) if _rid_ms(e) < instant), None)
        if change is None:
            yield master.at(instant, length.end_ms(start, zone))
        else:
            moved = instant + change.start.ms - _rid_ms(change)
            yield change.at(moved, moved + change.length.days * DAY_MS + change.length.rest_ms)


def _rid_ms(change: Event) -> int:
    return change.recurrence_id.ms if change.recurrence_id else 0


def _local_window(master: Event, future: list[Event], window: tuple[int, int]) -> tuple[datetime, datetime]:
    """The window in naive time, widened by the event's length, by any shift, and by the largest UTC
    offsets."""
    lengths = [master.length, *(length for _, length in master.added), *(e.length for e in future)]
    longest = max(length.days * DAY_MS + length.rest_ms for length in lengths)
    shift = max((abs(e.start.ms - _rid_ms(e)) for e in future), default=0)
    margin = 2 * DAY_MS + shift
    return _naive(window[0] - longest - margin), _naive(window[1] + margin)


def _naive(instant_ms: int) -> datetime:
    low, high = (int((bound - _EPOCH).total_seconds()) * 1000 for bound in (_EARLIEST, _LATEST))
    clamped = min(max(instant_ms, low), high)
    return (_EPOCH + timedelta(milliseconds=clamped)).replace(tzinfo=None)


def _starts(
    master: Event, after: datetime, before: datetime, budget: Budget
) -> Iterator[tuple[datetime, Length, Zone]]:
    """Every local start in the window once: DTSTART itself, the rules, the added dates."""
    seen: set[int] = set()
    first, zone = master.start.local, master.start.zone
    listed = [(first, master.length, zone), *((m.local, length, m.zone) for m, length in master.added)]
    ruled = (
        (start, master.length, zone)
        for rule in master.rules
        for start in occurrences(rule, first, after, before, budget)
    )
    # RDATE periods carry their own length, so they are named before the rule can name the same start.
    for start, length, its_zone in (*listed[1:], listed[0], *ruled):
        instant = to_ms(start, its_zone)
        if after <= start < before and instant not in seen:
            seen.add(instant)
            yield start, length, its_zone
