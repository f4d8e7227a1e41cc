"""Where a meeting is put when the rules leave a choice: working days, by the local clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from indai.node.host import ordinary_hours

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_weekend_has_none() -> None:
    assert ordinary_hours(ms("2026-11-21T00:00"), ms("2026-11-22T20:00"), BERLIN) == []


def test_they_follow_the_local_clock_over_its_change() -> None:
    friday, monday = ordinary_hours(ms("2026-03-27T00:00"), ms("2026-03-30T20:00"), BERLIN)
    assert (friday.start_ms, friday.end_ms) == (ms("2026-03-27T08:00"), ms("2026-03-27T17:00"))
    assert (monday.start_ms, monday.end_ms) == (ms("2026-03-30T07:00"), ms("2026-03-30T16:00"))
