"""Goals and gates as values, and what follows from them. Pure: times are milliseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

HOUR_MS: Final = 3_600_000
MINUTES_A_DAY: Final = 1_440
LATER_MS: Final = 6 * HOUR_MS
"""When a goal is looked at again that the owner's consent or a pause holds back."""
KINDS: Final = ("meet", "follow_up", "remind")
_ACTS: Final = UUID("0f6c5d0e-1d1b-5d0b-9a7c-6f6d0a3f1c55")


@dataclass(frozen=True, slots=True)
class Goal:
    """One row. `due_ms` names the occasion, `look_ms` is when it is looked at."""

    id: UUID
    owner: str
    kind: str
    person: str
    words: str
    every_ms: int
    minutes: int
    may_act: bool
    paused: bool
    due_ms: int
    look_ms: int
    created_ms: int

    def act_id(self, thread: str = "", due_ms: int | None = None) -> UUID:
        """Names what is done at one occasion: the same again is the same act."""
        return uuid5(_ACTS, f"{self.id}\n{self.due_ms if due_ms is None else due_ms}\n{thread}")


@dataclass(frozen=True, slots=True)
class Gates:
    """What holds the agent back. Minutes are of the owner's day."""

    allowed: bool = True
    quiet_from: int = 21 * 60
    quiet_until: int = 8 * 60
    most_per_day: int = 3


@dataclass(frozen=True, slots=True)
class Held:
    """Why nothing is done now, and when to look again."""

    why: str
    look_ms: int


def held(
    gates: Gates, now_ms: int, zone: ZoneInfo, done_today: int, *, paused: bool, spent: bool
) -> Held | None:
    """None where all gates are open. `done_today`: acts and notices of the owner's day; `paused`: the tenant
    or the agent; `spent`: the agent's allowance for the day."""
    there = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    if not gates.allowed:
        return Held("NOT_ALLOWED", now_ms + LATER_MS)
    if paused:
        return Held("PAUSED", now_ms + LATER_MS)
    if is_quiet(gates, there):
        return Held("QUIET_HOURS", _next(there, gates.quiet_until))
    if done_today >= gates.most_per_day:
        return Held("ENOUGH_TODAY", _next(there, gates.quiet_until, tomorrow=True))
    if spent:
        return Held("OVER_BUDGET", _next(there, gates.quiet_until, tomorrow=True))
    return None


def is_quiet(gates: Gates, there: datetime) -> bool:
    """Whether a local time lies in the quiet hours, which may go over midnight."""
    minute = there.hour * 60 + there.minute
    if gates.quiet_from <= gates.quiet_until:
        return gates.quiet_from <= minute < gates.quiet_until
    return minute >= gates.quiet_from or minute < gates.quiet_until


def day_began(now_ms: int, zone: ZoneInfo) -> int:
    """The midnight before, where the owner is."""
    there = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    return int(there.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)


def next_due(goal: Goal, now_ms: int) -> int:
    """The occasion after this one: in its own rhythm, and what was missed is not made up for."""
    missed = max(0, now_ms - goal.due_ms) // goal.every_ms
    return goal.due_ms + (missed + 1) * goal.every_ms


def _next(there: datetime, minute: int, *, tomorrow: bool = False) -> int:
    """The next local time with this minute of the day."""
    at = there.replace(hour=minute // 60, minute=minute % 60, second=0, microsecond=0)
    if tomorrow or at <= there:
        # By the clock on the wall, whatever a change of time does to the length of the day.
        at = (at.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=there.tzinfo)
    return int(at.timestamp() * 1000)
