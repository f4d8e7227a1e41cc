"""Where a meeting is put when the rules leave a choice: working days, by the local clock, in one window."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from indai.node.calendar.slots import Interval
from indai.node.host import in_one, joined, ordinary_hours
from indai.protocol.messages import Window

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_weekend_has_none() -> None:
    assert ordinary_hours(ms("2026-11-21T00:00"), ms("2026-11-22T20:00"), BERLIN) == []


def test_they_follow_the_local_clock_over_its_change() -> None:
    friday, monday = ordinary_hours(ms("2026-03-27T00:00"), ms("2026-03-30T20:00"), BERLIN)
    assert (friday.start_ms, friday.end_ms) == (ms("2026-03-27T08:00"), ms("2026-03-27T17:00"))
    assert (monday.start_ms, monday.end_ms) == (ms("2026-03-30T07:00"), ms("2026-03-30T16:00"))


def test_windows_that_touch_are_revealed_as_one_in_the_place_of_the_best() -> None:
    spans = [Interval(40, 60), Interval(0, 20), Interval(60, 80), Interval(20, 30)]
    assert joined(spans) == (Window(40, 80), Window(0, 30))
    assert joined([Interval(0, 10), Interval(20, 30), Interval(10, 20)]) == (Window(0, 30),)
    assert joined([]) == ()


def test_free_time_is_cut_where_the_windows_of_a_wish_are() -> None:
    """Another program's windows may touch; what is offered lies within one of them (NEG-15)."""
    free = [Interval(10, 50), Interval(70, 75)]
    asked = (Window(30, 60), Window(0, 30), Window(60, 90))
    assert in_one(free, asked) == [Interval(10, 30), Interval(30, 50), Interval(70, 75)]
    assert in_one(free, (Window(0, 90), Window(20, 40))) == [*free, Interval(20, 40)]
