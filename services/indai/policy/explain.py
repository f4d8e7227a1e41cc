"""Decisions in words, for the owner only: a peer never learns which rule refused it.

The words are derived after the decision and have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from indai.client.decisions import Outcome
from indai.policy.compiled import OWNER, CompiledPolicy, Decided
from indai.policy.facts import Facts
from indai.policy.fields import FIELDS
from indai.policy.kinds import MEET, NOUNS, Value
from indai.policy.localtime import DAY_MS, MINUTE_MS, LocalDay, touched_days, zone_of
from indai.policy.money import spoken_amount
from indai.policy.rules import Effect, Limits, Rule, Rules
from indai.policy.sentences import DAY_NAMES, MAX_LISTED, describe, spoken_days, spoken_peers
from indai.policy.values import clock, duration, spoken

_COVERING = (Effect.ALLOW, Effect.ASK)
_A_KIND = {
    "meet": "a meeting",
    "share": "sharing",
    "ask": "a question",
    "pay": "a payment",
    "book": "a booking",
}
_STRANGER = 100  # a rule for other people is farther away than one that is about this peer and fails else


def explain(policy: CompiledPolicy, decided: Decided) -> str:
    """One sentence: what was decided, which rule made it, or which came closest and what it wanted."""
    evaluation = decided.evaluation
    if evaluation.errors:
        return f"Refused: the request could not be evaluated ({evaluation.errors[0]})."
    made_by = _owners_first(policy, evaluation.rules)
    if made_by:
        words = " and ".join(f"'{rule.id}' ({describe(rule)})" for rule in made_by[:MAX_LISTED])
        verb = {
            Outcome.PERMIT: "Permitted by",
            Outcome.ASK: "Asks you, because of",
            Outcome.REFUSE: "Refused by",
        }
        return f"{verb[evaluation.outcome]} {words}."
    return _default_words(policy, decided)


def _owners_first(policy: CompiledPolicy, ids: Sequence[str]) -> list[Rule]:
    """The rules behind the ids. On a permit the platform permits too, and says nothing new."""
    by_layer = {
        name: [rule for rule in rules.every if f"{name}/{rule.id}" in ids]
        for name, rules in policy.rules.items()
    }
    return by_layer[OWNER] or [rule for rules in by_layer.values() for rule in rules]


def _default_words(policy: CompiledPolicy, decided: Decided) -> str:
    facts = decided.facts
    days = touched_days(zone_of(policy.time_zone), facts.start_ms, facts.end_ms)
    name = decided.evaluation.layer or OWNER
    rules = policy.rules[name]
    whose = "" if name == OWNER else f" of the {name}"
    verb = "Asks you" if decided.evaluation.outcome is Outcome.ASK else "Refused"
    what = f"{verb}: no rule{whose} covers {_spoken_facts(facts, days)}"
    closest = min(
        (rule for rule in rules.every if rule.effect in _COVERING and facts.kind in rule.kinds),
        key=lambda rule: _distance(rules, rule, facts, days),
        default=None,
    )
    if closest is None:
        return f"{what}; there is no rule that allows {_A_KIND[facts.kind]}."
    wanted = " and ".join(text for _, text in _failures(rules, closest, facts, days))
    return f"{what}; the closest rule, '{closest.id}', {wanted}."


def _distance(rules: Rules, rule: Rule, facts: Facts, days: Sequence[LocalDay]) -> int:
    return sum(weight for weight, _ in _failures(rules, rule, facts, days))


def _failures(rules: Rules, rule: Rule, facts: Facts, days: Sequence[LocalDay]) -> Iterator[tuple[int, str]]:
    """Every condition that the facts do not meet: (how far they are off, what the rule wants)."""
    if not rules.concerns(rule, facts.peer, facts.verified):
        yield _STRANGER, f"is {spoken_peers(rule).replace('with', 'about')}"
    for text in _outside(rule.duration, facts.end_ms - facts.start_ms):
        yield 1, f"wants {NOUNS[facts.kind]} of {text}"
    if rule.weekdays and not _any_or_all(rule, [day.weekday in rule.weekdays for day in days]):
        yield 1, f"wants {spoken_days(rule.weekdays)}"
    if rule.hours and not _any_or_all(rule, [_within(rule, day) for day in days]):
        yield 1, f"wants {' or '.join(str(hours) for hours in rule.hours)}"
    for text in _outside(rule.notice, facts.start_ms - facts.now_ms):
        yield 1, f"wants {text} ahead"
    if rule.daily_limit is not None and facts.already_that_day >= rule.daily_limit:
        known = f"allows {rule.daily_limit} {NOUNS[facts.kind]} a day"
        yield 1, f"{known}, and {facts.already_that_day} are agreed"
    if rule.where:
        values = facts.values(rules.relationship(facts.peer))
        yield from _unmet(rule, values)


def _unmet(rule: Rule, values: Mapping[str, Value]) -> Iterator[tuple[int, str]]:
    for name, value in rule.where.items():
        notation = FIELDS[name].notation
        if not notation.holds(value, values):
            yield 1, f"is about what is {notation.words(value)}"


def _any_or_all(rule: Rule, met: Sequence[bool]) -> bool:
    return all(met) if rule.effect is Effect.ALLOW else any(met)


def _within(rule: Rule, day: LocalDay) -> bool:
    if rule.effect is Effect.ALLOW:
        return any(hours.start <= day.start and day.end <= hours.end for hours in rule.hours)
    return any(day.start < hours.end and day.end > hours.start for hours in rule.hours)


def _outside(limits: Limits, span_ms: int) -> Iterator[str]:
    if limits.min is not None and span_ms < limits.min * MINUTE_MS:
        yield f"at least {spoken(limits.min)}"
    if limits.max is not None and span_ms > limits.max * MINUTE_MS:
        yield f"up to {spoken(limits.max)}"


def _spoken_facts(facts: Facts, days: Sequence[LocalDay]) -> str:
    whom = facts.peer or "an anonymous visitor"
    if facts.kind == MEET:
        length = duration(max(0, facts.end_ms - facts.start_ms) // MINUTE_MS)
        return f"a meeting of {length} with {whom} on {_spoken_time(days)}"
    details = facts.details
    if facts.kind in ("pay", "book"):
        money = spoken_amount(int(details["amount_minor"]), str(details["currency"]))  # type: ignore[arg-type]
        thing = (
            f"a payment of {money}" if facts.kind == "pay" else f"a booking of {details['sku']} for {money}"
        )
    else:
        thing = (
            f"sharing {details['item']}" if facts.kind == "share" else f"a question about {details['topic']}"
        )
    return f"{thing} with {whom} on {_spoken_time(days)}"


def _spoken_time(days: Sequence[LocalDay]) -> str:
    first, last = days[0], days[-1]
    date = datetime.fromtimestamp(first.number * DAY_MS // 1000, UTC)
    until = clock(last.end) if len(days) == 1 else f"{clock(last.end)} on {DAY_NAMES[last.weekday]}"
    return f"{DAY_NAMES[first.weekday]} {date.day} {date:%b %Y} {clock(first.start)} to {until}"
