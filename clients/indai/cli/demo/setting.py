"""The demonstration's world for this very moment: time zone, calendars, rules, and a period with room.

Everything here is computed before a node runs, with the same arithmetic that the nodes use, so that the words
("this week") and the window fit any day, hour and zone, and calendars from any program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from icalendar import Calendar, Event
from indai.node.calendar.file import CalendarFile
from indai.node.calendar.slots import Interval, candidate_windows, free_slots, intersect, subtract
from indai.policy.compiled import CompiledPolicy, compile_policy
from indai.policy.windows import WindowFacts, allowed_windows
from indai.protocol.errors import InvalidInput
from indai.tools.period import Period, fit_period

ALICE, BOB = "ind.ai/alice", "ind.ai/bob"
MINUTE_MS = 60_000
LATER_MS = 15 * MINUTE_MS  # the scenes must still fit when the demonstration has run for a while
MEETINGS = (30, 60, 30, 30, 60)  # minutes, in the order of the scenes that need room for one
WINDOWS = 5

ALICE_YAML = """\
version: 1
timezone: {zone}
circles:
  friends: [ind.ai/bob, ind.ai/carol]
rules:
  - id: friends
    say: "Meetings of up to 4 hours with friends, weekdays 9 to 18"
    allow: meet
    with: friends
    duration: {{ max: 4h }}
    hours: 09:00-18:00
    weekdays: mon-fri
"""
BOB_YAML = """\
version: 1
timezone: {zone}
circles:
  friends: [ind.ai/alice, ind.ai/dave]
rules:
  - id: short-with-friends
    say: "Half an hour with friends, weekdays 9 to 18"
    allow: meet
    with: friends
    duration: {{ max: 30m }}
    hours: 09:00-18:00
    weekdays: mon-fri
  - id: longer-asks-me
    say: "Ask me about anything longer, up to 2 hours"
    ask: meet
    with: friends
    duration: {{ min: 31m, max: 2h }}
    hours: 09:00-18:00
    weekdays: mon-fri
  - id: no-quick-chats
    say: "Never under 15 minutes: write me instead"
    deny: meet
    duration: {{ max: 14m }}
"""


@dataclass(frozen=True, slots=True)
class Person:
    """One side, before its node exists."""

    handle: str
    yaml: str
    policy: CompiledPolicy
    busy: Sequence[Interval]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is agreed with the clock: both sides and a period that has room for every meeting."""

    zone: ZoneInfo
    alice: Person
    bob: Person
    period: Period


def alice_yaml(zone: ZoneInfo) -> str:
    """Alice's rules."""
    return ALICE_YAML.format(zone=zone.key)


def bob_yaml(zone: ZoneInfo) -> str:
    """Bob's rules."""
    return BOB_YAML.format(zone=zone.key)


async def prepare(zone: ZoneInfo, now_ms: int, alice_ics: Path, bob_ics: Path) -> Setting:
    """Read both calendars and find the stretch. Raises InvalidInput for a broken file, or when none fits."""
    start, end = now_ms, now_ms + 90 * 24 * 60 * MINUTE_MS
    alice = Person(
        ALICE,
        alice_yaml(zone),
        compile_policy(alice_yaml(zone)),
        await CalendarFile(alice_ics, zone).busy(start, end),
    )
    bob = Person(
        BOB,
        bob_yaml(zone),
        compile_policy(bob_yaml(zone)),
        await CalendarFile(bob_ics, zone).busy(start, end),
    )
    earliest = now_ms + LATER_MS

    def has_room(begin: int, finish: int) -> bool:
        return finish <= end and _all_fit(alice, bob, Interval(max(begin, earliest), finish), earliest)

    try:
        period = await asyncio.to_thread(fit_period, "this week", now_ms, zone, has_room)
    except InvalidInput as error:
        raise InvalidInput(
            error.reason,
            "These calendars have no common room for the demonstration's meetings in the next weeks.",
            hint="use calendars with a few free working hours on both sides",
        ) from error
    return Setting(zone, alice, bob, period)


def _all_fit(alice: Person, bob: Person, span: Interval, now_ms: int) -> bool:
    """Play the negotiations: Alice reveals a few windows, Bob takes the first free, allowed slot in them."""
    taken: list[Interval] = []
    for minutes in MEETINGS:
        length = minutes * MINUTE_MS
        free = subtract(_allowed(alice, bob.handle, span, minutes, now_ms), [*alice.busy, *taken])
        windows = candidate_windows(free, length, WINDOWS)
        theirs = subtract(
            intersect(windows, _allowed(bob, alice.handle, span, minutes, now_ms)), [*bob.busy, *taken]
        )
        starts = free_slots(theirs, (), length, now_ms=now_ms, limit=1)
        if not starts:
            return False
        taken.append(Interval(starts[0], starts[0] + length))
    return True


def _allowed(person: Person, peer: str, span: Interval, minutes: int, now_ms: int) -> list[Interval]:
    if span.end_ms - span.start_ms < minutes * MINUTE_MS:
        return []
    facts = WindowFacts(
        peer=peer,
        duration_ms=minutes * MINUTE_MS,
        start_ms=span.start_ms,
        end_ms=span.end_ms,
        now_ms=now_ms,
        verified=True,
    )
    return [Interval(window.start_ms, window.end_ms) for window in allowed_windows(person.policy, facts)]


def alice_calendar(today: date, zone: ZoneInfo) -> bytes:
    """A plausible fortnight and more: recurring, single and all-day events."""
    monday = today - timedelta(days=today.weekday())
    return _calendar(
        [
            _weekly("alice-standup", "Stand-up", monday, time(9, 30), 15, "MO,TU,WE,TH,FR", zone),
            _weekly("alice-lunch", "Lunch", monday, time(12, 30), 60, "MO,TU,WE,TH,FR", zone),
            _weekly("alice-review", "Design review", monday + timedelta(days=1), time(14), 90, "TU", zone),
            _once("alice-dentist", "Dentist", _workday(today, 3), time(16), 45, zone),
            _all_day("alice-birthday", "Mother's birthday", today + timedelta(days=5)),
        ]
    )


def bob_calendar(today: date, zone: ZoneInfo) -> bytes:
    """The other side's."""
    monday = today - timedelta(days=today.weekday())
    return _calendar(
        [
            _weekly("bob-focus", "Focus time", monday, time(9), 60, "MO,TU,WE,TH", zone),
            _weekly("bob-lunch", "Lunch", monday, time(13), 45, "MO,TU,WE,TH,FR", zone),
            _weekly("bob-one", "1:1 with Dana", monday + timedelta(days=2), time(11), 60, "WE", zone),
            _once("bob-plumber", "Plumber", _workday(today, 1), time(15), 60, zone),
            _all_day("bob-holiday", "School holiday begins", today + timedelta(days=9)),
        ]
    )


def _calendar(events: Sequence[Event]) -> bytes:
    calendar = Calendar()
    calendar.add("prodid", "-//ind.ai//demo//EN")
    calendar.add("version", "2.0")
    for event in events:
        calendar.add_component(event)
    calendar.add_missing_timezones()
    data: bytes = calendar.to_ical()
    return data


def _weekly(uid: str, title: str, day: date, at: time, minutes: int, days: str, zone: ZoneInfo) -> Event:
    event = _once(uid, title, day, at, minutes, zone)
    event.add("rrule", {"freq": "weekly", "byday": days.split(",")})
    return event


def _once(uid: str, title: str, day: date, at: time, minutes: int, zone: ZoneInfo) -> Event:
    start = datetime.combine(day, at, zone)
    event = _event(uid, title, day)
    event.add("dtstart", start)
    event.add("dtend", start + timedelta(minutes=minutes))
    return event


def _all_day(uid: str, title: str, day: date) -> Event:
    event = _event(uid, title, day)
    event.add("dtstart", day)
    event.add("dtend", day + timedelta(days=1))
    event.add("transp", "TRANSPARENT")
    return event


def _event(uid: str, title: str, day: date) -> Event:
    event = Event()
    event.add("uid", f"{uid}@demo.ind.ai.invalid")
    event.add("summary", title)
    event.add("dtstamp", datetime.combine(day, time(), ZoneInfo("UTC")))
    return event


def _workday(today: date, ahead: int) -> date:
    """The working day that many days ahead, or the Monday after it."""
    day = today + timedelta(days=ahead)
    return day + timedelta(days=max(0, 7 - day.weekday()) if day.weekday() > 4 else 0)
