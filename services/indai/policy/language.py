"""From YAML to a policy: every problem is found in one pass and told with its line and what to write instead.

The language is described in docs/policy-language.md. Unknown fields are errors, because a misspelt limit that
is skipped is a limit that does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo, available_timezones

from indai.client.decisions import Outcome
from indai.policy.money import parse_currency
from indai.policy.peers import check_pattern
from indai.policy.report import MAX_NAME, Report, nearest, one_of
from indai.policy.rules import ANYONE, VERIFIED, Rule, Rules
from indai.policy.ruletext import RULE_FIELDS, Circles, is_slug, read_rule
from indai.policy.sectiontext import SECTIONS, language_tag, read_sections
from indai.policy.source import Fields, Items, Tree, read
from indai.policy.values import Problem

__all__ = ["RULE_FIELDS", "TOP_FIELDS", "Report", "one_of", "parse"]

MAX_RULES = 200
TOP_FIELDS = (
    "version", "timezone", "language", "currency", "circles", "relationships", "defaults", *SECTIONS, "rules",
)  # fmt: skip


def parse(text: str, layer: str = "owner") -> Rules:
    """Read a layer's rules. Raises InvalidInput(INVALID_POLICY) with all problems in `fields`, by path.

    Only the owner's layer needs a time zone: the others follow the owner's clock.
    """
    report = Report()
    rules = _policy(report, read(text), layer)
    report.raise_if_any()
    return rules


def _policy(report: Report, tree: Tree, layer: str) -> Rules:
    top = report.fields(tree, "", TOP_FIELDS)
    if isinstance(tree, Fields):
        for name, example in _missing(top, layer).items():
            report.add(tree.line, name, f"missing; write {example}")
    report.value(top.get("version"), "version", one_of(("1",)), "1")
    report.currency = report.value(top.get("currency"), "currency", parse_currency, "")
    circles = _circles(report, top.get("circles"), "circles")
    defaults = report.fields(top["defaults"], "defaults", ("unmatched",)) if "defaults" in top else {}
    unmatched = report.value(
        defaults.get("unmatched"), "defaults.unmatched", one_of(("refuse", "ask")), "refuse"
    )
    rules = Rules(
        time_zone=report.value(top.get("timezone"), "timezone", _time_zone, "UTC"),
        rules=_rules(report, top.get("rules"), circles),
        circles=circles,
        unmatched=Outcome(unmatched),
        language=report.value(top.get("language"), "language", language_tag, ""),
        relationships=_circles(report, top.get("relationships"), "relationships"),
        currency=report.currency,
        sections=read_sections(report, top, circles),
    )
    _check_ids(report, rules)
    return rules


def _missing(top: Mapping[str, Tree], layer: str) -> dict[str, str]:
    needed = {"version": "`version: 1`"}
    if layer == "owner":
        needed["timezone"] = "`timezone: Asia/Kolkata`"
    if not any(name in top for name in SECTIONS):
        needed["rules"] = "a list of rules"
    return {name: example for name, example in needed.items() if name not in top}


def _check_ids(report: Report, rules: Rules) -> None:
    """An id names one rule, also among those that sections stand for."""
    numbered = {id(rule): f"rules[{number}]" for number, rule in enumerate(rules.rules, start=1)}
    first: dict[str, str] = {}
    for rule in rules.every:
        where = numbered.get(id(rule), "")
        known = first.setdefault(rule.id, where or f"line {rule.line}")
        if where and known != where:
            number = known.removeprefix("rules[").rstrip("]")
            report.add(rule.line, f"{where}.id", f"`{rule.id}` is the id of rule {number} too")
        elif not where and known != f"line {rule.line}":
            report.add(
                rule.line, f"id {rule.id}", f"`{rule.id}` is the id of {known} too; write another `id`"
            )
    if len(rules.every) > 2 * MAX_RULES:
        report.add(1, "rules", f"the sections stand for too many rules; at most {2 * MAX_RULES} in all")


def _circles(report: Report, tree: Tree | None, field: str) -> Circles:
    if tree is None:
        return {}
    if not isinstance(tree, Fields):
        report.add(tree.line, field, "must be names, each with its handles; write `friends: [ind.ai/bob]`")
        return {}
    circles: dict[str, tuple[str, ...]] = {}
    for key, value in tree.entries:
        path = f"{field}.{key.value[:MAX_NAME]}"
        if not is_slug(key.value) or key.value in (ANYONE, VERIFIED):
            problem = "is no name for a circle; write a-z, 0-9 and -, and not `anyone` or `verified`"
            report.add(key.line, path, problem)
        if isinstance(value, Items) and not value.items:
            circles[key.value] = ()  # nobody yet
            continue
        circles[key.value] = tuple(dict.fromkeys(report.values(value, path, check_pattern)))
    return circles


def _rules(report: Report, tree: Tree | None, circles: Circles) -> tuple[Rule, ...]:
    if tree is None:
        return ()
    if not isinstance(tree, Items):
        report.add(tree.line, "rules", "must be a list; begin each rule with `- allow: meet`")
        return ()
    if len(tree.items) > MAX_RULES:
        report.add(
            tree.line, "rules", f"has {len(tree.items)} rules; at most {MAX_RULES}, so put handles in circles"
        )
        return ()
    return tuple(read_rule(report, item, number, circles) for number, item in enumerate(tree.items, start=1))


def _time_zone(text: str) -> str:
    try:
        return ZoneInfo(text).key
    except (KeyError, ValueError, OSError):  # unknown, not a relative path, the name of a directory of zones
        near = (
            nearest(text, sorted(available_timezones())) if "/" in text else "; write one like Asia/Kolkata"
        )
        hint = near if "did you mean" in near else "; write one like Asia/Kolkata"
        raise Problem(f"`{text[:MAX_NAME]}` is no time zone{hint}") from None
