"""Finds rules that are valid and still cannot mean what they say: doubled, contradictory, without effect,
never matching, and payments without a limit.

Rules are compared in pairs; a finding is certain (but for `unlimited`, which is advice), its absence is not.
Cedar's own validation runs on every compilation, before this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from indai.policy.compiled import OWNER, PLATFORM, PLATFORM_YAML
from indai.policy.conditions import Amount, Cap, Limits
from indai.policy.coverage import apart, covers
from indai.policy.kinds import BOOK, NOUNS, PAY
from indai.policy.language import parse
from indai.policy.rules import Effect, Rule, Rules


class Code(StrEnum):
    """What kind of finding."""

    DUPLICATE = "duplicate"
    CONTRADICTION = "contradiction"
    NO_EFFECT = "no-effect"
    NEVER = "never-matches"
    UNUSED = "unused"
    UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `rule` is the id it is about (or a circle's name), `line` counts from 1, 0 for none."""

    code: Code
    rule: str
    line: int
    message: str


def lint(rules: Rules, layer: str = OWNER) -> list[Finding]:
    """All findings, in the order of lines; about one rule at most one of each code."""
    found: dict[tuple[Code, str], Finding] = {}
    for finding in [*_never(rules), *_pairs(rules), *_unused(rules)]:
        found.setdefault((finding.code, finding.rule), finding)
    if layer == OWNER:
        for finding in _unlimited(rules):
            found.setdefault((finding.code, finding.rule), finding)
    return sorted(found.values(), key=lambda one: (one.line, one.rule, one.code))


def _pairs(rules: Rules) -> Iterator[Finding]:
    judging = [rule for rule in rules.every if rule.effect is not Effect.ADVISE]
    for first, second in combinations(judging, 2):
        if _conditions(first) == _conditions(second):
            yield _equal(first, second)
            continue
        for wide, narrow in ((first, second), (second, first)):
            if (words := _hidden(rules, wide, narrow)) is not None:
                yield Finding(Code.NO_EFFECT, narrow.id, narrow.line, words)
                break


def _conditions(rule: Rule) -> Rule:
    return replace(rule, id="", say="", effect=Effect.ALLOW, obligations={}, peers=tuple(sorted(rule.peers)))


def _equal(first: Rule, second: Rule) -> Finding:
    if first.effect is not second.effect:
        words = f"says {second.effect} where '{first.id}' says {first.effect}: keep one of the two"
        return Finding(Code.CONTRADICTION, second.id, second.line, words)
    words = f"is '{first.id}' a second time"
    if first.obligations != second.obligations:
        words += ", with other obligations: write them in one rule"
    return Finding(Code.DUPLICATE, second.id, second.line, words)


def _hidden(rules: Rules, wide: Rule, narrow: Rule) -> str | None:
    """Why `narrow` changes nothing beside `wide`, or None."""
    stronger = _STRENGTH[wide.effect] - _STRENGTH[narrow.effect]
    if stronger < 0 or not covers(rules, wide, narrow):
        return None
    if stronger == 0:
        more = set(narrow.obligations.items()) - set(wide.obligations.items())
        return None if more else f"changes nothing: '{wide.id}' covers all of it"
    if narrow.effect is Effect.ALLOW and wide.effect is Effect.ASK and narrow.obligations:
        return None  # it never permits, but its obligations hold after the owner's yes
    verb = "refuses" if wide.effect is Effect.DENY else "asks about"
    return f"never has an effect: '{wide.id}' {verb} all of it"


_STRENGTH = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}


def _never(rules: Rules) -> Iterator[Finding]:
    platform = parse(PLATFORM_YAML, PLATFORM)
    for rule in rules.every:
        words = _impossible(rule) or _beyond_platform(platform, rule)
        if words:
            yield Finding(Code.NEVER, rule.id, rule.line, words)


def _impossible(rule: Rule) -> str:
    where = rule.where
    amount = where.get("amount")
    for name in ("per_day", "per_month", "per_payee"):
        cap = where.get(name)
        if not isinstance(amount, Amount) or not isinstance(cap, Cap):
            continue
        if cap.currency != amount.currency:
            return f"never matches: amount is in {amount.currency} and {name} in {cap.currency}"
        if not cap.over and cap.most < (amount.min or 0):
            return f"never matches: {name} is less than the smallest amount"
    caps = {cap.currency for cap in where.values() if isinstance(cap, Cap)}
    if len(caps) > 1:
        return f"never matches: its limits are in {' and '.join(sorted(caps))}"
    people = where.get("attendees")
    if isinstance(people, Limits) and people.max is not None and people.max < 2:
        return "never matches: a meeting has at least two people"
    trust = where.get("trust")
    if isinstance(trust, Limits) and (trust.min or 0) > 100:
        return "never matches: trust is 0 to 100"
    return ""


def _beyond_platform(platform: Rules, rule: Rule) -> str:
    """Only if it is so for each of the rule's kinds."""
    if rule.effect in (Effect.DENY, Effect.ADVISE):
        return ""
    for kind in rule.kinds:
        one = replace(rule, kinds=(kind,))
        denied = any(covers(platform, wide, one) for wide in platform.every if wide.effect is Effect.DENY)
        possible = any(
            kind in wide.kinds and not apart(wide, one)
            for wide in platform.every
            if wide.effect is Effect.ALLOW
        )
        if possible and not denied:
            return ""
    return "never has an effect: the platform refuses all of it"


def _unused(rules: Rules) -> Iterator[Finding]:
    used = {term for rule in rules.every for term in rule.peers}
    for name in rules.circles:
        if name not in used:
            yield Finding(Code.UNUSED, name, 0, "is a circle that no rule names")


def _unlimited(rules: Rules) -> Iterator[Finding]:
    for rule in rules.every:
        for kind in (PAY, BOOK):
            bounded = any(
                (isinstance(one, Amount) and one.max is not None) or isinstance(one, Cap)
                for one in rule.where.values()
            )
            if rule.effect is Effect.ALLOW and kind in rule.kinds and not bounded and _pays(rule):
                words = f"permits {NOUNS[kind]} of any amount: write `amount: {{ max: … }}`"
                yield Finding(Code.UNLIMITED, rule.id, rule.line, words)
                break


def _pays(rule: Rule) -> bool:
    """An offer of money to the owner needs no limit."""
    direction = rule.where.get("direction")
    return getattr(direction, "words", ("request",)) != ("offer",)
