"""Questions to an owner: what is shown and bound, and what may stand in the place of what was asked (NEG-37).

What an owner wants instead is made of the very terms that wait and of the little they change, so that nothing
else can slip in. What the kind cannot say is refused with words, and the question stays open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from indai.node.kinds import words
from indai.node.kinds.base import Answer
from indai.protocol.contest import OVERTAKEN
from indai.protocol.errors import InvalidInput, ProtocolError, Reason, Refused
from indai.protocol.forms import MINUTE_MS
from indai.protocol.kinds.base import Terms, Window, Wish
from indai.protocol.kinds.book import BookTerms, BookWish
from indai.protocol.kinds.meet import MeetTerms, MeetWish
from indai.protocol.kinds.pay import Direction, PayTerms, PayWish
from indai.protocol.party_state import Phase, Side

UNSUPPORTED = Reason.UNSUPPORTED.name
SENTENCES = {
    "POLICY_DENIED": "That can't be arranged.",
    "NO_COMMON_SLOT": "No time in these windows is free.",
    "NOT_AVAILABLE": "That is not to be had.",
    OVERTAKEN: "It is being moved in another way already, or has ended.",
    UNSUPPORTED: "This agent does not do that.",
}
"""What a peer is told of a reason."""

_WORDS = {
    "NO_COMMON_SLOT": "You are not free then.",
    "NOT_AVAILABLE": "That is not to be had.",
    OVERTAKEN: "It is being moved in another way already, or has ended.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What an owner changes: when it may be (a window in ms, 0 for as asked), how long, for how much (minor
    units of the currency that was asked). None or 0 leaves it as it is."""

    start_ms: int = 0
    end_ms: int = 0
    minutes: int = 0
    amount_minor: int | None = None


def asked(
    owner: str, side: Side, peer: str, terms: Terms, zone: ZoneInfo, deadline_ms: int
) -> Mapping[str, Any]:
    """The row of a question: the terms as they are shown, under the hash that an answer must name."""
    offered = side.thread is not None and side.thread.offer is not None
    bound = "\n".join(("ind.ai/approval/v1", owner, side.thread_id.hex(), repr(terms), str(deadline_ms)))
    return {
        "action_hash": hashlib.sha256(bound.encode()).digest(),
        "thread": side.thread_id,
        "terms": words.shown(peer, terms, zone, gives=not offered),
        "expires_ms": deadline_ms,
    }


def refused_instead(answer: Answer) -> Refused:
    """The owner's own rules, calendar or stock refuse what they want instead: nothing is sent, and the
    question stays open."""
    why = answer.decision.words if answer.decision else answer.words
    what = _WORDS.get(answer.reason, "Your own rules do not allow that.")
    return Refused(Reason.POLICY_DENIED, f"{what} {why}".strip(), hint="try another, or answer yes or no")


@dataclass(frozen=True, slots=True)
class Changeable:
    """What of a question may be put otherwise, and what it costs now (minor units)."""

    time: bool = False
    amount: bool = False
    amount_minor: int = 0
    currency: str = ""


def changeable(side: Side) -> Changeable:
    """What `instead_of` would take."""
    offer = side.thread.offer if side.thread else None
    if side.thread is None or side.group is not None or (offer and len(offer.parties) > 2):
        return Changeable()
    match side.terms:
        case MeetTerms():
            return Changeable(time=not side.terms.again_ms)
        case PayTerms():
            return Changeable(amount=True, amount_minor=side.terms.amount_minor, currency=side.terms.currency)
        case BookTerms():
            buys, price = side.thread.giver != side.owner, side.terms.price_minor
            return Changeable(buys and bool(side.terms.end_ms), bool(price), price, side.terms.currency)
        case _:
            return Changeable()


def instead_of(side: Side, change: Change) -> Wish | Terms:
    """What the owner wants in the place of what this side asks them about. Raises Refused(THREAD_CLOSED) when
    nothing is asked, and InvalidInput for what cannot be said."""
    if side.phase is not Phase.ASKING_OWNER or side.terms is None or side.thread is None:
        raise Refused(Reason.THREAD_CLOSED, "The question is no longer open.", hint="indai inbox")
    offer = side.thread.offer
    if side.group is not None or (offer and len(offer.parties) > 2):
        raise _unsupported("What several agree on is not changed by one of them.")
    gives = side.thread.giver == side.owner
    match side.terms:
        case MeetTerms():
            said: Wish | Terms = _meeting(side.terms, change)
        case PayTerms():
            said = _payment(side.terms, change, pays=gives)
        case BookTerms():
            said = _sale(side.terms, change) if gives else _booking(side.terms, change)
        case _:
            raise _unsupported(f"A {side.terms.kind} is answered yes or no.")
    if said == side.terms:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "That is what was asked.", hint="change something, or say yes"
        )
    return _checked(side, said)


def _checked(side: Side, said: Wish | Terms) -> Wish | Terms:
    try:
        said.check()
    except ProtocolError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
    standing = side.thread.standing.body if side.thread else None
    if isinstance(said, Terms) and isinstance(standing, Wish) and not standing.admits(said):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "That is beyond what they asked for: another time, or a higher price than they named.",
            hint="stay within it, or say no",
        )
    return said


def _meeting(terms: MeetTerms, change: Change) -> MeetWish:
    if terms.again_ms:
        raise _unsupported("A meeting that repeats is answered yes or no.")
    minutes = change.minutes or (terms.end_ms - terms.start_ms) // MINUTE_MS
    return MeetWish(terms.title, minutes, (_window(terms.start_ms, terms.end_ms, change),), terms.place)


def _payment(terms: PayTerms, change: Change, *, pays: bool) -> PayWish:
    if change.amount_minor is None or change.amount_minor == terms.amount_minor:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "Another amount is missing.", hint="say how much instead")
    direction = Direction.OFFER if pays else Direction.REQUEST
    return PayWish(
        direction,
        terms.payee,
        change.amount_minor,
        terms.currency,
        terms.purpose,
        terms.due_ms,
        terms.mandate,
    )


def _booking(terms: BookTerms, change: Change) -> BookWish:
    """Of who buys: at another time, for at most so much."""
    price = terms.price_minor if change.amount_minor is None else change.amount_minor
    wish = BookWish(
        terms.item,
        terms.title,
        terms.quantity,
        max_price_minor=price,
        currency=terms.currency if price else "",
    )
    if not terms.end_ms:
        return wish
    minutes = change.minutes or (terms.end_ms - terms.start_ms) // MINUTE_MS
    return replace(wish, windows=(_window(terms.start_ms, terms.end_ms, change),), duration_minutes=minutes)


def _sale(terms: BookTerms, change: Change) -> BookTerms:
    """Of who sells: for another price. A time that the stock does not have is not theirs to name."""
    if change.start_ms or change.minutes:
        raise _unsupported("Who sells names another price here, and no other time.")
    price = terms.price_minor if change.amount_minor is None else change.amount_minor
    return replace(terms, price_minor=price, fee_minor=min(terms.fee_minor, price))


def _window(start_ms: int, end_ms: int, change: Change) -> Window:
    return Window(change.start_ms or start_ms, change.end_ms or end_ms)


def _unsupported(what: str) -> Refused:
    return Refused(Reason.UNSUPPORTED, what, hint="answer yes or no")
