"""One order out of many signals: what moves a candidate, what is left out, what fits the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.memory.embedding import MODEL
from indai.memory.interfaces import Candidate, Hit, Kind, Wanted
from indai.memory.ranking import pack, rank, tokens_of, weights_for

DAY = 86_400_000
NOW = 1_760_000_000_000
WEIGHTS = weights_for(MODEL)
WANTED = Wanted(now_ms=NOW)


def turn(number: int, text: str = "", **fields: Any) -> Candidate:
    given_fields: dict[str, Any] = {
        "id": UUID(int=number),
        "scope": UUID(int=0),
        "kind": Kind.TURN,
        "text": text or f"words of turn {number}",
        "lexical": 0.0,
        "similarity": 0.1,
        "session": "1",
        "place": number * 10,
        "said_ms": NOW - DAY,
    }
    return Candidate(**{**given_fields, **fields})


def order(*candidates: Candidate, wanted: Wanted = WANTED) -> list[int]:
    return [hit.candidate.id.int for hit in rank(candidates, wanted, WEIGHTS)]


def test_words_and_meaning_add_up() -> None:
    assert order(
        turn(1, lexical=5.0), turn(2, similarity=0.3), turn(3, lexical=5.0, similarity=0.3), turn(4)
    ) == [3, 1, 2, 4]


def test_a_turn_beside_the_answer_rises_and_one_in_another_session_does_not() -> None:
    hits = rank(
        [
            turn(1, lexical=5.0, similarity=0.3, place=1),
            turn(2, place=2),
            turn(3, place=2, session="2"),
            turn(4, place=9),
            turn(5, place=2, scope=UUID(int=7)),
        ],
        WANTED,
        WEIGHTS,
    )
    assert [hit.candidate.id.int for hit in hits][:2] == [1, 2]
    assert "neighbours" in hits[1].why
    assert all("neighbours" not in hit.why for hit in hits[2:])


def test_the_speaker_is_a_boost_and_never_a_filter() -> None:
    candidates = [turn(1, speaker="Asha Rao"), turn(2, speaker="Vikram")]
    assert order(*candidates, wanted=replace(WANTED, speaker="asha")) == [1, 2]
    assert order(*candidates, wanted=replace(WANTED, speaker="Vikram")) == [2, 1]


def test_the_time_that_was_asked_for_counts() -> None:
    march, may = turn(1, said_ms=NOW - 200 * DAY), turn(2, said_ms=NOW - 140 * DAY)
    asked = replace(WANTED, from_ms=NOW - 210 * DAY, to_ms=NOW - 190 * DAY)
    assert order(march, may) == [2, 1]
    assert order(march, may, wanted=asked) == [1, 2]


def test_a_question_for_a_time_prefers_what_names_one() -> None:
    candidates = [turn(1, "We got engaged yesterday"), turn(2, "We got engaged, imagine", said_ms=NOW)]
    assert order(*candidates) == [2, 1]
    assert order(*candidates, wanted=replace(WANTED, asks_when=True)) == [1, 2]


def test_what_has_nothing_in_common_is_left_out() -> None:
    assert order(turn(1, similarity=-0.1), turn(2, similarity=None)) == []


def test_near_duplicates_become_one_and_the_newer_stays() -> None:
    said = "I always take the slow train to Nagpur in the monsoon"
    old, new = turn(1, said, lexical=5.0), turn(2, said + "!", said_ms=NOW)
    assert order(old, new) == [2]


@pytest.mark.parametrize(
    ("one", "other", "fields"),
    [
        ("I like tea", "I don't like tea", {}),
        ("the flat costs 20000 a month now", "the flat costs 25000 a month now", {}),
        ("the same words", "the same words", {"speaker": "Vikram"}),
        ("the same words", "the same words", {"scope": UUID(int=7)}),
    ],
)
def test_a_no_a_number_a_speaker_or_a_scope_keeps_two_apart(
    one: str, other: str, fields: dict[str, Any]
) -> None:
    assert len(order(turn(1, one), turn(2, other, **fields))) == 2


def test_a_model_that_was_never_measured_ranks_by_words() -> None:
    assert weights_for("unheard-of") == weights_for("")
    assert weights_for("").vector == 0


def test_why_adds_up_to_the_score() -> None:
    wanted = replace(WANTED, speaker="Asha", from_ms=NOW - 2 * DAY, to_ms=NOW)
    for hit in rank(
        [turn(1, lexical=1.0, speaker="Asha", importance=0.9), turn(2, place=11)], wanted, WEIGHTS
    ):
        assert hit.score == pytest.approx(sum(hit.why.values()))


def hits(*parts: tuple[Kind, float, str]) -> list[Hit]:
    return [Hit(turn(i, text, kind=kind), score, {}) for i, (kind, score, text) in enumerate(parts)]


def test_a_budget_drops_the_lowest_recall_first_and_facts_last() -> None:
    text = "x" * 40
    found = hits(
        (Kind.TURN, 0.9, text), (Kind.FACT, 0.2, text), (Kind.TURN, 0.5, text), (Kind.TURN, 0.4, text)
    )
    budget = 3 * tokens_of(text)
    assert [hit.score for hit in pack(found, budget)] == [0.9, 0.2, 0.5]
    assert [hit.score for hit in pack(found, tokens_of(text))] == [0.2]
    assert pack(found, 0) == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(-1, 1), st.text(max_size=20)), max_size=12),
    st.integers(0, 90),
)
def test_ranking_is_a_stable_order_and_packing_keeps_to_the_budget(
    parts: list[tuple[float, float, str]], budget: int
) -> None:
    candidates = [turn(i, text, lexical=lex, similarity=cos) for i, (lex, cos, text) in enumerate(parts)]
    found = rank(candidates, WANTED, WEIGHTS)
    assert found == rank(list(reversed(candidates)), WANTED, WEIGHTS)
    assert all(a.score >= b.score for a, b in pairwise(found))
    assert sum(tokens_of(hit.candidate.text) for hit in pack(found, budget)) <= budget
