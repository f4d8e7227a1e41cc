"""`pay`: an amount that the first party will pay the second, pending from the deed on.

The payer offers, and reserves the amount in the transaction that signs the offer; so two offers never exceed
together what may be spent. A request is the payee's wish (REQUEST), answered by the payer's offer; a payer
begins with an offer at once, or with a wish (OFFER) if the payee has yet to name its address. The payer
numbers the events, but what was paid is the payee's word alone: a POST grants the payee's request (LIF-15).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Self

from indai.protocol.forms import check_moment, check_price, check_text, check_token, malformed
from indai.protocol.kinds.base import Holding, Kind, Life, Money, Terms, Wish
from indai.v1 import intents_pb2

MAX_PAYEE = 255
MAX_PURPOSE = 200
MAX_MANDATE = 64
REFERENCE_LENGTH = 35  # of a UPI transaction reference (`tr`), the shortest field that it must fit in


class Direction(Enum):
    """Whether who says it wants to be paid (REQUEST), or to pay (OFFER)."""

    REQUEST = "REQUEST"
    OFFER = "OFFER"


def payment_reference(commitment: bytes) -> str:
    """What the transfer of this commitment carries: `IND` and 32 hexadecimal digits of its id (PAY-03)."""
    return ("IND" + commitment.hex().upper())[:REFERENCE_LENGTH]


@dataclass(frozen=True, slots=True)
class PayTerms(Terms):
    """The first party pays `amount_minor` to the address `payee` of the second by `due_ms`.

    `cancel_until_ms`: until when either party alone may call it off; 0 means never.
    """

    kind: ClassVar[str] = "pay"
    pb = intents_pb2.PayTerms
    payee: str
    amount_minor: int
    currency: str
    purpose: str
    due_ms: int
    mandate: str = ""
    cancel_until_ms: int = 0

    def about(self) -> str:
        """What for."""
        return self.purpose

    def check(self) -> None:
        """NEG-02 or PAY-01."""
        _check(self, payee_required=True)
        if not 0 <= self.cancel_until_ms <= self.due_ms:
            raise malformed("PAY-01", "A payment is called off alone until it is due at the latest")

    def gist(self) -> tuple[object, ...]:
        """All but the purpose."""
        return ("terms", *_gist(self))

    def life(self) -> Life:
        """Pending until it is due."""
        return Life(
            self.cancel_until_ms, 0, self.due_ms, begins_ms=self.due_ms, pending_minor=self.amount_minor
        )

    def holdings(self, *, first: bool) -> tuple[Holding, ...]:
        """The payer's money."""
        return (Money(self.amount_minor, self.currency),) if first else ()

    def sign_by_ms(self) -> int:
        """Its due time."""
        return self.due_ms

    def to_pb(self) -> intents_pb2.PayTerms:
        """As it is signed."""
        return intents_pb2.PayTerms(
            payee=self.payee,
            amount_minor=self.amount_minor,
            currency=self.currency,
            purpose=self.purpose,
            mandate=self.mandate,
            due_ms=self.due_ms,
            cancel_until_ms=self.cancel_until_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(
            pb.payee, pb.amount_minor, pb.currency, pb.purpose, pb.due_ms, pb.mandate, pb.cancel_until_ms
        )


@dataclass(frozen=True, slots=True)
class PayWish(Wish):
    """A payment that is wanted; without an address of the payee only where the payer speaks."""

    kind: ClassVar[str] = "pay"
    pb = intents_pb2.PayWish
    direction: Direction
    payee: str
    amount_minor: int
    currency: str
    purpose: str
    due_ms: int
    mandate: str = ""

    def about(self) -> str:
        """What for."""
        return self.purpose

    @property
    def sender_gives(self) -> bool:
        """Whether the payer speaks."""
        return self.direction is Direction.OFFER

    def check(self) -> None:
        """NEG-02 or PAY-01."""
        _check(self, payee_required=self.direction is Direction.REQUEST)

    def admits(self, terms: Terms) -> bool:
        """Whether just this is paid."""
        return isinstance(terms, PayTerms) and _gist(terms) == _gist(self) and terms.purpose == self.purpose

    def gist(self) -> tuple[object, ...]:
        """All but the purpose."""
        return ("wish", self.direction, *_gist(self))

    def answer_by_ms(self) -> int:
        """Its due time."""
        return self.due_ms

    def to_pb(self) -> intents_pb2.PayWish:
        """As it is signed."""
        return intents_pb2.PayWish(
            direction=intents_pb2.PayDirection.Value(f"PAY_DIRECTION_{self.direction.value}"),
            payee=self.payee,
            amount_minor=self.amount_minor,
            currency=self.currency,
            purpose=self.purpose,
            mandate=self.mandate,
            due_ms=self.due_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked but for the direction."""
        names = {1: Direction.REQUEST, 2: Direction.OFFER}
        if pb.direction not in names:
            raise malformed("PAY-01", "A payment is a request or an offer")
        return cls(
            names[pb.direction],
            pb.payee,
            pb.amount_minor,
            pb.currency,
            pb.purpose,
            pb.due_ms,
            pb.mandate,
        )


def _check(said: PayWish | PayTerms, *, payee_required: bool) -> None:
    check_price("PAY-01", said.amount_minor, said.currency)
    check_token("PAY-01", "payee's address", said.payee, MAX_PAYEE, required=payee_required)
    check_text("purpose", said.purpose, MAX_PURPOSE, required=True)
    check_token("PAY-01", "mandate", said.mandate, MAX_MANDATE, required=False)
    check_moment("PAY-01", "The due time", said.due_ms)


def _gist(said: PayWish | PayTerms) -> tuple[object, ...]:
    return said.payee, said.amount_minor, said.currency, said.due_ms, said.mandate


PAY = Kind("pay", "pay", PayWish, PayTerms, "payment", "was made")
