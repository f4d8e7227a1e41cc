"""Two parties over thousands of bad days, and proof that the simulation sees what it should."""

from __future__ import annotations

import pytest
from indai.protocol.contest import OVERTAKEN
from indai.protocol.errors import ProtocolError
from indai.protocol.kinds.table import KINDS
from indai.protocol.party_state import Phase

from tests.simulate import runs
from tests.simulate.host import MUTATIONS
from tests.simulate.malice import MALICE
from tests.simulate.store import Violation
from tests.simulate.world import World


@pytest.mark.rule("NEG-25")
@pytest.mark.rule("NEG-26")
@pytest.mark.rule("NEG-30")
@pytest.mark.rule("NEG-32")
@pytest.mark.rule("NEG-36")
@pytest.mark.rule("LIF-22")
@pytest.mark.rule("LIF-24")
@pytest.mark.rule("LIF-25")
def test_no_loss_repeat_delay_or_crash_breaks_an_invariant() -> None:
    committed = threads = cancelled = moved = overtaken = 0
    for seed in range(1_500):
        world = World(seed).run()
        committed += len(world.hosts["A"].store.booked)
        threads += len(world.hosts["A"].store.sides)
        cancelled += len(world.hosts["A"].store.freed)
        for side in world.hosts["A"].store.sides.values():
            moved += bool(side.life and (side.life.successors or side.life.instead))
            overtaken += side.reason == OVERTAKEN
    assert 0.3 < committed / threads < 0.9  # both kinds of ending are common, so both were tried
    assert cancelled > 50
    assert min(moved, overtaken) > 100


def test_a_crash_at_every_single_point_breaks_no_invariant() -> None:
    for seed in range(8):
        points = World(seed, crash_rate=0, loss=0.1).run().crash_points
        for point in range(1, points + 1):
            World(seed, crash_rate=0, crash_at=point, loss=0.1).run()


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_simulation_finds_a_broken_guard(mutation: str) -> None:
    for seed in range(2_000):
        try:
            World(seed, mutation=mutation).run()
        except (Violation, ProtocolError, RuntimeError):
            return
    pytest.fail(f"2,000 seeds did not notice: {mutation}")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_by_itself_comes_to_an_end_of_both_sorts(kind: str) -> None:
    committed = threads = freed = 0
    for seed in range(150):
        world = World(seed, kinds=(kind,)).run()
        committed += len(world.hosts["A"].store.booked)
        threads += len(world.hosts["A"].store.sides)
        freed += len(world.hosts["A"].store.freed)
    assert 0.1 < committed / threads < 0.95
    assert bool(freed) == (kind != "ask")  # an answer is over at the deed


def test_a_seed_gives_the_same_day_twice() -> None:
    first, second = World(7).run(), World(7).run()
    assert first.signed == second.signed
    assert first.hosts["B"].store == second.hosts["B"].store


@pytest.mark.rule("NEG-31")
@pytest.mark.rule("NEG-35")
@pytest.mark.parametrize("malice", [name for name in MALICE if name])
def test_a_peer_that_lies_gains_a_delay_and_nothing_else(malice: str) -> None:
    phases = set()
    for seed in range(150):
        world = World(seed, malice=malice).run()
        phases |= {side.phase for side in world.hosts["A"].store.sides.values()}
    assert (Phase.IN_DOUBT in phases) == (malice == "withholds")  # who says anything at all ends the doubt


def test_a_guard_that_only_a_liar_gets_past_is_found() -> None:
    def breaks(seed: int) -> bool:
        try:
            World(seed, malice="withholds", mutation="confirm-at-acceptance").run()
        except Violation:
            return True
        return False

    assert any(breaks(seed) for seed in range(50))


def test_a_failing_run_is_told_in_a_few_steps_that_fail_again() -> None:
    seed = next(seed for seed in range(200) if runs.failure(seed, "two-transactions"))
    lines: list[str] = []
    kept = runs.explain(seed, "two-transactions", lines.append)
    assert len(kept) < 20
    assert runs.failure(seed, "two-transactions", kept) == runs.failure(seed, "two-transactions")
    assert any("took PROPOSE" in line for line in lines)
