"""Decisions and rules in words, for the owner only: a peer never learns which rule refused it.

The words are derived after the decision and have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

from indai.client.decisions import Outcome
from indai.policy.compiled import OWNER, CompiledPolicy, Decided
from indai.policy.facts import MeetFacts
from indai.policy.localtime import DAY_MS, MINUTE_MS, LocalDay, touched_days, zone_of
from indai.policy.rules import ANYONE, VERIFIED, Effect, Limits, Rule, Rules
from indai.policy.values import WEEKDAYS, clock, duration, spoken

_NAMES = dict(zip(WEEKDAYS, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), strict=True))
_STRANGER = 100  # a rule for other people is farther away than one that is about this peer and fails else
_MAX_LISTED = 4


def explain(policy: CompiledPolicy, decided: Decided) -> str:
    """One sentence: what was decided, which rule made it, or which came closest and what it wanted."""
    evaluation = decided.evaluation
    if evaluation.errors:
        return f"Refused: the request could not be evaluated ({evaluation.errors[0]})."
    made_by = _owners_first(policy, evaluation.rules)
    if made_by:
        words = " and ".join(f"'{rule.id}' ({describe(rule)})" for rule in made_by[:_MAX_LISTED])
        verb = {
            Outcome.PERMIT: "Permitted by",
            Outcome.ASK: "Asks you, because of",
            Outcome.REFUSE: "Refused by",
        }
        return f"{verb[evaluation.outcome]} {words}."
    return _default_words(policy, decided)


def describe(rule: Rule) -> str:
    """The rule in words: the owner's own, or generated from its conditions."""
    if rule.say:
        return rule.say
    what = " ".join(["meetings", *_spoken_limits(rule.duration, "of"), _spoken_peers(rule)])
    days = [_spoken_days(rule.weekdays)] if rule.weekdays else []
    when = [" ".join([*days, " and ".join(str(hours) for hours in rule.hours)]).strip()]
    notice = [f"{words} ahead" for words in _spoken_limits(rule.notice, "")]
    limit = [f"at most {rule.daily_limit} a day"] if rule.daily_limit is not None else []
    return ", ".join([what, *filter(None, when), *notice, *limit, *_spoken_obligations(rule.obligations)])


def sentence(rule: Rule) -> str:
    """The rule as a line of a list: what it does, and to what."""
    verb = {Effect.ALLOW: "Allow", Effect.ASK: "Ask me about", Effect.DENY: "Never"}[rule.effect]
    return f"{rule.id}: {rule.say}" if rule.say else f"{rule.id}: {verb} {describe(rule)}"


def _owners_first(policy: CompiledPolicy, ids: Sequence[str]) -> list[Rule]:
    """The rules behind the ids. On a permit the platform permits too, and says nothing new."""
    by_layer = {
        name: [rule for rule in rules.rules if f"{name}/{rule.id}" in ids]
        for name, rules in policy.rules.items()
    }
    return by_layer[OWNER] or [rule for rules in by_layer.values() for rule in rules]


def _default_words(policy: CompiledPolicy, decided: Decided) -> str:
    facts = decided.facts
    days = touched_days(zone_of(policy.time_zone), facts.start_ms, facts.end_ms)
    name, rules = _defaulting(policy, facts, days, decided.evaluation.outcome)
    whose = "" if name == OWNER else f" of the {name}"
    verb = "Asks you" if decided.evaluation.outcome is Outcome.ASK else "Refused"
    what = f"{verb}: no rule{whose} covers {_spoken_meeting(facts, days)}"
    closest = min(
        (rule for rule in rules.rules if rule.effect is not Effect.DENY),
        key=lambda rule: _distance(rules, rule, facts, days),
        default=None,
    )
    if closest is None:
        return f"{what}; there is no rule that allows a meeting."
    wanted = " and ".join(text for _, text in _failures(rules, closest, facts, days))
    return f"{what}; the closest rule, '{closest.id}', {wanted}."


def _defaulting(
    policy: CompiledPolicy, facts: MeetFacts, days: Sequence[LocalDay], outcome: Outcome
) -> tuple[str, Rules]:
    """The first layer whose default this is."""
    for name, rules in policy.rules.items():
        covering = [rule for rule in rules.rules if rule.effect is not Effect.DENY]
        if rules.unmatched is outcome and all(_distance(rules, rule, facts, days) for rule in covering):
            return name, rules
    return OWNER, policy.rules[OWNER]


def _distance(rules: Rules, rule: Rule, facts: MeetFacts, days: Sequence[LocalDay]) -> int:
    return sum(weight for weight, _ in _failures(rules, rule, facts, days))


def _failures(
    rules: Rules, rule: Rule, facts: MeetFacts, days: Sequence[LocalDay]
) -> Iterator[tuple[int, str]]:
    """Every condition that the meeting does not meet: (how far it is off, what the rule wants)."""
    if not rules.concerns(rule, facts.peer, facts.verified):
        yield _STRANGER, f"is {_spoken_peers(rule).replace('with', 'about')}"
    for text in _outside(rule.duration, facts.end_ms - facts.start_ms):
        yield 1, f"wants meetings of {text}"
    if rule.weekdays and not _any_or_all(rule, [day.weekday in rule.weekdays for day in days]):
        yield 1, f"wants {_spoken_days(rule.weekdays)}"
    if rule.hours and not _any_or_all(rule, [_within(rule, day) for day in days]):
        yield 1, f"wants {' or '.join(str(hours) for hours in rule.hours)}"
    for text in _outside(rule.notice, facts.start_ms - facts.now_ms):
        yield 1, f"wants {text} ahead"
    if rule.daily_limit is not None and facts.already_that_day >= rule.daily_limit:
        yield 1, f"allows {rule.daily_limit} meetings a day, and {facts.already_that_day} are agreed"


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


def _spoken_limits(limits: Limits, before: str) -> list[str]:
    low, high = limits.min or 0, limits.max
    if low and high is not None:
        words = f"{spoken(low)} to {spoken(high)}"
    elif high is not None:
        words = f"up to {spoken(high)}"
    elif low:
        words = f"at least {spoken(low)}"
    else:
        return []
    return [f"{before} {words}".strip()]


def _spoken_peers(rule: Rule) -> str:
    if ANYONE in rule.peers:
        return "with anyone"
    shown = ["verified peers" if peer == VERIFIED else peer for peer in rule.peers[:_MAX_LISTED]]
    more = [f"{len(rule.peers) - _MAX_LISTED} more"] if len(rule.peers) > _MAX_LISTED else []
    return f"with {' or '.join([*shown, *more])}"


def _spoken_days(weekdays: Sequence[str]) -> str:
    """`Mon to Fri`, `Mon, Wed and Thu`: runs of three or more days as a span."""
    numbered = enumerate(WEEKDAYS.index(day) for day in weekdays)
    runs = [[day for _, day in run] for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0])]
    words: list[str] = []
    for run in runs:
        names = [_NAMES[WEEKDAYS[day]] for day in run]
        words += [f"{names[0]} to {names[-1]}"] if len(names) > 2 else names
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _spoken_obligations(obligations: Mapping[str, str]) -> list[str]:
    words = {"buffer": "with {} free around", "title_prefix": "titled '{} …'"}
    return [words[name].format(value.strip()) for name, value in obligations.items()]


def _spoken_meeting(facts: MeetFacts, days: Sequence[LocalDay]) -> str:
    first, last = days[0], days[-1]
    date = datetime.fromtimestamp(first.number * DAY_MS // 1000, UTC)
    until = clock(last.end) if len(days) == 1 else f"{clock(last.end)} on {_NAMES[last.weekday]}"
    when = f"{_NAMES[first.weekday]} {date.day} {date:%b %Y} {clock(first.start)} to {until}"
    length = duration(max(0, facts.end_ms - facts.start_ms) // MINUTE_MS)
    return f"a meeting of {length} with {facts.peer or 'an anonymous visitor'} on {when}"
