"""The calendar file as its owner sees it: every byte kept, nothing half-written, edits by others seen."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from datetime import datetime
from pathlib import Path
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ical.calendar_stream import IcsCalendarStream
from indai.node.calendar import CalendarFile, Interval, MeetingEvent, busy, file, merge, read_busy
from indai.node.calendar.meeting import address_of, empty_calendar
from indai.protocol.errors import InvalidInput, Reason, Refused, Unavailable

FIXTURES = Path(__file__).parent / "calendars"
NAMES = sorted(path.name for path in FIXTURES.glob("*.ics"))
KOLKATA = ZoneInfo("Asia/Kolkata")
NOON = 1_795_089_600_000  # 2026-11-19T12:00:00Z
HOUR = 3_600_000


def meeting(uid: str = "m1@ind.ai", start: int = NOON, length: int = HOUR, **more: object) -> MeetingEvent:
    fields: dict[str, object] = {"summary": "Coffee", "organizer": "ind.ai/bob", "stamp_ms": NOON - 9 * HOUR}
    fields["attendees"] = ("ind.ai/bob", "ind.ai/alice/work")
    return MeetingEvent(uid=uid, start_ms=start, end_ms=start + length, **(fields | more))  # type: ignore[arg-type]


def copy_of(name: str, directory: Path) -> Path:
    path = directory / name
    path.write_bytes((FIXTURES / name).read_bytes())
    return path


class Counted:
    """Counts how often a file is really parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed = 0
        real = busy.read_calendar

        def count(data: bytes, zone: ZoneInfo) -> object:
            self.parsed += 1
            return real(data, zone)

        monkeypatch.setattr(file, "read_calendar", count)


async def test_a_missing_file_is_free_and_the_first_meeting_creates_it(tmp_path: Path) -> None:
    calendar = CalendarFile(tmp_path / "new.ics", KOLKATA)
    assert await calendar.busy(NOON, NOON + HOUR) == []
    assert not (tmp_path / "new.ics").exists()
    assert await calendar.put(meeting())
    assert await calendar.busy(NOON - HOUR, NOON + 2 * HOUR) == [Interval(NOON, NOON + HOUR)]
    assert stat.S_IMODE((tmp_path / "new.ics").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["new.ics"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_meeting_put_and_removed_leaves_every_byte_as_it_was(name: str, tmp_path: Path) -> None:
    path = copy_of(name, tmp_path)
    before = path.read_bytes()
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put(meeting())
    written = path.read_bytes()
    end = before.rindex(b"END:VCALENDAR")
    assert written.startswith(before[:end])
    assert written.endswith(before[end:])
    assert written.count(b"\r\n") in (0, written.count(b"\n"))
    assert (b"\r\n" in written) == (b"\r\n" in before)
    assert await calendar.remove("m1@ind.ai")
    assert path.read_bytes() == before


async def test_putting_the_same_meeting_again_changes_nothing(tmp_path: Path) -> None:
    calendar = CalendarFile(tmp_path / "a.ics", KOLKATA)
    assert await calendar.put(meeting())
    before = (tmp_path / "a.ics").stat()
    assert not await calendar.put(meeting())
    assert (tmp_path / "a.ics").stat() == before
    assert not await calendar.remove("other@ind.ai")
    assert not await CalendarFile(tmp_path / "none.ics", KOLKATA).remove("other@ind.ai")
    assert os.listdir(tmp_path) == ["a.ics"]


async def test_a_higher_sequence_takes_the_place_of_the_former_version(tmp_path: Path) -> None:
    path = copy_of("google.ics", tmp_path)
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put_many([meeting("a"), meeting("b", NOON + 5 * HOUR)])
    await calendar.put(meeting("a", NOON + 2 * HOUR, sequence=1, description="x" * 300))
    assert not await calendar.put(meeting("a"))
    window = (NOON - HOUR, NOON + 9 * HOUR)
    expected = [Interval(NOON + 2 * HOUR, NOON + 3 * HOUR), Interval(NOON + 5 * HOUR, NOON + 6 * HOUR)]
    assert await calendar.busy(*window) == expected
    assert await CalendarFile(path, KOLKATA).busy(*window) == expected
    await calendar.remove("b")
    await calendar.remove("a")
    assert path.read_bytes() == (FIXTURES / "google.ics").read_bytes()


async def test_a_cancelled_meeting_stays_to_be_seen_and_takes_no_time(tmp_path: Path) -> None:
    calendar = CalendarFile(tmp_path / "c.ics", KOLKATA)
    await calendar.put(meeting())
    cancelled = meeting(cancelled=True, sequence=1)
    assert await calendar.put(cancelled)
    assert not await calendar.put(cancelled)
    assert not await calendar.put(meeting())  # an older version that comes late
    text = (tmp_path / "c.ics").read_bytes()
    assert (text.count(b"STATUS:CANCELLED"), text.count(b"SEQUENCE:1")) == (1, 1)
    assert await calendar.busy(NOON, NOON + HOUR) == []
    assert await CalendarFile(tmp_path / "c.ics", KOLKATA).busy(NOON, NOON + HOUR) == []


async def test_a_cancellation_outranks_what_the_owners_program_counted(tmp_path: Path) -> None:
    path = tmp_path / "c.ics"
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put(meeting())
    path.write_bytes(path.read_bytes().replace(b"SEQUENCE:0", b"SEQUENCE:7"))
    assert await calendar.put(meeting(cancelled=True, sequence=1))
    assert b"SEQUENCE:8" in path.read_bytes()
    path.write_bytes(empty_calendar())
    await calendar.put(meeting())
    path.write_bytes(path.read_bytes().replace(b"X-INDAI-MEETING:1\r\n", b""))
    assert await calendar.put(meeting(cancelled=True, sequence=1))  # as agreed, though its mark was dropped


async def test_what_is_not_ours_or_no_longer_there_is_not_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "c.ics"
    calendar = CalendarFile(path, KOLKATA)
    assert not await calendar.put(meeting(cancelled=True, sequence=1))
    await calendar.put(meeting(start=NOON + 9 * HOUR))
    path.write_bytes(path.read_bytes().replace(b"X-INDAI-MEETING:1\r\n", b""))
    before = path.read_bytes()
    assert not await calendar.put(meeting(cancelled=True, sequence=1))
    assert path.read_bytes() == before


async def test_an_event_of_the_owners_own_is_never_replaced_or_removed_under_its_uid(tmp_path: Path) -> None:
    path = copy_of("google.ics", tmp_path)
    calendar = CalendarFile(path, KOLKATA)
    hostile = meeting("offsite@google.com", sequence=9)
    for attempt in (calendar.put(hostile), calendar.remove("weekly-sync@google.com")):
        with pytest.raises(Refused, match=r"@google\.com"):
            await attempt
    assert path.read_bytes() == (FIXTURES / "google.ics").read_bytes()


async def test_our_meeting_is_known_again_when_a_program_dropped_our_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put(meeting())
    path.write_bytes(path.read_bytes().replace(b"X-INDAI-MEETING:1\r\n", b""))
    assert not await calendar.put(meeting())


async def test_the_owners_own_change_of_our_meeting_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put(meeting())
    path.write_bytes(path.read_bytes().replace(b"SUMMARY:Coffee", b"SUMMARY:Tea, rather"))
    assert not await calendar.put(meeting())
    assert b"Tea, rather" in path.read_bytes()


async def test_an_edit_by_another_program_is_seen_at_the_next_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put(meeting())
    assert await calendar.busy(NOON, NOON + HOUR)
    path.write_bytes(empty_calendar())
    assert await calendar.busy(NOON, NOON + HOUR) == []


async def test_our_own_writes_and_repeated_reads_do_not_parse_the_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of("google.ics", tmp_path)
    counted = Counted(monkeypatch)
    calendar = CalendarFile(path, KOLKATA)
    for index in range(3):
        await calendar.put(meeting(f"m{index}", NOON + index * HOUR))
        assert len(await calendar.busy(NOON, NOON + 9 * HOUR)) == 1
    assert counted.parsed == 1
    os.utime(path)
    await calendar.busy(NOON, NOON + HOUR)
    assert counted.parsed == 2


async def test_an_edit_between_our_read_and_our_rename_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ics"
    calendar, other = CalendarFile(path, KOLKATA), meeting("theirs", NOON + 3 * HOUR)
    await calendar.put(meeting("first"))
    real = file._write_all
    edits: list[int] = []

    def edit_meanwhile(descriptor: int, data: bytes) -> None:
        real(descriptor, data)
        if not edits:
            edits.append(1)
            path.write_bytes(path.read_bytes().replace(b"END:VCALENDAR", other.to_ical() + b"END:VCALENDAR"))

    monkeypatch.setattr(file, "_write_all", edit_meanwhile)
    assert await calendar.put(meeting("ours", NOON + 5 * HOUR))
    text = path.read_bytes()
    assert all(text.count(f"UID:{uid}\r\n".encode()) == 1 for uid in ("first", "theirs", "ours"))
    assert len(await calendar.busy(NOON, NOON + 9 * HOUR)) == 3


async def test_a_query_does_not_wait_for_the_disk_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calendar = CalendarFile(tmp_path / "a.ics", KOLKATA)
    await calendar.put(meeting("first"))
    await calendar.busy(NOON, NOON + HOUR)
    real, writes, goes_on = file._write_all, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow_disk(descriptor: int, data: bytes) -> None:
        loop.call_soon_threadsafe(writes.set)
        goes_on.wait(60)
        real(descriptor, data)

    monkeypatch.setattr(file, "_write_all", slow_disk)
    writing = asyncio.create_task(calendar.put(meeting("second", NOON + 3 * HOUR)))
    try:
        await writes.wait()
        async with asyncio.timeout(30):
            assert await calendar.busy(NOON, NOON + 9 * HOUR) == [Interval(NOON, NOON + HOUR)]
    finally:
        goes_on.set()
    assert await writing
    assert len(await calendar.busy(NOON, NOON + 9 * HOUR)) == 2


async def test_our_own_writes_are_told_from_an_edit_between_them(tmp_path: Path) -> None:
    calendar = CalendarFile(copy_of(NAMES[0], tmp_path), KOLKATA)
    first = calendar.version
    for number in range(3):
        await calendar.put(meeting(f"m{number}@ind.ai"))
    ours = calendar.version
    assert first != ours
    assert calendar.is_ours(first, ours)
    assert calendar.is_ours(ours, ours)
    assert not calendar.is_ours(ours, first)
    path = tmp_path / NAMES[0]
    path.write_bytes(path.read_bytes().replace(b"Coffee", b"Tea"))
    edited = calendar.version
    assert not calendar.is_ours(ours, edited)
    await calendar.remove("m0@ind.ai")
    assert calendar.is_ours(edited, calendar.version)
    assert not calendar.is_ours(first, calendar.version)
    assert not CalendarFile(path, KOLKATA).is_ours(first, ours)


async def test_two_nodes_writing_one_calendar_lose_nothing(tmp_path: Path) -> None:
    files = [CalendarFile(tmp_path / "a.ics", KOLKATA) for _ in range(4)]
    await asyncio.gather(
        *(
            f.put(meeting(f"{n}-{i}", NOON + (4 * n + i) * 2 * HOUR))
            for n, f in enumerate(files)
            for i in range(4)
        )
    )
    assert len(await files[0].busy(NOON, NOON + 99 * HOUR)) == 16


async def test_a_full_disk_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy_of("apple.ics", tmp_path)

    def full(_descriptor: int, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "_write_all", full)
    with pytest.raises(Unavailable) as failed:
        await CalendarFile(path, KOLKATA).put(meeting())
    assert failed.value.reason is Reason.STORAGE_FULL
    assert str(path) in failed.value.message
    assert path.read_bytes() == (FIXTURES / "apple.ics").read_bytes()
    assert os.listdir(tmp_path) == ["apple.ics"]


async def test_a_broken_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    path = tmp_path / "broken.ics"
    path.write_bytes(b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n")
    calendar = CalendarFile(path, KOLKATA)
    for attempt in (calendar.put(meeting()), calendar.busy(NOON, NOON + HOUR)):
        with pytest.raises(InvalidInput, match=r"broken\.ics.*line 2"):
            await attempt
    assert path.read_bytes() == b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n"


async def test_a_file_that_breaks_after_it_was_read_is_not_answered_from_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    calendar = CalendarFile(path, KOLKATA)
    await calendar.put(meeting())
    path.write_bytes(b"BEGIN:VCALENDAR\r\n")
    for _ in range(2):
        with pytest.raises(InvalidInput):
            await calendar.busy(NOON, NOON + HOUR)


async def test_a_path_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        await CalendarFile(tmp_path / "nowhere" / "a.ics", KOLKATA).put(meeting())
    with pytest.raises(InvalidInput, match="directory"):
        await CalendarFile(tmp_path, KOLKATA).busy(NOON, NOON + HOUR)


async def test_the_mode_and_a_symbolic_link_survive_a_write(tmp_path: Path) -> None:
    path = copy_of("apple.ics", tmp_path)
    path.chmod(0o640)
    link = tmp_path / "link.ics"
    link.symlink_to(path)
    await CalendarFile(link, KOLKATA).put(meeting())
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert b"m1@ind.ai" in path.read_bytes()


async def test_our_meetings_are_told_apart_for_display(tmp_path: Path) -> None:
    calendar = CalendarFile(copy_of("google.ics", tmp_path), KOLKATA)
    await calendar.put(meeting(summary="Tea; with\r\n\\Bob, \x07मिलते हैं"))
    shown = {e.uid: e for e in await calendar.events(NOON - 20 * 24 * HOUR, NOON + 30 * 24 * HOUR)}
    assert shown["m1@ind.ai"].ours
    assert shown["m1@ind.ai"].summary == "Tea; with\n\\Bob, मिलते हैं"
    assert not shown["weekly-sync@google.com"].ours
    assert shown["diwali@google.com"].all_day
    assert not shown["diwali@google.com"].busy
    again = {e.uid: e for e in await CalendarFile(tmp_path / "google.ics", KOLKATA).events(NOON, NOON + HOUR)}
    assert again["m1@ind.ai"] == shown["m1@ind.ai"]


async def test_a_meeting_in_a_calendar_of_5000_events_is_written_in_milliseconds(tmp_path: Path) -> None:
    body = b"".join(
        b"BEGIN:VEVENT\r\nUID:%d\r\nDTSTART:202601%02dT%02d0000Z\r\nDURATION:PT1H\r\nEND:VEVENT\r\n"
        % (i, i % 28 + 1, i % 24)
        for i in range(5000)
    )
    path = tmp_path / "big.ics"
    path.write_bytes(b"BEGIN:VCALENDAR\r\n" + body + b"END:VCALENDAR\r\n")
    calendar = CalendarFile(path, KOLKATA)
    await calendar.busy(NOON, NOON + HOUR)
    took = []
    for index in range(5):
        began = process_time()
        await calendar.put(meeting(f"m{index}"))
        await calendar.busy(NOON, NOON + HOUR)
        took.append(process_time() - began)
    # About 15 ms; parsing the file again would add some 300.
    assert min(took) < 0.15


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5), st.text(max_size=40)), max_size=6),
    st.text(max_size=200),
)
def test_busy_times_of_meetings_written_are_their_times_in_any_words(
    made: list[tuple[int, int, str]], words: str
) -> None:
    events = [
        meeting(
            f"m{i}", NOON + start * 1000, length * 1000, summary=summary, description=words, location=words
        )
        for i, (start, length, summary) in enumerate(made)
    ]
    text = empty_calendar().replace(
        b"END:VCALENDAR", b"".join(e.to_ical() for e in events) + b"END:VCALENDAR"
    )
    found = read_busy(text, owner_zone=KOLKATA, start_ms=NOON, end_ms=NOON + 10**10)
    assert found == merge(Interval(e.start_ms, e.end_ms) for e in events)
    assert all(len(line) <= 75 for line in text.split(b"\r\n"))


async def test_an_independent_program_opens_what_we_write(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    calendar = CalendarFile(path, KOLKATA)
    text = "Bring; the, \\papers\nand «मिलते हैं» " * 9
    await calendar.put_many(
        [meeting(description=text, location="Café, 2nd floor"), meeting("m2", NOON + HOUR)]
    )
    theirs = IcsCalendarStream.calendar_from_ics(path.read_bytes().decode())
    first = next(e for e in theirs.events if e.uid == "m1@ind.ai")
    assert isinstance(first.dtstart, datetime)
    assert int(first.dtstart.timestamp() * 1000) == NOON
    assert (first.description, first.location, first.sequence) == (text, "Café, 2nd floor", 0)
    assert first.organizer is not None
    assert (str(first.organizer.uri), first.organizer.common_name) == (address_of("ind.ai/bob"), "ind.ai/bob")
    assert [a.common_name for a in first.attendees] == ["ind.ai/bob", "ind.ai/alice/work"]
    assert len(theirs.events) == 2


@pytest.mark.parametrize(
    ("handle", "address"),
    [
        ("ind.ai/alice", "mailto:alice@ind.ai.invalid"),
        ("ind.ai/alice/work", "mailto:alice.work@ind.ai.invalid"),
        ("ranveer.ai", "mailto:agent@ranveer.ai.invalid"),
    ],
)
def test_a_handle_becomes_an_address_that_no_mail_reaches(handle: str, address: str) -> None:
    assert address_of(handle) == address
