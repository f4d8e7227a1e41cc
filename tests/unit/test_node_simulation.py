"""The node's own code over many bad days in memory, and proof that each broken guard is seen."""

from __future__ import annotations

import pytest

from tests.simulate import runs
from tests.simulate.nodes import MUTATIONS

# Days that once went wrong: a question asked and made idle in one batch; a known first message refused for
# its age after a restart; an answer that rode ahead of what it follows; one that follows a refused message
# or (77) an offer that rode in a response and was refused for its age.
ONCE_BROKEN = (5, 12, 50, 77)


@pytest.mark.rule("HDR-06")
def test_two_nodes_keep_every_invariant_through_losses_crashes_and_doubts() -> None:
    for seed in (*ONCE_BROKEN, *range(100, 112)):
        assert runs.failure(seed, nodes=True) == "", f"seed {seed}"


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_simulation_of_nodes_finds_a_broken_guard(mutation: str) -> None:
    assert any(runs.failure(seed, mutation, nodes=True) for seed in range(20))


def test_a_failing_day_of_nodes_is_told_in_a_few_steps() -> None:
    lines: list[str] = []
    kept = runs.explain(0, "two-transactions", lines.append, nodes=True)
    assert len(kept) < 20
    assert lines[-1].startswith("Violation")
