"""Decisions in words, local time, and an owner's own cases."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from indai.client.decisions import Outcome
from indai.policy.cases import run_cases
from indai.policy.compiled import CompiledPolicy, compile_policy, decide
from indai.policy.explain import explain
from indai.policy.facts import Facts
from indai.policy.localtime import LocalDay, touched_days
from indai.policy.sentences import sentence
from indai.policy.windows import WindowFacts, allowed_windows
from indai.protocol.errors import InvalidInput

ALICE = "ind.ai/alice"
KOLKATA = """\
version: 1
timezone: Asia/Kolkata
circles:
  friends: [ind.ai/bob, ind.ai/carol]
rules:
  - id: short-meetings
    allow: meet
    with: friends
    duration: { max: 30m }
    hours: 10:00-18:00
    weekdays: [mon, wed, thu, fri]
    notice: { min: 2h }
    daily_limit: 4
  - id: evenings
    ask: meet
    with: ind.ai/bob
    hours: 18:00-21:00
  - id: no-lunch
    say: Never during lunch
    deny: meet
    hours: 13:00-14:00
"""


@pytest.fixture(scope="module")
def policy() -> CompiledPolicy:
    return compile_policy(KOLKATA)


def at(text: str, zone: str = "Asia/Kolkata", fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


def meeting(start: str, minutes: int, peer: str = "ind.ai/bob", already: int = 0) -> Facts:
    start_ms = at(start)
    return Facts(
        peer, start_ms, start_ms + minutes * 60_000, at("2026-11-23T08:30"), already_that_day=already
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            meeting("2026-11-23T11:00", 30),
            "Permitted by 'short-meetings' (meetings of up to 30 min with friends, Mon and Wed to Fri"
            " 10:00-18:00, at least 2 h ahead, at most 4 a day).",
        ),
        (
            meeting("2026-11-23T11:00", 45),
            "Refused: no rule covers a meeting of 45m with ind.ai/bob on Mon 23 Nov 2026 11:00 to 11:45;"
            " the closest rule, 'short-meetings', wants meetings of up to 30 min.",
        ),
        (
            meeting("2026-11-24T09:45", 30, "ind.ai/carol"),
            "Refused: no rule covers a meeting of 30m with ind.ai/carol on Tue 24 Nov 2026 09:45 to 10:15;"
            " the closest rule, 'short-meetings', wants Mon and Wed to Fri and wants 10:00-18:00.",
        ),
        (
            meeting("2026-11-23T10:00", 30, already=4),
            "Refused: no rule covers a meeting of 30m with ind.ai/bob on Mon 23 Nov 2026 10:00 to 10:30;"
            " the closest rule, 'evenings', wants 18:00-21:00.",
        ),
        (
            meeting("2026-11-23T11:00", 30, "ind.ai/carol", already=4),
            "Refused: no rule covers a meeting of 30m with ind.ai/carol on Mon 23 Nov 2026 11:00 to 11:30;"
            " the closest rule, 'short-meetings', allows 4 meetings a day, and 4 are agreed.",
        ),
        (
            meeting("2026-11-23T17:45", 30),
            "Asks you, because of 'evenings' (meetings with ind.ai/bob, 18:00-21:00).",
        ),
        (meeting("2026-11-23T12:50", 20), "Refused by 'no-lunch' (Never during lunch)."),
        (
            meeting("2026-11-23T23:45", 30, "ind.ai/dave"),
            "Refused: no rule covers a meeting of 30m with ind.ai/dave on Mon 23 Nov 2026 23:45 to 00:15"
            " on Tue; the closest rule, 'evenings', is about ind.ai/bob and wants 18:00-21:00.",
        ),
        (
            meeting("2026-11-23T08:00", 30),
            "Refused: no rule of the platform covers a meeting of 30m with ind.ai/bob on Mon 23 Nov 2026"
            " 08:00 to 08:30; the closest rule, 'possible-meetings', wants at least 0 min ahead.",
        ),
    ],
)
def test_a_decision_is_told_in_words(policy: CompiledPolicy, facts: Facts, words: str) -> None:
    assert explain(policy, decide(policy, ALICE, facts)) == words


def test_a_policy_without_rules_says_so() -> None:
    empty = compile_policy("version: 1\ntimezone: UTC\nrules:\n  - deny: meet\n    weekdays: sun\n")
    words = explain(empty, decide(empty, ALICE, meeting("2026-11-23T11:00", 30, "")))
    assert words.endswith(
        "with an anonymous visitor on Mon 23 Nov 2026 05:30 to 06:00; there is no rule that allows a meeting."
    )


def test_a_default_to_ask_is_told_as_a_question() -> None:
    asking = compile_policy(KOLKATA.replace("rules:", "defaults: { unmatched: ask }\nrules:"))
    decided = decide(asking, ALICE, meeting("2026-11-23T11:00", 45))
    assert decided.evaluation.outcome is Outcome.ASK
    assert explain(asking, decided).startswith("Asks you: no rule covers a meeting of 45m")


def test_rules_are_listed_in_words(policy: CompiledPolicy) -> None:
    assert [sentence(rule) for rule in policy.rules["owner"].rules][1:] == [
        "evenings: Ask me about meetings with ind.ai/bob, 18:00-21:00",
        "no-lunch: Never during lunch",
    ]


def days(zone: str, start: str, minutes: int, fold: int = 0) -> list[tuple[str, str, int, int]]:
    start_ms = at(start, zone, fold)
    found: list[LocalDay] = touched_days(ZoneInfo(zone), start_ms, start_ms + minutes * 60_000)
    first = datetime(1970, 1, 1)  # noqa: DTZ001 - a date, not an instant
    return [
        ((first + timedelta(days=day.number)).date().isoformat(), day.weekday, day.start, day.end)
        for day in found
    ]


@pytest.mark.parametrize(
    ("zone", "start", "minutes", "touched"),
    [
        ("Asia/Kolkata", "2026-11-23T23:30", 30, [("2026-11-23", "mon", 1410, 1440)]),
        (
            "Asia/Kolkata",
            "2026-11-23T23:30",
            31,
            [("2026-11-23", "mon", 1410, 1440), ("2026-11-24", "tue", 0, 1)],
        ),
        # 02:00 becomes 03:00: an hour of the clock is skipped.
        ("Europe/Berlin", "2026-03-29T01:45", 30, [("2026-03-29", "sun", 105, 195)]),
        # 03:00 becomes 02:00: the hour is shown twice, and touched as a whole.
        ("Europe/Berlin", "2026-10-25T02:50", 20, [("2026-10-25", "sun", 120, 180)]),
        # A day that begins at 01:00.
        (
            "America/Sao_Paulo",
            "2018-11-03T23:30",
            60,
            [("2018-11-03", "sat", 1410, 1440), ("2018-11-04", "sun", 60, 90)],
        ),
        # A day of 23 hours lies wholly inside a meeting of 24.
        (
            "Europe/Berlin",
            "2026-03-28T23:30",
            1440,
            [("2026-03-28", "sat", 1410, 1440), ("2026-03-29", "sun", 0, 1440), ("2026-03-30", "mon", 0, 30)],
        ),
    ],
)
def test_local_days_follow_the_clock_on_the_wall(
    zone: str, start: str, minutes: int, touched: list[tuple[str, str, int, int]]
) -> None:
    assert days(zone, start, minutes) == touched


def test_a_meeting_over_midnight_is_checked_on_both_days() -> None:
    night = compile_policy(
        "version: 1\ntimezone: Asia/Kolkata\nrules:\n  - allow: meet\n    with: anyone\n"
        "    hours: ['22:00-24:00', '00:00-02:00']\n    weekdays: [mon, tue]\n"
    )

    def outcome(start: str, minutes: int) -> Outcome:
        return decide(night, ALICE, meeting(start, minutes)).evaluation.outcome

    assert outcome("2026-11-23T23:30", 60) is Outcome.PERMIT
    assert outcome("2026-11-24T23:30", 30) is Outcome.PERMIT
    assert outcome("2026-11-24T23:30", 31) is Outcome.REFUSE  # runs into Wednesday
    assert outcome("2026-11-23T23:30", 151) is Outcome.REFUSE  # until after 02:00


def test_a_meeting_that_ends_where_denied_hours_begin_is_not_stopped(policy: CompiledPolicy) -> None:
    outcomes = [
        decide(policy, ALICE, meeting(start, 30, "ind.ai/carol")).evaluation.outcome.value
        for start in ("2026-11-23T12:30", "2026-11-23T12:31", "2026-11-23T13:59", "2026-11-23T14:00")
    ]
    assert outcomes == ["permit", "refuse", "refuse", "permit"]


def test_limited_hours_never_cover_a_whole_day_in_between() -> None:
    nights = compile_policy(
        "version: 1\ntimezone: Europe/Berlin\nrules:\n  - allow: meet\n    with: anyone\n"
        "    hours: ['23:00-24:00', '00:00-01:00']\n"
    )
    # The 29th of March has 23 hours, so a meeting of 24 may touch three days.
    start = at("2026-03-28T23:30", "Europe/Berlin")
    facts = Facts("ind.ai/bob", start, start + 86_400_000, start - 86_400_000)
    assert decide(nights, ALICE, facts).evaluation.outcome is Outcome.REFUSE


def test_windows_of_a_day_stop_at_what_is_denied_and_mark_what_is_asked(policy: CompiledPolicy) -> None:
    facts = WindowFacts(
        "ind.ai/bob",
        30 * 60_000,
        at("2026-11-23T00:00"),
        at("2026-11-24T00:00"),
        now_ms=at("2026-11-23T08:30"),
    )
    spans = [(one.start_ms, one.end_ms, one.outcome) for one in allowed_windows(policy, facts)]
    assert spans == [
        (at("2026-11-23T10:30"), at("2026-11-23T13:00"), Outcome.PERMIT),
        (at("2026-11-23T14:00"), at("2026-11-23T18:00"), Outcome.PERMIT),
        (at("2026-11-23T17:30") + 1, at("2026-11-23T21:30") - 1, Outcome.ASK),
    ]


def test_windows_leave_out_days_that_are_full(policy: CompiledPolicy) -> None:
    facts = WindowFacts(
        "ind.ai/carol",
        30 * 60_000,
        at("2026-11-25T00:00"),
        at("2026-11-27T00:00"),
        now_ms=at("2026-11-23T08:30"),
        agreed_ms=[at("2026-11-25T15:00")] * 4,
    )
    assert {one.start_ms // 86_400_000 for one in allowed_windows(policy, facts)} == {
        at("2026-11-26T10:00") // 86_400_000
    }


@pytest.mark.parametrize("change", [{"duration_ms": 0}, {"end_ms": 1}, {"end_ms": 10**17}, {"start_ms": -1}])
def test_a_range_that_is_none_is_the_callers_mistake(policy: CompiledPolicy, change: dict[str, int]) -> None:
    stated = {"duration_ms": 60_000, "start_ms": 10**12, "end_ms": 10**12 + 1, **change}
    start, end = stated["start_ms"], stated["end_ms"]
    facts = WindowFacts("ind.ai/bob", stated["duration_ms"], start, end, now_ms=10**12)
    with pytest.raises(InvalidInput):
        allowed_windows(policy, facts)


CASES = """\
now: 2026-11-23T08:30
cases:
  - name: a friend, half an hour
    with: ind.ai/bob
    start: 2026-11-23T11:00
    duration: 30m
    expect: permit
    rule: short-meetings
  - { with: ind.ai/bob, start: "2026-11-23T11:00+05:30", duration: 45m, expect: permit }
  - { with: ind.ai/bob, start: "2026-11-23T12:50", duration: 20m, expect: refuse, rule: evenings }
"""


def test_an_owners_cases_are_run_and_told(policy: CompiledPolicy) -> None:
    results = run_cases(policy, ALICE, CASES)
    assert [(result.case.name, result.outcome.value, result.passed) for result in results] == [
        ("a friend, half an hour", "permit", True),
        ("case 2", "refuse", False),
        ("case 3", "refuse", False),
    ]
    assert "'short-meetings', wants meetings of up to 30 min" in results[1].words


def test_faulty_cases_are_told_with_their_lines(policy: CompiledPolicy) -> None:
    with pytest.raises(InvalidInput) as raised:
        run_cases(
            policy, ALICE, "cases:\n  - { with: ind.ai/bob, start: soon, duration: 30m, expects: permit }\n"
        )
    assert raised.value.fields == {
        "cases[1].expects": "line 2: unknown field `expects`; did you mean `expect`?",
        "cases[1].expect": "line 2: missing",
        "cases[1].start": "line 2: is no time; write it like 2026-11-24T10:00",
        "cases[1].now": "line 2: missing; write `now: 2026-11-23T09:00` once at the top",
    }
