"""What becomes of facts: one for each value, one that holds for each key, and never lost."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from indai.memory.facts import FLOOR, Changes, Record, plan, unsaid
from indai.memory.interfaces import Fact, Trust


def contradicts(old: Fact, new: Fact) -> bool:
    return old.key == new.key and old.value != new.value


def row(number: int, value: str, confidence: float, since: int, source: int | None) -> Record:
    chunk = UUID(int=source) if source is not None else None
    fact = Fact("k", value, confidence)
    mentions = frozenset({chunk} if chunk else ())
    return Record(UUID(int=1_000 + number), fact, "", "test", Trust.OWNER, since, chunk, mentions=mentions)


def applied(known: list[Record], changes: Changes) -> list[Record]:
    """What the tables would hold."""
    rows = {one.id: one for one in [*known, *changes.added]}
    for fact, chunk in changes.mentioned:
        rows[fact] = replace(rows[fact], mentions=rows[fact].mentions | {chunk})
    for fact, confidence in changes.confirmed.items():
        rows[fact] = replace(rows[fact], pending=False, fact=replace(rows[fact].fact, confidence=confidence))
    assert not changes.ended.keys() & {one.id for one in changes.added}
    for fact, ended in changes.ended.items():
        rows[fact] = replace(rows[fact], ended_ms=ended)
    return list(rows.values())


SAID = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0.4, 0.9]), st.integers(1, 50), st.integers(1, 6)),
    max_size=12,
)


@settings(max_examples=150)
@given(SAID, st.integers(1, 12))
def test_at_most_one_value_holds_and_in_parts_or_at_once_the_same_holds(
    said: list[tuple[str, float, int, int]], cut: int
) -> None:
    rows = [row(n, *each) for n, each in enumerate(said)]
    kept: list[Record] = []
    for part in (rows[:cut], rows[cut:]):
        holding = [one for one in kept if not one.ended_ms]
        kept = [one for one in kept if one.ended_ms] + applied(holding, plan(holding, part, contradicts))
    once = applied([], plan([], rows, contradicts))
    for table in (kept, once):
        active = [one for one in table if not one.ended_ms and not one.pending]
        assert len(active) <= 1
        assert all(one.fact.confidence >= FLOOR for one in active)
        assert len({one.identity for one in table if not one.ended_ms}) == len(
            [one for one in table if not one.ended_ms]
        )
    assert {one.fact.value for one in kept} == {value for value, *_ in said}
    assert _held(kept) == _held(once)


def _held(table: list[Record]) -> set[tuple[object, bool]]:
    return {(one.fact.value, one.pending) for one in table if not one.ended_ms}


@settings(max_examples=50)
@given(SAID)
def test_what_was_taken_in_changes_nothing_the_second_time(said: list[tuple[str, float, int, int]]) -> None:
    rows = [row(n, *each) for n, each in enumerate(said)]
    kept = applied([], plan([], rows, contradicts))
    holding = [one for one in kept if not one.ended_ms]
    mentioned = {(one.identity, chunk) for one in kept for chunk in one.mentions}
    again = plan(holding, unsaid(rows, mentioned), contradicts)
    assert not again.added
    assert not again.mentioned
    assert not again.ended


def test_a_stated_fact_needs_no_second_mention() -> None:
    changes = plan([], [row(0, "a", 0.3, 1, None)], contradicts)
    assert [one.pending for one in changes.added] == [False]


def test_people_are_kept_apart() -> None:
    first = replace(row(0, "a", 0.9, 1, 1), person="x")
    second = replace(row(1, "b", 0.9, 2, 2), person="y")
    assert not plan([first], [second], contradicts).ended
