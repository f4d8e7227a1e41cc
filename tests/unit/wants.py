"""What the owners of the simulation want of each kind, and what could answer it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from indai.protocol.forms import DAY_MS, HOUR_MS, MINUTE_MS
from indai.protocol.kinds.ask import AskTerms, AskWish, RequestTerms, RequestWish
from indai.protocol.kinds.base import Terms, Window, Wish
from indai.protocol.kinds.book import BookTerms, BookWish
from indai.protocol.kinds.meet import MeetTerms, MeetWish, Repeats
from indai.protocol.kinds.pay import Direction, PayTerms, PayWish
from indai.protocol.kinds.share import Consent, Fetch, Mode, ShareTerms, ShareWish, Unit

SLOT_MS = 30 * MINUTE_MS


def another(kind: str, dice: random.Random, start_ms: int, *, gives: bool) -> Wish:
    """A wish of this kind; of the one who would give where `gives`, if such a one can say it."""
    number = dice.randrange(4)
    match kind:
        case "meet":
            begins = start_ms + DAY_MS + number * SLOT_MS
            windows = (Window(begins, begins + dice.choice((1, 2, 4)) * SLOT_MS),)
            repeats = Repeats(1, 3, "UTC") if dice.random() < 0.3 else None
            return MeetWish("Lunch", 30, windows, repeats=repeats)
        case "share":
            ends = start_ms + (number + 1) * DAY_MS
            consent = Consent("101", "Post", Mode.STORE, Fetch.ONETIME, Unit.DAY, 1, start_ms, ends)
            return ShareWish("email", "", consent, b"k" * 32)
        case "ask":
            return AskWish(f"Question {number}?")
        case "request":
            return RequestWish(f"Street light {number}", "It is dark.", "lights")
        case "pay":
            direction = Direction.OFFER if gives else Direction.REQUEST
            return PayWish(direction, "upi:b@bank", 40_000 + number, "INR", "Rent", start_ms + 2 * DAY_MS)
        case _:
            return BookWish(f"item-{number % 2}", "A lamp", 1 + number // 2)


def offers(wish: Wish, start_ms: int, unique: str) -> Iterator[Terms]:
    """Terms that answer a wish, best first."""
    match wish:
        case MeetWish():
            for window in wish.windows:
                for begins in range(window.start_ms, window.end_ms - SLOT_MS + 1, SLOT_MS):
                    count = wish.repeats.count if wish.repeats else 1
                    again = tuple(begins + number * DAY_MS for number in range(1, count))
                    ends, only_ms = begins + SLOT_MS, wish.instead_of_ms
                    yield MeetTerms(
                        begins, ends, wish.title, "", unique, again_ms=again, instead_of_ms=only_ms
                    )
        case ShareWish():
            yield ShareTerms(wish.field, "", wish.consent, wish.recipient_key, b"h" * 32, "text/plain", 9)
        case AskWish():
            yield AskTerms(wish.question, wish.topic, f"Answer {unique}.")
        case RequestWish():
            filed = RequestTerms(wish.subject, wish.text, wish.category, "electric", unique[:16], 0)
            yield replace(filed, due_ms=start_ms + 3 * DAY_MS)
        case PayWish():
            yield PayTerms(wish.payee, wish.amount_minor, wish.currency, wish.purpose, wish.due_ms)
        case BookWish():
            due_ms = start_ms + 3 * DAY_MS
            yield BookTerms(
                wish.item,
                wish.title,
                wish.quantity,
                price_minor=9_000,
                currency="INR",
                cancel_until_ms=due_ms - HOUR_MS,
                due_ms=due_ms,
            )
