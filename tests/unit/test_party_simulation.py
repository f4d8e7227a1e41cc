"""Two parties over thousands of bad days, and proof that the simulation sees what it should."""

from __future__ import annotations

import pytest
from indai.protocol.errors import ProtocolError
from indai.protocol.kinds.table import KINDS

from tests.unit.simulation import MUTATIONS, Violation, World


@pytest.mark.rule("NEG-25")
@pytest.mark.rule("NEG-26")
@pytest.mark.rule("NEG-30")
@pytest.mark.rule("NEG-32")
@pytest.mark.rule("NEG-36")
@pytest.mark.rule("LIF-22")
def test_no_loss_repeat_delay_or_crash_breaks_an_invariant() -> None:
    committed = threads = cancelled = 0
    for seed in range(2_000):
        world = World(seed).run()
        committed += len(world.hosts["A"].store.booked)
        threads += len(world.hosts["A"].store.sides)
        cancelled += len(world.hosts["A"].store.freed)
    assert 0.3 < committed / threads < 0.9  # both kinds of ending are common, so both were tried
    assert cancelled > 50


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
