"""Wall-clock time in the owner's zone (IANA database), exact across daylight saving and local midnight.

A day is touched from the earliest to the latest wall-clock minute that a span shows there: minutes round
outwards, an hour that is repeated counts as touched whole when the span runs through its end, a skipped hour
counts as passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from indai.policy.values import WEEKDAYS

DAY_MS = 86_400_000
MINUTE_MS = 60_000
MIN_MS, MAX_MS = 0, 253_370_764_800_000  # 1970 to 9999: what the calendar arithmetic below is defined for
_EPOCH_WEEKDAY = 3  # 1 January 1970 was a Thursday


@dataclass(frozen=True, slots=True)
class Piece:
    """A span with one UTC offset, in ms: `start` inclusive, `end` exclusive; wall clock = instant +
    `offset`.
    """

    start: int
    end: int
    offset: int


@dataclass(frozen=True, slots=True)
class LocalDay:
    """What a span touches of one local day. `number`: days since 1970; minutes since midnight, `end` at most
    1440.
    """

    number: int
    start: int
    end: int

    @property
    def weekday(self) -> str:
        return weekday_of(self.number)


def weekday_of(number: int) -> str:
    """`mon` to `sun` of a day counted from 1 January 1970."""
    return WEEKDAYS[(number + _EPOCH_WEEKDAY) % 7]


def zone_of(name: str) -> ZoneInfo:
    """The zone by its IANA name; the library keeps one object for each."""
    return ZoneInfo(name)


def local_day(zone: ZoneInfo, at_ms: int) -> int:
    """Number of the local day of an instant."""
    return (at_ms + _offset(zone, at_ms)) // DAY_MS


def touched_days(zone: ZoneInfo, start_ms: int, end_ms: int) -> list[LocalDay]:
    """The local days that the span touches, in order; an empty span touches the minute of its start."""
    days: dict[int, LocalDay] = {}
    for number, piece in pieces_by_day(zone, start_ms, max(end_ms, start_ms + 1)):
        midnight = number * DAY_MS
        first = (piece.start + piece.offset - midnight) // MINUTE_MS
        last = -(-(piece.end + piece.offset - midnight) // MINUTE_MS)
        known = days.get(number)
        days[number] = LocalDay(
            number, min(first, known.start) if known else first, max(last, known.end) if known else last
        )
    return [days[number] for number in sorted(days)]


def pieces_by_day(zone: ZoneInfo, start_ms: int, end_ms: int) -> list[tuple[int, Piece]]:
    """The span cut at offset changes and local midnights: (day number, piece), in order of time."""
    cut = []
    for piece in _pieces(zone, start_ms, end_ms):
        at = piece.start
        while at < piece.end:
            number = (at + piece.offset) // DAY_MS
            end = min(piece.end, (number + 1) * DAY_MS - piece.offset)
            cut.append((number, Piece(at, end, piece.offset)))
            at = end
    return cut


def _pieces(zone: ZoneInfo, start_ms: int, end_ms: int) -> list[Piece]:
    found: list[Piece] = []
    at = start_ms
    while at < end_ms:
        offset = _offset(zone, at)
        step = min(at + DAY_MS, end_ms)
        # No zone changes twice within a day, so equal offsets at both ends mean one offset in between.
        end = step if _offset(zone, step) == offset else _transition(zone, at, step)
        if found and found[-1].offset == offset:
            found[-1] = Piece(found[-1].start, end, offset)
        else:
            found.append(Piece(at, end, offset))
        at = end
    return found


def _transition(zone: ZoneInfo, low: int, high: int) -> int:
    """The first ms with the offset of `high`, between two instants with different offsets; zones change on
    seconds.
    """
    before = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=65536)
def _offset_at(zone: ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset()
    return int(offset.total_seconds() * 1000) if offset else 0


def _offset(zone: ZoneInfo, at_ms: int) -> int:
    return _offset_at(zone, at_ms // 1000)
