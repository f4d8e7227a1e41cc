"""Words about a time become windows in the speaker's zone, never before now."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput
from indai.tools.when import PARTS, read_when

KOLKATA = ZoneInfo("Asia/Kolkata")


def at(text: str, zone: ZoneInfo = KOLKATA) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


NOW = at("2026-11-18T10:00")  # a Wednesday


def spans(days: str, clock: str = "", minutes: int = 30, now: int = NOW) -> list[str]:
    found = read_when(days, clock, minutes, now, KOLKATA)
    shown = [
        [f"{datetime.fromtimestamp(ms / 1000, KOLKATA):%m-%dT%H:%M}" for ms in (each.start_ms, each.end_ms)]
        for each in found.windows
    ]
    return [f"{start}/{end}" for start, end in shown]


@pytest.mark.parametrize(
    ("days", "clock", "first", "count"),
    [
        ("today", "", "11-18T10:00/11-19T00:00", 1),
        ("tomorrow evening", "", "11-19T17:00/11-19T21:00", 1),
        ("tomorrow", "evening", "11-19T17:00/11-19T21:00", 1),
        ("tomorrow", "15:00", "11-19T15:00/11-19T15:30", 1),
        ("tomorrow at 3 pm", "", "11-19T15:00/11-19T15:30", 1),
        ("tomorrow at 4", "", "11-19T16:00/11-19T16:30", 1),
        ("", "16:00", "11-18T16:00/11-18T16:30", 1),
        ("tonight", "", "11-18T19:00/11-18T23:00", 1),
        ("this week", "", "11-18T10:00/11-23T00:00", 1),
        ("next week", "", "11-23T00:00/11-30T00:00", 1),
        ("this week", "morning", "11-18T10:00/11-18T12:00", 5),
        ("friday", "", "11-20T00:00/11-21T00:00", 1),
        ("next friday", "", "11-27T00:00/11-28T00:00", 1),
        ("wednesday", "", "11-25T00:00/11-26T00:00", 1),
        ("monday", "", "11-23T00:00/11-24T00:00", 1),
        ("25", "", "11-25T00:00/11-26T00:00", 1),
        ("10 december", "10:00", "12-10T10:00/12-10T10:30", 1),
        ("25 august", "", "08-25T00:00/08-26T00:00", 1),
        ("this weekend", "", "11-21T00:00/11-23T00:00", 1),
        ("next month", "", "12-01T00:00/01-01T00:00", 1),
        ("day after tomorrow", "", "11-20T00:00/11-21T00:00", 1),
        ("कल", "", "11-19T00:00/11-20T00:00", 1),
        ("2026-12-01", "noon", "12-01T12:00/12-01T14:00", 1),
        ("within 2 days", "evening", "11-18T17:00/11-18T21:00", 3),
    ],
)
def test_words_name_windows(days: str, clock: str, first: str, count: int) -> None:
    found = spans(days, clock)
    assert (found[0], len(found)) == (first, count)


def test_a_week_without_a_working_hour_left_moves_on_and_says_so() -> None:
    sunday = at("2026-11-22T20:00")
    found = read_when("this week", "", 30, sunday, KOLKATA)
    assert found.words == "next week"
    assert found.windows[0].start_ms == at("2026-11-23T00:00")


def test_a_day_that_was_named_never_moves() -> None:
    sunday = at("2026-11-22T20:00")
    assert read_when("today", "", 30, sunday, KOLKATA).words == "today"
    assert read_when("saturday", "", 30, NOW, KOLKATA).windows[0].start_ms == at("2026-11-21T00:00")


@pytest.mark.parametrize(
    ("days", "clock"),
    [
        ("today", "09:00"),
        ("today morning at 9", ""),
        ("31 february", ""),
        ("someday", ""),
        ("today", "25:00"),
        ("x" * 500, ""),
    ],
)
def test_words_that_name_no_time_to_come_are_refused(days: str, clock: str) -> None:
    with pytest.raises(InvalidInput):
        read_when(days, clock, 30, NOW, KOLKATA)


DAYS = [
    "today",
    "tomorrow",
    "this week",
    "next week",
    "friday",
    "next monday",
    "25",
    "25 march",
    "this month",
]


@given(
    st.sampled_from(DAYS),
    st.sampled_from(["", *PARTS, "09:30", "23:30"]),
    st.integers(1, 240),
    st.integers(0, 500 * 86_400),
    st.sampled_from(["Asia/Kolkata", "Europe/Berlin", "America/New_York", "UTC"]),
)
def test_windows_are_long_enough_in_order_and_never_before_now(
    days: str, clock: str, minutes: int, later_s: int, zone: str
) -> None:
    now = NOW + later_s * 1000
    try:
        found = read_when(days, clock, minutes, now, ZoneInfo(zone))
    except InvalidInput:
        return
    edges = [(each.start_ms, each.end_ms) for each in found.windows]
    assert edges == sorted(edges)
    assert 1 <= len(edges) <= 31
    assert all(now <= start and end - start >= minutes * 60_000 for start, end in edges)
