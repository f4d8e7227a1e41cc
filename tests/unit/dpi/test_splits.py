"""Splits are exact, never negative, and fair to a unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.dpi.splits import MAX_AMOUNT, MAX_WEIGHT, split
from indai.protocol.errors import InvalidInput

WEIGHTS = st.lists(st.integers(0, MAX_WEIGHT), min_size=1, max_size=20).filter(any)


@given(st.integers(0, MAX_AMOUNT), WEIGHTS)
def test_parts_sum_to_the_amount_and_each_is_its_share_to_a_unit(amount: int, weights: list[int]) -> None:
    parts, total = split(amount, weights), sum(weights)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert part >= 0
        assert abs(part * total - amount * weight) < total
        assert weight or not part


@given(st.integers(0, 10**9), WEIGHTS, st.integers(2, 50))
def test_only_the_ratio_of_the_weights_counts(amount: int, weights: list[int], times: int) -> None:
    scaled = [weight // 100 for weight in weights]
    if any(scaled):
        assert split(amount, scaled) == split(amount, [weight * times for weight in scaled])


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [
        (100, [1, 1, 1], (34, 33, 33)),
        (1, [1, 1], (1, 0)),
        (100_01, [70, 30], (7001, 3000)),
        (5, [0, 3, 0], (0, 5, 0)),
        (10, [1, 2, 4], (1, 3, 6)),
    ],
)
def test_what_is_left_goes_to_the_largest_fractions(
    amount: int, weights: list[int], parts: tuple[int, ...]
) -> None:
    assert split(amount, weights) == parts


@pytest.mark.parametrize(
    ("amount", "weights"),
    [(-1, [1]), (MAX_AMOUNT + 1, [1]), (5, []), (5, [0, 0]), (5, [2, -1]), (5, [MAX_WEIGHT + 1])],
)
def test_what_can_not_be_split_is_refused(amount: int, weights: list[int]) -> None:
    with pytest.raises(InvalidInput):
        split(amount, weights)
