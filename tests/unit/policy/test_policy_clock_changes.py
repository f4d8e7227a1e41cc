"""Around every kind of clock change, quarter by quarter: Cedar, the windows and the plain reading agree."""

from __future__ import annotations

import pytest
from indai.client.decisions import Outcome
from indai.policy.compiled import OWNER, PLATFORM, CompiledPolicy, compile_policy, decide_many
from indai.policy.facts import Facts
from indai.policy.windows import WindowFacts, allowed_windows

from .policy_oracle import expected

ALICE, BOB = "ind.ai/alice", "ind.ai/bob"
QUARTER, HOUR = 900_000, 3_600_000
CHANGES = {
    "Europe/Berlin": (1_774_746_000_000, 1_792_890_000_000),  # 2026: ahead on 29 March, back on 25 October
    "Australia/Lord_Howe": (1_775_314_800_000, 1_791_041_400_000),  # 2026: by half an hour
    "America/Sao_Paulo": (1_541_300_400_000, 1_550_368_800_000),  # 2018/19: at midnight, both ways
}
ALLOW = "allow: meet\n    with: anyone\n"
RULES = {
    "windows that a skipped hour lets touch": f"{ALLOW}    hours: ['01:00-02:00', '03:00-04:00']",
    "hours within the change": f"{ALLOW}    hours: 02:15-02:45",
    "the change on one day of the week": f"{ALLOW}    weekdays: sun\n    hours: 00:00-03:30",
    "night": f"{ALLOW}    hours: ['22:30-24:00', '00:00-01:15', '01:30-03:00']",
    "denied within the change": f"{ALLOW}  - deny: meet\n    hours: 02:15-02:30",
    "denied around midnight": f"{ALLOW}  - deny: meet\n    hours: ['23:45-24:00', '00:15-00:30']",
    "asked on one day": f"{ALLOW}  - ask: meet\n    with: anyone\n    weekdays: sun\n    hours: 01:50-02:20",
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("zone", CHANGES)
def test_all_three_agree_around_a_clock_change(zone: str, rules: str) -> None:
    policy = compile_policy(f"version: 1\ntimezone: {zone}\nrules:\n  - {rules}\n")
    outcomes = set()
    for change in CHANGES[zone]:
        for length in (QUARTER, 3 * QUARTER, 5 * QUARTER):
            outcomes |= _compare(policy, change, length)
    assert len(outcomes) > 1  # otherwise nothing was compared


def _compare(policy: CompiledPolicy, change: int, length: int) -> set[Outcome]:
    starts = range(change - 6 * HOUR, change + 6 * HOUR, QUARTER)
    now = change - 24 * HOUR
    facts = [Facts(BOB, start, start + length, now) for start in starts]
    looked_at = WindowFacts(BOB, length, starts[0], starts[-1] + length, now_ms=now)
    windows = allowed_windows(policy, looked_at)
    outcomes = set()
    for decided in decide_many(policy, ALICE, facts):
        start, end = decided.facts.start_ms, decided.facts.end_ms
        outcome = decided.evaluation.outcome
        assert outcome is expected(policy.rules[PLATFORM], policy.rules[OWNER], decided.facts)
        holding = {one.outcome for one in windows if one.start_ms <= start and end <= one.end_ms}
        assert holding == (set() if outcome is Outcome.REFUSE else {outcome})
        outcomes.add(outcome)
    return outcomes
