"""What one owner has promised or given, in memory: slots, stock and money, by the mid of what was signed.

The tables behind it refuse what is too much (`node.reservations`, `node.holds`); this is what policy and
drafts reckon with.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from indai.node.calendar.slots import Interval
from indai.protocol.copies import replace
from indai.protocol.kinds.base import Holding, Slot, Stock

Slots = dict[bytes, tuple[int, int]]


def key_of(mid: bytes, place: int) -> bytes:
    """Under what the n-th thing is kept that one signature needs: the first under its mid."""
    if not place:
        return mid
    return hashlib.sha256(b"ind.ai/holding/v1\n" + mid + place.to_bytes(4, "big")).digest()


@dataclass(frozen=True, slots=True)
class Leaving:
    """What is given back once something else takes its place: the keys of its slots, the UIDs of its
    events."""

    rows: frozenset[bytes] = frozenset()
    uids: frozenset[str] = frozenset()


NOTHING = Leaving()


@dataclass(frozen=True, slots=True)
class Promised:
    """An owner's slots as they count for one matter: what makes way for it doesn't."""

    slots: Slots
    leaving: Leaving = NOTHING

    def standing(self) -> Promised:
        """As they count for anything else."""
        return Promised(self.slots)

    def values(self) -> list[tuple[int, int]]:
        """(start_ms, end_ms) of what is taken."""
        return [slot for row, slot in self.slots.items() if row not in self.leaving.rows]

    def is_left(self, span: Interval) -> bool:
        """Whether this is the very time of what makes way."""
        left = {slot for row, slot in self.slots.items() if row in self.leaving.rows}
        return (span.start_ms, span.end_ms) in left

    def without(self, start_ms: int, end_ms: int) -> Promised:
        """As if nothing were promised at just that time."""
        kept = {row: slot for row, slot in self.slots.items() if slot != (start_ms, end_ms)}
        return Promised(kept, self.leaving)


@dataclass(frozen=True, slots=True)
class Spent:
    """Money that is reserved or spent: on which local day of the owner's (ISO 8601), for whom."""

    amount_minor: int
    currency: str
    day: str
    peer: str


@dataclass(slots=True)
class Holdings:
    """Slots as (start_ms, end_ms), stock and money."""

    slots: Slots = field(default_factory=dict)
    stock: dict[bytes, Stock] = field(default_factory=dict)
    money: dict[bytes, Spent] = field(default_factory=dict)

    def copy(self) -> Holdings:
        """One that can be changed by itself."""
        return replace(self, slots=dict(self.slots), stock=dict(self.stock), money=dict(self.money))

    def add(self, mid: bytes, holding: Holding, day: str, peer: str) -> None:
        """What our signature under `mid` needs."""
        if isinstance(holding, Slot):
            self.slots[mid] = (holding.start_ms, holding.end_ms)
        elif isinstance(holding, Stock):
            self.stock[mid] = holding
        else:
            self.money[mid] = Spent(holding.amount_minor, holding.currency, day, peer)

    def pop(self, mid: bytes | None) -> None:
        """Given back."""
        if mid is not None:
            self.slots.pop(mid, None)
            self.stock.pop(mid, None)
            self.money.pop(mid, None)
