"""`indai calendar show --file`, and the words of a period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput
from indai.tools.when import fit, working_ms

from tests.unit.cli.runs import run, run_json

BERLIN = ZoneInfo("Europe/Berlin")


def _event(start: datetime) -> str:
    end = start + timedelta(hours=1)
    return (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\nBEGIN:VEVENT\r\nUID:1@x\r\nDTSTAMP:20260101T000000Z\r\n"
        f"DTSTART:{start:%Y%m%dT%H%M%SZ}\r\nDTEND:{end:%Y%m%dT%H%M%SZ}\r\nSUMMARY:Dentist \x1b[31m\r\n"
        "END:VEVENT\r\nEND:VCALENDAR\r\n"
    )


def test_events_of_a_file_are_shown_without_any_node(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    path.write_text(_event(datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)))
    value = run_json("calendar", "show", "--file", str(path), "--timezone", "Asia/Tokyo")
    assert value["time_zone"] == "Asia/Tokyo"
    assert [event["uid"] for event in value["events"]] == ["1@x"]


def test_a_title_cannot_reach_the_terminal_as_a_control_sequence(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    path.write_text(_event(datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)))
    output = run("calendar", "show", "--file", str(path)).output
    assert "Dentist" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("content", "words"), [("BEGIN:VCALENDAR\n", "cannot be read"), (None, "There is no calendar")]
)
def test_a_broken_or_missing_calendar_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "a.ics"
    if content is not None:
        path.write_text(content)
    result = run("calendar", "show", "--file", str(path))
    assert result.exit_code == 2
    assert "a.ics" in result.stderr


def _ms(text: str, zone: ZoneInfo) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "words", "minutes", "fits"),
    [
        ("2026-11-23T08:00", "this week", 30, "this week"),
        ("2026-11-27T17:45", "this week", 30, "next week"),
        ("2026-11-29T23:30", "this week", 30, "next week"),
        ("2026-11-27T20:00", "tomorrow", 30, "Monday 30 November"),
        ("2026-11-29T23:30", "2026-12-05", 30, "2026-12-05"),
    ],
)
def test_words_fit_the_moment(now: str, words: str, minutes: int, fits: str) -> None:
    assert fit(words, minutes, _ms(now, BERLIN), BERLIN).words == fits


def test_a_day_that_has_passed_is_refused() -> None:
    with pytest.raises(InvalidInput):
        fit("2026-11-20", 30, _ms("2026-11-23T08:00", BERLIN), BERLIN)


@settings(max_examples=60, deadline=None)
@given(
    now=st.integers(1_700_000_000_000, 2_000_000_000_000),
    zone=st.sampled_from(
        ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati", "Africa/Casablanca"]
    ),
)
def test_this_week_always_finds_working_time(now: int, zone: str) -> None:
    where = ZoneInfo(zone)
    period = fit("this week", 60, now, where)
    assert period.start_ms >= now
    assert working_ms(period.start_ms, period.end_ms, where) >= 3_600_000
