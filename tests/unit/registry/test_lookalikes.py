"""Names that look alike, and limits: the pure parts of claiming."""

from __future__ import annotations

import pytest
from indai.protocol.errors import Reason, Unavailable
from indai.registry.limits import Rate, TokenBuckets
from indai.registry.lookalikes import neighbours, skeleton


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("alice", "a1ice"),
        ("alice", "aiice"),
        ("alice", "al-ice"),
        ("alice", "allice"),
        ("bob", "b0b"),
        ("morning", "rnorning"),
        ("walter", "vvalter"),
        ("sam55", "samss"),
    ],
)
def test_names_that_a_hurried_reader_takes_for_each_other(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


@pytest.mark.parametrize("typed", ["ranveerr", "ranvexer", "ranever", "rnaveer"])
def test_a_letter_more_or_two_swapped_is_near(typed: str) -> None:
    assert skeleton("ranveer") in neighbours(typed)


@pytest.mark.parametrize(
    ("one", "other"), [("alice", "bob"), ("anna", "hanna"), ("peter", "petra"), ("tom", "tim")]
)
def test_other_names_are_other_names(one: str, other: str) -> None:
    assert skeleton(one) not in neighbours(other)


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(Rate(burst=3, every_ms=1_000), clock)
    for _ in range(3):
        buckets.take("a")
    for _ in range(2):  # to be refused costs nothing more
        with pytest.raises(Unavailable) as caught:
            buckets.take("a")
        assert caught.value.reason is Reason.RATE_LIMITED
        assert caught.value.metadata == {"retry_after_ms": "1000"}
        assert caught.value.hint == "try again in 1 s"
    buckets.take("b")
    clock.now += 999
    with pytest.raises(Unavailable):
        buckets.take("a")
    clock.now += 1
    buckets.take("a")
    clock.now += 1_000_000
    for _ in range(3):
        buckets.take("a")


def test_buckets_do_not_fill_the_memory() -> None:
    buckets = TokenBuckets(Rate(burst=1, every_ms=1_000), Clock(), max_keys=2)
    for caller in ("a", "b", "c"):
        buckets.take(caller)
    buckets.take("a")  # forgotten
    with pytest.raises(Unavailable):
        buckets.take("c")
