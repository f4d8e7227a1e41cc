"""One commitment takes the place of another: who may sign for which, decided alike on both sides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from indai.protocol.contest import FREE, LOST, Rival, Ruling, Stake, is_taken, noted, rival, ruling
from indai.protocol.lifecycle import State, committed, named_by
from indai.protocol.negotiation import OfferState
from indai.protocol.party_state import Phase, Role, Side

from tests.unit.lives import DEED, TERMS

FIRST, SECOND, THIRD = 1_000, 2_000, 3_000
LOW, HIGH = b"\x01" * 16, b"\x02" * 16
ONCE = committed(DEED)
OFTEN = committed(replace(DEED, times_ms=(FIRST, SECOND, THIRD)))
TWICE = committed(replace(DEED, times_ms=(FIRST, SECOND)))


def signed(stake: Stake, thread: bytes = HIGH, time_ms: int = 0) -> Rival:
    return Rival(thread, time_ms, stake)


@pytest.mark.rule("LIF-25")
@pytest.mark.parametrize("accepting", [False, True])
def test_nobody_signs_for_a_second_one_but_to_end_what_crosses(accepting: bool) -> None:
    assert ruling(ONCE, LOW, 0, [signed(Stake.ASKED)], accepting=accepting) == FREE
    assert ruling(ONCE, LOW, 0, [signed(Stake.ACCEPTED)], accepting=accepting) == LOST
    assert ruling(ONCE, HIGH, 0, [signed(Stake.OFFERED, LOW)], accepting=accepting) == LOST
    wins = ruling(ONCE, LOW, 0, [signed(Stake.OFFERED)], accepting=accepting)
    assert wins == (Ruling(True, (HIGH,)) if accepting else LOST)


@pytest.mark.rule("LIF-25")
def test_what_has_been_moved_or_has_ended_is_not_moved_again() -> None:
    moved, ended = named_by(ONCE, b"m" * 32), replace(ONCE, state=State.CANCELLED)
    assert ruling(None, LOW, 0, (), accepting=True) == LOST
    for life in (moved, ended):
        assert is_taken(life, 0)
        assert ruling(life, LOW, 0, (), accepting=True) == LOST
    one = named_by(OFTEN, b"m" * 32, SECOND)  # the OMIT that says so may still be on its way
    assert [is_taken(one, at) for at in (FIRST, SECOND, THIRD, THIRD + 1, 0)] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert is_taken(named_by(one, b"n" * 32, THIRD), FIRST)  # the last is moved with the whole
    assert is_taken(replace(TWICE, omitted=frozenset({FIRST})), SECOND)


@pytest.mark.rule("LIF-25")
def test_times_are_moved_one_by_one_as_long_as_one_is_left() -> None:
    for mine, other in itertools.product((0, FIRST, SECOND), repeat=2):
        free = ruling(OFTEN, HIGH, mine, [signed(Stake.OFFERED, LOW, other)], accepting=False) == FREE
        assert free == (0 not in (mine, other) and mine != other)
    assert ruling(TWICE, HIGH, FIRST, [signed(Stake.OFFERED, LOW, SECOND)], accepting=False) == LOST
    both = [signed(Stake.OFFERED, HIGH, SECOND), signed(Stake.ACCEPTED, HIGH, THIRD)]
    assert ruling(OFTEN, LOW, FIRST, both, accepting=True) == LOST
    assert ruling(TWICE, LOW, FIRST, both[:1], accepting=True) == Ruling(True, (HIGH,))


@pytest.mark.rule("LIF-26")
def test_whatever_crosses_one_move_is_agreed_and_no_second() -> None:
    ends = [played(order) for order in itertools.product("pqPQ", repeat=6)]
    assert {len(end) for end in ends} == {1}
    assert {next(iter(end)) for end in ends} == {LOW, HIGH}  # who is quick enough wins; else the lower


def played(order: tuple[str, ...]) -> set[bytes]:
    """A has asked in LOW, B in HIGH, and both wishes are under way. Letters to A (p) and to B (q) are taken
    in this order, the newest first where it is a capital, then all others. What is agreed at the end."""
    bound: dict[str, dict[bytes, Stake]] = {"A": {}, "B": {}}
    mail: dict[str, list[tuple[str, bytes]]] = {"A": [("wish", HIGH)], "B": [("wish", LOW)]}
    agreed: set[bytes] = set()
    to = {"A": "B", "B": "A"}

    def take(who: str, at: int = 0) -> None:
        if not mail[who]:
            return
        (said, thread), mine = mail[who].pop(at), bound[who]
        life = named_by(ONCE, next(iter(agreed_by[who]))) if agreed_by[who] else ONCE
        others = [Rival(each, 0, stake) for each, stake in mine.items() if each != thread]
        ruled = ruling(life, thread, 0, others, accepting=said == "offer")
        if said == "wish" and ruled.may_sign:
            mine[thread] = Stake.OFFERED
            mail[to[who]].append(("offer", thread))
        elif said == "offer" and ruled.may_sign:
            for each in ruled.gives_way:
                del mine[each]
            mine[thread] = Stake.ACCEPTED
            mail[to[who]].append(("accept", thread))
        elif said == "offer":
            mail[to[who]].append(("refuse", thread))
        elif said == "accept" and thread in mine:
            agreed.add(thread)
            agreed_by[who].add(thread)
            mail[to[who]].append(("receipt", thread))
        elif said == "receipt":
            agreed_by[who].add(thread)
        elif said in ("refuse", "accept"):
            mine.pop(thread, None)

    agreed_by: dict[str, set[bytes]] = {"A": set(), "B": set()}
    for letter in order:
        take("A" if letter in "pP" else "B", -1 if letter.isupper() else 0)
    while mail["A"] or mail["B"]:
        take("A")
        take("B")
    assert agreed_by["A"] == agreed_by["B"] == agreed
    return agreed


def sides() -> Iterator[tuple[Side, Stake | None]]:
    """A party's thread for the place of another's, at every stage."""
    side = Side(Role.INITIATOR, "A", "B", LOW, Phase.NEGOTIATING, terms=TERMS, supersedes=b"m" * 32)
    yield side, Stake.ASKED
    yield replace(side, reserved=TERMS, offer=OfferState.OPEN), Stake.OFFERED
    yield replace(side, reserved=TERMS, phase=Phase.IN_DOUBT), Stake.ACCEPTED
    for phase in (Phase.COMMITTED, Phase.REJECTED, Phase.WITHDRAWN, Phase.LAPSED):
        yield replace(side, phase=phase), None


def test_an_open_thread_is_noted_with_what_it_would_replace_and_stored() -> None:
    old = Side(Role.INITIATOR, "A", "B", HIGH, Phase.NEGOTIATING)
    for side, stake in sides():
        known = noted(noted(old, replace(side, phase=Phase.NEGOTIATING)), side)
        assert known.contenders == (() if stake is None else (LOW,))
        assert Side.from_json(known.to_json()) == known
        found = rival(side)
        assert (found.stake if found else None) is stake
