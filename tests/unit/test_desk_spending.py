"""What models cost, on an owner's page: never one sum of two currencies."""

from __future__ import annotations

from datetime import date

from indai.desk.spending import bars, totals
from indai.v1 import llm_pb2

TODAY = date(2026, 11, 22)


def cost(day: int, micros: int, currency: str) -> llm_pb2.DailyCost:
    return llm_pb2.DailyCost(day=f"2026-11-{day}", cost_micros=micros, currency=currency)


def test_each_currency_has_its_own_sum_and_the_newest_its_days() -> None:
    costs = [cost(22, 400, "INR"), cost(21, 200, "INR"), cost(21, 9_000, "USD"), cost(20, 7_000, "USD")]
    assert totals(costs) == [(600, "INR"), (16_000, "USD")]
    drawn = bars(costs, TODAY)
    assert [(bar.micros, bar.height) for bar in drawn[-3:]] == [(0, 0.0), (200, 50.0), (400, 100.0)]
    assert len(drawn) == 30


def test_who_spent_nothing_has_one_sum() -> None:
    assert totals([]) == [(0, "")]
    assert {bar.height for bar in bars([], TODAY)} == {0.0}
