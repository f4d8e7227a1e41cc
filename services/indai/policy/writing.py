"""From a policy as values back to YAML, as a page that edits rules stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from indai.client.decisions import Outcome
from indai.policy.conditions import Amount, Below, Cap, Condition, Limits
from indai.policy.duties import write_duties
from indai.policy.fields import FIELDS, ordered
from indai.policy.kinds import BOOK, KINDS, PAY
from indai.policy.money import amount
from indai.policy.rules import ANYONE, Effect, Rule, Rules
from indai.policy.ruletext import ANY_KIND
from indai.policy.sections import Budget, Escalation, Section, Tone, Visibility
from indai.policy.values import WEEKDAYS, duration


class _Dumper(yaml.SafeDumper):
    """Lists and limits on one line, as people write them; never an anchor."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class _Flow(list[Any]):
    """A list on one line."""


class _FlowMap(dict[str, Any]):
    """Limits on one line."""


def _flow_list(dumper: yaml.SafeDumper, data: _Flow) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)


def _flow_map(dumper: yaml.SafeDumper, data: _FlowMap) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)


_Dumper.add_representer(_Flow, _flow_list)
_Dumper.add_representer(_FlowMap, _flow_map)


def write(rules: Rules) -> str:
    """The whole file; `parse` reads the same policy from it. Comments that were there are not kept."""
    top: dict[str, Any] = {"version": 1, "timezone": rules.time_zone}
    top |= _given(language=rules.language, currency=rules.currency)
    top |= _given(circles=_named(rules.circles), relationships=_named(rules.relationships))
    if rules.unmatched is Outcome.ASK:
        top["defaults"] = _FlowMap(unmatched="ask")
    for name, kind in _SECTIONS.items():
        top |= _given(**{name: [_section(one) for one in rules.sections if isinstance(one, kind)]})
    if rules.rules or not rules.sections:
        top["rules"] = [_rule(rule) for rule in rules.rules]
    return yaml.dump(top, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


_SECTIONS = {"visibility": Visibility, "budgets": Budget, "tone": Tone, "escalation": Escalation}


def write_rule(rule: Rule) -> str:
    """One rule as an entry of the list."""
    return yaml.dump([_rule(rule)], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def _rule(rule: Rule) -> dict[str, Any]:
    written: dict[str, Any] = {"id": rule.id} | _given(say=rule.say)
    written[rule.effect.value] = _kinds(rule.kinds)
    written["with"] = _words(rule.peers)
    written |= _given(
        duration=_limits(rule.duration),
        hours=_words([str(hours) for hours in rule.hours]),
        weekdays=_words(_spans(rule.weekdays)),
        notice=_limits(rule.notice),
    )
    if rule.daily_limit is not None:
        written["daily_limit"] = rule.daily_limit
    return written | _where(rule.where) | _shaped(write_duties(rule.obligations))


def _section(section: Section) -> dict[str, Any]:
    if isinstance(section, Visibility):
        return {"id": section.id, "to": _words(section.peers)} | _given(
            profile=_words(section.profile),
            documents=_words(section.documents),
            memories=_words(section.memories),
            calendar=section.calendar,
            **_where(section.where),
            redact=_words(section.redact),
        )
    if isinstance(section, Budget):
        return _budget(section)
    peers = {} if section.peers == (ANYONE,) else {"with": _words(section.peers)}
    if isinstance(section, Tone):
        said = _given(style=section.style, language=section.language)
        return {"id": section.id} | peers | said | _where(section.where)
    kinds = {} if section.kinds == KINDS else {"for": _kinds(section.kinds)}
    asked = _given(
        deadline=duration(section.deadline) if section.deadline else "",
        quiet_hours=_words([str(hours) for hours in section.quiet_hours]),
        notify=section.notify,
        via=section.via,
    )
    return {"id": section.id} | kinds | peers | asked | _where(section.where)


def _budget(budget: Budget) -> dict[str, Any]:
    written: dict[str, Any] = {"id": budget.id}
    if budget.kinds != (PAY, BOOK):
        written["for"] = _kinds(budget.kinds)
    if budget.peers != (ANYONE,):
        written["with"] = _words(budget.peers)
    for name, limit in budget.limits.items():
        if isinstance(limit, Below):
            written[name] = limit.most
        elif isinstance(limit, Cap):
            written[name] = amount(limit.most, limit.currency)
        elif isinstance(limit, Amount):  # what exceeds it begins one minor unit above
            written[name] = amount((limit.min or 1) - 1, limit.currency)
    return written | ({"beyond": "ask"} if budget.beyond is Effect.ASK else {})


def _where(where: Mapping[str, Condition]) -> dict[str, Any]:
    return _shaped({name: FIELDS[name].notation.write(value) for name, value in ordered(where)})


def _shaped(values: Mapping[str, Any]) -> dict[str, Any]:
    shapes: dict[type, Any] = {dict: _FlowMap, list: _Flow}
    return {name: shapes.get(type(value), lambda one: one)(value) for name, value in values.items()}


def _named(circles: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {name: _Flow(handles) for name, handles in circles.items()}


def _kinds(kinds: Sequence[str]) -> Any:
    return ANY_KIND if tuple(kinds) == KINDS else _words(kinds)


def _words(words: Sequence[str]) -> Any:
    return words[0] if len(words) == 1 else _Flow(words)


def _limits(limits: Limits) -> Any:
    ends = {"min": limits.min, "max": limits.max}
    return _FlowMap({name: duration(value) for name, value in ends.items() if value is not None})


def _spans(weekdays: Sequence[str]) -> list[str]:
    """`mon-fri` where the days follow each other."""
    numbers = [WEEKDAYS.index(day) for day in weekdays]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return [f"{weekdays[0]}-{weekdays[-1]}"]
    return list(weekdays)


def _given(**values: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value not in ("", None, [], {})}
