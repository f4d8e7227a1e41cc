"""A faster `dataclasses.replace`: the same copies, the same refusals."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest
from indai.protocol.copies import replace
from indai.protocol.party_state import Phase, Role, Side


def test_a_copy_has_the_changed_fields_and_all_others() -> None:
    side = Side(Role.INITIATOR, "a", "b", bytes(16), Phase.NEGOTIATING)
    wanted = dataclasses.replace(side, phase=Phase.COMMITTED, hops=2)
    assert replace(side, phase=Phase.COMMITTED, hops=2) == wanted
    assert (side.phase, side.hops) == (Phase.NEGOTIATING, 0)


def test_a_field_that_is_not_there_is_refused() -> None:
    side = Side(Role.INITIATOR, "a", "b", bytes(16), Phase.NEGOTIATING)
    with pytest.raises(TypeError, match="colour"):
        replace(side, colour="red")  # type: ignore[call-arg]


def test_what_a_class_checks_of_itself_it_checks_of_the_copy() -> None:
    @dataclass(frozen=True)
    class Even:
        number: int
        other: int = 0

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError(self.number)

    with pytest.raises(ValueError, match="3"):
        replace(Even(2), number=3)


def test_a_class_that_is_not_made_of_its_fields_in_order_is_refused() -> None:
    @dataclass
    class Named:
        one: int = 1
        two: int = field(default=2, kw_only=True)

    with pytest.raises(TypeError, match="in their order"):
        replace(Named(), one=3)
