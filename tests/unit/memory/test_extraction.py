"""What the deterministic extractor takes from a turn, what it leaves, and what ends what."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.memory.extraction import DeterministicExtractor, contradicts, extract
from indai.memory.interfaces import ExtractionContext, Fact, Role, Triple, Turn

DATA = Path(__file__).parent / "data"
# Wednesday, 12 November 2025, noon in Kolkata.
NOW = int(datetime(2025, 11, 12, 6, 30, tzinfo=UTC).timestamp() * 1000)
CONTEXT = ExtractionContext(person="asha", time_zone="Asia/Kolkata")
SURE = 0.6


def turn(text: str, role: Role = Role.PERSON) -> Turn:
    return Turn("t1", "Asha", role, text, NOW)


def facts(text: str) -> set[str]:
    found = [fact for fact in extract(turn(text), CONTEXT) if fact.confidence >= SURE]
    return {f"{fact.key}={fact.value if isinstance(fact.value, str) else _json(fact)}" for fact in found}


def one(text: str) -> Fact:
    (fact,) = extract(turn(text), CONTEXT)
    return fact


def _json(fact: Fact) -> str:
    return json.dumps(fact.value, ensure_ascii=False, sort_keys=True)


def labelled(name: str) -> list[tuple[str, set[str]]]:
    lines = [line for line in (DATA / name).read_text("utf-8").splitlines() if line[:1] != "#"]
    pairs = [line.split("\t") for line in lines]
    return [(text, set() if label == "-" else set(label.split(" | "))) for text, label in pairs]


@pytest.mark.parametrize(
    ("name", "precision", "recall"), [("extraction.tsv", 0.97, 0.90), ("extraction_heldout.tsv", 0.95, 0.80)]
)
def test_few_facts_are_junk_and_most_are_found(name: str, precision: float, recall: float) -> None:
    rows = labelled(name)
    found = [(facts(text), wanted) for text, wanted in rows]
    right = sum(len(got & wanted) for got, wanted in found)
    assert right / sum(len(got) for got, _ in found) >= precision
    assert right / sum(len(wanted) for _, wanted in found) >= recall
    assert sum(bool(got) for got, wanted in found if not wanted) <= 0.03 * sum(
        not wanted for _, wanted in found
    )


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.TOOL, Role.RECALLED])
def test_nothing_is_taken_from_what_no_person_said(role: Role) -> None:
    text = "I live in Pune. My name is Asha. मुझे चाय पसंद है।"
    assert extract(turn(text), CONTEXT)
    assert extract(turn(text, role), CONTEXT) == []


def test_a_name_in_small_letters_waits_for_a_second_mention() -> None:
    assert one("I live in hope").confidence < SURE
    assert one("I live in Hope").confidence >= SURE


def test_saying_it_twice_is_one_fact() -> None:
    assert len(extract(turn("I love mangoes. I love mangoes! I really love mangoes."), CONTEXT)) == 1


def test_days_are_seen_from_when_it_was_said_in_the_persons_zone() -> None:
    late = Turn("t2", "Asha", Role.PERSON, "my exam is tomorrow", NOW + 13 * 3_600_000)
    (fact,) = extract(late, CONTEXT)
    assert fact.value == {"what": "exam", "date": "2025-11-14"}
    (elsewhere,) = extract(late, ExtractionContext(time_zone="UTC"))
    assert elsewhere.value == {"what": "exam", "date": "2025-11-13"}


def test_relatives_and_places_are_edges_of_the_graph() -> None:
    assert one("mere bhai ka naam Rohan hai").relation == Triple("Asha", "brother", "Rohan")
    assert one("मेरी बहन दिल्ली में रहती है").relation == Triple("Asha's sister", "lives in", "दिल्ली")
    assert one("I live in Pune").relation == Triple("Asha", "lives in", "Pune")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I love coffee", "I hate coffee now"),
        ("I love chai", "मुझे चाय पसंद नहीं"),
        ("mujhe chai pasand hai", "maine chai chhod di"),
        ("I hate coriander", "I love coriander now"),
        ("I live in Pune", "We moved to Nashik"),
        ("I live in Pune", "I don't live in Pune any more"),
        ("My wife's name is Meena", "My wife's name is Sarla"),
        ("my exam is on 20 December", "my exam is on 22 December"),
        ("My favourite colour is green", "My favourite colour is blue"),
        ("My sister lives in Oslo", "My sister lives in Bergen"),
    ],
)
def test_a_later_statement_ends_an_earlier_one(before: str, after: str) -> None:
    assert contradicts(one(before), one(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I love coffee", "I love coffee"),
        ("I love coffee", "I hate tea"),
        ("I love coffee", "I love tea"),
        ("I live in Pune", "I'm originally from Nashik"),
        ("I live in Pune", "I don't live in Delhi any more"),
        ("My brother's name is Karan", "My brother's name is Rohan"),
        ("my exam is on 20 December", "my flight is on 22 December"),
        ("I'm allergic to dust", "I'm allergic to peanuts"),
    ],
)
def test_what_can_both_hold_does(before: str, after: str) -> None:
    assert not contradicts(one(before), one(after))


async def test_the_extractor_of_the_service_gives_the_same_facts() -> None:
    said = turn("I live in Pune")
    assert await DeterministicExtractor().extract(said, CONTEXT) == extract(said, CONTEXT)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_without_failing(text: str) -> None:
    assert len(extract(turn(text), CONTEXT)) <= 32


def test_a_very_long_text_is_read_in_time_that_grows_with_it() -> None:
    assert extract(turn("I love " * 20_000), CONTEXT) == []
    assert len(extract(turn("my name is Asha. " * 6_000), CONTEXT)) == 1
