"""What owners have to give: articles, and resources that are booked for a time. Stored, and kept in memory
for the kind `book`, which asks at every message; how much is left follows from what is held.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import asyncpg
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason
from indai.protocol.forms import MINUTE_MS, check_price, check_text, check_token
from indai.protocol.kinds.base import Stock
from indai.protocol.kinds.book import MAX_ITEM, MAX_MINUTES, MAX_TITLE
from indai.storage.pool import transaction

MAX_ITEMS = 10_000
MAX_UNITS = 1_000_000_000
DUE_MINUTES = 7 * 1440
_ALWAYS = (-1, 1 << 62)  # the span of goods, which are given for good


@dataclass(frozen=True, slots=True)
class StockItem:
    """`units` of `item`; of a resource, so many at any one time.

    `price_minor` is for one unit and, where `per_minutes` is not 0, for each started such length. One side
    alone cancels until `cancel_before_minutes` before the start (of goods: before they are due), without
    a fee until `free_before_minutes`; later it owes `fee_percent` of the price.
    """

    item: str
    title: str
    units: int
    price_minor: int = 0
    currency: str = ""
    per_minutes: int = 0
    cancel_before_minutes: int = 0
    free_before_minutes: int = 0
    fee_percent: int = 0
    due_minutes: int = 0

    def check(self) -> None:
        """Raises InvalidInput for what could not be offered."""
        try:
            check_token("BOK-01", "item", self.item, MAX_ITEM)
            check_text("title", self.title, MAX_TITLE, required=True)
            check_price("BOK-01", self.price_minor, self.currency, free=True)
        except ProtocolError as error:
            raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
        if not 0 <= self.units <= MAX_UNITS:
            raise _wrong("units", f"0 to {MAX_UNITS}")
        if not 0 <= self.fee_percent <= 100:
            raise _wrong("fee", "0 to 100 percent of the price")
        minutes = (self.per_minutes, self.cancel_before_minutes, self.free_before_minutes, self.due_minutes)
        if not all(0 <= each <= MAX_MINUTES for each in minutes):
            raise _wrong("lengths", f"0 to {MAX_MINUTES} minutes")
        if self.fee_percent and self.free_before_minutes < self.cancel_before_minutes:
            raise _wrong("free cancelling", "no later than the end of cancelling itself")

    def price(self, quantity: int, minutes: int) -> int:
        """For all of it, minor units."""
        started = -(-minutes // self.per_minutes) if self.per_minutes else 1
        return self.price_minor * quantity * started


def most_held(held: Iterable[Stock], item: str, start_ms: int, end_ms: int) -> int:
    """The most units of `item` that are in use at any one time in [start_ms, end_ms); both 0: at any time."""
    begin, end = (start_ms, end_ms) if end_ms else _ALWAYS
    spans = [
        (*((each.start_ms, each.end_ms) if each.end_ms else _ALWAYS), each.quantity)
        for each in held
        if each.item == item
    ]
    within = [
        (max(first, begin), last, units) for first, last, units in spans if first < end and last > begin
    ]
    return max(
        (sum(units for first, last, units in within if first <= at < last) for at, _, _ in within), default=0
    )


class Shelf:
    """Every owner's stock; the only writer of its table."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._known: dict[str, dict[str, StockItem]] = {}

    async def load(self, owners: Iterable[str]) -> None:
        """Read it all."""
        wanted = list(owners)
        if not wanted:
            return
        async with transaction(self._pool, wanted) as connection:
            rows = await connection.fetch(
                "SELECT owner, item, units, doc FROM node.stock WHERE owner = ANY($1)", wanted
            )
        for owner, item, units, doc in rows:
            found = StockItem(item=item, units=units, **({"title": item} | json.loads(doc)))
            self._known.setdefault(owner, {})[item] = found

    def of(self, owner: str) -> Mapping[str, StockItem]:
        """The owner's items by name."""
        return self._known.get(owner, {})

    async def set(self, owner: str, item: StockItem) -> None:
        """Store it, in place of one of the same name; raises InvalidInput for what can't be offered."""
        item.check()
        if item.item not in self.of(owner) and len(self.of(owner)) >= MAX_ITEMS:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"A stock has at most {MAX_ITEMS} items.")
        doc = {name: value for name, value in asdict(item).items() if name not in ("item", "units")}
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.stock (owner, item, units, doc) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (owner, item) DO UPDATE SET units = excluded.units, doc = excluded.doc",
                owner,
                item.item,
                item.units,
                json.dumps(doc),
            )
        self._known.setdefault(owner, {})[item.item] = item

    async def remove(self, owner: str, item: str) -> None:
        """Offer it no more; raises NotFound."""
        if item not in self.of(owner):
            raise NotFound(Reason.NOT_FOUND, f"{item} is not in your stock.", hint="indai stock list")
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute("DELETE FROM node.stock WHERE owner = $1 AND item = $2", owner, item)
        del self._known[owner][item]

    async def held(self, owner: str, now_ms: int) -> list[Stock]:
        """What is promised or given and still counts."""
        async with transaction(self._pool, [owner]) as connection:
            rows = await connection.fetch(
                "SELECT item, quantity, start_ms, end_ms FROM node.load_holds($1, $2) WHERE item IS NOT NULL",
                [owner],
                now_ms,
            )
        return [Stock(*row) for row in rows]


def minutes_before(at_ms: int, minutes: int) -> int:
    """So many minutes before, ms since the epoch."""
    return at_ms - minutes * MINUTE_MS


def _wrong(what: str, may: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, f"The {what} of a stock item may be {may}.")
