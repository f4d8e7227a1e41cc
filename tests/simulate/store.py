"""What one host of the simulation keeps over a crash, and what it may promise at most."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from indai.protocol.kinds.base import Holding, Money, Slot, Stock
from indai.protocol.messages import Message, Move, Terms
from indai.protocol.party_state import Side

STOCK = 2  # units of each item that a host has
MONEY = 120_000  # what a host may spend

Identity = tuple[bytes, Move]


class Crash(Exception):
    """The process is gone."""


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass
class Store:
    """What survives a crash."""

    sides: dict[bytes, Side] = field(default_factory=dict)
    outbox: dict[Identity, Message] = field(default_factory=dict)
    sent: dict[bytes, Message] = field(default_factory=dict)
    replays: dict[Identity, tuple[Message, ...]] = field(default_factory=dict)
    reserved: dict[bytes, Terms] = field(default_factory=dict)
    booked: dict[bytes, Terms] = field(default_factory=dict)
    freed: frozenset[bytes] = frozenset()
    omitted: frozenset[tuple[bytes, int]] = frozenset()  # (thread, start of one of its times)
    ledger: tuple[bytes, ...] = ()
    told: tuple[tuple[bytes, str], ...] = ()

    def copy(self) -> Store:
        return Store(
            dict(self.sides),
            dict(self.outbox),
            dict(self.sent),
            dict(self.replays),
            dict(self.reserved),
            dict(self.booked),
            self.freed,
            self.omitted,
            self.ledger,
            self.told,
        )

    def is_free(
        self,
        thread: bytes,
        terms: Terms,
        *,
        first: bool,
        leaving: Collection[tuple[bytes, int]] = (),
        gives_way: Collection[bytes] = (),
    ) -> bool:
        """Whether what a signature under `terms` needs is there, beside what other threads hold, but for the
        slots that are `leaving` for it (thread, start) and what is taken back for it."""
        held = [pair for pair in self.holdings() if pair[0] != thread and pair[0] not in gives_way]
        return fits([*self.without(held, leaving), *terms.holdings(first=first)])

    @staticmethod
    def without(held: list[tuple[bytes, Holding]], leaving: Collection[tuple[bytes, int]]) -> list[Holding]:
        """What is held, but for these slots."""
        return [
            one for thread, one in held if not isinstance(one, Slot) or (thread, one.start_ms) not in leaving
        ]

    def holdings(self) -> list[tuple[bytes, Holding]]:
        """What is promised or agreed, and not cancelled."""
        booked = [(thread, terms) for thread, terms in self.booked.items() if thread not in self.freed]
        held: list[tuple[bytes, Holding]] = []
        for thread, terms in (*self.reserved.items(), *booked):
            first = self.sides[thread].offer is not None if thread in self.sides else True
            held += [
                (thread, one)
                for one in terms.holdings(first=first)
                if not isinstance(one, Slot) or not self._is_left_out(thread, one.start_ms)
            ]
        return held

    def _is_left_out(self, thread: bytes, start_ms: int) -> bool:
        """That time was called off, or stands elsewhere: who numbers it may not have said so yet."""
        life = self.sides[thread].life if thread in self.sides else None
        moved = life is not None and start_ms in {at_ms for _, at_ms in life.instead}
        return moved or (thread, start_ms) in self.omitted


def fits(held: list[Holding]) -> bool:
    """No two slots overlap, and no more units or money are given than there are."""
    slots = sorted((one for one in held if isinstance(one, Slot)), key=lambda slot: slot.start_ms)
    if any(b.start_ms < a.end_ms for a, b in itertools.pairwise(slots)):
        return False
    units: Counter[str] = Counter()
    for one in held:
        if isinstance(one, Stock):
            units[one.item] += one.quantity
    money = sum(one.amount_minor for one in held if isinstance(one, Money))
    return all(count <= STOCK for count in units.values()) and money <= MONEY
