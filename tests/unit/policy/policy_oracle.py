"""The meaning of the rules, told a second time: minute by minute, without Cedar or interval arithmetic."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from indai.client.decisions import Outcome
from indai.policy.facts import Facts
from indai.policy.kinds import COMMON
from indai.policy.rules import Effect, Limits, Rule, Rules

MINUTE = 60_000
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def expected(platform: Rules, owner: Rules, facts: Facts) -> Outcome:
    zone = ZoneInfo(owner.time_zone)
    answers = [_one_layer(rules, facts, zone) for rules in (platform, owner)]
    for outcome in (Outcome.REFUSE, Outcome.ASK):
        if outcome in answers:
            return outcome
    return Outcome.PERMIT


def _one_layer(rules: Rules, facts: Facts, zone: ZoneInfo) -> Outcome:
    matching = {rule.effect for rule in rules.every if _matches(rules, rule, facts, zone)}
    if Effect.DENY in matching:
        return Outcome.REFUSE
    if Effect.ASK in matching:
        return Outcome.ASK
    return Outcome.PERMIT if Effect.ALLOW in matching else rules.unmatched


def _matches(rules: Rules, rule: Rule, facts: Facts, zone: ZoneInfo) -> bool:
    if facts.kind not in rule.kinds or not any(_names(rules, peer, facts) for peer in rule.peers):
        return False
    known = {**COMMON, **facts.details} | {name: getattr(facts, name) for name in COMMON}
    if not all(_MEANS[name](value, known) for name, value in rule.where.items()):
        return False
    if not _in(rule.duration, facts.end_ms - facts.start_ms):
        return False
    if not _in(rule.notice, facts.start_ms - facts.now_ms):
        return False
    if rule.daily_limit is not None and facts.already_that_day >= rule.daily_limit:
        return False
    shown = _clock_faces(facts, zone)
    if rule.effect is Effect.ALLOW:
        return all(_shows(rule, day, hull) for day, hull in shown.items()) and _one_window(rule, shown)
    return any(_shows_some(rule, day, hull) for day, hull in shown.items())


def _among(words: Any, text: str) -> bool:
    return any(fnmatch.fnmatchcase(text, word.replace("[", "[[]")) for word in words.words)


def _spent(name: str) -> Callable[[Any, Any], bool]:
    def means(cap: Any, known: Any) -> bool:
        total = known[name] + known["amount_minor"]
        return bool(known["currency"] == cap.currency and (total > cap.most) == cap.over)

    return means


def _range(name: str) -> Callable[[Any, Any], bool]:
    def means(limits: Any, known: Any) -> bool:
        low, high = limits.min or 0, limits.max if limits.max is not None else 10**18
        return bool(low <= known[name] <= high)

    return means


# What each condition says, told again.
_MEANS: dict[str, Callable[[Any, Any], bool]] = {
    "items": lambda words, known: (
        _among(words, known["item"]) or any(f"tag/{t}" in words.words for t in known["tags"])
    ),
    "purpose": lambda words, known: known["purpose"] in words.words,
    "retention": _range("retention_days"),
    "topic": lambda words, known: _among(words, known["topic"]),
    "request": lambda flag, known: known["is_request"] == flag.on,
    "recurring": lambda flag, known: known["recurring"] == flag.on,
    "attendees": _range("attendees"),
    "direction": lambda words, known: known["direction"] in words.words,
    "amount": lambda money, known: (
        known["currency"] == money.currency and _range("amount_minor")(money, known)
    ),
    "per_day": _spent("spent_today_minor"),
    "per_month": _spent("spent_month_minor"),
    "per_payee": _spent("spent_payee_minor"),
    "payments": lambda below, known: (known["payments_today"] >= below.most) == below.over,
    "payee": lambda words, known: _among(words, known["payee"]),
    "mandate": lambda flag, known: known["mandate"] == flag.on,
    "quantity": _range("quantity"),
    "stock": lambda limits, known: known["stock_left"] - known["quantity"] >= limits.min,
    "known": _range("known_days"),
    "hops": _range("hops"),
    "depth": _range("depth"),
    "door": lambda words, known: known["door"] in words.words,
    "started_by": lambda flag, known: known["outgoing"] == flag.on,
    "peer_limit": lambda below, known: known["from_peer_today"] < below.most,
}


def _names(rules: Rules, peer: str, facts: Facts) -> bool:
    if peer == "anyone" or (peer == "verified" and facts.verified):
        return True
    for handle in rules.circles.get(peer, (peer,)):
        if handle == facts.peer:
            return True
        if "*" in handle:
            head, tail = handle.split("*")
            if facts.peer.startswith(head) and facts.peer.endswith(tail):
                return True
    return False


def _in(limits: Limits, span_ms: int) -> bool:
    low = limits.min is None or span_ms >= limits.min * MINUTE
    return low and (limits.max is None or span_ms <= limits.max * MINUTE)


def _clock_faces(facts: Facts, zone: ZoneInfo) -> dict[str, tuple[int, int]]:
    """ISO date -> (first, last) minute shown by a clock on the owner's wall during the meeting."""
    faces: dict[str, list[int]] = {}
    at = datetime.fromtimestamp(facts.start_ms // 1000, UTC)
    end = datetime.fromtimestamp(max(facts.end_ms, facts.start_ms + MINUTE) // 1000, UTC)
    while at < end:
        local = at.astimezone(zone)
        faces.setdefault(local.date().isoformat(), []).append(local.hour * 60 + local.minute)
        at += timedelta(minutes=1)
    return {day: (min(minutes), max(minutes)) for day, minutes in faces.items()}


def _weekday(day: str) -> str:
    return DAYS[datetime.fromisoformat(day).weekday()]


def _shows(rule: Rule, day: str, hull: tuple[int, int]) -> bool:
    if rule.weekdays and _weekday(day) not in rule.weekdays:
        return False
    return not rule.hours or any(hours.start <= hull[0] and hull[1] < hours.end for hours in rule.hours)


def _shows_some(rule: Rule, day: str, hull: tuple[int, int]) -> bool:
    if rule.weekdays and _weekday(day) not in rule.weekdays:
        return False
    return not rule.hours or any(hull[0] < hours.end and hull[1] >= hours.start for hours in rule.hours)


def _one_window(rule: Rule, shown: dict[str, tuple[int, int]]) -> bool:
    """Limited hours never cover a whole day in the middle."""
    return not rule.hours or len(shown) <= 2
