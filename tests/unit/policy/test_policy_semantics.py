"""Cedar, interval arithmetic and a plain reading of the rules agree; the most restrictive layer wins."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import cedarpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from indai.client.decisions import (
    Evaluation,
    Layer,
    Outcome,
    engine_version,
    evaluate,
    evaluate_many,
    most_restrictive,
)
from indai.policy.cedar import SCHEMA, compile_layer
from indai.policy.compiled import (
    OWNER,
    PLATFORM,
    PLATFORM_YAML,
    CompiledPolicy,
    compile_policy,
    compile_rules,
    decide,
    decide_many,
)
from indai.policy.facts import Facts, entities_json, request_json
from indai.policy.language import parse
from indai.policy.rules import Effect, Limits, Rule, Rules
from indai.policy.values import WEEKDAYS, Hours, merge_hours
from indai.policy.windows import WindowFacts, allowed_windows
from indai.protocol.errors import InvalidInput, Reason, Unavailable

from .policy_oracle import expected

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
ALICE = "ind.ai/alice"
PLATFORM_RULES = parse(PLATFORM_YAML)
# Instants around clock changes (ahead, back, by half an hour, at midnight), and ordinary ones.
ZONES = {
    "Asia/Kolkata": 1_795_400_000_000,
    "Europe/Berlin": 1_774_745_000_000,  # 29 March 2026, 01:00 UTC: ahead
    "America/New_York": 1_793_510_000_000,  # 1 November 2026: back
    "Australia/Lord_Howe": 1_775_312_000_000,  # 4 April 2026: back by half an hour
    "America/Sao_Paulo": 1_541_300_000_000,  # 4 November 2018: ahead at midnight
}
PEERS = ("ind.ai/bob", "ind.ai/carol", "acme.com/dan/work", "acme.com/eve", "ranveer.ai")
TERMS = ("anyone", "verified", "friends", "work", "ind.ai/bob", "acme.com/*")
CIRCLES = {"friends": ("ind.ai/bob", "ind.ai/carol"), "work": ("ind.ai/carol", "acme.com/*/work")}

quarter = st.integers(0, 96).map(lambda n: n * 15)
hours_of_day = (
    st.lists(
        st.tuples(quarter, quarter).filter(lambda w: w[0] < w[1]).map(lambda w: Hours(*w)),
        min_size=1,
        max_size=3,
    )
    .map(merge_hours)
    .filter(lambda hours: hours != (Hours(0, 1440),))
)


def limits(step: int, most: int) -> st.SearchStrategy[Limits]:
    some = st.none() | st.integers(0, most).map(lambda n: n * step)
    return st.builds(Limits, some, some)


@st.composite
def rules(draw: st.DrawFn, number: int) -> Rule:
    effect = draw(st.sampled_from([Effect.ALLOW, Effect.ALLOW, Effect.ASK, Effect.DENY]))
    limited = effect is not Effect.DENY and draw(st.booleans())
    return Rule(
        id=f"rule-{number}",
        effect=effect,
        peers=tuple(draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=2, unique=True))),
        duration=draw(st.just(Limits()) | limits(15, 12)),
        notice=draw(st.just(Limits()) | limits(120, 24)),
        hours=draw(st.just(()) | hours_of_day),
        weekdays=draw(st.just(()) | st.sets(st.sampled_from(WEEKDAYS), min_size=1).map(tuple)),
        daily_limit=draw(st.integers(1, 3)) if limited else None,
    )


@st.composite
def policies(draw: st.DrawFn) -> CompiledPolicy:
    made = tuple(draw(rules(number)) for number in range(draw(st.integers(1, 4))))
    zone = draw(st.sampled_from(sorted(ZONES)))
    unmatched = draw(st.sampled_from([Outcome.REFUSE, Outcome.ASK]))
    return compile_rules("", Rules(zone, made, CIRCLES, unmatched))


@st.composite
def meetings(draw: st.DrawFn, zone: str) -> Facts:
    around = ZONES[zone] - ZONES[zone] % (15 * MINUTE)
    start = (
        around + draw(st.integers(-200, 200)) * 15 * MINUTE + draw(st.sampled_from([0, 0, MINUTE, -MINUTE]))
    )
    length = draw(st.integers(0, 12) | st.integers(0, 100)) * 15 * MINUTE
    return Facts(
        peer=draw(st.sampled_from(PEERS)),
        start_ms=start,
        end_ms=start + length,
        now_ms=start - draw(st.integers(-2, 50)) * HOUR,
        verified=draw(st.booleans()),
        already_that_day=draw(st.integers(0, 4)),
    )


modest = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@modest
@given(st.data())
def test_cedar_decides_what_a_plain_reading_of_the_rules_says(data: st.DataObject) -> None:
    policy = data.draw(policies())
    facts = [data.draw(meetings(policy.time_zone)) for _ in range(4)]
    for decided in decide_many(policy, ALICE, facts):
        assert not decided.evaluation.errors
        assert decided.evaluation.outcome is expected(PLATFORM_RULES, policy.rules[OWNER], decided.facts)


@modest
@given(st.data())
def test_a_slot_is_in_an_allowed_window_exactly_if_cedar_allows_it(data: st.DataObject) -> None:
    policy = data.draw(policies())
    facts = data.draw(meetings(policy.time_zone))
    assume(facts.end_ms > facts.start_ms)
    day = facts.start_ms - 2 * DAY, facts.end_ms + 2 * DAY
    asked = WindowFacts(
        facts.peer,
        facts.end_ms - facts.start_ms,
        *day,
        now_ms=facts.now_ms,
        verified=facts.verified,
        agreed_ms=[facts.start_ms] * facts.already_that_day,
    )
    holding = {
        window.outcome
        for window in allowed_windows(policy, asked)
        if window.start_ms <= facts.start_ms and facts.end_ms <= window.end_ms
    }
    outcome = decide(policy, ALICE, facts).evaluation.outcome
    assert holding == (set() if outcome is Outcome.REFUSE else {outcome})


@modest
@given(st.data())
def test_one_more_deny_rule_never_allows_more_and_one_more_ask_rule_never_permits_more(
    data: st.DataObject,
) -> None:
    policy = data.draw(policies())
    added = data.draw(rules(99))
    assume(added.effect is not Effect.ALLOW)
    owner = policy.rules[OWNER]
    stricter = compile_rules("", replace(owner, rules=(*owner.rules, added)))
    facts = data.draw(meetings(policy.time_zone))
    before, after = (decide(p, ALICE, facts).evaluation.outcome for p in (policy, stricter))
    if added.effect is Effect.DENY:
        assert most_restrictive([before, after]) is after
    else:
        assert not (after is Outcome.PERMIT and before is not Outcome.PERMIT)


@modest
@given(st.data())
def test_one_more_layer_is_never_less_restrictive(data: st.DataObject) -> None:
    policy, other = data.draw(policies()), data.draw(policies())
    facts = data.draw(meetings(policy.time_zone))
    request = request_json(ALICE, facts, policy.time_zone)
    layers = {**policy.rules, "session": other.rules[OWNER]}
    entities = entities_json(facts.peer, facts.verified, layers)
    session = compile_layer("session", other.rules[OWNER])
    before = evaluate(policy.layers, SCHEMA, request, entities).outcome
    alone = evaluate([session], SCHEMA, request, entities).outcome
    assert evaluate([*policy.layers, session], SCHEMA, request, entities).outcome is most_restrictive(
        [before, alone]
    )


def test_no_layer_at_all_refuses() -> None:
    policy = compile_policy(ANYTHING)
    request, entities = asked(policy)
    assert evaluate([], SCHEMA, request, entities).outcome is Outcome.REFUSE
    assert most_restrictive([]) is Outcome.REFUSE


ANYTHING = "version: 1\ntimezone: UTC\nrules:\n  - allow: meet\n    with: anyone\n"
FACTS = Facts("ind.ai/bob", 1_795_400_000_000, 1_795_400_000_000 + HOUR, 1_795_300_000_000)


def asked(policy: CompiledPolicy, **context: object) -> tuple[str, str]:
    request = json.loads(request_json(ALICE, FACTS, policy.time_zone))
    request["context"].update(context)
    return json.dumps(request), entities_json(FACTS.peer, FACTS.verified, policy.rules)


@pytest.mark.parametrize(
    "context",
    [
        {"start_ms": "soon"},
        {"end_ms": None},
        {"unheard_of": 1},
        {"end_ms": 2**63},
        {"now_ms": -(2**70)},
        {"weekdays": "mon"},
    ],
)
def test_a_request_that_does_not_fit_the_schema_is_refused(context: dict[str, object]) -> None:
    policy = compile_policy(ANYTHING)
    assert decide(policy, ALICE, FACTS).evaluation.outcome is Outcome.PERMIT
    answer = evaluate(policy.layers, policy.schema, *asked(policy, **context))
    assert answer.outcome is Outcome.REFUSE
    assert answer.errors
    assert answer.rules == ()


def test_an_overflow_refuses_and_names_the_rule() -> None:
    policy = compile_policy(ANYTHING)
    answer = evaluate(policy.layers, policy.schema, *asked(policy, end_ms=-(2**63)))
    assert answer.outcome is Outcome.REFUSE
    assert "platform/possible-meetings" in answer.errors[0]


@pytest.mark.parametrize("request_text", ["", "[]", "{}", "[" * 5000, '{"principal":1}', "null"])
def test_a_request_that_is_no_request_is_refused_and_spoils_no_other(request_text: str) -> None:
    policy = compile_policy(ANYTHING)
    good, entities = asked(policy)
    bad, fine = evaluate_many(policy.layers, policy.schema, [request_text, good], entities)
    assert (bad.outcome, fine.outcome) == (Outcome.REFUSE, Outcome.PERMIT)
    assert bad.errors


@pytest.mark.parametrize(
    "entities", ["", "{}", "[1]", '[{"uid":{"type":"Peer","id":"x"},"attrs":{},"parents":[]}]']
)
def test_entities_that_do_not_fit_the_schema_refuse(entities: str) -> None:
    policy = compile_policy(ANYTHING)
    answer = evaluate(policy.layers, policy.schema, asked(policy)[0], entities)
    assert answer.outcome is Outcome.REFUSE
    assert answer.errors


def test_without_a_schema_an_erring_forbid_would_be_skipped() -> None:
    """The negative control for passing the schema always, and for refusing on any evaluation error."""
    big = "forbid (principal, action, resource) when { context.amount > 10 };"
    texts = f"{ALL} {big}"
    request = {
        "principal": {"type": "Peer", "id": "x"},
        "action": {"type": "Action", "id": "pay"},
        "resource": {"type": "Agent", "id": "y"},
        "context": {},
    }
    assert cedarpy.is_authorized(request, texts, "[]").allowed
    schema = (
        "entity Peer; entity Agent; action pay appliesTo { principal: Peer, resource: Agent,"
        " context: { amount: Long } };"
    )
    assert not cedarpy.is_authorized(request, texts, "[]", schema).allowed
    layer = Layer(
        "owner",
        f'@id("owner/all") {ALL} @id("owner/big") {big}',
        "",
    )
    assert evaluate([layer], schema, json.dumps(request), "[]").outcome is Outcome.REFUSE


ALL = "permit (principal, action, resource);"


def test_ask_beats_a_permit_and_a_forbid_beats_both() -> None:
    policy = compile_policy(ANYTHING)
    request, entities = asked(policy)

    def answer(grant: str, ask: str, unmatched: Outcome = Outcome.REFUSE) -> Evaluation:
        return evaluate([Layer("owner", grant, ask, unmatched)], SCHEMA, request, entities)

    grant, ask = f'@id("owner/a") {ALL}', f'@id("owner/b") {ALL}'
    forbid = '@id("owner/c") forbid (principal, action, resource);'
    assert answer(grant, "") == Evaluation(Outcome.PERMIT, ("owner/a",))
    assert answer(grant, ask) == Evaluation(Outcome.ASK, ("owner/b",))
    assert answer(grant + forbid, ask) == Evaluation(Outcome.REFUSE, ("owner/c",))
    assert answer("", "") == Evaluation(Outcome.REFUSE)
    assert answer("", "", Outcome.ASK) == Evaluation(Outcome.ASK)


def test_an_unknown_obligation_refuses() -> None:
    policy = compile_policy(ANYTHING)
    request, entities = asked(policy)
    for annotation in ('@confetti("yes")', '@buffer("soon")', '@title_prefix("")'):
        layer = Layer("owner", f'@id("owner/a") {annotation} {ALL}', "")
        answer = evaluate([layer], SCHEMA, request, entities)
        assert answer.outcome is Outcome.REFUSE
        assert "unknown obligation" in answer.errors[0]


def test_obligations_of_all_matching_rules_hold_together() -> None:
    policy = compile_policy(
        "version: 1\ntimezone: UTC\nrules:\n"
        "  - {allow: meet, with: anyone, buffer: 5m}\n"
        "  - {allow: meet, with: ind.ai/bob, buffer: 1h, title_prefix: 'Ind: \"नमस्ते\"'}\n"
        "  - {allow: meet, with: ind.ai/eve, buffer: 8h}\n"
    )
    answer = decide(policy, ALICE, FACTS).evaluation
    assert answer.obligations == ("buffer:60m", 'title_prefix:Ind: "नमस्ते"')
    assert answer.rules == ("platform/possible-meetings", "owner/rule-1", "owner/rule-2")


@pytest.mark.parametrize(
    ("grant", "ask"),
    [
        (ALL, ""),
        (f'@id("platform/a") {ALL}', ""),
        (f'@id("owner/a") {ALL} @id("owner/a") {ALL}', ""),
        ("", '@id("owner/a") forbid (principal, action, resource);'),
        ('@id("owner/a") permit (principal == ?principal, action, resource);', ""),
        ("permit (", ""),
    ],
)
def test_texts_that_are_no_layer_are_told_apart_from_a_refusal(grant: str, ask: str) -> None:
    policy = compile_policy(ANYTHING)
    with pytest.raises(InvalidInput) as raised:
        evaluate([Layer("owner", grant, ask)], SCHEMA, *asked(policy))
    assert raised.value.reason is Reason.INVALID_POLICY


def test_no_layer_permits_by_default() -> None:
    policy = compile_policy(ANYTHING)
    with pytest.raises(InvalidInput) as raised:
        evaluate([Layer("owner", "", "", Outcome.PERMIT)], SCHEMA, *asked(policy))
    assert raised.value.reason is Reason.INVALID_POLICY


def test_a_recorded_decision_replays_from_its_texts_alone() -> None:
    policy = compile_policy(ANYTHING)
    decided = decide(policy, ALICE, FACTS)
    layers = [
        Layer(layer.name, layer.grant, layer.ask, Outcome(layer.unmatched.value)) for layer in policy.layers
    ]
    assert evaluate(layers, policy.schema, decided.request, decided.entities) == decided.evaluation
    assert json.dumps(json.loads(decided.request), sort_keys=True, separators=(",", ":")) == decided.request


def test_the_platform_stands_above_the_owner() -> None:
    policy = compile_policy(ANYTHING)
    assert PLATFORM in policy.rules
    start, now = FACTS.start_ms, FACTS.now_ms
    for changed, outcome in [
        (replace(FACTS, end_ms=start + DAY), Outcome.PERMIT),
        (replace(FACTS, end_ms=start + DAY + 1), Outcome.REFUSE),
        (replace(FACTS, end_ms=start), Outcome.REFUSE),
        (replace(FACTS, end_ms=start - HOUR), Outcome.REFUSE),
        (replace(FACTS, now_ms=start), Outcome.PERMIT),
        (replace(FACTS, now_ms=start + 1), Outcome.REFUSE),
        (replace(FACTS, start_ms=now + 366 * DAY, end_ms=now + 366 * DAY + HOUR), Outcome.PERMIT),
        (replace(FACTS, start_ms=now + 366 * DAY + 1, end_ms=now + 366 * DAY + HOUR), Outcome.REFUSE),
    ]:
        assert decide(policy, ALICE, changed).evaluation.outcome is outcome


def test_times_that_are_no_times_are_the_callers_mistake() -> None:
    policy = compile_policy(ANYTHING)
    for wrong in (
        replace(FACTS, start_ms=-1),
        replace(FACTS, end_ms=10**18),
        replace(FACTS, end_ms=FACTS.start_ms + 32 * DAY),
    ):
        with pytest.raises(InvalidInput) as raised:
            decide(policy, ALICE, wrong)
        assert raised.value.reason is Reason.INVALID_ARGUMENT


def test_without_the_engine_a_replay_says_so_instead_of_guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = compile_policy(ANYTHING)
    decided = decide(policy, ALICE, FACTS)
    assert (engine_version() or "").startswith("cedarpy ")
    monkeypatch.setitem(sys.modules, "cedarpy", None)
    with pytest.raises(Unavailable):
        evaluate(policy.layers, policy.schema, decided.request, decided.entities)
    assert engine_version() is None
