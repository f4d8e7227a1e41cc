"""A peer that breaks the protocol on purpose: what leaves its node is not what its machine has decided.

The honest side must never hold more than it has, never hear "confirmed" without a RECEIPT, and never be left
with a thread that neither ended nor shows that it is in doubt. Everything the liar gains is a delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from indai.protocol.header import GRACE_MS
from indai.protocol.messages import HOUR_MS, Message, Move, ReceiptBody, RejectBody

if TYPE_CHECKING:
    from tests.simulate.world import World

Malice = Callable[["World", Message], list[Message]]


def _honest(_: World, message: Message) -> list[Message]:
    return [message]


def _withholds(_: World, message: Message) -> list[Message]:
    """Takes the acceptance, and never says what became of it."""
    return [] if _decides(message) else [message]


def _denies(world: World, message: Message) -> list[Message]:
    """Has committed, and says that the offer had lapsed."""
    return [_reject(world, message)] if message.move is Move.RECEIPT else [message]


def _signs_both(world: World, message: Message) -> list[Message]:
    """Signs RECEIPT and REJECT for one commitment, in either order."""
    if not _decides(message):
        return [message]
    ledger = ReceiptBody(message.in_reply_to, "ledger", 0, message.issued_at_ms)
    other = _reject(world, message)
    if message.move is Move.REJECT:
        other = replace(message, mid=world.new_id(), move=Move.RECEIPT, body=ledger)
    return [message, other]


def _back_dates(world: World, message: Message) -> list[Message]:
    """Accepts long after the offer has lapsed, and says that it decided hours before it did."""
    if message.move is Move.ACCEPT:
        return [message] if world.now_ms > message.expires_at_ms + 3 * GRACE_MS else []
    if message.move is Move.RECEIPT and isinstance(message.body, ReceiptBody):
        earlier = replace(message.body, leaf_time_ms=message.body.leaf_time_ms - HOUR_MS)
        return [replace(message, issued_at_ms=message.issued_at_ms - HOUR_MS, body=earlier)]
    return [message]


MALICE: dict[str, Malice] = {
    "": _honest,
    "withholds": _withholds,
    "denies": _denies,
    "signs-both": _signs_both,
    "back-dates": _back_dates,
}


def _decides(message: Message) -> bool:
    """Whether it is an offerer's word on an acceptance."""
    lapsed = isinstance(message.body, RejectBody) and message.body.reason == "LAPSED"
    return message.move is Move.RECEIPT or lapsed


def _reject(world: World, message: Message) -> Message:
    return replace(message, mid=world.new_id(), move=Move.REJECT, body=RejectBody("LAPSED", ""))
