"""Interval arithmetic against sets of minutes, and the order in which slots and windows are offered."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.node.calendar.slots import (
    HOUR_MS,
    MINUTE_MS,
    QUARTER_MS,
    Interval,
    candidate_windows,
    free_slots,
    intersect,
    merge,
    subtract,
)
from indai.protocol.errors import InvalidInput

DAY_START = 1_795_046_400_000  # 2026-11-19T00:00:00Z


def at(hour: float, until: float) -> Interval:
    return Interval(DAY_START + int(hour * HOUR_MS), DAY_START + int(until * HOUR_MS))


intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda t: Interval(t[0], t[0] + t[1])), max_size=8
)


def points(found: list[Interval]) -> set[int]:
    return {point for interval in found for point in range(interval.start_ms, interval.end_ms)}


def is_canonical(found: list[Interval]) -> bool:
    ordered = all(a.end_ms < b.start_ms for a, b in pairwise(found))
    return ordered and all(i.duration_ms > 0 for i in found)


@settings(max_examples=150)
@given(intervals, intervals)
def test_interval_arithmetic_is_set_arithmetic(first: list[Interval], second: list[Interval]) -> None:
    assert points(merge(first)) == points(first)
    assert points(intersect(first, second)) == points(first) & points(second)
    assert points(subtract(first, second)) == points(first) - points(second)
    assert all(is_canonical(r) for r in (merge(first), intersect(first, second), subtract(first, second)))


@settings(max_examples=100)
@given(intervals, intervals, st.integers(1, 8), st.integers(0, 70), st.integers(1, 6))
def test_every_slot_lies_in_free_time_after_now(
    windows: list[Interval], busy: list[Interval], duration: int, now: int, limit: int
) -> None:
    starts = free_slots(windows, busy, duration, now_ms=now, limit=limit, step_ms=3)
    free = points(windows) - points(busy)
    assert len(starts) == len(set(starts)) <= limit
    assert all(start >= now and set(range(start, start + duration)) <= free for start in starts)


@settings(max_examples=100)
@given(intervals, st.integers(1, 8), st.integers(1, 6))
def test_every_window_is_free_and_holds_the_meeting(free: list[Interval], duration: int, limit: int) -> None:
    windows = candidate_windows(free, duration, limit, span_ms=6)
    assert len(windows) <= limit
    assert all(w.duration_ms >= duration and points([w]) <= points(free) for w in windows)
    assert len(points(windows)) == sum(w.duration_ms for w in windows)


def test_slots_come_soonest_first_on_half_hours() -> None:
    starts = free_slots([at(9, 12)], [at(9.5, 10)], 30 * MINUTE_MS, now_ms=DAY_START, limit=3)
    assert [(s - DAY_START) / HOUR_MS for s in starts] == [9, 10, 10.5]


def test_preferred_hours_come_before_sooner_ones() -> None:
    starts = free_slots(
        [at(7, 12)], [], HOUR_MS, now_ms=DAY_START, limit=3, step_ms=HOUR_MS, preferred=[at(10, 12)]
    )
    assert [(s - DAY_START) / HOUR_MS for s in starts] == [10, 11, 7]


def test_a_narrow_gap_falls_back_to_a_quarter_hour_and_then_to_its_own_start() -> None:
    quarter = free_slots([at(9.25, 9.75)], [], 30 * MINUTE_MS, now_ms=0, limit=5)
    assert quarter == [DAY_START + int(9.25 * HOUR_MS)]
    odd = Interval(DAY_START + 5 * MINUTE_MS, DAY_START + 36 * MINUTE_MS)
    assert free_slots([odd], [], 30 * MINUTE_MS, now_ms=0, limit=5) == [odd.start_ms]


def test_nothing_fits_in_a_gap_shorter_than_the_meeting() -> None:
    assert free_slots([at(9, 9.4)], [], 30 * MINUTE_MS, now_ms=0, limit=5) == []
    assert candidate_windows([at(9, 9.4)], 30 * MINUTE_MS, 5) == []


def test_windows_are_short_and_spread_over_the_days() -> None:
    days = [at(9, 17), at(33, 41)]
    windows = candidate_windows(days, 30 * MINUTE_MS, 3)
    assert windows == [at(9, 11), at(33, 35), at(11, 13)]


def test_a_meeting_longer_than_the_span_still_gets_a_window() -> None:
    assert candidate_windows([at(9, 17)], 3 * HOUR_MS, 9) == [at(9, 12), at(12, 15)]


@pytest.mark.parametrize("duration", [0, -QUARTER_MS])
def test_a_meeting_without_length_is_refused(duration: int) -> None:
    with pytest.raises(InvalidInput, match="duration_ms"):
        free_slots([at(9, 10)], [], duration, now_ms=0, limit=1)
