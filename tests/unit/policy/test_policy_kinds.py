"""All five kinds: Cedar and a plain reading of the rules agree, files round-trip, findings are certain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from indai.client.decisions import Outcome
from indai.desk.pause import LAYER, paused
from indai.policy.compiled import OWNER, PLATFORM, compile_policy, compile_rules, decide, decide_many
from indai.policy.facts import Facts, facts_of
from indai.policy.kinds import MEET, PAY
from indai.policy.language import parse
from indai.policy.lint import Code, lint
from indai.policy.rules import Rules
from indai.policy.sentences import sentences
from indai.policy.windows import WindowFacts, allowed_windows
from indai.policy.writing import write
from indai.protocol.errors import InvalidInput, Reason

from . import policy_strategies as some
from .policy_oracle import expected

ALICE = "ind.ai/alice"
modest = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@modest
@given(st.data())
def test_cedar_decides_what_a_plain_reading_says_of_every_kind(data: st.DataObject) -> None:
    policy = compile_rules("", data.draw(some.policies()))
    for decided in decide_many(policy, ALICE, [data.draw(some.facts()) for _ in range(6)]):
        assert not decided.evaluation.errors
        wanted = expected(policy.rules[PLATFORM], policy.rules[OWNER], decided.facts)
        assert decided.evaluation.outcome is wanted


@modest
@given(some.policies())
def test_a_policy_that_is_written_is_read_as_the_same(rules: Rules) -> None:
    again = parse(write(rules))
    assert again == rules
    assert write(again) == write(rules)
    assert compile_rules("", again).layers == compile_rules("", rules).layers


@modest
@given(st.data())
def test_a_rule_without_effect_may_be_left_out(data: st.DataObject) -> None:
    rules = replace(data.draw(some.policies()), sections=())
    found = [one for one in lint(rules) if one.code in (Code.DUPLICATE, Code.NO_EFFECT, Code.NEVER)]
    whole = compile_rules("", rules)
    facts = [data.draw(some.facts()) for _ in range(4)] if found else []
    for finding in found:
        rest = tuple(rule for rule in rules.rules if rule.id != finding.rule)
        without = compile_rules("", replace(rules, rules=rest))
        for one in facts:
            before, after = (decide(policy, ALICE, one).evaluation.outcome for policy in (whole, without))
            assert before is after, finding


@modest
@given(some.policies())
def test_every_rule_has_a_sentence_that_names_it(rules: Rules) -> None:
    said = sentences(rules)
    assert [line.partition(":")[0] for line in said] == [rule.id for rule in rules.every]
    assert all("{" not in line for line in said)


@modest
@given(some.facts())
def test_the_facts_of_a_record_are_those_that_were_stated(facts: Facts) -> None:
    policy = compile_rules("", parse("version: 1\ntimezone: UTC\nrules:\n  - deny: anything\n"))
    decided = decide(policy, ALICE, facts)
    again = facts_of(decided.request, decided.entities)
    assert again is not None
    assert decide(policy, ALICE, again).request == decided.request


@modest
@given(st.data())
def test_a_pause_holds_for_every_kind_whatever_the_rules_permit(data: st.DataObject) -> None:
    text, facts = write(data.draw(some.policies())), [data.draw(some.facts()) for _ in range(4)]
    works = compile_policy(text, {})
    asks, refuses = (compile_policy(text, {LAYER: paused("", way)}) for way in ("ask", "refuse"))
    for one in facts:
        before = decide(works, ALICE, one).evaluation.outcome
        assert decide(refuses, ALICE, one).evaluation.outcome is Outcome.REFUSE
        wanted = Outcome.ASK if before is Outcome.PERMIT else before
        assert decide(asks, ALICE, one).evaluation.outcome is wanted


PAYS = "version: 1\ntimezone: UTC\nrules:\n  - { allow: pay, with: anyone, amount: { max: 20 INR } }\n"
STATED = {"direction": "request", "amount_minor": 1000, "currency": "INR", "payee": "x@y"}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, Outcome.PERMIT),
        ({"amount_minor": 2000}, Outcome.PERMIT),
        ({"amount_minor": 2001}, Outcome.REFUSE),
        ({"currency": "EUR"}, Outcome.REFUSE),
    ],
)
def test_a_payment_is_permitted_up_to_its_amount_in_its_currency(
    change: dict[str, object], outcome: Outcome
) -> None:
    facts = Facts.of(PAY, "ind.ai/bob", some.NOW, {**STATED, **change})  # type: ignore[dict-item]
    assert decide(compile_rules("", parse(PAYS)), ALICE, facts).evaluation.outcome is outcome


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"amount_minor": None}, "amount_minor"),
        ({"amount_minor": -1}, "amount_minor"),
        ({"amount_minor": True}, "amount_minor"),
        ({"amount_minor": 2**60}, "amount_minor"),
        ({"direction": "gift"}, "direction"),
        ({"currency": ""}, "currency"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_fact_that_is_missing_or_wrong_is_the_callers_mistake(
    change: dict[str, object], field: str
) -> None:
    stated = {name: value for name, value in {**STATED, **change}.items() if value is not None}
    facts = Facts.of(PAY, "ind.ai/bob", some.NOW, stated)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as raised:
        decide(compile_rules("", parse(PAYS)), ALICE, facts)
    assert raised.value.reason is Reason.INVALID_ARGUMENT
    assert list(raised.value.fields) == [field]


@modest
@given(st.data())
def test_windows_follow_every_condition_of_a_meeting(data: st.DataObject) -> None:
    policy = compile_rules("", data.draw(some.policies()))
    facts = data.draw(some.facts().filter(lambda one: one.kind == MEET))
    asked = WindowFacts(
        facts.peer,
        facts.end_ms - facts.start_ms,
        facts.start_ms - 2 * some.DAY,
        facts.end_ms + 2 * some.DAY,
        now_ms=facts.now_ms,
        verified=facts.verified,
        agreed_ms=[facts.start_ms] * facts.already_that_day,
        about=facts,
    )
    holding = {
        window.outcome
        for window in allowed_windows(policy, asked)
        if window.start_ms <= facts.start_ms and facts.end_ms <= window.end_ms
    }
    outcome = decide(policy, ALICE, facts).evaluation.outcome
    assert holding == (set() if outcome is Outcome.REFUSE else {outcome})
