"""Arithmetic on half-open time intervals, and the choice of slots to offer. Pure: the moment is passed in.

Everything here is deterministic: the same calendar and the same request give the same slots in the same
order, so a negotiation can be replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from indai.protocol.errors import InvalidInput, Reason

MINUTE_MS = 60_000
QUARTER_MS = 15 * MINUTE_MS
HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """`[start_ms, end_ms)` in milliseconds since the epoch."""

    start_ms: int
    end_ms: int

    @property
    def duration_ms(self) -> int:
        """Length; never negative for an interval made by this module."""
        return self.end_ms - self.start_ms

    def contains(self, other: Interval) -> bool:
        """True when `other` lies wholly inside."""
        return self.start_ms <= other.start_ms and other.end_ms <= self.end_ms


# As their own order, but compared in C.
_BY_TIME = attrgetter("start_ms", "end_ms")


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time, sorted, without overlaps; intervals that touch become one; empty ones vanish."""
    kept = [interval for interval in intervals if interval.end_ms > interval.start_ms]
    if len(kept) < 2:
        return kept
    kept.sort(key=_BY_TIME)
    merged: list[Interval] = []
    for interval in kept:
        if merged and interval.start_ms <= merged[-1].end_ms:
            last = merged[-1]
            merged[-1] = Interval(last.start_ms, max(last.end_ms, interval.end_ms))
        else:
            merged.append(interval)
    return merged


def intersect(first: Iterable[Interval], second: Iterable[Interval]) -> list[Interval]:
    """Time that lies in both, merged and sorted."""
    left, right = merge(first), merge(second)
    common: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i].start_ms, right[j].start_ms)
        end = min(left[i].end_ms, right[j].end_ms)
        if start < end:
            common.append(Interval(start, end))
        if left[i].end_ms <= right[j].end_ms:
            i += 1
        else:
            j += 1
    return common


def subtract(base: Iterable[Interval], removed: Iterable[Interval]) -> list[Interval]:
    """Time in `base` that is not in `removed`, merged and sorted."""
    holes = merge(removed)
    left: list[Interval] = []
    first_hole = 0
    for interval in merge(base):
        start = interval.start_ms
        while first_hole < len(holes) and holes[first_hole].end_ms <= start:
            first_hole += 1
        hole = first_hole
        while hole < len(holes) and holes[hole].start_ms < interval.end_ms:
            if start < holes[hole].start_ms:
                left.append(Interval(start, holes[hole].start_ms))
            start = max(start, holes[hole].end_ms)
            hole += 1
        if start < interval.end_ms:
            left.append(Interval(start, interval.end_ms))
    return left


def free_slots(
    windows: Iterable[Interval],
    busy: Iterable[Interval],
    duration_ms: int,
    *,
    now_ms: int,
    limit: int,
    step_ms: int = 2 * QUARTER_MS,
    preferred: Iterable[Interval] = (),
) -> list[int]:
    """Starts (ms) at which a meeting of `duration_ms` fits, best first, at most `limit`.

    `windows` is the time that may be used at all (both sides' windows within policy), `preferred` the part
    of it that is liked better (working hours): slots wholly inside it come first, then the others; each
    group soonest first. Nothing starts before `now_ms`. Starts lie on whole steps, or on quarter hours in a
    gap where no whole step fits, or at the gap's own start where no quarter hour does.
    """
    _check_positive(duration_ms=duration_ms, step_ms=step_ms, limit=limit)
    liked = merge(preferred)
    gaps = _after(subtract(windows, busy), now_ms)
    inside = intersect(gaps, liked)
    first = list(islice(_all_starts(inside, duration_ms, step_ms), limit))
    taken = set(first)
    others = (start for start in _all_starts(gaps, duration_ms, step_ms) if start not in taken)
    return first + list(islice(others, limit - len(first)))


def candidate_windows(
    free: Iterable[Interval], duration_ms: int, limit: int, *, span_ms: int = 2 * HOUR_MS
) -> list[Interval]:
    """At most `limit` windows to reveal to a peer, best first, each long enough for the meeting.

    A window is never longer than `span_ms` (or the meeting itself), and the windows are spread over the free
    intervals, the first of each before the second of any: a peer with a full morning still finds one, and
    learns as little as possible of the calendar.
    """
    _check_positive(duration_ms=duration_ms, span_ms=span_ms, limit=limit)
    length = max(duration_ms, span_ms)
    queues = [_pieces(gap, duration_ms, length) for gap in merge(free)]
    chosen: list[Interval] = []
    while queues and len(chosen) < limit:
        waiting: list[Iterator[Interval]] = []
        for queue in queues:
            piece = next(queue, None)
            if piece is not None:
                chosen.append(piece)
                waiting.append(queue)
        queues = waiting
    return chosen[:limit]


def _pieces(gap: Interval, duration_ms: int, length_ms: int) -> Iterator[Interval]:
    """Cut a gap into windows that begin at aligned times and hold the meeting."""
    start = next(_starts(gap, duration_ms, QUARTER_MS), gap.end_ms)
    while start + duration_ms <= gap.end_ms:
        end = min(start + length_ms, gap.end_ms)
        yield Interval(start, end)
        start = end


def _all_starts(gaps: Sequence[Interval], duration_ms: int, step_ms: int) -> Iterator[int]:
    for gap in gaps:
        yield from _starts(gap, duration_ms, step_ms)


def _starts(gap: Interval, duration_ms: int, step_ms: int) -> Iterator[int]:
    latest = gap.end_ms - duration_ms
    for step in (step_ms, QUARTER_MS, 1):
        aligned = -(-gap.start_ms // step) * step
        if aligned <= latest:
            # A gap that holds no aligned start has one fallback, not one slot for each millisecond.
            yield from range(aligned, latest + 1, step) if step > 1 else (aligned,)
            return


def _after(gaps: Iterable[Interval], now_ms: int) -> list[Interval]:
    return merge(Interval(max(gap.start_ms, now_ms), gap.end_ms) for gap in gaps)


def _check_positive(**values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{name} must be positive, not {value}.",
                fields={name: "not positive"},
            )
