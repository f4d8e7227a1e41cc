"""The pure parts of paying and selling: what is left of a stock, amounts in words, links, signed webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import date
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.dpi.razorpay import is_signed, read
from indai.node.holdings import Holdings, Spent
from indai.node.kinds.money import decimal, spoken
from indai.node.mandates import Mandate, Period
from indai.node.stock import StockItem, most_held
from indai.node.upi import upi_link
from indai.protocol.errors import InvalidInput
from indai.protocol.kinds.base import Stock
from indai.protocol.kinds.pay import PayTerms, payment_reference

SPANS = st.tuples(st.integers(1, 20), st.integers(1, 10), st.integers(1, 3)).map(
    lambda one: Stock("table", one[2], one[0], one[0] + one[1])
)
MID = bytes(range(32))


@pytest.mark.parametrize(
    ("minor", "currency", "words"),
    [
        (200_000, "INR", "₹2,000.00"),
        (5, "INR", "₹0.05"),
        (1_234_567_890, "INR", "₹1,23,45,678.90"),
        (99_900, "INR", "₹999.00"),
        (10_000_000, "INR", "₹1,00,000.00"),
        (199_950, "EUR", "EUR 1,999.50"),
        (1_999, "JPY", "JPY 1,999"),
        (1_500, "KWD", "KWD 1.500"),
    ],
)
def test_amounts_are_shown_as_people_write_them(minor: int, currency: str, words: str) -> None:
    assert spoken(minor, currency) == words


@given(st.integers(0, 10**15))
@settings(max_examples=50)
def test_no_digit_is_lost_in_words(minor: int) -> None:
    assert int(spoken(minor, "INR").replace("₹", "").replace(",", "").replace(".", "")) == minor
    assert decimal(minor, "INR") == f"{minor // 100}.{minor % 100:02}"


@given(st.lists(SPANS, max_size=8), st.integers(1, 25), st.integers(1, 8))
@settings(max_examples=100)
def test_the_busiest_moment_is_what_counts(held: list[Stock], start: int, length: int) -> None:
    at_each = [
        sum(s.quantity for s in held if s.start_ms <= at < s.end_ms) for at in range(start, start + length)
    ]
    assert most_held(held, "table", start, start + length) == max(at_each)
    assert most_held(held, "other", start, start + length) == 0


def test_goods_are_given_for_good() -> None:
    held = [Stock("lamp", 2), Stock("lamp", 3)]
    assert most_held(held, "lamp", 0, 0) == 5


def test_a_resource_costs_for_each_started_length() -> None:
    table = StockItem("table", "A table", 1, price_minor=100, currency="INR", per_minutes=60)
    assert [table.price(2, minutes) for minutes in (1, 60, 61)] == [200, 200, 400]
    assert StockItem("lamp", "A lamp", 1, price_minor=100, currency="INR").price(3, 0) == 300


@pytest.mark.parametrize(
    "changes",
    [
        {"item": "two words"},
        {"title": ""},
        {"units": -1},
        {"price_minor": 5},
        {"currency": "inr", "price_minor": 5},
        {"fee_percent": 101},
        {"per_minutes": 1_000_000},
        {"fee_percent": 5, "cancel_before_minutes": 60, "free_before_minutes": 30},
    ],
)
def test_what_can_not_be_offered_is_refused(changes: dict[str, object]) -> None:
    fields: dict[str, object] = {"item": "lamp", "title": "A lamp", "units": 1}
    StockItem(**fields).check()  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        StockItem(**(fields | changes)).check()  # type: ignore[arg-type]


def test_a_link_carries_the_commitment_in_its_reference() -> None:
    terms = PayTerms("upi:shop@okbank", 200_000, "INR", "Lamps & more", 1)
    link = urlsplit(upi_link(terms, MID, "Asha's Lamps"))
    found = {name: values[0] for name, values in parse_qs(link.query, strict_parsing=True).items()}
    assert (link.scheme, link.netloc) == ("upi", "pay")
    assert found == {
        "pa": "shop@okbank",
        "pn": "Asha's Lamps",
        "tr": payment_reference(MID),
        "tn": "Lamps & more",
        "am": "2000.00",
        "cu": "INR",
    }
    assert upi_link(PayTerms("iban:DE00", 1, "INR", "x", 1), MID, "") == ""
    assert upi_link(PayTerms("upi:a@b", 1, "EUR", "x", 1), MID, "") == ""


def test_a_webhook_is_signed_over_its_raw_bytes() -> None:
    body, secret = b'{"event": "payment.captured"}', "s"
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    assert is_signed(body, signature, secret)
    assert not is_signed(body + b" ", signature, secret)
    assert not is_signed(body, signature, "t")
    assert not is_signed(body, "", secret)
    assert not is_signed(body, "é", secret)


@pytest.mark.parametrize("amount", [0, -5, 1.5, "100", True, None])
def test_an_amount_is_a_whole_number_of_minor_units(amount: object) -> None:
    def body(value: object) -> bytes:
        entity = {"id": "pay_1", "amount": value, "currency": "INR", "status": "captured"}
        return json.dumps({"event": "payment.captured", "payload": {"payment": {"entity": entity}}}).encode()

    good = read(body(100))
    assert good is not None
    assert good.payment is not None
    assert good.payment.amount_minor == 100
    assert read(body(amount)) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["event", "payload", "payment", "payment_link", "entity", "notes", "id", "description"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=15,
    )
)
@settings(max_examples=100)
def test_no_signed_body_breaks_the_reader(doc: object) -> None:
    read(json.dumps(doc).encode())


@pytest.mark.parametrize(
    ("period", "days", "used"),
    [(Period.DAY, ["2027-01-06"], 10), (Period.WEEK, ["2027-01-04"], 20), (Period.MONTH, ["2027-01-01"], 30)],
)
def test_a_mandate_counts_what_its_period_saw(period: Period, days: list[str], used: int) -> None:
    mandate = Mandate("id", "ind.ai/milk", 30, "INR", period, 100)
    spent = ["2026-12-31", *days, "2027-01-06", "2027-01-03"]
    held = Holdings(
        money={bytes([n]): Spent(10, "INR", day, "ind.ai/milk") for n, day in enumerate(set(spent))}
    )
    held.money[b"other"] = Spent(10, "INR", "2027-01-06", "ind.ai/shop")
    held.money[b"euro"] = Spent(10, "EUR", "2027-01-06", "ind.ai/milk")
    assert mandate.used_minor(held, date(2027, 1, 6)) == used
    assert mandate.covers(30 - used, held, date(2027, 1, 6))
    assert not mandate.covers(31 - used, held, date(2027, 1, 6))
