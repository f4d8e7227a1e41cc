"""The demonstration's setting fits every moment: any day, hour and zone, and full calendars."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.cli.demo import command as play
from indai.cli.demo import setting
from indai.cli.demo.agreement import events_in
from indai.cli.demo.proof import flip_one_byte
from indai.cli.demo.stage import DemoFailed, Stage
from indai.cli.demo.summary import percentile
from indai.cli.demo.world import World
from indai.node.calendar.file import CalendarFile
from indai.policy.compiled import compile_policy
from indai.protocol.errors import InvalidInput

from tests.unit.cli.runs import run

ZONES = ["UTC", "Asia/Kolkata", "America/Los_Angeles", "Pacific/Apia", "Europe/London", "Africa/Cairo"]


def _prepare(base: Path, now_ms: int, zone: ZoneInfo) -> setting.Setting:
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    alice, bob = base / "alice.ics", base / "bob.ics"
    alice.write_bytes(setting.alice_calendar(today, zone))
    bob.write_bytes(setting.bob_calendar(today, zone))
    return asyncio.run(setting.prepare(zone, now_ms, alice, bob))


@settings(max_examples=15, deadline=None)
@given(now_ms=st.integers(1_700_000_000_000, 2_000_000_000_000), zone=st.sampled_from(ZONES))
def test_there_is_room_at_any_moment_in_any_zone(
    tmp_path_factory: pytest.TempPathFactory, now_ms: int, zone: str
) -> None:
    made = _prepare(tmp_path_factory.mktemp("demo"), now_ms, ZoneInfo(zone))
    assert made.period.start_ms >= now_ms
    assert made.period.end_ms - now_ms < 15 * 86_400_000


def test_on_a_sunday_night_the_words_are_next_week(tmp_path: Path) -> None:
    zone = ZoneInfo("Europe/Berlin")
    night = round(datetime(2026, 11, 29, 23, 30, tzinfo=zone).timestamp() * 1000)
    assert _prepare(tmp_path, night, zone).period.words == "next week"


def test_both_policies_compile_and_the_calendars_are_read_as_they_were_meant(tmp_path: Path) -> None:
    zone = ZoneInfo("Asia/Kolkata")
    for yaml in (setting.alice_yaml(zone), setting.bob_yaml(zone)):
        assert compile_policy(yaml).time_zone == "Asia/Kolkata"
    now = datetime(2026, 11, 23, 0, 0, tzinfo=zone)
    (tmp_path / "a.ics").write_bytes(setting.alice_calendar(now.date(), zone))
    start = round(now.timestamp() * 1000)
    events = asyncio.run(CalendarFile(tmp_path / "a.ics", zone).events(start, start + 86_400_000))
    hours = [datetime.fromtimestamp(event.start_ms / 1000, zone).hour for event in events]
    assert hours == [9, 12]


def test_calendars_without_common_room_are_told_apart_from_broken_ones(tmp_path: Path) -> None:
    zone = ZoneInfo("UTC")
    start = datetime(2026, 1, 1, tzinfo=zone)
    full = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\nBEGIN:VEVENT\r\nUID:1@x\r\nDTSTAMP:20260101T000000Z\r\n"
        f"DTSTART:{start:%Y%m%dT%H%M%SZ}\r\nDTEND:{start + timedelta(days=900):%Y%m%dT%H%M%SZ}\r\n"
        "END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    (tmp_path / "full.ics").write_text(full)
    now = round(datetime(2026, 11, 23, tzinfo=zone).timestamp() * 1000)
    with pytest.raises(InvalidInput, match="no common room"):
        asyncio.run(setting.prepare(zone, now, tmp_path / "full.ics", tmp_path / "full.ics"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--timezone", "Mars/Olympus"), "is no time zone"),
        (("--calendar-a", "missing.ics"), "missing.ics"),
    ],
)
def test_the_demonstration_refuses_bad_input_before_it_starts(
    tmp_path: Path, arguments: tuple[str, str], words: str
) -> None:
    result = run("demo", "--data", str(tmp_path / "d"), *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "d").exists()


def test_a_broken_calendar_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.ics").write_text("BEGIN:VCALENDAR\r\n")
    result = run("demo", "--data", str(tmp_path / "d"), "--calendar-a", str(tmp_path / "x.ics"))
    assert result.exit_code == 2
    assert "x.ics" in result.stderr
    assert not (tmp_path / "d").exists()


def test_a_directory_in_use_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    result = run("demo", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (95, 4.0), (1, 1.0), (100, 4.0)])
def test_percentiles_are_values_that_occurred(percent: int, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value
    assert percentile([], percent) == 0.0


def test_one_byte_is_flipped_and_nothing_else(tmp_path: Path) -> None:
    rows = [
        {"type": "header"},
        {"type": "open-leaf", "envelope": "AAAA"},
        {"type": "open-leaf", "envelope": "dm5kLmluZC5jb21taXRtZW50LnYx"},
    ]
    original, copy = tmp_path / "a", tmp_path / "b"
    original.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    assert flip_one_byte(original, copy) == 3
    before, after = original.read_text().splitlines(), copy.read_text().splitlines()
    assert before[:2] == after[:2]
    assert sum(one != two for one, two in zip(before[2], after[2], strict=True)) <= 2


def test_an_event_is_found_in_files_of_any_program(tmp_path: Path) -> None:
    event = "BEGIN:VEVENT\r\nUID:{}\r\nDTSTART:20261124T090000Z\r\nDTEND:20261124T093000Z\r\nEND:VEVENT\r\n"
    calendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\n" + event + "END:VCALENDAR\r\n"
    path = tmp_path / "two.ics"
    path.write_bytes(b"\xef\xbb\xbf" + (calendar.format("one") + calendar.format("two")).encode())
    assert events_in(path, "two") == [(1_795_510_800_000, 1_795_512_600_000)]
    assert events_in(path, "three") == []


def test_a_check_that_does_not_hold_is_shown_and_ends_the_play(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage()
    stage.check([1], "something held")
    with pytest.raises(DemoFailed, match="both ledgers hold it"):
        stage.check([], "both ledgers hold it")
    assert stage.checks == 1
    assert capsys.readouterr().out.splitlines() == ["   ok  something held", "   NO  both ledgers hold it"]


def test_a_demonstration_that_fails_has_status_1_and_names_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def fails(*_: object) -> AsyncIterator[World]:
        raise DemoFailed("both signatures verify")
        yield

    monkeypatch.setattr(play, "_processes", fails)
    result = run("demo", "--data", str(tmp_path / "d"), "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["message"] == "both signatures verify"
    assert error["logs"] == str(tmp_path / "d" / "logs")
