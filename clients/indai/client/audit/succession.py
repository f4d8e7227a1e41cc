"""Finds what an owner has agreed in a place that another commitment of theirs had taken before (LIF-25).

Each ledger is judged by itself and by the order of its leaves: an honest owner never signs for a second
successor, whatever the other parties do, while an offerer that lies about what it has decided may have two in
its own ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from indai.client.audit.facts import Ledger, Successor
from indai.client.audit.report import Place


@dataclass(frozen=True, slots=True)
class Second:
    """A commitment whose place another one of the same owner had taken, whose leaf is `first`."""

    mid: bytes
    owner: str
    place: Place
    first: Place


def seconds(ledgers: Sequence[Ledger]) -> Iterator[Second]:
    """All of them, as each of the ledgers shows them."""
    for ledger in ledgers:
        for successors in ledger.successors.values():
            for owner in sorted({each.owner for each in successors}):
                yield from _of(owner, [each for each in successors if each.owner == owner])


def _of(owner: str, successors: list[Successor]) -> Iterator[Second]:
    taken: dict[tuple[frozenset[str], int], Place] = {}
    for each in sorted(successors, key=lambda one: one.place.index or 0):
        # All of it takes the times that are left; what was moved by itself before stands beside it.
        first = taken.get((each.parties, 0)) or taken.get((each.parties, each.time_ms))
        if first is not None:
            yield Second(each.mid, owner, each.place, first)
        taken.setdefault((each.parties, each.time_ms), each.place)
