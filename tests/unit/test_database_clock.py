"""The node's clock is the database's, however long its answers are on their way."""

from __future__ import annotations

import pytest
from indai.node import clock
from indai.node.clock import DatabaseClock


class Machine:
    """A monotonic clock and a database's, both in the test's hand; they begin apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.ahead = 5_000, 1_790_000_000_000
        monkeypatch.setattr(clock, "_monotonic_ms", lambda: self.now)

    @property
    def database(self) -> int:
        """What the database's clock shows."""
        return self.now + self.ahead

    def ask(self, of: DatabaseClock, there_ms: int, back_ms: int) -> None:
        """A question that is so long on its way, and its answer."""
        asked = of.asking()
        self.now += there_ms
        said = self.database
        self.now += back_ms
        of.read(said, asked)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_an_answer_that_was_long_on_its_way_puts_the_clock_back_by_nothing(machine: Machine) -> None:
    kept = DatabaseClock(machine.database, machine.now)
    for there, back in ((0, 700), (700, 0), (300, 300)):
        machine.ask(kept, there, back)
        assert kept() == machine.database


def test_a_first_answer_that_was_late_is_made_up_for_by_a_quick_one(machine: Machine) -> None:
    said, asked = machine.database, machine.now
    machine.now += 900
    kept = DatabaseClock(said, asked)
    assert kept() == machine.database - 900  # what others have just dated is never thought of as long past
    machine.ask(kept, 1, 2)
    assert kept() == machine.database - 2


@pytest.mark.parametrize("by_ms", [3_000, -3_000])
def test_a_database_whose_clock_is_put_right_is_followed(machine: Machine, by_ms: int) -> None:
    kept = DatabaseClock(machine.database, machine.now)
    machine.ahead += by_ms
    machine.ask(kept, 4, 4)
    assert abs(kept() - machine.database) <= 4
