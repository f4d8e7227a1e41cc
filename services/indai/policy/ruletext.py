"""From YAML to one rule: effect, kinds, peers, time, further conditions and obligations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from indai.policy.conditions import Condition, Limits
from indai.policy.duties import DUTIES, read_duties
from indai.policy.fields import FIELDS, fields_of
from indai.policy.kinds import KINDS, MEET, NOUNS, TIMED
from indai.policy.peers import check_pattern
from indai.policy.report import MAX_NAME, Report, count, nearest, printable
from indai.policy.rule import ANYONE, VERIFIED, Effect, Rule
from indai.policy.source import Tree
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

EFFECTS = ("allow", "ask", "deny")
ANY_KIND = "anything"
_TIMES = ("duration", "hours", "weekdays", "notice", "daily_limit")
RULE_FIELDS = ("id", "say", *EFFECTS, "with", *_TIMES, *FIELDS, *DUTIES)
_NOT_ON_DENY = ("daily_limit", *(name for name, field in FIELDS.items() if field.counts), *DUTIES)
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WEEK = parse_weekdays("mon-sun")
_ALL_DAY = (Hours(0, MINUTES_PER_DAY),)
_MAX_SAY, _MAX_DAILY = 200, 1000

Circles = Mapping[str, tuple[str, ...]]


def read_rule(report: Report, tree: Tree, number: int, circles: Circles) -> Rule:
    """One entry of `rules`."""
    path = f"rules[{number}]"
    found = report.fields(tree, path, RULE_FIELDS)
    effect, kinds = _effect(report, tree.line, found, path)
    if effect is Effect.DENY:
        for name in _NOT_ON_DENY:
            if name in found:
                report.add(
                    found[name].line,
                    f"{path}.{name}",
                    "has no meaning on a deny rule; put it on an allow rule",
                )
    timed = [name for name in ("duration", "notice") if name in found]
    for name in timed if not set(kinds) <= set(TIMED) else ():
        report.add(found[name].line, f"{path}.{name}", f"has no meaning for {_nouns(kinds, TIMED)}")
    weekdays = report.values(found.get("weekdays"), f"{path}.weekdays", parse_weekdays)
    named = {day for days in weekdays for day in days}
    limit = count(1, _MAX_DAILY, "to stop them write a deny rule")
    rule = Rule(
        id=read_id(report, found, path, f"rule-{number}"),
        effect=effect,
        peers=read_peers(report, tree.line, found, path, circles, needed=effect is not Effect.DENY),
        say=report.value(found.get("say"), f"{path}.say", printable(_MAX_SAY), ""),
        duration=_limits(report, found.get("duration"), f"{path}.duration"),
        notice=_limits(report, found.get("notice"), f"{path}.notice"),
        hours=read_hours(report, found.get("hours"), f"{path}.hours"),
        weekdays=tuple(day for day in _WEEK if day in named),
        daily_limit=report.value(found.get("daily_limit"), f"{path}.daily_limit", limit, None),
        obligations=read_duties(report, found, path, kinds),
        line=tree.line,
        kinds=kinds,
        where=read_where(report, found, path, kinds),
    )
    _check_possible(report, rule, found, path)
    return rule


def read_id(report: Report, found: Mapping[str, Tree], path: str, default: str) -> str:
    """The id, or the default."""
    return report.value(found.get("id"), f"{path}.id", slug, default)


def read_kinds(report: Report, tree: Tree | None, path: str) -> tuple[str, ...]:
    """One or several kinds, or `anything`, in the order of the table of kinds."""
    named = report.values(tree, path, _kind)
    return KINDS if ANY_KIND in named else tuple(kind for kind in KINDS if kind in named)


def read_peers(
    report: Report,
    line: int,
    found: Mapping[str, Tree],
    path: str,
    circles: Circles,
    *,
    needed: bool,
    name: str = "with",
) -> tuple[str, ...]:
    """Whom it is about."""
    if name not in found:
        if needed:
            problem = f"missing; write a circle or a handle, or `{name}: anyone` if you mean everybody"
            report.add(line, f"{path}.{name}", problem)
        return (ANYONE,)

    def known(term: str) -> str:
        if term in (ANYONE, VERIFIED) or term in circles:
            return term
        if "." in term or "/" in term:
            return check_pattern(term)
        raise Problem(f"no circle is called `{term[:MAX_NAME]}`{nearest(term, [*circles, ANYONE, VERIFIED])}")

    return tuple(dict.fromkeys(report.values(found[name], f"{path}.{name}", known))) or (ANYONE,)


def read_where(
    report: Report, found: Mapping[str, Tree], path: str, kinds: tuple[str, ...]
) -> dict[str, Condition]:
    """The further conditions that are given, each of which every kind must have."""
    where: dict[str, Condition] = {}
    for name, field in FIELDS.items():
        if name not in found:
            continue
        if not set(kinds) <= set(field.kinds):
            known = ", ".join(one for one in fields_of(kinds) if one not in fields_of(KINDS))
            hint = f"; they have {known}" if known else ""
            problem = f"has no meaning for {_nouns(kinds, field.kinds)}{hint}"
            report.add(found[name].line, f"{path}.{name}", problem)
        elif (value := field.notation.read(report, found[name], f"{path}.{name}")) is not None:
            where[name] = value
    return where


def read_hours(report: Report, tree: Tree | None, path: str) -> tuple[Hours, ...]:
    """Windows of the day; the whole day is no limit."""
    hours = merge_hours(report.values(tree, path, parse_hours))
    return () if hours == _ALL_DAY else hours


def slug(text: str) -> str:
    """An id. Raises Problem."""
    if is_slug(text):
        return text
    raise Problem(
        f"`{text[:MAX_NAME]}` is no id; write at most {MAX_NAME} of a-z, 0-9 and -, like `short-meetings`"
    )


def is_slug(text: str) -> bool:
    """Whether it is a name of a-z, 0-9 and -."""
    return bool(_SLUG.fullmatch(text)) and len(text) <= MAX_NAME


def _nouns(kinds: tuple[str, ...], having: tuple[str, ...]) -> str:
    return " and ".join(NOUNS[kind] for kind in kinds if kind not in having)


def _effect(
    report: Report, line: int, found: Mapping[str, Tree], path: str
) -> tuple[Effect, tuple[str, ...]]:
    given = [name for name in EFFECTS if name in found]
    if len(given) != 1:
        problem = (
            f"has {' and '.join(given)}; keep one"
            if given
            else "says neither allow, ask nor deny; write `allow: meet`"
        )
        report.add(line, path, problem)
        return Effect.DENY, (MEET,)
    kinds = read_kinds(report, found[given[0]], f"{path}.{given[0]}")
    return Effect(given[0]), kinds or (MEET,)


def _kind(text: str) -> str:
    if text in KINDS or text == ANY_KIND:
        return text
    raise Problem(f"`{text[:MAX_NAME]}` is no intent{nearest(text, [*KINDS, ANY_KIND])}")


def _limits(report: Report, tree: Tree | None, path: str) -> Limits:
    if tree is None:
        return Limits()
    found = report.fields(tree, path, ("min", "max"))
    low: int | None = report.value(found.get("min"), f"{path}.min", _length, None)
    high: int | None = report.value(found.get("max"), f"{path}.max", _length, None)
    if low is not None and high is not None and high < low:
        report.add(
            found["max"].line, path, f"max {duration(high)} is less than min {duration(low)}; swap them"
        )
    return Limits(low, high)


def _length(text: str) -> int | None:
    return parse_duration(text)


def _check_possible(report: Report, rule: Rule, found: Mapping[str, Tree], path: str) -> None:
    """A rule that can never match is a slip worth telling."""
    if rule.duration.max == 0 and MEET in rule.kinds:
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
