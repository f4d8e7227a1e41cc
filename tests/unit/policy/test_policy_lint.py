"""What the linter finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from indai.policy.language import parse
from indai.policy.lint import Code, lint

HEAD = "version: 1\ntimezone: UTC\ncircles: { friends: [ind.ai/bob], work: [acme.com/*] }\nrules:\n"
BOTH = "  - { id: z, deny: share, with: [friends, work] }\n"


@pytest.mark.parametrize(
    ("rules", "code", "rule", "words"),
    [
        (
            "  - { id: a, allow: meet, with: friends, hours: 09:00-12:00 }\n"
            "  - { id: b, allow: meet, with: friends, hours: 09:00-12:00 }\n",
            Code.DUPLICATE,
            "b",
            "'a' a second time",
        ),
        (
            "  - { id: a, allow: meet, with: friends }\n  - { id: b, deny: meet, with: friends }\n",
            Code.CONTRADICTION,
            "b",
            "says deny where 'a' says allow",
        ),
        (
            "  - { id: a, allow: meet, with: friends, hours: 10:00-11:00, weekdays: mon }\n"
            "  - { id: b, deny: meet, hours: 09:00-12:00 }\n",
            Code.NO_EFFECT,
            "a",
            "'b' refuses all of it",
        ),
        (
            "  - { id: a, allow: meet, with: ind.ai/bob, duration: { max: 30m } }\n"
            "  - { id: b, allow: meet, with: friends, duration: { max: 1h } }\n",
            Code.NO_EFFECT,
            "a",
            "'b' covers all of it",
        ),
        (
            "  - { id: a, allow: meet, with: acme.com/eve }\n  - { id: b, ask: meet, with: work }\n",
            Code.NO_EFFECT,
            "a",
            "'b' asks about all of it",
        ),
        (
            "  - { id: a, allow: meet, with: friends, duration: { min: 25h } }\n",
            Code.NEVER,
            "a",
            "the platform refuses",
        ),
        (
            "  - { id: a, allow: pay, with: friends, amount: { min: 20 INR }, per_day: 10 INR }\n",
            Code.NEVER,
            "a",
            "per_day is less",
        ),
        (
            "  - { id: a, allow: pay, with: friends, amount: { max: 20 INR }, per_day: 10 EUR }\n",
            Code.NEVER,
            "a",
            "amount is in INR and per_day in EUR",
        ),
        ("  - { id: a, allow: pay, with: friends }\n", Code.UNLIMITED, "a", "of any amount"),
    ],
)
def test_a_rule_that_cannot_mean_what_it_says_is_found(rules: str, code: Code, rule: str, words: str) -> None:
    found = [one for one in lint(parse(HEAD + rules + BOTH)) if one.rule == rule]
    assert [one.code for one in found] == [code]
    assert words in found[0].message
    assert found[0].line > 4


def test_a_circle_that_no_rule_names_is_found() -> None:
    (finding,) = lint(parse(HEAD + "  - { id: a, allow: meet, with: friends }\n"))
    assert (finding.code, finding.rule) == (Code.UNUSED, "work")


@pytest.mark.parametrize(
    "rules",
    [
        # A deny that only touches the hours of an allow leaves something of it.
        "  - { id: a, allow: meet, with: friends, hours: 10:00-13:00 }\n"
        "  - { id: b, deny: meet, hours: 12:00-14:00 }\n",
        # An allow inside the hours of an ask that wants more.
        "  - { id: a, allow: pay, with: friends, amount: { max: 20 INR } }\n"
        "  - { id: b, ask: pay, with: friends, amount: { min: 21 INR } }\n",
        # Equal conditions of two kinds.
        "  - { id: a, allow: meet, with: friends }\n  - { id: b, allow: ask, with: friends }\n",
        # The same with another obligation in a part of it.
        "  - { id: a, allow: meet, with: friends }\n"
        "  - { id: b, allow: meet, with: friends, hours: 09:00-10:00, buffer: 10m }\n",
    ],
)
def test_rules_that_go_together_are_left_alone(rules: str) -> None:
    assert lint(parse(HEAD + rules + BOTH)) == []
