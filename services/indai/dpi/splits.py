"""An amount split between several by weights, in whole minor units: pure, and exact.

Largest remainder (Hamilton): each gets the whole part of its share, and what is left goes to the largest
fractions, one unit each, the earlier first where fractions are equal. The parts are never negative and always
sum to the amount.
"""

from __future__ import annotations

from collections.abc import Sequence

from indai.protocol.errors import InvalidInput, Reason

MAX_WEIGHT = 10**9
MAX_AMOUNT = 10**15


def split(amount_minor: int, weights: Sequence[int]) -> tuple[int, ...]:
    """The parts, in the order of the weights. Raises InvalidInput for a negative amount or weight, none at
    all, or weights that are all zero."""
    if not 0 <= amount_minor <= MAX_AMOUNT:
        raise _wrong(f"An amount to split is 0 to {MAX_AMOUNT} minor units.")
    if not weights or any(not 0 <= weight <= MAX_WEIGHT for weight in weights) or not any(weights):
        raise _wrong(f"Shares are whole numbers of 0 to {MAX_WEIGHT}, and not all are 0.")
    total = sum(weights)
    parts = [amount_minor * weight // total for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: (-(amount_minor * weights[at] % total), at))
    for at in order[: amount_minor - sum(parts)]:
        parts[at] += 1
    return tuple(parts)


def _wrong(words: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, words)
