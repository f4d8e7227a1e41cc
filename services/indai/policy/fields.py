"""The conditions that a rule may have besides peer and time: which exist, for which kinds, on which fact.

Reader, writer, compiler, sentences, linter and the reference table of the documentation all follow this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indai.policy.conditions import Budget, Condition, Count, Money, Notation, Number, Pattern, Truth
from indai.policy.kinds import ASK, BOOK, KINDS, MEET, PAY, SHARE


@dataclass(frozen=True, slots=True)
class Field:
    """One condition. `counts`: it says how much is left, which has no meaning on a deny rule."""

    kinds: tuple[str, ...]
    notation: Notation[Any]
    meaning: str
    counts: bool = False


_KEPT = "kept for {}"
FIELDS: Mapping[str, Field] = {
    "attendees": Field((MEET,), Number("attendees", "{} people"), "that many take part, both sides counted"),
    "recurring": Field(
        (MEET, SHARE), Truth("recurring", ("recurring", "once only")), "it happens again and again, or once"
    ),
    "items": Field(
        (SHARE,),
        Pattern("item", "of {}", wild=True, tags="tags"),
        "the thing asked for: `profile/phone`, `document/cv`, `document/*`, `memory/travel`, `calendar/busy`,"
        " or `tag/press` for all that carry a tag",
    ),
    "purpose": Field((SHARE, PAY), Pattern("purpose", "for {}"), "the purpose's code that the peer stated"),
    "retention": Field((SHARE,), Number("retention_days", _KEPT, days=True), "the peer keeps it that long"),
    "topic": Field((ASK,), Pattern("topic", "about {}", wild=True), "what the question is about"),
    "request": Field(
        (ASK,), Truth("is_request", ("that are requests to file", "that only ask")), "something is filed"
    ),
    "department": Field((ASK,), Pattern("department", "to {}"), "the department it goes to"),
    "direction": Field(
        (PAY,),
        Pattern("direction", "that are a {}", known=("request", "offer")),
        "`request`: the peer wants money from the owner; `offer`: the peer offers some",
    ),
    "amount": Field((PAY, BOOK), Money("amount_minor", "of {}"), "the payment, or the whole price"),
    "per_day": Field(
        (PAY, BOOK),
        Budget("spent_today_minor", "at most {} a day"),
        "with what was spent on this local day, it stays within this",
        counts=True,
    ),
    "per_month": Field(
        (PAY, BOOK),
        Budget("spent_month_minor", "at most {} a month"),
        "the same for the calendar month",
        counts=True,
    ),
    "per_payee": Field(
        (PAY,),
        Budget("spent_payee_minor", "at most {} a month to one payee"),
        "the same for the month and this payee",
        counts=True,
    ),
    "payments": Field(
        (PAY,), Count("payments_today", "at most {} payments a day"), "fewer were made today", counts=True
    ),
    "payee": Field((PAY,), Pattern("payee", "to {}", wild=True), "the account that is paid, e.g. `*@okbank`"),
    "payee_verified": Field(
        (PAY,),
        Truth("payee_verified", ("to verified payees", "to unverified payees")),
        "a provider confirmed whose account it is",
    ),
    "mandate": Field(
        (PAY,), Truth("mandate", ("under a mandate", "without a mandate")), "a standing mandate covers it"
    ),
    "sku": Field((BOOK,), Pattern("sku", "of {}", wild=True), "the resource or article, e.g. `table/*`"),
    "quantity": Field((BOOK,), Number("quantity", "{} units"), "that many are booked"),
    "stock": Field(
        (BOOK,), Number("stock_left", "leaving {} in stock", less="quantity"), "that many are left afterwards"
    ),
    "relationship": Field(
        KINDS, Pattern("relationship", "from a {}"), "what the peer is to the owner: see `relationships`"
    ),
    "known": Field(KINDS, Number("known_days", "known for {}", days=True), "since the first contact"),
    "trust": Field(KINDS, Number("trust", "with trust of {}"), "0 to 100, as the host reckons it"),
    "hops": Field(KINDS, Number("hops", "over {} hops"), "agents between the peer and whoever asked first"),
    "depth": Field(KINDS, Number("depth", "through {} sub-agents"), "delegations below the peer's handle"),
    "channel": Field(KINDS, Pattern("channel", "over {}"), "where it came from: `agent`, `web`, `whatsapp`…"),
    "door": Field(
        KINDS, Pattern("door", "at the {} door"), "`private`, `work`, `public`, `distribution` or `agent`"
    ),
    "started_by": Field(
        KINDS, Truth("outgoing", ("started by me", "started by them"), ("me", "them")), "who began"
    ),
    "peer_limit": Field(
        KINDS,
        Count("from_peer_today", "at most {} a day from one peer"),
        "fewer requests came from this peer today",
        counts=True,
    ),
}


def fields_of(kinds: tuple[str, ...]) -> list[str]:
    """Names of the conditions that all of these kinds have."""
    return [name for name, field in FIELDS.items() if set(kinds) <= set(field.kinds)]


def ordered(where: Mapping[str, Condition]) -> list[tuple[str, Condition]]:
    """Conditions in the order of the table: however they were written, they mean and compile to the same."""
    return [(name, where[name]) for name in FIELDS if name in where]


def holds(name: str, value: Condition, facts: Mapping[str, Any]) -> bool:
    """Whether one condition holds for these facts."""
    return FIELDS[name].notation.holds(value, facts)
