"""Buckets: what is allowed at once, what after a while, and that one key costs no other."""

from __future__ import annotations

import pytest
from indai.edge import pace
from indai.edge.pace import Pace


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    bucket = Pace(0.5, 3)
    assert [bucket.take("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.wait_s("a", 0.0) == 2.0
    assert not bucket.take("a", 1.9)
    assert bucket.take("a", 2.0)
    assert bucket.take("b", 2.0)
    assert not bucket.full("a", 3.0)
    assert bucket.full("a", 100.0)


def test_what_was_not_used_is_given_back_and_no_more() -> None:
    bucket = Pace(0.001, 1)
    assert bucket.take("a", 0.0)
    for _ in range(3):
        bucket.give_back("a", 0.0)
    assert [bucket.take("a", 0.0) for _ in range(2)] == [True, False]


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket = Pace(1, 1)
    assert bucket.take("a", 100.0)
    assert not bucket.take("a", 50.0)
    assert not bucket.take("a", 100.5)
    assert bucket.take("a", 101.0)


def test_keys_that_were_used_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "MOST_KEYS", 2)
    bucket = Pace(0.001, 1)
    for key in "abc":
        assert bucket.take(key, 0.0)
    assert [bucket.take(key, 0.0) for key in "cba"] == [False, False, True]
