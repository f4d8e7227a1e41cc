"""Policies and facts of all kinds, drawn at random from a small world in which they often meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from indai.client.decisions import Outcome
from indai.policy.conditions import Amount, Below, Cap, Condition, Flag, Limits, Words
from indai.policy.facts import Facts
from indai.policy.fields import fields_of
from indai.policy.kinds import ASK, BOOK, KINDS, MEET, PAY, SHARE
from indai.policy.rules import Effect, Rule, Rules
from indai.policy.sections import Budget, Escalation, Section, Tone, Visibility
from indai.policy.values import WEEKDAYS, Hours, merge_hours

NOW = 1_795_400_000_000
DAY = 86_400_000
PEERS = ("ind.ai/bob", "ind.ai/carol", "acme.com/dan/work", "acme.com/eve")
TERMS = ("anyone", "verified", "friends", "work", "ind.ai/bob", "acme.com/*")
CIRCLES = {"friends": ("ind.ai/bob", "ind.ai/carol"), "work": ("ind.ai/carol", "acme.com/*/work")}
ITEMS = ("profile/phone", "document/cv", "memory/travel", "calendar/busy")
_HOURS = st.sets(st.integers(0, 22), max_size=2).map(
    lambda starts: merge_hours([Hours(60 * one, 60 * one + 120) for one in starts])
)
_small = st.integers(0, 4)
_ranges = st.tuples(_small, _small, st.sampled_from(["min", "max", "both"])).map(
    lambda one: Limits(min(one[:2]) if one[2] != "max" else None, max(one[:2]) if one[2] != "min" else None)
)
_flags = st.booleans().map(Flag)
_caps = st.builds(Cap, st.sampled_from(["INR", "EUR"]), st.integers(0, 6).map(lambda n: n * 100))
_amounts = _ranges.flatmap(
    lambda one: st.sampled_from(["INR", "EUR"]).map(
        lambda code: Amount(code, *(None if end is None else end * 100 for end in (one.min, one.max)))
    )
)


def _words(*known: str) -> st.SearchStrategy[Words]:
    return st.sets(st.sampled_from(known), min_size=1, max_size=2).map(lambda one: Words(tuple(sorted(one))))


_CONDITIONS: dict[str, st.SearchStrategy[Any]] = {
    "items": _words(*ITEMS, "profile/*", "tag/press", "*"),
    "purpose": _words("medical", "tax"),
    "retention": _ranges,
    "topic": _words("travel", "price/*", "price/list"),
    "request": _flags,
    "recurring": _flags,
    "attendees": _ranges.map(lambda one: Limits(one.min, None if one.max is None else one.max + 2)),
    "direction": _words("request", "offer"),
    "amount": _amounts,
    "per_day": _caps,
    "per_month": _caps,
    "per_payee": _caps,
    "payments": st.integers(1, 3).map(Below),
    "payee": _words("shop@okbank", "*@okbank"),
    "mandate": _flags,
    "quantity": _ranges,
    "stock": _small.map(lambda one: Limits(one, None)),
    "known": _ranges,
    "hops": _ranges,
    "depth": _ranges,
    "door": _words("public", "agent"),
    "started_by": _flags,
    "peer_limit": st.integers(1, 3).map(Below),
}
_COUNTING = ("per_day", "per_month", "per_payee", "payments", "peer_limit")


@st.composite
def where(draw: st.DrawFn, kinds: tuple[str, ...], *, counting: bool) -> dict[str, Condition]:
    known = [name for name in fields_of(kinds) if name in _CONDITIONS]
    if not counting:
        known = [name for name in known if name not in _COUNTING]
    names = draw(st.sets(st.sampled_from(known), max_size=2))
    return {name: draw(_CONDITIONS[name]) for name in sorted(names)}


@st.composite
def rules(draw: st.DrawFn, number: int) -> Rule:
    effect = draw(st.sampled_from([Effect.ALLOW, Effect.ALLOW, Effect.ASK, Effect.DENY]))
    several = draw(st.sets(st.sampled_from(KINDS), min_size=1, max_size=2))
    kinds = draw(st.sampled_from([tuple(one for one in KINDS if one in several), KINDS]))
    counting = effect is not Effect.DENY
    limited = counting and draw(st.booleans())
    duties = {"tell_owner": "now"} if counting and draw(st.booleans()) else {}
    return Rule(
        id=f"rule-{number}",
        effect=effect,
        peers=tuple(draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=2, unique=True))),
        hours=draw(_HOURS),
        weekdays=tuple(day for day in WEEKDAYS if day in draw(st.sets(st.sampled_from(WEEKDAYS)))),
        daily_limit=draw(st.integers(1, 3)) if limited else None,
        obligations=duties,
        kinds=kinds,
        where=draw(where(kinds, counting=counting)),
    )


@st.composite
def sections(draw: st.DrawFn) -> tuple[Section, ...]:
    peers = st.sampled_from(TERMS).map(lambda one: (one,))
    shown = Visibility("shown", draw(peers), ("phone",), ("cv", "tag/press"), ("travel",), "titles")
    purse = Budget("purse", (PAY, BOOK), {"per_payment": Amount("INR", min=201)})
    cap = Cap("INR", 300, over=True)
    month = Budget("month", (PAY,), {"per_month": cap, "payments": Below(2, over=True)}, Effect.ASK)
    warm = Tone("warm", draw(peers), "warm and short", "hi")
    asked = Escalation("asked", deadline=90, quiet_hours=(Hours(0, 420),), notify="now", via="web")
    return tuple(one for one in (shown, purse, month, warm, asked) if draw(st.booleans()))


@st.composite
def policies(draw: st.DrawFn) -> Rules:
    made = tuple(draw(rules(number)) for number in range(draw(st.integers(1, 4))))
    unmatched = draw(st.sampled_from([Outcome.REFUSE, Outcome.ASK]))
    return Rules("Europe/Berlin", made, CIRCLES, unmatched, sections=draw(sections()))


_units = st.integers(0, 5)
_minor = st.integers(0, 5).map(lambda n: n * 100)
_DETAILS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    MEET: {"attendees": st.integers(2, 6), "recurring": st.booleans()},
    SHARE: {
        "item": st.sampled_from(ITEMS),
        "tags": st.sampled_from([(), ("press",)]),
        "purpose": st.sampled_from(["", "medical"]),
        "retention_days": _units,
        "recurring": st.booleans(),
    },
    ASK: {"topic": st.sampled_from(["travel", "price/list", "price/old"]), "is_request": st.booleans()},
    PAY: {
        "direction": st.sampled_from(["request", "offer"]),
        "amount_minor": _minor,
        "currency": st.sampled_from(["INR", "EUR"]),
        "payee": st.sampled_from(["shop@okbank", "x@other"]),
        "spent_today_minor": _minor,
        "spent_month_minor": _minor,
        "spent_payee_minor": _minor,
        "payments_today": _units,
        "mandate": st.booleans(),
        "purpose": st.sampled_from(["", "tax"]),
    },
    BOOK: {
        "sku": st.just("table/1"),
        "quantity": _units,
        "amount_minor": _minor,
        "currency": st.sampled_from(["INR", "EUR"]),
        "spent_today_minor": _minor,
        "spent_month_minor": _minor,
        "stock_left": _units,
    },
}


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    kind = draw(st.sampled_from(KINDS))
    now = NOW + draw(st.integers(0, 7 * 24)) * 3_600_000
    start = now + draw(st.integers(0, 48)) * 3_600_000 if kind == MEET else now
    return Facts(
        peer=draw(st.sampled_from(PEERS)),
        start_ms=start,
        end_ms=start + 3_600_000 if kind == MEET else now,
        now_ms=now,
        verified=draw(st.booleans()),
        already_that_day=draw(_units),
        outgoing=draw(st.booleans()),
        kind=kind,
        door=draw(st.sampled_from(["agent", "public"])),
        known_days=draw(_units),
        hops=draw(_units),
        depth=draw(_units),
        from_peer_today=draw(_units),
        details={name: draw(one) for name, one in _DETAILS[kind].items()},
    )
