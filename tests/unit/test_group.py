"""Meetings of several: five in the ordinary case, every algorithm, who prevents it, and many bad days."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.node import succession
from indai.node.draft import ThreadState
from indai.protocol.ballots import Ordinal
from indai.protocol.contest import OVERTAKEN
from indai.protocol.envelope import payload_type, seal
from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.group.algorithms import ALGORITHMS
from indai.protocol.group.board import Ask, Board, Fail, Round, Said, Settle, Step, elect
from indai.protocol.keys import SigningKey
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetWish
from indai.protocol.lifecycle import State
from indai.protocol.messages import EventKind, Message, Move, ReceiptBody
from indai.protocol.negotiation import apply, open_thread
from indai.protocol.party_state import OwnerActs, OwnerWithdraws, Phase, Side

from tests.simulate import groups
from tests.unit.meeting_checks import Violation
from tests.unit.meetings import BEHAVIOURS, LENGTH_MS, MOVING, MUTATIONS, START_MS, World, wish

THREAD = b"\x01" * 15 + b"t"
MOVED = b"\x02" * 16
FIVE = [
    frozenset(range(8)),
    frozenset({1, 2, 5}),
    frozenset({2, 3, 5}),
    frozenset({0, 2, 5, 7}),
    frozenset({2, 6}),
]


def coordinator(world: World) -> Side:
    return world.hosts[0].store.sides[THREAD]


@pytest.mark.rule("GRP-02")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_five_agree_on_the_slot_that_all_have(algorithm: str) -> None:
    world = World(1, FIVE)
    world.convene(THREAD, wish(*range(8)), algorithm)
    world.run()
    slots = {host.store.booked[THREAD] for host in world.hosts}
    assert slots == {Window(START_MS + 2 * LENGTH_MS, START_MS + 3 * LENGTH_MS)}
    assert len({host.store.ledger for host in world.hosts}) == 1


@pytest.mark.rule("GRP-06")
def test_five_need_at_most_three_rounds_and_twelve_exchanges_and_it_is_accounted_for() -> None:
    world = World(1, FIVE)
    world.convene(THREAD, wish(*range(8)))
    world.run()
    group = coordinator(world).group
    assert group is not None
    assert group.rounds + 1 <= 3
    assert sum(each.exchanges for each in group.account()) <= 12
    said = {move: count for move, count in world.exchanges.items() if move != "EVENT"}
    # Answers and signatures ride back on what they answer: 12 exchanges, and the news to each of the four.
    assert said == {"QUERY": 8, "OFFER": 4, "ACCEPT": 4, "RECEIPT": 4}
    first = group.account()[0]
    assert (first.handle, first.told_windows, first.told_slots) == ("ind.ai/m1", 8, 6)
    assert (first.heard_windows, first.heard_ordinals) == (3, 5)


@pytest.mark.rule("GRP-04")
@pytest.mark.parametrize("behaviour", ["no", "silent", "withholds"])
def test_who_prevents_it_is_named_and_nobody_holds_anything(behaviour: str) -> None:
    world = World(1, FIVE, ["good", "good", behaviour, "good", "good"])
    world.convene(THREAD, wish(*range(8)))
    world.run()
    side = coordinator(world)
    assert side.group is not None
    assert side.group.blocked == ("ind.ai/m2",)
    assert side.phase in (Phase.REJECTED, Phase.LAPSED)
    assert "ind.ai/m2" in world.hosts[0].store.told[-1]
    assert all(not host.store.reserved and not host.store.booked for host in world.hosts)


def test_the_one_without_a_common_time_is_named() -> None:
    world = World(1, [*FIVE[:4], frozenset({6})])
    world.convene(THREAD, wish(*range(8)))
    world.run()
    side = coordinator(world)
    assert side.reason == "NO_COMMON_SLOT"
    assert side.group is not None
    assert side.group.blocked == ("ind.ai/m4",)


def test_one_who_asks_the_owner_delays_it_and_no_more() -> None:
    world = World(3, FIVE, ["good", "asks", "good", "asks", "good"])
    world.convene(THREAD, wish(*range(8)))
    world.run()
    assert all(THREAD in host.store.booked for host in world.hosts)


@pytest.mark.parametrize("who", [0, 3])
def test_whoever_cancels_in_time_calls_it_off_for_all(who: int) -> None:
    world = World(1, FIVE)
    world.convene(THREAD, wish(*range(8)))
    world.calm = True
    while not all(THREAD in host.store.booked for host in world.hosts):
        world.turn()
    world.owner(who, THREAD, OwnerActs(EventKind.CANCEL))
    world.run(0)
    assert all(not host.store.booked for host in world.hosts)


def test_the_owner_takes_it_back_at_any_step() -> None:
    for steps in range(0, 40, 3):
        world = World(5, FIVE)
        world.convene(THREAD, wish(*range(8)))
        for _ in range(steps):
            world.turn()
        if not coordinator(world).phase.ended:
            world.owner(0, THREAD, OwnerWithdraws())
        world.run(0)


@pytest.mark.rule("LIF-16")
@pytest.mark.parametrize("who", [0, 3])
def test_whoever_agreed_it_moves_it_for_all_also_to_a_time_that_overlaps(who: int) -> None:
    world = World(1, [frozenset(range(8))] * 5)
    world.convene(THREAD, wish(2))
    later = MeetWish("Moved", 30, (Window(START_MS + 5 * LENGTH_MS // 2, START_MS + 7 * LENGTH_MS // 2),))
    world.moves = [(who, THREAD, MOVED, later)]
    world.run()
    for host in world.hosts:
        assert host.store.booked == {MOVED: later.windows[0]}
        life = host.store.sides[THREAD].life
        assert life is not None
        assert life.state is State.SUPERSEDED


def test_who_did_not_agree_it_takes_no_part_in_moving_it() -> None:
    world = World(1, [frozenset(range(8))] * 4)
    stranger = world.hosts.pop()
    world.convene(THREAD, wish(2))
    world.run()
    world.hosts.append(stranger)
    assert world.move(0, THREAD, MOVED, wish(4))
    for _ in range(200):
        world.turn()
    assert all(host.store.booked.keys() == {THREAD} for host in world.hosts[:3])


def test_whose_handle_is_somebody_elses_by_now_is_not_asked_to_move_it() -> None:
    world = World(1, [frozenset(range(8))] * 3)
    world.convene(THREAD, wish(2))
    world.run()
    for host in world.hosts:
        agreed = ThreadState({}, host.store.sides[THREAD])
        succession.check_people(agreed, {"M0", "M1", "M2"})
        for people in ({"M0", "M1", "heir"}, {"M0", "M1"}, {"M0", "M1", "M2", "M3"}):
            with pytest.raises(Refused, check=lambda error: error.reason is Reason.PIN_MISMATCH):
                succession.check_people(agreed, people)


def _moved(number: int) -> bytes:
    return MOVED[:-1] + bytes([number])


def _moved_day(seed: int, mutation: str = "", crash_at: int = -1) -> World:
    """A meeting of three to five is agreed, and one or two of them want it elsewhere; another comes too."""
    dice = random.Random(seed)
    count = dice.randint(3, 5)
    free = [frozenset(dice.sample(range(8), dice.randint(7, 8))) for _ in range(count)]
    behaviours = ["good", *(dice.choice(("good", "good", "asks", "slow")) for _ in range(count - 1))]
    trouble = 0.0 if crash_at >= 0 else dice.choice((0.0, 0.1, 0.3))
    world = World(seed, free, behaviours, trouble=trouble, mutation=mutation, crash_at=crash_at)
    world.convene(THREAD, wish(*range(8)), dice.choice([*ALGORITHMS]))
    for number in range(dice.randint(1, 2)):
        halves = range(dice.randint(0, 4), 8)
        old = THREAD if dice.random() < 0.7 or not number else _moved(number - 1)
        world.moves.append((dice.randrange(count), old, _moved(number), wish(*halves)))
    if dice.random() < 0.5:
        world.convene(THREAD[:-1] + b"u", wish(*range(8)), "slots", coordinator=dice.randrange(count))
    world.run(dice.randint(0, 300))
    return world


@pytest.mark.parametrize("first", range(0, 70, 35))
def test_a_meeting_stands_until_all_have_signed_what_takes_its_place(first: int) -> None:
    worlds = [_moved_day(seed) for seed in range(first, first + 35)]
    done = [
        side.life.state for world in worlds for side in (world.hosts[0].store.sides[THREAD],) if side.life
    ]
    assert 5 <= done.count(State.SUPERSEDED) < len(done)


def test_a_crash_at_any_one_point_of_moving_changes_nothing() -> None:
    for point in range(160, 420, 13):
        world = World(7, [frozenset(range(8))] * 4, crash_at=point)
        world.convene(THREAD, wish(2))
        world.moves = [(1, THREAD, MOVED, wish(4))]
        world.run(0)
        assert all(host.store.booked.keys() == {MOVED} for host in world.hosts), point


@pytest.mark.parametrize("mutation", MOVING)
def test_a_broken_guard_of_moving_is_found(mutation: str) -> None:
    for seed in range(60):
        try:
            _moved_day(seed, mutation)
        except Violation:
            return
    pytest.fail("sixty days on which nothing was found")


def _coincidence(seed: int, mutation: str = "") -> list[Phase]:
    """Two to five of those who agreed a meeting want it elsewhere before they have heard of each other; what
    has become of each move, all being willing."""
    dice = random.Random(seed)
    count = dice.randint(3, 5)
    behaviours = [dice.choice(("good", "good", "asks")) for _ in range(count)]
    world = World(seed, [frozenset(range(8))] * count, behaviours, mutation=mutation)
    world.convene(THREAD, wish(0))
    world.run(0)
    world.calm, world.offer_lives = False, (600,)
    movers = dice.sample(range(count), dice.randint(2, count))
    world.coincide(THREAD, [(by, _moved(n), wish(n + 1)) for n, by in enumerate(movers)])
    world.run(dice.randint(0, 300))
    sides = [world.hosts[by].store.sides[_moved(n)] for n, by in enumerate(movers)]
    assert all(side.reason == OVERTAKEN for side in sides if side.phase is Phase.WITHDRAWN)
    return [side.phase for side in sides]


@pytest.mark.rule("LIF-26")
@pytest.mark.rule("LIF-27")
def test_of_moves_by_several_coordinators_at_once_exactly_one_goes_through() -> None:
    for seed in range(40):
        assert _coincidence(seed).count(Phase.COMMITTED) == 1, seed
    lost = [seed for seed in range(40) if Phase.COMMITTED not in _coincidence(seed, "never-waits")]
    assert len(lost) > 4  # each member who has signed one refuses the others at once, and none is agreed


@pytest.mark.rule("LIF-26")
def test_a_coordinator_and_a_member_draw_from_the_same_signatures() -> None:
    world = World(1, FIVE)
    world.convene(THREAD, wish(*range(8)))
    world.run()
    keys = [SigningKey.from_seed(bytes([number]) * 32) for number in range(5)]
    signed = seal(payload_type("commitment"), b"terms", keys)
    side = world.hosts[1].store.sides[THREAD]
    assert side.thread is not None
    proven = tuple(
        replace(each, body=replace(each.body, commitment=signed.raw))
        if isinstance(each.body, ReceiptBody)
        else each
        for each in side.thread.messages
    )
    member = replace(side, thread=replace(side.thread, messages=proven))
    own = seal(payload_type("commitment"), b"terms", keys[:2]).raw  # what a member itself has signed
    expected = tuple(each.sig for each in signed.signatures)
    assert succession.signatures(ThreadState({}, member, own)) == expected
    assert succession.signatures(ThreadState({}, coordinator(world), signed.raw)) == expected


def _bad_day(seed: int, mutation: str = "", crash_at: int = -1) -> World:
    dice = random.Random(seed)
    count = dice.randint(3, 7)
    free = [frozenset(dice.sample(range(8), dice.randint(5, 8))) for _ in range(count)]
    kinds = BEHAVIOURS if dice.random() < 0.4 else ("good", "good", "asks", "slow")
    behaviours = ["good", *(dice.choice(kinds) for _ in range(count - 1))]
    trouble = 0.0 if crash_at >= 0 else dice.choice((0.0, 0.1, 0.3))
    world = World(seed, free, behaviours, trouble=trouble, mutation=mutation, crash_at=crash_at)
    world.convene(THREAD, wish(*range(8)), dice.choice([*ALGORITHMS]))
    if dice.random() < 0.5:  # a second meeting wants the same hours at the same time
        world.convene(THREAD[:-1] + b"u", wish(*range(4)), "slots", coordinator=0)
    world.run(dice.randint(0, 300))
    return world


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_on_bad_days_all_reach_the_same_outcome_and_nobody_holds_for_ever(first: int) -> None:
    for seed in range(first, first + 20):
        _bad_day(seed)


def test_a_crash_at_any_one_point_changes_nothing() -> None:
    for point in range(1, 160, 3):
        world = World(7, FIVE, crash_at=point)
        world.convene(THREAD, wish(*range(8)))
        world.run(0)
        assert all(THREAD in host.store.booked for host in world.hosts), point


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_guard_is_found(mutation: str) -> None:
    found = 0
    for seed in range(60):
        try:
            _bad_day(seed, mutation)
        except Violation:
            found += 1
            break
    assert found, f"nothing noticed {mutation}"


def test_algorithms_are_compared_on_cost_and_leakage_and_so_is_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OneSlot:
        """One word from each member, about the coordinator's first window alone."""

        def next(self, board: Board) -> Step:
            if board.voted():
                return elect(board)
            return Round(tuple(Ask(member, True, board.wish.windows[:1]) for member in board.members))

    monkeypatch.setitem(ALGORITHMS, "first", OneSlot())
    count, rows = groups.compare(range(40))
    assert count > 10
    windows, narrowing, slots, first = (rows[name] for name in ("windows", "narrowing", "slots", "first"))
    assert first.found < slots.found <= windows.found  # who asks less finds less
    assert first.exchanges < narrowing.exchanges < windows.exchanges
    assert windows.rounds < narrowing.rounds
    assert slots.heard_windows == 0 == first.heard_windows < narrowing.heard_windows < windows.heard_windows


ORDINALS = st.lists(st.sampled_from(list(Ordinal)), min_size=4, max_size=4)


def board(ballots: list[list[Ordinal]]) -> Board:
    slots = wish(0, 1, 2, 3).windows
    said = tuple(
        Said(Ask(f"M{n}", True, slots), bytes([n]) * 32, ordinals=tuple(words))
        for n, words in enumerate(ballots, 1)
    )
    return Board(THREAD, wish(0, 1, 2, 3), tuple(each.ask.member for each in said), said)


@pytest.mark.rule("GRP-05")
@settings(max_examples=100)
@given(st.lists(ORDINALS, min_size=2, max_size=6))
def test_nobody_gets_a_slot_they_refused_and_no_better_one_is_passed_over(
    ballots: list[list[Ordinal]],
) -> None:
    columns = list(zip(*ballots, strict=True))
    match elect(board(ballots)):
        case Settle(slot):
            chosen = columns[(slot.start_ms - START_MS) // LENGTH_MS]
            assert Ordinal.NO not in chosen
            best = min((max(column), sum(column)) for column in columns if Ordinal.NO not in column)
            assert (max(chosen), sum(chosen)) == best
        case Fail(_, members):
            assert all(Ordinal.NO in column for column in columns)
            assert set(members) <= {f"M{n}" for n in range(1, len(ballots) + 1)}


@pytest.mark.rule("GRP-05")
def test_a_tie_depends_on_every_answer_and_not_on_the_order() -> None:
    even = board([[Ordinal.YES] * 4] * 3)
    other = Board(even.thread, even.wish, even.members, tuple(reversed(even.said)))
    assert even.seed == other.seed
    changed = {Board(bytes([n]) * 16, even.wish, even.members, even.said).seed for n in range(20)}
    assert len(changed) == 20
    chosen = {elect(Board(bytes([n]) * 16, even.wish, even.members, even.said)) for n in range(40)}
    assert len(chosen) == 4


@pytest.mark.rule("GRP-01")
@pytest.mark.rule("GRP-03")
def test_what_is_no_part_of_a_meeting_of_several_is_refused() -> None:
    world = World(1, FIVE)
    world.convene(THREAD, wish(*range(8)))
    world.run()
    member = world.hosts[1].store.sides[THREAD].thread
    assert member is not None
    offer, accept, receipt = member.messages
    with pytest.raises(ProtocolError) as caught:
        open_thread(replace(offer, recipient="M9"))
    assert caught.value.rule == "GRP-01"
    opened = open_thread(offer)
    counter: Message = replace(offer, mid=b"c" * 32, move=Move.COUNTER, parties=(), body=wish(1), sender="M1")
    with pytest.raises(ProtocolError) as caught:
        apply(opened, replace(counter, recipient="M0", in_reply_to=offer.mid), START_MS)
    assert caught.value.rule == "GRP-01"
    accepted = apply(opened, accept, offer.issued_at_ms)
    assert isinstance(receipt.body, ReceiptBody)
    with pytest.raises(ProtocolError) as caught:
        apply(accepted, replace(receipt, body=replace(receipt.body, commitment=b"")), START_MS)
    assert caught.value.rule == "GRP-03"
