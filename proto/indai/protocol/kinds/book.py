"""`book`: units of somebody's stock, for a time or, as goods, for good.

The one whose stock it is offers, and reserves the units in the transaction that signs the offer; so of two
buyers who want the last one, one gets an offer. A buyer reserves the price when it accepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from indai.protocol.forms import (
    END_OF_TIME_MS,
    MINUTE_MS,
    check_moment,
    check_price,
    check_span,
    check_text,
    check_token,
    malformed,
)
from indai.protocol.kinds.base import Holding, Kind, Life, Money, Stock, Terms, Window, Wish, meets
from indai.v1 import intents_pb2

MAX_ITEM = 128
MAX_TITLE = 200
MAX_QUANTITY = 10_000
MAX_WINDOWS = 32
MAX_MINUTES = 366 * 1_440


@dataclass(frozen=True, slots=True)
class BookTerms(Terms):
    """The first party provides `quantity` of `item` in [start_ms, end_ms); goods have neither, and are due.

    Amounts are for all of it. `cancel_until_ms` 0: nobody cancels alone; `fee_minor` is what the second party
    owes if it does so after `free_until_ms`. `due_ms` 0: due at the end.
    """

    kind: ClassVar[str] = "book"
    pb = intents_pb2.BookTerms
    item: str
    title: str
    quantity: int
    start_ms: int = 0
    end_ms: int = 0
    price_minor: int = 0
    currency: str = ""
    cancel_until_ms: int = 0
    fee_minor: int = 0
    due_ms: int = 0
    free_until_ms: int = 0

    def about(self) -> str:
        """Its title."""
        return self.title

    def check(self) -> None:
        """NEG-02 or BOK-01."""
        _check_item(self)
        check_price("BOK-01", self.price_minor, self.currency, free=True)
        if self.start_ms or self.end_ms:
            check_span("BOK-01", "The booking", self.start_ms, self.end_ms)
        if self.due_ms or not self.end_ms:
            check_moment("BOK-01", "The due time", self.due_ms)
        if self.due_ms and self.due_ms < self.end_ms:
            raise malformed("BOK-01", "The booking is due before its end")
        if not 0 <= self.cancel_until_ms <= (self.due_ms or self.end_ms):
            raise malformed("BOK-01", "The time for cancelling alone lies after the booking")
        if not 0 <= self.fee_minor <= self.price_minor:
            raise malformed("BOK-01", "The fee for cancelling is at most the price")
        if not 0 <= self.free_until_ms <= self.cancel_until_ms:
            raise malformed("BOK-01", "Cancelling is free at most as long as one side may cancel alone")

    def fee_at(self, cancelled_ms: int) -> int:
        """What the second party owes for cancelling alone at that time, minor units."""
        return self.fee_minor if self.free_until_ms < cancelled_ms <= self.cancel_until_ms else 0

    def gist(self) -> tuple[object, ...]:
        """What, when and for how much."""
        return "terms", self.item, self.quantity, self.start_ms, self.end_ms, self.price_minor, self.currency

    def life(self) -> Life:
        """Goods are provided at any time until they are due; the use of a resource is over at its end."""
        due_ms = self.due_ms or self.end_ms
        return Life(self.cancel_until_ms, self.end_ms, due_ms, self.start_ms or due_ms)

    def holdings(self, *, first: bool) -> tuple[Holding, ...]:
        """The units on one side, the price on the other."""
        if first:
            return (Stock(self.item, self.quantity, self.start_ms, self.end_ms),)
        return (Money(self.price_minor, self.currency),) if self.price_minor else ()

    def sign_by_ms(self) -> int:
        """Its start; for goods their due time."""
        return self.start_ms or self.due_ms

    def to_pb(self) -> intents_pb2.BookTerms:
        """As it is signed."""
        return intents_pb2.BookTerms(
            item=self.item,
            title=self.title,
            quantity=self.quantity,
            start_ms=self.start_ms,
            end_ms=self.end_ms,
            price_minor=self.price_minor,
            currency=self.currency,
            cancel_until_ms=self.cancel_until_ms,
            fee_minor=self.fee_minor,
            due_ms=self.due_ms,
            free_until_ms=self.free_until_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(
            pb.item,
            pb.title,
            pb.quantity,
            pb.start_ms,
            pb.end_ms,
            pb.price_minor,
            pb.currency,
            pb.cancel_until_ms,
            pb.fee_minor,
            pb.due_ms,
            pb.free_until_ms,
        )


@dataclass(frozen=True, slots=True)
class BookWish(Wish):
    """`quantity` of `item`, within one of `windows` (goods: none) for `duration_minutes`.

    `max_price_minor` 0 with no currency: no limit was named.
    """

    kind: ClassVar[str] = "book"
    pb = intents_pb2.BookWish
    item: str
    title: str
    quantity: int
    windows: tuple[Window, ...] = ()
    duration_minutes: int = 0
    max_price_minor: int = 0
    currency: str = ""

    def about(self) -> str:
        """Its title."""
        return self.title

    def check(self) -> None:
        """NEG-02 or BOK-01."""
        _check_item(self)
        check_price("BOK-01", self.max_price_minor, self.currency, free=True)
        if len(self.windows) > MAX_WINDOWS or bool(self.windows) != bool(self.duration_minutes):
            raise malformed("BOK-01", f"Up to {MAX_WINDOWS} windows go with a length, goods have neither")
        if self.duration_minutes > MAX_MINUTES:
            raise malformed("BOK-01", f"A booking lasts at most {MAX_MINUTES} minutes")
        for number, window in enumerate(self.windows, 1):
            check_span("BOK-01", f"Window {number}", window.start_ms, window.end_ms)
            if window.end_ms - window.start_ms < self.duration_minutes * MINUTE_MS:
                raise malformed("BOK-01", f"Window {number} is shorter than the booking")

    def admits(self, terms: Terms) -> bool:
        """Whether so many of just this lie within a window, for at most the price."""
        if not isinstance(terms, BookTerms):
            return False
        if (terms.item, terms.quantity) != (self.item, self.quantity) or not self._affords(terms):
            return False
        if not self.windows:
            return not terms.end_ms
        return terms.end_ms - terms.start_ms == self.duration_minutes * MINUTE_MS and any(
            window.start_ms <= terms.start_ms and terms.end_ms <= window.end_ms for window in self.windows
        )

    def _affords(self, terms: BookTerms) -> bool:
        if not self.currency or not terms.price_minor:
            return True
        return terms.currency == self.currency and terms.price_minor <= self.max_price_minor

    def gist(self) -> tuple[object, ...]:
        """What, when and for how much at most."""
        price = self.max_price_minor, self.currency
        return "wish", self.item, self.quantity, self.duration_minutes, frozenset(self.windows), price

    def leaves_room(self, standing: Wish | Terms) -> bool:
        """Whether the times have enough in common; goods always do."""
        needed_ms = self.duration_minutes * MINUTE_MS
        if isinstance(standing, BookWish) and standing.windows and self.windows:
            return meets(self.windows, standing.windows, needed_ms)
        if isinstance(standing, BookTerms) and standing.end_ms and self.windows:
            return meets(self.windows, (Window(standing.start_ms, standing.end_ms),), needed_ms)
        return True

    def answer_by_ms(self) -> int:
        """The end of the last window."""
        return max((window.end_ms for window in self.windows), default=END_OF_TIME_MS)

    def to_pb(self) -> intents_pb2.BookWish:
        """As it is signed."""
        return intents_pb2.BookWish(
            item=self.item,
            title=self.title,
            quantity=self.quantity,
            windows=[intents_pb2.Window(start_ms=w.start_ms, end_ms=w.end_ms) for w in self.windows],
            duration_minutes=self.duration_minutes,
            max_price_minor=self.max_price_minor,
            currency=self.currency,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(
            pb.item,
            pb.title,
            pb.quantity,
            tuple(Window(window.start_ms, window.end_ms) for window in pb.windows),
            pb.duration_minutes,
            pb.max_price_minor,
            pb.currency,
        )


def _check_item(said: BookWish | BookTerms) -> None:
    check_token("BOK-01", "item", said.item, MAX_ITEM)
    check_text("title", said.title, MAX_TITLE, required=True)
    if not 1 <= said.quantity <= MAX_QUANTITY:
        raise malformed("BOK-01", f"A booking is of 1 to {MAX_QUANTITY} units, not {said.quantity}")


BOOK = Kind("book", "book", BookWish, BookTerms, "booking", "was provided")
