"""Times as people say them, in three languages, seen from one Wednesday."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.memory.asking import understand
from indai.memory.timewords import asks_when, spans

# Wednesday, 12 November 2025, noon in Kolkata.
NOW = int(datetime(2025, 11, 12, 6, 30, tzinfo=UTC).timestamp() * 1000)


def said(text: str, zone: str = "UTC") -> list[tuple[str, str]]:
    return [
        (
            str(datetime.fromtimestamp(s.from_ms / 1000, UTC).date()),
            str(datetime.fromtimestamp(s.to_ms / 1000, UTC).date()),
        )
        for s in spans(text, NOW, zone)
    ]


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("I saw her yesterday", "2025-11-11", "2025-11-12"),
        ("कल मेरा ऑपरेशन हुआ", "2025-11-11", "2025-11-12"),
        ("kal main Pune jaungi", "2025-11-13", "2025-11-14"),
        ("कल मैं पुणे जाऊँगी", "2025-11-13", "2025-11-14"),
        ("parson hum mile the", "2025-11-10", "2025-11-11"),
        ("two weeks ago", "2025-10-29", "2025-11-05"),
        ("a couple of days ago", "2025-11-10", "2025-11-11"),
        ("do din pehle hum chadhe the", "2025-11-10", "2025-11-11"),
        ("तीन महीने पहले", "2025-08-14", "2025-09-13"),
        ("last week", "2025-11-03", "2025-11-10"),
        ("pichhle hafte", "2025-11-03", "2025-11-10"),
        ("अगले महीने", "2025-12-01", "2026-01-01"),
        ("last year", "2024-01-01", "2025-01-01"),
        ("last Sunday", "2025-11-09", "2025-11-10"),
        ("pichhle Sunday", "2025-11-09", "2025-11-10"),
        ("पिछले रविवार", "2025-11-09", "2025-11-10"),
        ("on Monday I start", "2025-11-10", "2025-11-11"),
        ("I will call on Friday", "2025-11-14", "2025-11-15"),
        ("on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("May 7th, 2023", "2023-05-07", "2023-05-08"),
        ("the 7th of May", "2025-05-07", "2025-05-08"),
        ("what happened in May?", "2025-05-01", "2025-06-01"),
        ("मई में क्या हुआ", "2025-05-01", "2025-06-01"),
        ("in December", "2024-12-01", "2025-01-01"),
        ("in 2019", "2019-01-01", "2020-01-01"),
        ("born 2024-02-29", "2024-02-29", "2024-03-01"),
        ("१२/०५/२०२३ को", "2023-05-12", "2023-05-13"),
    ],
)
def test_a_time_is_found(text: str, first: str, end: str) -> None:
    assert said(text) == [(first, end)]


@pytest.mark.parametrize(
    "text", ["", "you may come", "we march on", "room 2019", "32 May", "31/31/2023", "do it"]
)
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    assert said(text) == []


def test_days_begin_where_the_speaker_is() -> None:
    (span,) = spans("today", NOW, "Asia/Kolkata")
    assert datetime.fromtimestamp(span.from_ms / 1000, UTC).isoformat() == "2025-11-11T18:30:00+00:00"
    assert spans("today", NOW, "No/Where") == spans("today", NOW)


def test_a_question_names_its_speaker_in_any_script_and_its_time() -> None:
    wanted = understand("आशा ने पिछले हफ़्ते क्या ख़रीदा?", NOW, ["Vikram", "Asha"])
    assert wanted.speaker == "Asha"
    assert (wanted.from_ms, wanted.to_ms) == (
        spans("last week", NOW)[0].from_ms,
        spans("last week", NOW)[0].to_ms,
    )


def test_a_question_that_names_both_or_nobody_prefers_nobody() -> None:
    assert understand("Did Asha meet Vikram?", NOW, ["Vikram", "Asha"]).speaker == ""
    assert understand("Who came?", NOW, ["Vikram", "Asha", ""]).speaker == ""


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("When did she move?", True),
        ("Woh kab gayi thi?", True),
        ("शादी कब हुई", True),
        ("On which day was it?", True),
        ("What does she do all day?", False),
        ("Where is it?", False),
    ],
)
def test_whether_a_question_asks_for_a_time(question: str, asks: bool) -> None:
    assert asks_when(question) is asks
    assert understand(question, NOW, []).asks_when is asks


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.integers(0, 4_000_000_000_000))
def test_any_text_gives_spans_that_run_forward(text: str, now: int) -> None:
    assert all(span.from_ms < span.to_ms for span in spans(text, now))
