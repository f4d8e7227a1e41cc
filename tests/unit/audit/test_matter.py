"""Whether a recorded decision was about what was signed, for each kind of intent."""

from __future__ import annotations

import json

import pytest
from indai.client.audit.matter import asked_about, in_words
from indai.protocol.kinds.base import Terms
from indai.protocol.kinds.book import BookTerms
from indai.protocol.kinds.pay import PayTerms
from indai.v1 import intents_pb2, negotiation_pb2

PAY = PayTerms("upi:shop@okbank", 150_000, "INR", "Lamps", due_ms=5)
GOODS = BookTerms("lamp", "A lamp", 2, price_minor=5_000, currency="INR", due_ms=5)
TABLE = BookTerms("table", "A table", 1, start_ms=1_000, end_ms=2_000)
PAID = {"direction": "request", "amount_minor": 150_000, "currency": "INR", "payee": "upi:shop@okbank"}
BOUGHT = {"sku": "lamp", "quantity": 2, "amount_minor": 5_000, "currency": "INR"}
BOOKED = {
    "sku": "table",
    "quantity": 1,
    "amount_minor": 0,
    "currency": "XXX",
    "start_ms": 1_000,
    "end_ms": 2_000,
}


def signed(terms: Terms) -> negotiation_pb2.Commitment:
    made = negotiation_pb2.Commitment()
    getattr(made, terms.kind).CopyFrom(terms.to_pb())
    return made


def request(kind: str, facts: object) -> str:
    return json.dumps({"principal": {"id": "ind.ai/bob"}, "action": {"id": kind}, "context": facts})


@pytest.mark.parametrize(("terms", "facts"), [(PAY, PAID), (GOODS, BOUGHT), (TABLE, BOOKED)])
def test_every_fact_that_the_terms_fix_must_be_theirs(terms: Terms, facts: dict[str, object]) -> None:
    peer, asked = asked_about(request(terms.kind, facts | {"trust": 5}))
    assert peer == "ind.ai/bob"
    assert asked.is_about(signed(terms), first=True)
    for name in facts:
        other = facts | {name: "other"}
        assert not asked_about(request(terms.kind, other))[1].is_about(signed(terms), first=True)
        missing = {key: value for key, value in facts.items() if key != name}
        assert not asked_about(request(terms.kind, missing))[1].is_about(signed(terms), first=True)
    assert not asked_about(request("meet", facts))[1].is_about(signed(terms), first=True)


def test_the_payee_decides_about_money_that_comes_in() -> None:
    paid, came = (asked_about(request("pay", PAID | {"direction": way}))[1] for way in ("request", "offer"))
    assert paid.is_about(signed(PAY), first=True)
    assert not paid.is_about(signed(PAY), first=False)
    assert came.is_about(signed(PAY), first=False)
    assert not came.is_about(signed(PAY), first=True)


def test_what_can_not_be_read_is_about_nothing() -> None:
    assert asked_about("[" * 10_000)[0] == ""
    assert not asked_about("{}")[1].is_about(signed(PAY), first=True)
    broken = negotiation_pb2.Commitment(pay=intents_pb2.PayTerms())
    assert not asked_about(request("pay", PAID))[1].is_about(broken, first=True)
    assert in_words(broken) == ""


def test_a_report_says_what_it_is_in_a_line() -> None:
    assert in_words(signed(PAY)) == "Lamps, 150000 minor units of INR"
    assert in_words(signed(GOODS)) == "A lamp"
    assert in_words(signed(TABLE)) == "A table, 1970-01-01 00:00 UTC, 0 min"
