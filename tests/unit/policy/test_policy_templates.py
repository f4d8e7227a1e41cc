"""The templates: each compiles, has no findings, survives a round trip, and does what its title says."""

from __future__ import annotations

import pytest
from indai.policy.cases import run_cases
from indai.policy.compiled import OWNER, CompiledPolicy, cautious_policy, compile_policy
from indai.policy.language import parse
from indai.policy.lint import lint
from indai.policy.templates import Template, fill, template, templates
from indai.policy.writing import write
from indai.protocol.errors import InvalidInput, NotFound

BOB = "ind.ai/bob"
NAMES = ["brand", "clinic", "executive", "freelancer", "office", "organisation", "personal", "shop"]
PAY = "kind: pay, facts: {{ direction: {}, amount: {}, payee: a@b, payee_verified: true }}"
BOOK = "kind: book, facts: {{ sku: {}, quantity: {}, amount: {}, stock_left: {} }}"
ASK = "kind: ask, facts: {{ topic: {}, is_request: {} }}"
SHARE = "kind: share, facts: {{ item: {} }}"
MEET = "start: 2026-11-24T{}, duration: {}"  # a Tuesday
CASES = {
    "personal": [
        (MEET.format("11:00", "1h"), "ask"),
        (SHARE.format("profile/name"), "permit"),
        (SHARE.format("profile/phone"), "refuse"),
        (PAY.format("request", "900 INR"), "permit"),
        (PAY.format("request", "4000 INR"), "ask"),
        (PAY.format("request", "6000 INR"), "refuse"),
    ],
    "freelancer": [(ASK.format("price/day", "false"), "refuse"), (ASK.format("services", "false"), "permit")],
    "executive": [(MEET.format("11:00", "30m"), "ask"), (MEET.format("11:00", "2h"), "refuse")],
    "shop": [
        (BOOK.format("soap", 2, "90 INR", 2), "permit"),
        (BOOK.format("soap", 3, "90 INR", 2), "refuse"),
        (BOOK.format("sofa", 1, "30000 INR", 2), "ask"),
        (PAY.format("request", "10 INR"), "refuse"),
    ],
    "clinic": [
        (BOOK.format("appointment/eye", 1, "500 INR", 5), "permit"),
        (ASK.format("diagnosis", "false"), "refuse"),
        (SHARE.format("document/record-7"), "refuse"),
    ],
    "office": [
        (ASK.format("water", "true"), "permit"),
        (ASK.format("water", "false"), "refuse"),
        (PAY.format("request", "10 INR"), "refuse"),
    ],
    "brand": [(ASK.format("tour", "false"), "permit"), (ASK.format("deal", "true"), "ask")],
    "organisation": [
        (PAY.format("request", "900 INR"), "refuse"),
        (MEET.format("11:00", "1h"), "ask"),
    ],
}


def compiled(one: Template) -> CompiledPolicy:
    if one.layer == OWNER:
        return compile_policy(one.text)
    return compile_policy(cautious_policy("UTC"), {one.layer: one.text})


def test_there_is_a_template_for_each_common_owner() -> None:
    assert [one.name for one in templates()] == NAMES
    assert all(one.title and one.words.endswith(".") for one in templates())


@pytest.mark.parametrize("name", NAMES)
def test_a_template_compiles_has_no_findings_and_round_trips(name: str) -> None:
    one = template(name)
    rules = compiled(one).rules[one.layer]
    assert lint(rules, one.layer) == []
    assert parse(write(rules), one.layer) == rules


@pytest.mark.parametrize("name", NAMES)
def test_a_template_answers_a_verified_stranger_as_its_title_says(name: str) -> None:
    lines = "\n".join(
        f"  - {{ with: {BOB}, verified: true, {facts}, expect: {outcome} }}" for facts, outcome in CASES[name]
    )
    results = run_cases(compiled(template(name)), "ind.ai/alice", f"now: 2026-11-23T12:00\ncases:\n{lines}\n")
    assert [(one.case.name, one.words) for one in results if not one.passed] == []


def test_a_template_takes_the_owners_zone_and_currency_or_says_what_is_wrong() -> None:
    text = fill(template("personal"), "Europe/Berlin", "EUR")
    assert (parse(text).time_zone, parse(text).currency) == ("Europe/Berlin", "EUR")
    with pytest.raises(InvalidInput):
        fill(template("personal"), "Mars/Olympus")
    with pytest.raises(NotFound):
        template("../personal")
