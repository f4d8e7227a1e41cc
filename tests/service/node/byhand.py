"""What people do to their calendar files with other programs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import icalendar

from tests.service.node.test_meeting import DAY, HOUR


def stamp(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y%m%dT%H%M%SZ}"


def moved_by_hand(file: Path, thread: str, third: int) -> None:
    """The second time is deleted, the third is moved by a day."""
    head, *parts = file.read_text().split("BEGIN:VEVENT")
    kept = [each for each in parts if not (f"UID:{thread}" in each and "~2" in each)]
    assert len(kept) == len(parts) - 1
    text = "BEGIN:VEVENT".join([head, *kept])
    for at_ms in (third, third + HOUR // 2):
        assert stamp(at_ms) in text
        text = text.replace(f":{stamp(at_ms)}", f":{stamp(at_ms + DAY)}")
    file.write_text(text)


def without(file: Path, thread: str) -> None:
    """What a calendar program writes when its user deletes an event."""
    calendar = icalendar.Calendar.from_ical(file.read_bytes())
    calendar.subcomponents = [each for each in calendar.subcomponents if thread not in str(each.get("UID"))]
    file.write_bytes(calendar.to_ical())


def is_called_off(folder: Path, file: Path, thread: str) -> bool:
    """Whether a meeting stands as cancelled in a server's folder and in a file."""
    files = (file, *(path for path in folder.glob("*.ics") if path.name.startswith(thread)))
    found = [
        [
            event.get("STATUS")
            for event in icalendar.Calendar.from_ical(each.read_bytes()).events
            if thread in str(event.get("UID"))
        ]
        for each in files
    ]
    return len(found) == 2 and all(states == ["CANCELLED"] for states in found)
