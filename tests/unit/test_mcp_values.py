"""What an assistant is shown of texts that others wrote, and the free stretches of a calendar."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from indai.mcp.free import Free, free_windows
from indai.mcp.presence import code_of
from indai.mcp.values import MAX_TEXT, quoted
from indai.v1 import calendar_pb2

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
MONDAY = 1_795_996_800_000  # 2026-11-30 00:00 UTC
UTC = ZoneInfo("UTC")


def test_what_a_reader_would_not_see_is_shown_as_replaced() -> None:
    hidden = "a\u202eb\u200bc\x1b[31m\U000e0041d\u2028e"
    assert quoted(hidden, "ind.ai/eve").text == "a\ufffdb\ufffdc\ufffd[31m\ufffdd\ufffde"


def test_words_of_indian_scripts_keep_their_joiners() -> None:
    assert quoted("क्\u200dष, ര്\u200c", "ind.ai/bob").text == "क्\u200dष, ര്\u200c"


def test_a_quotation_has_an_end() -> None:
    assert len(quoted("x" * (MAX_TEXT + 5), "ind.ai/eve").text) == MAX_TEXT + 1


def test_other_terms_have_another_code() -> None:
    assert code_of("Send?", "30 minutes") != code_of("Send?", "31 minutes")


def _where(settings: calendar_pb2.MeetSettings | None = None) -> Free:
    return Free(MONDAY, MONDAY + DAY, UTC, settings or calendar_pb2.MeetSettings())


def test_a_meeting_has_its_margins_on_both_sides_of_what_is_there() -> None:
    margins = calendar_pb2.MeetSettings(buffer_before_minutes=10, buffer_after_minutes=20)
    busy = [(MONDAY + 10 * HOUR, MONDAY + 11 * HOUR)]
    assert free_windows(_where(margins), busy, HOUR) == [
        (MONDAY, MONDAY + 10 * HOUR - 20 * MINUTE),
        (MONDAY + 11 * HOUR + 10 * MINUTE, MONDAY + DAY),
    ]


def test_hours_are_meant_on_the_owners_wall() -> None:
    hours = [calendar_pb2.DayHours(weekday=1, start_minute=540, end_minute=600)]
    where = Free(MONDAY, MONDAY + DAY, ZoneInfo("Asia/Kolkata"), calendar_pb2.MeetSettings(hours=hours))
    start = MONDAY + 3 * HOUR + 30 * MINUTE
    assert free_windows(where, [], MINUTE) == [(start, start + HOUR)]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1440), st.integers(1, 300)), max_size=12), st.integers(1, 120))
def test_every_free_minute_is_found_once_and_no_busy_one(events: list[tuple[int, int]], least: int) -> None:
    busy = [(MONDAY + start * MINUTE, MONDAY + (start + length) * MINUTE) for start, length in events]
    found = free_windows(_where(), busy, MINUTE)
    free = {minute for start, end in found for minute in range(start, end, MINUTE)}
    taken = {minute for start, end in busy for minute in range(start, end, MINUTE)}
    assert free == set(range(MONDAY, MONDAY + DAY, MINUTE)) - taken
    long = free_windows(_where(), busy, least * MINUTE)
    assert long == [(start, end) for start, end in found if end - start >= least * MINUTE]
