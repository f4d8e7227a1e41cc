"""From rules to Cedar: the schema, and the GRANT, ASK and ADVISE texts of a layer (https://docs.cedarpolicy.com).

Times travel as ms and are compared in the form `start <= end - duration`: what overflows is an evaluation
error, and an error refuses. A condition that is not set produces no text, so an unrestricted rule stays
readable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from indai.client.decisions import Layer
from indai.policy.fields import FIELDS, ordered
from indai.policy.kinds import schema
from indai.policy.localtime import MINUTE_MS
from indai.policy.rules import ANYONE, VERIFIED, Effect, Rule, Rules

SCHEMA = schema(
    {
        "start_ms": "Long",
        "end_ms": "Long",
        "now_ms": "Long",
        "first": "Day",
        "last": "Day",
        "weekdays": "Set<String>",
        "between": "Set<String>",
        "already_that_day": "Long",
    },
    """\
// Facts that the host states about one intent; see docs/policy-language.md.
entity Circle;
entity Peer in [Circle] { handle: String, verified: Bool };
entity Agent;
// What is touched of one local day of the owner: minutes since midnight, `end` at most 1440. In a context:
// the first and the last local day touched (the same for most), weekdays of all, and of those in between.
type Day = { weekday: String, start: Long, end: Long };
""",
)


def compile_layer(name: str, rules: Rules) -> Layer:
    """The layer's texts; rule ids become `<name>/<id>`, circles `Circle::"<name>/<circle>"`."""
    texts: dict[Effect, list[str]] = {effect: [] for effect in Effect}
    for rule in rules.every:
        texts[Effect.ALLOW if rule.effect is Effect.DENY else rule.effect].append(_policy(name, rule))
    grant, ask, advise = ("\n".join(texts[one]) for one in (Effect.ALLOW, Effect.ASK, Effect.ADVISE))
    return Layer(name, grant, ask, rules.unmatched, advise)


def circle_id(layer: str, circle: str) -> str:
    """Circles of two layers with one name are two circles."""
    return f"{layer}/{circle}"


def _policy(layer: str, rule: Rule) -> str:
    annotations = {"id": f"{layer}/{rule.id}", **rule.obligations}
    head = " ".join(f"@{name}({_string(value)})" for name, value in annotations.items())
    effect = "forbid" if rule.effect is Effect.DENY else "permit"
    conditions = [condition for condition in _conditions(layer, rule) if condition]
    body = " &&\n  ".join(conditions)
    when = f" when {{\n  {body}\n}}" if conditions else ""
    return f"{head}\n{effect} (principal, {_action(rule.kinds)}, resource){when};\n"


def _action(kinds: Sequence[str]) -> str:
    named = [f"Action::{_string(kind)}" for kind in kinds]
    return f"action == {named[0]}" if len(named) == 1 else f"action in [{', '.join(named)}]"


def _conditions(layer: str, rule: Rule) -> Iterable[str]:
    yield _peers(layer, rule.peers)
    yield _at_least("context.start_ms", "context.end_ms", rule.duration.min)
    yield _at_most("context.start_ms", "context.end_ms", rule.duration.max)
    yield _at_least("context.now_ms", "context.start_ms", rule.notice.min)
    yield _at_most("context.now_ms", "context.start_ms", rule.notice.max)
    if rule.effect in (Effect.ALLOW, Effect.ADVISE):
        yield f"{_set(rule.weekdays)}.containsAll(context.weekdays)" if rule.weekdays else ""
        yield _inside(rule)
    else:
        yield _touching(rule)
    yield f"context.already_that_day < {rule.daily_limit}" if rule.daily_limit is not None else ""
    for name, value in ordered(rule.where):
        yield FIELDS[name].notation.cedar(value)


def _peers(layer: str, peers: Sequence[str]) -> str:
    if ANYONE in peers:
        return ""
    return _any(_peer(layer, peer) for peer in peers)


def _peer(layer: str, peer: str) -> str:
    if peer == VERIFIED:
        return "principal.verified"
    if "*" in peer:
        return f"principal.handle like {_string(peer)}"
    if "." in peer:
        return f"principal == Peer::{_string(peer)}"
    return f"principal in Circle::{_string(circle_id(layer, peer))}"


def _at_least(early: str, late: str, minutes: int | None) -> str:
    return "" if minutes is None else f"{early} <= {late} - {minutes * MINUTE_MS}"


def _at_most(early: str, late: str, minutes: int | None) -> str:
    return "" if minutes is None else f"{early} >= {late} - {minutes * MINUTE_MS}"


def _inside(rule: Rule) -> str:
    """Each touched day lies in one window: over midnight, both days are checked."""
    if not rule.hours:
        return ""
    days = [
        _any(f"(context.{day}.start >= {start} && context.{day}.end <= {end})" for start, end in rule.hours)
        for day in ("first", "last")
    ]
    return " &&\n  ".join(["context.between.isEmpty()", *days])


def _touching(rule: Rule) -> str:
    """Some touched day has a weekday of the rule and overlaps one of its windows."""
    if not rule.hours:
        return f"{_set(rule.weekdays)}.containsAny(context.weekdays)" if rule.weekdays else ""
    between = (
        f"{_set(rule.weekdays)}.containsAny(context.between)"
        if rule.weekdays
        else "!context.between.isEmpty()"
    )
    return _any([_touches(rule, "first"), _touches(rule, "last"), between])


def _touches(rule: Rule, day: str) -> str:
    overlap = _any(
        f"(context.{day}.start < {end} && context.{day}.end > {start})" for start, end in rule.hours
    )
    return (
        f"({_set(rule.weekdays)}.contains(context.{day}.weekday) && {overlap})" if rule.weekdays else overlap
    )


def _any(conditions: Iterable[str]) -> str:
    alternatives = list(conditions)
    return alternatives[0] if len(alternatives) == 1 else f"({' || '.join(alternatives)})"


def _set(words: Iterable[str]) -> str:
    return f"[{', '.join(_string(word) for word in words)}]"


def _string(text: str) -> str:
    """A Cedar string: for printable text its escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False)
