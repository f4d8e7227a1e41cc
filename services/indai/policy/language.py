"""From YAML to rules: every problem is found in one pass and told with its line and what to write instead.

The language is described in docs/policy-language.md. Unknown fields are errors, because a misspelt limit that
is skipped is a limit that does not hold.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

from indai.client.decisions import Outcome
from indai.policy.peers import check_pattern
from indai.policy.rules import ANYONE, VERIFIED, Effect, Limits, Rule, Rules
from indai.policy.source import Fields, Items, Text, Tree, read
from indai.policy.values import (
    MINUTES_PER_DAY,
    Hours,
    Problem,
    duration,
    merge_hours,
    parse_duration,
    parse_hours,
    parse_weekdays,
)
from indai.protocol.errors import InvalidInput, Reason

MAX_RULES = 200
TOP_FIELDS = ("version", "timezone", "language", "circles", "defaults", "rules")
_NEEDED = {"version": "`version: 1`", "timezone": "`timezone: Asia/Kolkata`", "rules": "a list of rules"}
_EFFECTS = tuple(effect.value for effect in Effect)
_RULE_LIMITS = ("duration", "hours", "weekdays", "notice", "daily_limit")
RULE_FIELDS = ("id", "say", *_EFFECTS, "with", *_RULE_LIMITS, "buffer", "title_prefix")
_NOT_ON_DENY = ("daily_limit", "buffer", "title_prefix")
_INTENTS = ("meet",)
_COMING = ("share", "ask", "pay", "book")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")  # RFC 5646, as far as a subtag's form goes
_WEEK = parse_weekdays("mon-sun")
_ALL_DAY = (Hours(0, MINUTES_PER_DAY),)
_MAX_NAME, _MAX_SAY, _MAX_PREFIX, _MAX_DAILY, _MAX_BUFFER = 40, 200, 40, 100, 480

T = TypeVar("T")


def parse(text: str) -> Rules:
    """Read an owner's rules. Raises InvalidInput(INVALID_POLICY) with all problems in `fields`, by path."""
    report = Report()
    rules = _policy(report, read(text))
    report.raise_if_any()
    return rules


class Report:
    """Collects problems while reading goes on with harmless stand-ins. `subject`: e.g. `the policy is`."""

    def __init__(self, subject: str = "the policy is") -> None:
        self._subject = subject
        self._problems: list[tuple[int, str, str]] = []

    def add(self, line: int, path: str, problem: str) -> None:
        self._problems.append((line, path, problem))

    def raise_if_any(self) -> None:
        if not self._problems:
            return
        fields: dict[str, str] = {}
        for line, path, problem in sorted(self._problems):
            said = f"line {line}: {problem}"
            fields[path] = f"{fields[path]}; {said}" if path in fields else said
        line, path, problem = min(self._problems)
        more = f", and {len(self._problems) - 1} more" if len(self._problems) > 1 else ""
        message = f"{self._subject} invalid at line {line}, {path}: {problem}{more}"
        raise InvalidInput(Reason.INVALID_POLICY, message, hint="see docs/policy-language.md", fields=fields)

    def fields(self, tree: Tree, path: str, known: Iterable[str]) -> dict[str, Tree]:
        """The known fields of a mapping; the others are reported with the nearest known name."""
        if not isinstance(tree, Fields):
            self.add(tree.line, path or "policy", f"must have fields: {', '.join(known)}")
            return {}
        found: dict[str, Tree] = {}
        for key, value in tree.entries:
            if key.value in known:
                found[key.value] = value
            else:
                where = f"{path}.{key.value[:_MAX_NAME]}".lstrip(".")
                self.add(
                    key.line, where, f"unknown field `{key.value[:_MAX_NAME]}`{nearest(key.value, known)}"
                )
        return found

    def texts(self, tree: Tree | None, path: str) -> list[Text]:
        """One word, or a list of words."""
        items = tree.items if isinstance(tree, Items) else () if tree is None else (tree,)
        for item in items:
            if not isinstance(item, Text) or not item.value:
                self.add(item.line, path, "must be a word or a list of words")
        if isinstance(tree, Items) and not items:
            self.add(tree.line, path, "is empty; leave the field out, or write a value")
        return [item for item in items if isinstance(item, Text) and item.value]

    def value(self, tree: Tree | None, path: str, read_one: Callable[[str], T], default: T) -> T:
        """One scalar through its parser."""
        if tree is None:
            return default
        if not isinstance(tree, Text):
            self.add(tree.line, path, "must be a single value")
            return default
        try:
            return read_one(tree.value)
        except Problem as problem:
            self.add(tree.line, path, str(problem))
            return default

    def values(self, tree: Tree | None, path: str, read_one: Callable[[str], T]) -> list[T]:
        """One or several scalars through their parser."""
        found = []
        for item in self.texts(tree, path):
            try:
                found.append(read_one(item.value))
            except Problem as problem:
                self.add(item.line, path, str(problem))
        return found


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …` or the list of what is known."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else f"; known here: {', '.join(known)}"


def _policy(report: Report, tree: Tree) -> Rules:
    top = report.fields(tree, "", TOP_FIELDS)
    for name, example in _NEEDED.items():
        if name not in top and isinstance(tree, Fields):
            report.add(tree.line, name, f"missing; write {example}")
    report.value(top.get("version"), "version", one_of(("1",)), "1")
    circles = _circles(report, top.get("circles"))
    defaults = report.fields(top["defaults"], "defaults", ("unmatched",)) if "defaults" in top else {}
    unmatched = report.value(
        defaults.get("unmatched"), "defaults.unmatched", one_of(("refuse", "ask")), "refuse"
    )
    return Rules(
        time_zone=report.value(top.get("timezone"), "timezone", _time_zone, "UTC"),
        rules=_rules(report, top.get("rules"), circles),
        circles=circles,
        unmatched=Outcome(unmatched),
        language=report.value(top.get("language"), "language", _language, ""),
    )


def _circles(report: Report, tree: Tree | None) -> Mapping[str, tuple[str, ...]]:
    if tree is None:
        return {}
    if not isinstance(tree, Fields):
        report.add(
            tree.line, "circles", "must name circles, each with its handles; write `friends: [ind.ai/bob]`"
        )
        return {}
    circles: dict[str, tuple[str, ...]] = {}
    for key, value in tree.entries:
        path = f"circles.{key.value[:_MAX_NAME]}"
        if not _SLUG.fullmatch(key.value) or len(key.value) > _MAX_NAME or key.value in (ANYONE, VERIFIED):
            report.add(
                key.line,
                path,
                "is no name for a circle; write a-z, 0-9 and -, and not `anyone` or `verified`",
            )
        circles[key.value] = tuple(dict.fromkeys(report.values(value, path, check_pattern)))
    return circles


def _rules(report: Report, tree: Tree | None, circles: Mapping[str, tuple[str, ...]]) -> tuple[Rule, ...]:
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
    rules = tuple(_rule(report, item, number, circles) for number, item in enumerate(tree.items, start=1))
    first: dict[str, int] = {}
    for number, rule in enumerate(rules, start=1):
        if first.setdefault(rule.id, number) != number:
            report.add(
                rule.line, f"rules[{number}].id", f"`{rule.id}` is the id of rule {first[rule.id]} too"
            )
    return rules


def _rule(report: Report, tree: Tree, number: int, circles: Mapping[str, tuple[str, ...]]) -> Rule:
    path = f"rules[{number}]"
    found = report.fields(tree, path, RULE_FIELDS)
    effect = _effect(report, tree.line, found, path)
    if effect is Effect.DENY:
        for name in _NOT_ON_DENY:
            if name in found:
                report.add(
                    found[name].line,
                    f"{path}.{name}",
                    "has no meaning on a deny rule; put it on an allow rule",
                )
    hours = report.values(found.get("hours"), f"{path}.hours", parse_hours)
    weekdays = report.values(found.get("weekdays"), f"{path}.weekdays", parse_weekdays)
    named = {day for days in weekdays for day in days}
    rule = Rule(
        id=report.value(found.get("id"), f"{path}.id", _slug, f"rule-{number}"),
        effect=effect,
        peers=_peers(report, tree.line, found, effect, f"{path}.with", circles),
        say=report.value(found.get("say"), f"{path}.say", _printable(_MAX_SAY), ""),
        duration=_limits(report, found.get("duration"), f"{path}.duration"),
        notice=_limits(report, found.get("notice"), f"{path}.notice"),
        hours=() if merge_hours(hours) == _ALL_DAY else merge_hours(hours),
        weekdays=tuple(day for day in _WEEK if day in named),
        daily_limit=report.value(found.get("daily_limit"), f"{path}.daily_limit", _count, None),
        obligations=_obligations(report, found, path),
        line=tree.line,
    )
    _check_possible(report, rule, found, path)
    return rule


def _effect(report: Report, line: int, found: Mapping[str, Tree], path: str) -> Effect:
    given = [name for name in _EFFECTS if name in found]
    if len(given) != 1:
        problem = (
            f"has {' and '.join(given)}; keep one"
            if given
            else "says neither allow, ask nor deny; write `allow: meet`"
        )
        report.add(line, path, problem)
        return Effect.DENY
    report.values(found[given[0]], f"{path}.{given[0]}", _intent)
    return Effect(given[0])


def _peers(
    report: Report,
    line: int,
    found: Mapping[str, Tree],
    effect: Effect,
    path: str,
    circles: Mapping[str, object],
) -> tuple[str, ...]:
    if "with" not in found:
        if effect is not Effect.DENY:
            report.add(
                line, path, "missing; write a circle or a handle, or `with: anyone` if you mean everybody"
            )
        return (ANYONE,)

    def known(name: str) -> str:
        if name in (ANYONE, VERIFIED) or name in circles:
            return name
        if "." in name or "/" in name:
            return check_pattern(name)
        raise Problem(
            f"no circle is called `{name[:_MAX_NAME]}`{nearest(name, [*circles, ANYONE, VERIFIED])}"
        )

    peers = report.values(found["with"], path, known)
    return tuple(dict.fromkeys(peers)) or (ANYONE,)


def _limits(report: Report, tree: Tree | None, path: str) -> Limits:
    if tree is None:
        return Limits()
    found = report.fields(tree, path, ("min", "max"))
    low = report.value(found.get("min"), f"{path}.min", parse_duration, None)
    high = report.value(found.get("max"), f"{path}.max", parse_duration, None)
    if low is not None and high is not None and high < low:
        report.add(
            found["max"].line, path, f"max {duration(high)} is less than min {duration(low)}; swap them"
        )
    return Limits(low, high)


def _obligations(report: Report, found: Mapping[str, Tree], path: str) -> Mapping[str, str]:
    buffer = report.value(found.get("buffer"), f"{path}.buffer", _buffer, 0)
    prefix = report.value(found.get("title_prefix"), f"{path}.title_prefix", _printable(_MAX_PREFIX), "")
    given = {"buffer": f"{buffer}m" if buffer else "", "title_prefix": prefix}
    return {name: value for name, value in given.items() if value}


def _check_possible(report: Report, rule: Rule, found: Mapping[str, Tree], path: str) -> None:
    """A rule that can never match is a slip worth telling."""
    if rule.duration.max == 0:
        report.add(found["duration"].line, f"{path}.duration", "max 0m matches no meeting; write at least 1m")
    longest = _longest_stay(rule.hours)
    if rule.effect is Effect.ALLOW and rule.hours and (rule.duration.min or 0) > longest:
        problem = f"no meeting of at least {duration(rule.duration.min or 0)} fits into {duration(longest)}"
        report.add(found["hours"].line, f"{path}.hours", f"{problem}; widen the hours or lower duration.min")


def _longest_stay(hours: tuple[Hours, ...]) -> int:
    """Minutes of the longest meeting inside the windows; one that ends at 24:00 goes on with one that starts
    at 00:00.
    """
    longest = max((window.end - window.start for window in hours), default=MINUTES_PER_DAY)
    if hours and hours[0].start == 0 and hours[-1].end == MINUTES_PER_DAY:
        longest = max(longest, hours[0].end + MINUTES_PER_DAY - hours[-1].start)
    return longest


def one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """A parser for one of a few words."""

    def read_one(text: str) -> str:
        if text in known:
            return text
        raise Problem(f"`{text[:_MAX_NAME]}` is not known here; write {' or '.join(known)}")

    return read_one


def _intent(text: str) -> str:
    if text in _COMING:
        raise Problem(f"`{text}` has no rules in version 1; write `meet`, and leave `{text}` to the default")
    if text not in _INTENTS:
        raise Problem(f"`{text[:_MAX_NAME]}` is no intent; write `meet`")
    return text


def _slug(text: str) -> str:
    if _SLUG.fullmatch(text) and len(text) <= _MAX_NAME:
        return text
    raise Problem(
        f"`{text[:_MAX_NAME]}` is no id; write at most {_MAX_NAME} of a-z, 0-9 and -, like `short-meetings`"
    )


def _language(text: str) -> str:
    if _LANGUAGE.fullmatch(text):
        return text
    raise Problem(f"`{text[:_MAX_NAME]}` is no language tag; write one like en, hi or en-IN")


def _printable(limit: int) -> Callable[[str], str]:
    def read_one(text: str) -> str:
        if text.isprintable() and 0 < len(text) <= limit:
            return text
        raise Problem(f"must be 1 to {limit} characters on one line")

    return read_one


def _count(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= _MAX_DAILY:
        return int(text)
    raise Problem(
        f"`{text[:_MAX_NAME]}` is no count from 1 to {_MAX_DAILY}; to stop meetings write a deny rule"
    )


def _buffer(text: str) -> int:
    minutes = parse_duration(text)
    if 1 <= minutes <= _MAX_BUFFER:
        return minutes
    raise Problem(f"must be 1m to {duration(_MAX_BUFFER)}; leave it out for none")


def _time_zone(text: str) -> str:
    try:
        return ZoneInfo(text).key
    except (KeyError, ValueError, OSError):  # unknown, not a relative path, the name of a directory of zones
        near = (
            nearest(text, sorted(available_timezones())) if "/" in text else "; write one like Asia/Kolkata"
        )
        hint = near if "did you mean" in near else "; write one like Asia/Kolkata"
        raise Problem(f"`{text[:_MAX_NAME]}` is no time zone{hint}") from None
