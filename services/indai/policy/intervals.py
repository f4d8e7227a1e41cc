"""Sets of instants as sorted, disjoint, half-open integer intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
Intervals = list[Interval]


def union(parts: Iterable[Interval]) -> Intervals:
    """All instants of any part; empty parts vanish, parts that touch become one."""
    merged: Intervals = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def intersect(left: Sequence[Interval], right: Sequence[Interval]) -> Intervals:
    """Instants of both."""
    found: Intervals = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            found.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return found


def subtract(left: Sequence[Interval], right: Sequence[Interval]) -> Intervals:
    """Instants of the left that are not of the right."""
    if not left:
        return []
    low, high = left[0][0], left[-1][1]
    edges = [low, *(edge for start, end in right for edge in (start, end)), high]
    gaps = [(edges[at], edges[at + 1]) for at in range(0, len(edges), 2)]
    return intersect(left, [(start, end) for start, end in gaps if start < end])
