"""Words for a stretch of days fit the moment, in any zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput
from indai.tools.period import Period, fit_period, parse_period

KOLKATA = ZoneInfo("Asia/Kolkata")
WORDS = ["today", "tomorrow", "this week", "next week", "within 3 days", "within 2 weeks"]


def ms(text: str, zone: ZoneInfo = KOLKATA) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def has_weekday_hours(start_ms: int, end_ms: int) -> bool:
    """Room between 9 and 18, Monday to Friday, in Kolkata."""
    for quarter in range(start_ms, end_ms, 900_000):
        local = datetime.fromtimestamp(quarter / 1000, KOLKATA)
        if local.weekday() < 5 and 9 <= local.hour < 18:
            return True
    return False


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("today", "2026-11-18T15:00", "2026-11-19T00:00"),
        ("Tomorrow", "2026-11-19T00:00", "2026-11-20T00:00"),
        ("this  week", "2026-11-18T15:00", "2026-11-23T00:00"),
        ("next week", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("within 3 days", "2026-11-18T15:00", "2026-11-22T00:00"),
        ("2026-12-01", "2026-12-01T00:00", "2026-12-02T00:00"),
        ("2026-12-01..2026-12-05", "2026-12-01T00:00", "2026-12-06T00:00"),
        ("2026-11-18", "2026-11-18T15:00", "2026-11-19T00:00"),
    ],
)
def test_words_name_whole_days_from_now_on(words: str, start: str, end: str) -> None:
    period = parse_period(words, ms("2026-11-18T15:00"), KOLKATA)  # a Wednesday
    assert (period.start_ms, period.end_ms) == (ms(start), ms(end))


@pytest.mark.parametrize("moment", ["2026-11-20T20:00", "2026-11-22T23:30"])
def test_a_week_without_working_hours_left_becomes_next_week(moment: str) -> None:
    period = fit_period("this week", ms(moment), KOLKATA, has_weekday_hours)
    assert period == Period(ms("2026-11-23T00:00"), ms("2026-11-30T00:00"), "next week")


def test_a_week_with_room_left_stays_this_week() -> None:
    period = fit_period("this week", ms("2026-11-20T10:00"), KOLKATA, has_weekday_hours)
    assert period.words == "this week"


def test_a_friday_night_today_becomes_the_monday_by_its_name() -> None:
    assert (
        fit_period("today", ms("2026-11-20T20:00"), KOLKATA, has_weekday_hours).words == "Monday 23 November"
    )


def test_within_days_grows_until_there_is_room() -> None:
    period = fit_period("within 1 day", ms("2026-11-20T20:00"), KOLKATA, has_weekday_hours)
    assert period.words == "within 3 days"


def test_dates_named_exactly_never_move() -> None:
    with pytest.raises(InvalidInput, match="no usable time"):
        fit_period("2026-11-22", ms("2026-11-20T20:00"), KOLKATA, has_weekday_hours)


def test_a_calendar_without_any_room_ends_in_an_error() -> None:
    with pytest.raises(InvalidInput, match="no usable time"):
        fit_period("today", ms("2026-11-20T20:00"), KOLKATA, lambda _start, _end: False)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "soon",
        "within 0 days",
        "2026-02-30",
        "2026-12-05..2026-12-01",
        "2020-01-01",
        "2026-12-01..2029-01-01",
    ],
)
def test_words_that_name_no_period_are_refused_with_a_next_step(words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_period(words, ms("2026-11-18T15:00"), KOLKATA)
    assert refused.value.hint


def test_a_day_is_as_long_as_the_clocks_make_it() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    period = parse_period("2026-10-25", ms("2026-10-01T00:00", berlin), berlin)
    assert period.end_ms - period.start_ms == 25 * 3_600_000


@settings(max_examples=150)
@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)),  # noqa: DTZ001 - made UTC below
    st.sampled_from(["Asia/Kolkata", "America/New_York", "Pacific/Apia", "Africa/Cairo", "Pacific/Chatham"]),
    st.sampled_from(WORDS),
)
def test_every_word_has_time_left_at_any_moment_in_any_zone(moment: datetime, zone: str, words: str) -> None:
    now = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
    period = fit_period(words, now, ZoneInfo(zone), lambda start, end: end - start >= 1_800_000)
    assert period.start_ms >= now
    assert period.end_ms - period.start_ms >= 1_800_000
