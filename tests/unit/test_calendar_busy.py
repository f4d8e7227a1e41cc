"""Busy times of calendars as Google, Outlook, Apple and Thunderbird export them, and of broken ones."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from zoneinfo import ZoneInfo

import icalendar
import pytest
import recurring_ical_events
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.node.calendar import Interval, read_busy
from indai.node.calendar.busy import read_calendar
from indai.node.calendar.content import MAX_BYTES
from indai.protocol.errors import InvalidInput, Reason

FIXTURES = Path(__file__).parent / "calendars"
NAMES = sorted(path.name for path in FIXTURES.glob("*.ics"))
MARKS = [b"9", b"Z", b"-", b"\r\n", b";", b":", b"T"]
KOLKATA = ZoneInfo("Asia/Kolkata")


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


START, END = ms("2026-10-01"), ms("2027-03-01")


def calendar(*lines: str) -> bytes:
    return "\r\n".join(
        ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", *lines, "END:VCALENDAR", ""]
    ).encode()


def event(*lines: str, uid: str = "one") -> tuple[str, ...]:
    return ("BEGIN:VEVENT", f"UID:{uid}", "DTSTAMP:20261001T000000Z", *lines, "END:VEVENT")


def busy(data: bytes, start: str, end: str, zone: ZoneInfo = KOLKATA) -> list[str]:
    """Busy intervals in words, UTC."""
    found = read_busy(data, owner_zone=zone, start_ms=ms(start), end_ms=ms(end))
    return [f"{_utc(i.start_ms):%m-%d %H:%M} {(i.end_ms - i.start_ms) // 60_000}" for i in found]


def _utc(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)


def test_a_google_export_with_an_override_and_an_exception_across_the_clock_change() -> None:
    data = (FIXTURES / "google.ics").read_bytes()
    assert busy(data, "2026-10-01", "2026-12-31") == [
        "10-19 13:00 30",  # 9:00 in New York in summer
        "11-03 19:00 60",  # moved; 2 November itself is free, and so is 26 October
        "11-09 14:00 30",  # 9:00 in New York in winter
        "11-11 18:30 2880",  # two days of the owner, from her midnight
        "11-16 14:00 30",
        "11-23 14:00 30",  # the last one before UNTIL
    ]


def test_an_outlook_export_with_windows_zones_and_a_zone_of_its_own() -> None:
    data = (FIXTURES / "outlook.ics").read_bytes()
    assert busy(data, "2026-10-01", "2027-03-01") == [
        "10-20 07:00 60",  # +02:00 by the file's own definition
        "10-27 08:00 60",  # +01:00
        "11-02 05:00 60",
        "12-07 05:00 60",
        "01-04 05:00 60",
    ]


def test_an_apple_export_with_floating_times_periods_and_a_reminder_without_length() -> None:
    data = (FIXTURES / "apple.ics").read_bytes()
    assert busy(data, "2026-10-20", "2026-10-31") == [
        "10-20 08:00 60",
        "10-23 05:00 60",
        "10-23 06:30 45",  # noon in the owner's zone
        "10-24 05:00 60",
        "10-25 06:00 60",  # winter time
        "10-26 06:00 60",
        "10-27 09:00 120",
        "10-28 09:00 30",
        "10-29 09:00 60",
    ]


def test_a_thunderbird_export_with_two_calendars_a_shifted_future_and_free_busy() -> None:
    data = (FIXTURES / "thunderbird.ics").read_bytes()
    assert busy(data, "2026-10-01", "2026-12-01") == [
        "10-20 16:00 90",
        "10-21 08:00 120",
        "10-27 17:00 90",
        "11-03 18:00 60",
        "11-10 18:00 60",  # UNTIL as a date includes that day
    ]


# Several calendars in a file and free/busy are beyond the other reader; Thunderbird's is checked above.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "thunderbird.ics"])
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York", "Pacific/Apia"])
def test_an_independent_reader_sees_the_same_meetings(name: str, zone: str) -> None:
    data = (FIXTURES / name).read_bytes()
    owner = ZoneInfo(zone)
    start, end = datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 15, tzinfo=UTC)
    theirs = set()
    for found in recurring_ical_events.of(icalendar.Calendar.from_ical(data)).between(start, end):
        theirs.add((str(found["UID"]), _instant(found.start, owner), _instant(found.end, owner)))
    ours = read_calendar(data, owner).events(int(start.timestamp() * 1000), int(end.timestamp() * 1000))
    assert {(e.uid, e.start_ms, e.end_ms) for e in ours} == theirs


def _instant(moment: object, owner: ZoneInfo) -> int:
    if not isinstance(moment, datetime):
        moment = datetime.fromisoformat(str(moment))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=owner)).timestamp() * 1000)


def test_one_file_cannot_change_the_zones_of_another() -> None:
    def with_zone(offset: str) -> bytes:
        zone = ("BEGIN:VTIMEZONE", "TZID:Mine", "BEGIN:STANDARD", "DTSTART:19700101T000000")
        ends = (f"TZOFFSETFROM:{offset}", f"TZOFFSETTO:{offset}", "END:STANDARD", "END:VTIMEZONE")
        times = ("DTSTART;TZID=Mine:20261105T100000", "DTEND;TZID=Mine:20261105T110000")
        return calendar(*zone, *ends, *event(*times))

    assert busy(with_zone("+0100"), "2026-11-01", "2026-11-10") == ["11-05 09:00 60"]
    assert busy(with_zone("-0500"), "2026-11-01", "2026-11-10") == ["11-05 15:00 60"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney"])
def test_a_zone_spelled_out_in_the_file_equals_the_named_one(zone: str) -> None:
    info = ZoneInfo(zone)
    definition = icalendar.Timezone.from_tzinfo(info, "Own Zone", datetime(2020, 1, 1), datetime(2030, 1, 1))  # noqa: DTZ001
    text = definition.to_ical().decode().strip().split("\r\n")
    for hours in range(0, 24 * 730, 37):
        local = datetime(2026, 1, 1, 0, 30) + timedelta(hours=hours)  # noqa: DTZ001 - a local time
        lines = (f"DTSTART;TZID=Own Zone:{local:%Y%m%dT%H%M%S}", "DURATION:PT1H")
        only = next(iter(read_calendar(calendar(*text, *event(*lines)), KOLKATA).singles.values()))
        assert only.start_ms == int(local.replace(tzinfo=info).timestamp() * 1000), local


def test_an_all_day_event_on_the_day_clocks_go_back_lasts_25_hours() -> None:
    data = calendar(*event("DTSTART;VALUE=DATE:20261025"))
    assert busy(data, "2026-10-20", "2026-10-30", ZoneInfo("Europe/Berlin")) == ["10-24 22:00 1500"]


def test_an_all_day_event_that_ends_on_its_own_day_fills_that_day() -> None:
    data = calendar(*event("DTSTART;VALUE=DATE:20261105", "DTEND;VALUE=DATE:20261105"))
    assert busy(data, "2026-11-01", "2026-11-10", ZoneInfo("UTC")) == ["11-05 00:00 1440"]


def test_an_event_from_before_the_window_is_cut_to_it() -> None:
    data = calendar(*event("DTSTART:20261101T000000Z", "DTEND:20261201T000000Z"))
    found = read_busy(data, owner_zone=KOLKATA, start_ms=ms("2026-11-05"), end_ms=ms("2026-11-06"))
    assert found == [Interval(ms("2026-11-05"), ms("2026-11-06"))]


def test_a_long_repeated_event_that_began_before_the_window_counts() -> None:
    data = calendar(*event("DTSTART:20261001T000000Z", "DURATION:P6D", "RRULE:FREQ=MONTHLY"))
    assert busy(data, "2026-11-05", "2026-11-10") == ["11-05 00:00 2880"]


def test_a_cancelled_occurrence_frees_its_time_only() -> None:
    series = event("DTSTART:20261102T100000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=3")
    gone = event("RECURRENCE-ID:20261103T100000Z", "DTSTART:20261103T100000Z", "STATUS:CANCELLED")
    assert busy(calendar(*series, *gone), "2026-11-01", "2026-11-10") == ["11-02 10:00 60", "11-04 10:00 60"]


def test_an_override_whose_series_is_elsewhere_stands_alone() -> None:
    data = calendar(*event("RECURRENCE-ID:20261103T100000Z", "DTSTART:20261103T120000Z", "DURATION:PT1H"))
    assert busy(data, "2026-11-01", "2026-11-10") == ["11-03 12:00 60"]


def test_the_newer_version_of_an_event_replaces_the_older() -> None:
    old = event("DTSTART:20261102T100000Z", "DURATION:PT1H", "SEQUENCE:1")
    new = event("DTSTART:20261103T100000Z", "DURATION:PT1H", "SEQUENCE:2")
    assert busy(calendar(*new, *old), "2026-11-01", "2026-11-10") == ["11-03 10:00 60"]


def test_two_copies_of_the_same_version_both_count() -> None:
    one = event("DTSTART:20261102T100000Z", "DURATION:PT1H")
    two = event("DTSTART:20261103T100000Z", "DURATION:PT1H")
    assert len(busy(calendar(*one, *two), "2026-11-01", "2026-11-10")) == 2


def test_until_in_utc_beside_a_clock_change_keeps_the_last_occurrence() -> None:
    zone = "America/New_York"
    times = (f"DTSTART;TZID={zone}:20261030T013000", "DURATION:PT15M")
    data = calendar(*event(*times, "RRULE:FREQ=DAILY;UNTIL=20261101T053000Z"))
    assert busy(data, "2026-10-29", "2026-11-05")[-1] == "11-01 05:30 15"


def test_an_empty_calendar_is_all_free() -> None:
    assert busy(calendar(), "2026-11-01", "2026-11-10") == []


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (b"", 1, "no VCALENDAR"),
        (b"<html>Sign in</html>", 1, "outside any calendar"),
        ("BEGIN:VCALENDAR".encode("utf-16"), 1, "UTF-16"),
        (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\n", 2, "never ends"),
        (calendar("BEGIN:VEVENT", "END:VTODO"), 5, "still open"),
        (calendar("END:VEVENT"), 4, "still open"),
        (calendar(*event("SUMMARY:no start")), 4, "no DTSTART"),
        (calendar(*event("DTSTART:20261399T000000Z")), 7, "no date or time"),
        (calendar(*event("DTSTART;TZID=Mars/Olympus:20261102T100000")), 7, "time zone"),
        (calendar(*event("DTSTART:20261102T100000Z", "DTEND:20261102T090000Z")), 8, "before it starts"),
        (calendar(*event("DTSTART:20261102T100000Z", "DTEND20261102T110000Z")), 8, "no property"),
        (calendar(*event("DTSTART:20261102T100000Z", "DTSTART:20261103T100000Z")), 8, "twice"),
        (calendar(*event("DTSTART:20261102T100000Z", "DURATION:1 hour")), 8, "duration"),
        (calendar(*event("DTSTART:20261102T100000Z", "DURATION:P99999999999D")), 8, "duration"),
        (calendar(*event("DTSTART:20261102T100000Z", "DURATION:P9999D")), 8, "ten years"),
        (calendar(*event("DTSTART:20261102T100000Z", "RRULE:FREQ=NEVER")), 8, "frequency"),
        (calendar(*event("DTSTART:20261102T100000Z", "EXDATE:tomorrow")), 8, "no date or time"),
        (calendar(*event('DTSTART;TZID="India:20261102T100000')), 7, "parameters"),
        (calendar("BEGIN:VTIMEZONE", "END:VTIMEZONE"), 4, "without TZID"),
    ],
)
def test_a_broken_calendar_is_refused_with_its_line_and_a_next_step(
    data: bytes, line: int, word: str
) -> None:
    with pytest.raises(InvalidInput, match=word) as refused:
        busy(data, "2026-11-01", "2026-11-10")
    assert refused.value.reason is Reason.INVALID_CALENDAR
    assert f"line {line}:" in refused.value.message
    assert refused.value.hint


def test_a_calendar_past_the_size_limit_is_refused_unread() -> None:
    with pytest.raises(InvalidInput) as refused:
        busy(b"x" * (MAX_BYTES + 1), "2026-11-01", "2026-11-10")
    assert refused.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("rule", ["FREQ=SECONDLY", "FREQ=MINUTELY;COUNT=999999999"])
def test_an_event_that_repeats_without_measure_is_refused_and_not_called_free(rule: str) -> None:
    data = calendar(*event("DTSTART:20160101T000000Z", "DURATION:PT1S", f"RRULE:{rule}"))
    with pytest.raises(InvalidInput, match="line 4: this event repeats more often"):
        busy(data, "2026-11-01", "2026-12-31")


@pytest.mark.parametrize(
    "body",
    [
        b"SUMMARY" + b";A=" * 200_000 + b":x\r\n",
        b"SUMMARY;A=" + b"b," * 200_000 + b":x\r\n",
        b"SUMMARY:x\r\n" + b" \r\n" * 200_000,
        b"EXDATE:" + b"," * 400_000 + b"\r\n",
        b"RECURRENCE-ID:20261105T100000Z\r\nDTSTART:20261105T100000Z\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\n"
        * 1_000
        + b"DTSTART:20261101T100000Z\r\n"
        + b"RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30\r\n" * 1_000,
    ],
    ids=["parameters", "parameter values", "folds", "empty list", "overrides and rules"],
)
def test_reading_takes_time_in_proportion_to_the_file(body: bytes) -> None:
    data = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n" + body + b"END:VEVENT\r\nEND:VCALENDAR\r\n"
    began = process_time()
    with contextlib.suppress(InvalidInput):
        busy(data, "2026-11-01", "2026-12-01")
    assert process_time() - began < 8  # quadratic ways of reading took minutes


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_damaged_exports_are_read_or_refused_never_anything_else(data: st.DataObject) -> None:
    damaged = bytearray((FIXTURES / data.draw(st.sampled_from(NAMES))).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        piece = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from(MARKS)))
        damaged[at : at + data.draw(st.integers(0, 4))] = piece
    try:
        found = read_busy(bytes(damaged), owner_zone=KOLKATA, start_ms=START, end_ms=END)
    except InvalidInput:
        return
    assert all(i.start_ms < i.end_ms for i in found)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_noise_in_a_calendar_is_read_or_refused(noise: bytes) -> None:
    body = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:" + noise + b"\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    with pytest.raises(InvalidInput):
        busy(body, "2026-11-01", "2026-11-10")
