"""One commitment takes the place of another: who may sign for which, decided alike on both sides."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from indai.protocol import contest
from indai.protocol.contest import (
    FREE,
    LOST,
    WAITS,
    Bid,
    Rival,
    Ruling,
    Stake,
    is_ahead,
    is_taken,
    noted,
    rival,
    ruling,
)
from indai.protocol.lifecycle import State, committed, named_by
from indai.protocol.negotiation import OfferState
from indai.protocol.party_state import Phase, Role, Side

from tests.unit.lives import DEED, TERMS

FIRST, SECOND, THIRD = 1_000, 2_000, 3_000
ONE, OTHER = b"\x01" * 16, b"\x02" * 16
ONCE = committed(DEED)
THREE = committed(replace(DEED, parties=("A", "B", "C")))
OFTEN = committed(replace(DEED, times_ms=(FIRST, SECOND, THIRD)))
TWICE = committed(replace(DEED, times_ms=(FIRST, SECOND)))


def bid(by: str, number: int = 0) -> Bid:
    return Bid(hashlib.sha256(f"{by} {number}".encode()).digest(), by)


MINE = bid("A")
AHEAD, BEHIND = (
    next(each for each in (bid("B", n) for n in range(99)) if is_ahead(ONCE, (), each, MINE) is ahead)
    for ahead in (True, False)
)


def signed(stake: Stake, time_ms: int = 0) -> Rival:
    return Rival(OTHER, time_ms, stake, MINE)


@pytest.mark.rule("LIF-25")
@pytest.mark.parametrize("offered", [None, AHEAD, BEHIND])
def test_nobody_signs_for_a_second_one_but_to_end_what_crosses(offered: Bid | None) -> None:
    assert ruling(ONCE, 0, [signed(Stake.ASKED)], offered) == FREE
    assert ruling(ONCE, 0, [signed(Stake.ACCEPTED)], offered) == LOST
    crossing = ruling(ONCE, 0, [signed(Stake.OFFERED)], offered)
    assert crossing == (Ruling(True, (OTHER,)) if offered is AHEAD else LOST)


@pytest.mark.rule("LIF-26")
def test_of_two_offers_one_is_ahead_on_both_sides_and_neither_chooses_which() -> None:
    theirs = [bid("B", number) for number in range(200)]
    ahead = [is_ahead(ONCE, (), each, MINE) for each in theirs]
    assert ahead == [not is_ahead(ONCE, (), MINE, each) for each in theirs]
    assert 70 < sum(ahead) < 130
    assert not is_ahead(ONCE, (), MINE, MINE)
    # However low a mid is made, it is ahead of half of what it may meet, and no more.
    for mid in (b"\x00" * 32, b"\xff" * 32):
        assert 70 < sum(is_ahead(ONCE, (), Bid(mid, "A"), each) for each in theirs) < 130
    other = committed(replace(DEED, mid=b"x" * 32))
    assert ahead != [is_ahead(other, (), each, MINE) for each in theirs]


@pytest.mark.rule("LIF-26")
def test_of_several_all_have_one_order_that_hangs_on_every_signature() -> None:
    bids, orders = [bid(each) for each in "ABC"], set()
    for number in range(60):
        signatures = [b"a" * 64, b"b" * 64, bytes([number]) * 64]
        ranked = sorted(bids, key=lambda one: sum(is_ahead(THREE, signatures, o, one) for o in bids))
        for first, second in itertools.combinations(ranked, 2):  # no circle: who is ahead of all stays
            assert is_ahead(THREE, signatures, first, second)
            assert not is_ahead(THREE, signatures, second, first)
        again = [bid(each.by, number) for each in ranked]  # another offer of theirs is as far ahead
        assert is_ahead(THREE, signatures, again[0], again[1])
        orders.add("".join(each.by for each in ranked))
    assert len(orders) == 6


@pytest.mark.rule("LIF-27")
def test_of_several_what_is_not_ahead_waits_for_what_is_signed_unless_that_is_in_doubt() -> None:
    assert ruling(THREE, 0, [signed(Stake.ACCEPTED)], bid("B")) == WAITS
    assert ruling(THREE, 0, [signed(Stake.ACCEPTED)]) == LOST  # nobody begins another offer meanwhile
    first, second = (bid("A"), bid("B")) if is_ahead(THREE, (), bid("A"), bid("B")) else (bid("B"), bid("A"))
    assert ruling(THREE, 0, [Rival(OTHER, 0, Stake.OFFERED, first)], second) == WAITS
    assert ruling(THREE, 0, [Rival(OTHER, 0, Stake.OFFERED, second)], first) == Ruling(True, (OTHER,))
    doubted = Rival(OTHER, 0, Stake.ACCEPTED, first, is_doubted=True)
    assert ruling(THREE, 0, [doubted], second) == LOST
    assert ruling(named_by(THREE, b"m" * 32), 0, [], second) == LOST


@pytest.mark.rule("LIF-25")
def test_what_has_been_moved_or_has_ended_is_not_moved_again() -> None:
    moved, ended = named_by(ONCE, b"m" * 32), replace(ONCE, state=State.CANCELLED)
    assert ruling(None, 0, (), AHEAD) == LOST
    for life in (moved, ended):
        assert is_taken(life, 0)
        assert ruling(life, 0, (), AHEAD) == LOST
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
        free = ruling(OFTEN, mine, [signed(Stake.OFFERED, other)]) == FREE
        assert free == (0 not in (mine, other) and mine != other)
    assert ruling(TWICE, FIRST, [signed(Stake.OFFERED, SECOND)]) == LOST
    both = [signed(Stake.OFFERED, SECOND), signed(Stake.ACCEPTED, THIRD)]
    assert ruling(OFTEN, FIRST, both, AHEAD) == LOST
    assert ruling(TWICE, FIRST, both[:1], AHEAD) == Ruling(True, (OTHER,))


Rule = Callable[[Bid, bytes, Rival], bool]


def drawn(offered: Bid, _: bytes, mine: Rival) -> bool:
    return mine.bid is not None and is_ahead(ONCE, (), offered, mine.bid)


def older(_: Bid, thread: bytes, mine: Rival) -> bool:
    """What LIF-26 was before it was drawn: the lower thread id."""
    return thread < mine.thread


@pytest.mark.rule("LIF-26")
@pytest.mark.parametrize("number", [1, 2, 4])
def test_whatever_crosses_one_move_is_agreed_and_no_second(number: int) -> None:
    ends = [played(order, number, drawn, drawn) for order in itertools.product("pqPQ", repeat=6)]
    assert {len(end) for end in ends} == {1}
    assert {next(iter(end)) for end in ends} == {ONE, OTHER}  # who is quick enough wins; else who is ahead


@pytest.mark.rule("LIF-25")
@pytest.mark.parametrize("number", range(6))
def test_beside_a_node_that_draws_otherwise_at_most_one_is_agreed_and_both_know_it(number: int) -> None:
    ends = [played(order, number, drawn, older) for order in itertools.product("pqPQ", repeat=6)]
    assert {len(end) for end in ends} <= {0, 1}
    assert {frozenset(end) for end in ends} >= {frozenset({ONE}), frozenset({OTHER})}


def played(order: tuple[str, ...], number: int, *rules: Rule) -> set[bytes]:
    """A has asked in ONE, B in OTHER, and both wishes are under way. Letters to A (p) and to B (q) are taken
    in this order, the newest first where it is a capital, then all others; `rules` are how A and B
    judge. What is agreed at the end."""
    bound: dict[str, dict[bytes, Rival]] = {"A": {}, "B": {}}
    mail: dict[str, list[tuple[str, bytes]]] = {"A": [("wish", OTHER)], "B": [("wish", ONE)]}
    agreed: set[bytes] = set()
    agreed_by: dict[str, set[bytes]] = {"A": set(), "B": set()}
    to, judges = {"A": "B", "B": "A"}, dict(zip("AB", rules, strict=True))

    def take(who: str, at: int = 0) -> None:
        if not mail[who]:
            return
        (said, thread), mine = mail[who].pop(at), bound[who]
        life = named_by(ONCE, next(iter(agreed_by[who]))) if agreed_by[who] else ONCE
        others = [each for each in mine.values() if each.thread != thread]
        if said == "wish" and ruling(life, 0, others).may_sign:
            mine[thread] = Rival(thread, 0, Stake.OFFERED, bid(who, number))
            mail[to[who]].append(("offer", thread))
        elif said == "offer":
            theirs = bid(to[who], number)
            with pytest.MonkeyPatch.context() as patch:
                judged = [judges[who](theirs, thread, each) for each in others]
                patch.setattr(contest, "is_ahead", lambda *_: all(judged))
                ruled = ruling(life, 0, others, theirs)
            if not ruled.may_sign:
                mail[to[who]].append(("refuse", thread))
                return
            for each in ruled.gives_way:
                del mine[each]
            mine[thread] = Rival(thread, 0, Stake.ACCEPTED)
            mail[to[who]].append(("accept", thread))
        elif said == "accept" and thread in mine:
            agreed.add(thread)
            agreed_by[who].add(thread)
            mail[to[who]].append(("receipt", thread))
        elif said == "accept":
            mail[to[who]].append(("refuse", thread))
        elif said == "receipt":
            agreed_by[who].add(thread)
        elif said == "refuse":
            mine.pop(thread, None)

    for letter in order:
        take("A" if letter in "pP" else "B", -1 if letter.isupper() else 0)
    while mail["A"] or mail["B"]:
        take("A")
        take("B")
    assert agreed_by["A"] == agreed_by["B"] == agreed
    return agreed


def sides() -> Iterator[tuple[Side, Stake | None]]:
    """A party's thread for the place of another's, at every stage."""
    side = Side(Role.INITIATOR, "A", "B", ONE, Phase.NEGOTIATING, terms=TERMS, supersedes=b"m" * 32)
    yield side, Stake.ASKED
    yield replace(side, reserved=TERMS, offer=OfferState.OPEN), Stake.OFFERED
    yield replace(side, reserved=TERMS, phase=Phase.IN_DOUBT), Stake.ACCEPTED
    for phase in (Phase.COMMITTED, Phase.REJECTED, Phase.WITHDRAWN, Phase.LAPSED):
        yield replace(side, phase=phase), None


def test_an_open_thread_is_noted_with_what_it_would_replace_and_stored() -> None:
    old = Side(Role.INITIATOR, "A", "B", OTHER, Phase.NEGOTIATING)
    for side, stake in sides():
        known = noted(noted(old, replace(side, phase=Phase.NEGOTIATING)), side)
        assert known.contenders == (() if stake is None else (ONE,))
        assert Side.from_json(known.to_json()) == known
        found = rival(side)
        assert (found.stake if found else None) is stake
