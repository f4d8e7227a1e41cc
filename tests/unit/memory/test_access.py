"""Doors and scopes, pages and parts: the pure sides of the service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.memory.access import Access, Door, Scope, ScopeKind, sight, user_binding
from indai.memory.consolidation import GAP_MS, segments, summary
from indai.memory.interfaces import Role, Trust, Turn
from indai.memory.knowledge import CHUNK_CHARACTERS, split
from indai.memory.queue import Job, Task
from indai.memory.requests import position, token
from indai.memory.times import at, ms, new_uuid
from indai.memory.turns import Heard
from indai.protocol.errors import InvalidInput, NotFound, Refused

NAMES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8)
SCOPES = st.builds(Scope, NAMES, st.sampled_from(ScopeKind), NAMES)


@given(SCOPES, SCOPES)
def test_two_scopes_have_one_id_only_if_they_are_the_same(one: Scope, other: Scope) -> None:
    assert (one.id == other.id) == (one == other)


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_end_users_have_one_scope_only_if_they_are_the_same(a: str, b: str, c: str, d: str) -> None:
    assert (user_binding(a, b) == user_binding(c, d)) == ((a, b) == (c, d))


@given(st.sampled_from(Door), SCOPES)
def test_no_door_shows_or_writes_another_tenant(door: Door, scope: Scope) -> None:
    look = sight(Access("a tenant", door, peer="p", person="u", binding="b", team="t", human="h"))
    assert {one.tenant for one in look.seen | look.written} <= {"a tenant"}
    assert look.written <= look.seen
    assert look.written_kinds <= look.seen_kinds
    if scope.tenant == "a tenant" and scope.kind is ScopeKind.USER_BINDING and door is not Door.DISTRIBUTION:
        with pytest.raises(NotFound):
            look.read(scope)


def test_a_scope_that_may_be_read_only_is_refused_and_an_unseen_one_is_not_there() -> None:
    look = sight(Access("t", Door.AGENT, peer="bob"))
    with pytest.raises(Refused):
        look.write(Scope("t", ScopeKind.PUBLIC))
    with pytest.raises(NotFound):
        look.write(Scope("t", ScopeKind.PRIVATE))
    with pytest.raises(Refused):
        sight(Access("t", Door.PUBLIC)).write(None)
    with pytest.raises(InvalidInput):
        sight(Access("t", Door.DISTRIBUTION, person="u"))


@given(st.integers(0, 2**40), NAMES)
def test_a_page_token_brings_its_position_back(number: int, name: str) -> None:
    identifier = new_uuid(number)
    assert position(token([name, number, identifier]), ("", 0, identifier)) == (name, number, identifier)
    assert ms(at(number)) == number


@pytest.mark.parametrize("made_up", ["x", "W10=", "WzEsMl0=", "é", "e30="])
def test_a_token_that_was_made_up_is_refused(made_up: str) -> None:
    with pytest.raises(InvalidInput):
        position(made_up, ("", new_uuid(0)))


@given(st.text(max_size=5_000))
def test_no_part_of_a_document_is_much_too_long_and_no_word_is_lost(text: str) -> None:
    parts = split("", text)
    assert all(len(part) <= 2 * CHUNK_CHARACTERS + 200 for part in parts)
    joined = "".join("".join(parts).split())
    assert all(letter in joined or letter in "# " for letter in set("".join(text.split())))


def test_a_job_comes_back_from_its_payload() -> None:
    job = Job(Task.EXTRACT, new_uuid(1), new_uuid(2), 3, 4)
    assert Job.parse("extract", job.payload) == job


def heard(place: int, said_ms: int, text: str) -> Heard:
    turn = Turn(str(place), "asha", Role.PERSON, text, said_ms, "s")
    return Heard(new_uuid(said_ms), turn, place, "", Trust.OWNER)


def test_a_silence_parts_a_session_and_a_summary_says_only_what_was_said() -> None:
    texts = ["the garden needs water", "the garden has roses", "fine", "water the roses", "the garden is dry"]
    turns = [heard(n, n * 1_000, text) for n, text in enumerate(texts)]
    later = [heard(9 + n, GAP_MS * 2 + n, "hello") for n in range(2)]
    (only,) = segments([*turns, *later])
    assert [one.turn.text for one in only] == texts
    lines = summary(only).split("\n")
    assert set(lines) <= {f"asha: {text}" for text in texts}
