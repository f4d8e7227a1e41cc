"""Test a policy against cases that its owner wrote: what the agent must do, beside what it would do.

now: 2026-11-23T09:00
cases:
  - name: a friend on Tuesday
    with: ind.ai/bob
    start: 2026-11-24T10:00     # local to the policy's time zone; an offset such as +05:30 is allowed
    duration: 30m
    expect: permit              # permit, refuse or ask
    verified: true              # optional, as are: now, already_that_day, rule
  - name: a bill
    kind: pay                   # meet, if left out; what happens now needs no start
    with: ind.ai/bob
    facts: { direction: request, amount: 200 INR, payee: shop@okbank }
    expect: ask
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from indai.client.decisions import Outcome
from indai.policy.compiled import CompiledPolicy, decide_many
from indai.policy.explain import explain
from indai.policy.facts import Facts
from indai.policy.kinds import COMMON, KINDS, MEET, NOUNS, Value, check_common, complete, types_of
from indai.policy.localtime import MINUTE_MS, zone_of
from indai.policy.money import parse_amount
from indai.policy.report import MAX_NAME, Report, count, nearest, one_of
from indai.policy.source import Fields, Items, Text, Tree, read
from indai.policy.values import Problem, parse_duration
from indai.protocol.errors import InvalidInput

MAX_CASES = 1000
_TOP = ("now", "cases")
_CASE = (
    "name", "kind", "with", "start", "duration", "expect", "verified", "already_that_day", "facts", "now",
    "rule",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One expectation. `rule`: id of an owner's rule that must be among those that decided, or ""."""

    name: str
    facts: Facts
    expect: Outcome
    rule: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came out. `words` says why."""

    case: Case
    outcome: Outcome
    words: str
    passed: bool


def run_cases(policy: CompiledPolicy, owner: str, text: str) -> list[CaseResult]:
    """Decide every case of a YAML text. Raises InvalidInput(INVALID_POLICY) with all problems of the text."""
    cases = parse_cases(text, policy.time_zone)
    decisions = decide_many(policy, owner, [case.facts for case in cases])
    results = []
    for case, decided in zip(cases, decisions, strict=True):
        outcome = decided.evaluation.outcome
        by_rule = not case.rule or f"owner/{case.rule}" in decided.evaluation.rules
        results.append(
            CaseResult(case, outcome, explain(policy, decided), outcome is case.expect and by_rule)
        )
    return results


def parse_cases(text: str, time_zone: str) -> list[Case]:
    """Read the cases; local times are in the given zone."""
    report = Report("the cases are")
    tree = read(text)
    top = report.fields(tree, "", _TOP)
    instant = _instant(time_zone)
    now = report.value(top.get("now"), "now", instant, None)
    listed = top.get("cases")
    if not isinstance(listed, Items) or not 0 < len(listed.items) <= MAX_CASES:
        report.add(tree.line, "cases", f"must be a list of 1 to {MAX_CASES} cases")
        listed = None
    items = listed.items if listed else ()
    cases = [_case(report, item, number, now, instant) for number, item in enumerate(items, start=1)]
    report.raise_if_any()
    return cases


def _case(report: Report, tree: Tree, number: int, now: int | None, instant: Callable[[str], int]) -> Case:
    path = f"cases[{number}]"
    found = report.fields(tree, path, _CASE)
    kind = report.value(found.get("kind"), f"{path}.kind", one_of(KINDS), MEET)
    for name in ("with", "expect", *(("start", "duration") if kind == MEET else ())):
        if name not in found:
            report.add(tree.line, f"{path}.{name}", "missing")
    stated_now = report.value(found.get("now"), f"{path}.now", instant, now)
    if stated_now is None:
        report.add(tree.line, f"{path}.now", "missing; write `now: 2026-11-23T09:00` once at the top")
    start = report.value(found.get("start"), f"{path}.start", instant, stated_now or 0)
    length = report.value(found.get("duration"), f"{path}.duration", parse_duration, 0)
    stated = _stated(report, found.get("facts"), f"{path}.facts", kind)
    facts = Facts(
        peer=_plain(found.get("with")),
        start_ms=start,
        end_ms=start + length * MINUTE_MS,
        now_ms=stated_now or 0,
        verified=report.value(found.get("verified"), f"{path}.verified", one_of(("true", "false")), "false")
        == "true",
        already_that_day=report.value(found.get("already_that_day"), f"{path}.already_that_day", _count, 0),
        kind=kind,
        **split(stated),
    )
    outcomes = tuple(outcome.value for outcome in Outcome)
    expect = report.value(found.get("expect"), f"{path}.expect", one_of(outcomes), Outcome.REFUSE.value)
    name = _plain(found.get("name")) or f"case {number}"
    return Case(name, facts, Outcome(expect), _plain(found.get("rule")))


def _stated(report: Report, tree: Tree | None, path: str, kind: str) -> dict[str, Value]:
    stated: dict[str, Value] = {}
    for key, value in tree.entries if isinstance(tree, Fields) else ():
        texts = [text.value for text in report.texts(value, f"{path}.{key.value}")]
        try:
            stated |= read_fact(kind, key.value, ",".join(texts))
        except Problem as problem:
            report.add(key.line, f"{path}.{key.value[:MAX_NAME]}", str(problem))
    if tree is not None and not isinstance(tree, Fields):
        report.add(tree.line, path, "must be fields, like `{ amount: 200 INR }`")
    try:
        check_common({name: value for name, value in stated.items() if name in COMMON})
        complete(kind, {name: value for name, value in stated.items() if name not in COMMON})
    except InvalidInput as error:
        for name, why in error.fields.items():
            report.add(tree.line if tree else 1, f"{path}.{name}", why)
    return stated


def read_fact(kind: str, name: str, text: str) -> dict[str, Value]:
    """One fact from text: `amount` gives two, `200 INR`; a list is written with commas. Raises Problem."""
    types = {one: type(value) for one, value in COMMON.items()} | types_of(kind)
    if name == "amount" and "amount_minor" in types:
        minor, currency = parse_amount(text)
        return {"amount_minor": minor, "currency": currency}
    wanted = types.get(name)
    if wanted is None:
        raise Problem(f"is no fact about {NOUNS[kind]}{nearest(name, types)}")
    if wanted is bool:
        return {name: one_of(("true", "false"))(text) == "true"}
    if wanted is int:
        return {name: count(0, 999_999_999, "write it in digits")(text)}
    return {name: tuple(text.split(","))} if wanted is tuple else {name: text}


def split(stated: Mapping[str, Value]) -> dict[str, Any]:
    """Facts by name as arguments of `Facts`: the common ones, and the others as `details`."""
    common: dict[str, Any] = {name: value for name, value in stated.items() if name in COMMON}
    return common | {"details": {name: value for name, value in stated.items() if name not in COMMON}}


def _plain(tree: Tree | None) -> str:
    return tree.value if isinstance(tree, Text) else ""


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 4:
        return int(text)
    raise Problem("must be a count such as 0 or 3")


def _instant(time_zone: str) -> Callable[[str], int]:
    def read_one(text: str) -> int:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise Problem("is no time; write it like 2026-11-24T10:00") from None
        at = at if at.tzinfo else at.replace(tzinfo=zone_of(time_zone))
        return round(at.timestamp() * 1000)

    return read_one
