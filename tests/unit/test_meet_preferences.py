"""Where a meeting suits its owner, held against the plain definition on every quarter hour."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.node.calendar.busy import CalendarEvent
from indai.node.calendar.preferences import (
    Hours,
    Preferences,
    Way,
    check,
    local_hours,
    room,
    travel_minutes,
)
from indai.node.calendar.slots import MINUTE_MS, QUARTER_MS, Interval, intersect
from indai.protocol.errors import InvalidInput

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from(
    [BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe")]
)
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
PLACES = st.sampled_from(["", "Office", "office ", "Home", "Airport", "https://call.example/1"])


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


# Around the changes of clocks in Europe and America, and an ordinary week.
DAYS = st.sampled_from(
    [at("2026-03-28T00:00"), at("2026-10-24T00:00"), at("2026-03-07T00:00"), at("2026-11-16T00:00")]
)


@st.composite
def hours(draw: st.DrawFn) -> Hours:
    start, end = sorted(draw(st.lists(st.integers(0, 96), min_size=2, max_size=2, unique=True)))
    return Hours(draw(st.integers(0, 6)), start * 15, end * 15)


preferences = st.builds(
    Preferences,
    hours=st.one_of(st.just(()), st.lists(hours(), max_size=6).map(tuple)),
    before_minutes=st.sampled_from([0, 15, 30]),
    after_minutes=st.sampled_from([0, 15, 45]),
    ways=st.lists(st.builds(Way, PLACES, PLACES, st.sampled_from([15, 30, 60])), max_size=3).map(tuple),
    notice_minutes=st.sampled_from([0, 60, 600]),
    max_per_day=st.integers(0, 2),
)


@st.composite
def events(draw: st.DrawFn, day: int) -> list[CalendarEvent]:
    found = []
    for number in range(draw(st.integers(0, 4))):
        start = day + draw(st.integers(-4, 200)) * QUARTER_MS
        end = start + draw(st.integers(1, 12)) * QUARTER_MS
        found.append(
            CalendarEvent(
                start, end, str(number), "", draw(st.booleans()), draw(st.booleans()), False, draw(PLACES)
            )
        )
    return found


def suits(
    slot: Interval,
    known: list[CalendarEvent],
    agreed: list[int],
    wanted: Preferences,
    place: str,
    now: int,
    zone: ZoneInfo,
) -> bool:
    """The definition, in the words of the manual."""
    if slot.start_ms < now + wanted.notice_minutes * MINUTE_MS:
        return False
    for event in known:
        if not event.busy:
            continue
        way = 0 if event.all_day else travel_minutes(wanted.ways, event.place, place)
        before = 0 if event.all_day else max(wanted.before_minutes, way)
        after = 0 if event.all_day else max(wanted.after_minutes, way)
        clear = (
            slot.start_ms - event.end_ms >= before * MINUTE_MS
            or event.start_ms - slot.end_ms >= after * MINUTE_MS
        )
        if not clear:
            return False
    for minute in range(slot.start_ms, slot.end_ms, QUARTER_MS):
        wall = datetime.fromtimestamp(minute / 1000, zone)
        same_day = [start for start in agreed if _date(start, zone) == wall.date()]
        if wanted.max_per_day and len(same_day) >= wanted.max_per_day:
            return False
        shown = wall.hour * 60 + wall.minute
        if wanted.hours and not any(
            h.weekday == wall.weekday() and h.start <= shown < h.end for h in wanted.hours
        ):
            return False
    return True


def _date(start: int, zone: ZoneInfo) -> object:
    return datetime.fromtimestamp(start / 1000, zone).date()


@settings(max_examples=120, deadline=None)
@given(st.data(), DAYS, ZONES, preferences, PLACES, st.integers(1, 8))
def test_a_slot_lies_in_the_room_when_it_suits_and_only_then(
    data: st.DataObject, day: int, zone: ZoneInfo, wanted: Preferences, place: str, quarters: int
) -> None:
    known = data.draw(events(day))
    agreed = data.draw(st.lists(st.integers(0, 190).map(lambda q: day + q * QUARTER_MS), max_size=3))
    now = day + data.draw(st.integers(-50, 20)) * QUARTER_MS
    left = room([Interval(day, day + 2 * DAY_MS)], known, agreed, wanted, place=place, now_ms=now, zone=zone)
    changes = (
        len(
            {
                datetime.fromtimestamp(t / 1000, zone).utcoffset()
                for t in range(day, day + 3 * DAY_MS, HOUR_MS)
            }
        )
        > 1
    )
    for start in range(day, day + 2 * DAY_MS - quarters * QUARTER_MS + 1, QUARTER_MS):
        slot = Interval(start, start + quarters * QUARTER_MS)
        inside = any(gap.contains(slot) for gap in left)
        fits = suits(slot, known, agreed, wanted, place, now, zone)
        if inside:
            assert fits
        elif not (changes and wanted.hours):  # beside a clock change the narrower reading is taken
            assert not fits


@settings(max_examples=60, deadline=None)
@given(st.data(), DAYS, preferences, preferences)
def test_what_two_sides_have_in_common_suits_both(
    data: st.DataObject, day: int, hers: Preferences, his: Preferences
) -> None:
    base = [Interval(day, day + 2 * DAY_MS)]
    mine, theirs = data.draw(events(day)), data.draw(events(day))
    kolkata = ZoneInfo("Asia/Kolkata")
    revealed = room(base, mine, [], hers, place="Office", now_ms=day, zone=BERLIN)
    common = room(revealed, theirs, [], his, place="Office", now_ms=day, zone=kolkata)
    assert intersect(common, revealed) == common
    for gap in common:
        start = -(-gap.start_ms // QUARTER_MS) * QUARTER_MS
        if start + QUARTER_MS <= gap.end_ms:
            slot = Interval(start, start + QUARTER_MS)
            assert suits(slot, mine, [], hers, "Office", day, BERLIN)
            assert suits(slot, theirs, [], his, "Office", day, kolkata)


@pytest.mark.parametrize(
    ("day", "length"),
    [("2026-11-16", 9), ("2026-03-29", 9), ("2026-10-25", 9)],
    ids=["plain", "spring", "autumn"],
)
def test_working_hours_follow_the_wall_clock_across_changes(day: str, length: int) -> None:
    every = tuple(Hours(weekday, 9 * 60, 18 * 60) for weekday in range(7))
    (found,) = local_hours(every, at(f"{day}T00:00"), at(f"{day}T23:00"), BERLIN)
    assert found == Interval(at(f"{day}T09:00"), at(f"{day}T18:00"))
    assert found.duration_ms == length * HOUR_MS


def test_a_whole_day_is_as_long_as_it_is() -> None:
    (found,) = local_hours([Hours(6, 0, 1440)], at("2026-10-25T12:00"), at("2026-10-25T13:00"), BERLIN)
    assert found.duration_ms == 25 * HOUR_MS


def test_the_nearest_word_on_a_way_counts() -> None:
    ways = (Way("", "", 30), Way("Office", "", 20), Way("office", "Airport", 75))
    assert travel_minutes(ways, "Airport", "OFFICE") == 75
    assert travel_minutes(ways, "Office", "Home") == 20
    assert travel_minutes(ways, "Home", "Airport") == 30
    assert travel_minutes(ways, "Home", "home ") == 0
    assert travel_minutes(ways, "", "Home") == 0
    assert travel_minutes(ways, "https://call.example/1", "Home") == 0


@pytest.mark.parametrize(
    "wanted",
    [
        Preferences(hours=(Hours(7, 0, 60),)),
        Preferences(preferred=(Hours(0, 60, 60),)),
        Preferences(hours=(Hours(0, 0, 1441),)),
        Preferences(before_minutes=-1),
        Preferences(ways=(Way("a", "b", 1441),)),
        Preferences(ways=(Way("a" * 201, "b", 1),)),
        Preferences(notice_minutes=10**7),
        Preferences(max_per_day=101),
        Preferences(hours=(Hours(0, 0, 60),) * 101),
    ],
)
def test_settings_that_no_day_has_are_refused(wanted: Preferences) -> None:
    check(Preferences())
    with pytest.raises(InvalidInput):
        check(wanted)
