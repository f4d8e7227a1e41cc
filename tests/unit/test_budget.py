"""The budget of messages of one pair: what begins a thread waits, what goes on never does."""

from __future__ import annotations

import pytest
from indai.node.budget import BURST, PER_S, Budget
from indai.protocol.errors import Reason, Refused

NOW = 1_800_000_000_000


def used_up(now_ms: int = NOW) -> Budget:
    budget = Budget()
    for _ in range(BURST):
        budget.take("ind.ai/carol", "ind.ai/eve", now_ms, begins=False)
    return budget


def test_who_has_said_all_it_may_begins_nothing_and_still_ends_what_it_began() -> None:
    budget = used_up()
    with pytest.raises(Refused) as refused:
        budget.take("ind.ai/carol", "ind.ai/eve", NOW, begins=True)
    assert refused.value.reason is Reason.RATE_LIMITED
    budget.take("ind.ai/carol", "ind.ai/eve", NOW, begins=False)


def test_another_pair_has_a_budget_of_its_own() -> None:
    budget = used_up()
    budget.take("ind.ai/carol", "ind.ai/bob", NOW, begins=True)
    budget.take("ind.ai/dora", "ind.ai/eve", NOW, begins=True)


def test_it_fills_again_with_time() -> None:
    budget, later = used_up(), NOW + 2 * 1000 // PER_S
    budget.take("ind.ai/carol", "ind.ai/eve", later, begins=True)
    budget.take("ind.ai/carol", "ind.ai/eve", later, begins=True)
    with pytest.raises(Refused):
        budget.take("ind.ai/carol", "ind.ai/eve", later, begins=True)
