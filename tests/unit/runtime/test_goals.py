"""Gates of what is done unasked, and the rhythm of goals. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from indai.runtime.goals.store import in_words
from indai.runtime.goals.values import HOUR_MS, Gates, Goal, day_began, held, next_due

INDIA = ZoneInfo("Asia/Kolkata")
DAY = 24 * HOUR_MS


def at(text: str) -> int:
    """Indian time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=INDIA).timestamp() * 1000)


@pytest.mark.parametrize(
    ("gates", "now", "done", "why", "again"),
    [
        (Gates(), "2026-11-22T12:00", 0, "", ""),
        (Gates(), "2026-11-22T21:00", 0, "QUIET_HOURS", "2026-11-23T08:00"),
        (Gates(), "2026-11-22T03:00", 0, "QUIET_HOURS", "2026-11-22T08:00"),
        (Gates(), "2026-11-22T08:00", 0, "", ""),
        (Gates(quiet_from=540, quiet_until=600), "2026-11-22T09:30", 0, "QUIET_HOURS", "2026-11-22T10:00"),
        (Gates(quiet_from=0, quiet_until=0), "2026-11-22T03:00", 0, "", ""),
        (Gates(most_per_day=2), "2026-11-22T12:00", 2, "ENOUGH_TODAY", "2026-11-23T08:00"),
        (Gates(allowed=False), "2026-11-22T12:00", 0, "NOT_ALLOWED", "2026-11-22T18:00"),
    ],
)
def test_each_gate_holds_and_says_when_to_look_again(
    gates: Gates, now: str, done: int, why: str, again: str
) -> None:
    found = held(gates, at(now), INDIA, done, paused=False, spent=False)
    assert (found.why if found else "") == why
    assert found is None or found.look_ms == at(again)


def test_a_paused_agent_and_a_spent_allowance_hold_everything() -> None:
    now = at("2026-11-22T12:00")
    for paused, spent, why in ((True, False, "PAUSED"), (False, True, "OVER_BUDGET")):
        found = held(Gates(), now, INDIA, 0, paused=paused, spent=spent)
        assert found is not None
        assert (found.why, found.look_ms > now) == (why, True)


def test_quiet_hours_follow_the_clock_on_the_wall_over_a_change_of_time() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    night = int(datetime(2026, 10, 24, 21, 30, tzinfo=UTC).timestamp() * 1000)  # 23:30, the hour comes twice
    found = held(Gates(), night, berlin, 0, paused=False, spent=False)
    assert found is not None
    assert datetime.fromtimestamp(found.look_ms / 1000, berlin).hour == 8
    assert (
        datetime.fromtimestamp(day_began(night, berlin) / 1000, berlin).isoformat()[:16] == "2026-10-24T00:00"
    )


def test_what_was_missed_is_not_made_up_for_and_the_rhythm_stays() -> None:
    begun = at("2026-11-01T10:00")
    goal = Goal(UUID(int=1), "ind.ai/a", "remind", "", "tea", DAY, 30, False, False, begun, begun, begun)
    assert next_due(goal, begun) == begun + DAY
    assert next_due(goal, begun + 10 * DAY + HOUR_MS) == begun + 11 * DAY
    assert goal.act_id() != replace(goal, due_ms=begun + DAY).act_id()
    assert goal.act_id() == replace(goal, look_ms=begun + DAY).act_id()
    assert in_words(goal) == "be reminded every 1 days: tea"
