"""Every kind of intent: its limits, what answers its wish, what it reserves, and how it lives on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol import lifecycle
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.forms import DAY_MS, HOUR_MS
from indai.protocol.kinds.base import Money, Slot, Stock, Terms, Wish
from indai.protocol.kinds.book import BookTerms
from indai.protocol.kinds.pay import PAY as PAY_KIND
from indai.protocol.kinds.pay import Direction, PayTerms, PayWish, payment_reference
from indai.protocol.kinds.share import Fetch, ShareTerms, ShareWish, Unit
from indai.protocol.kinds.table import KINDS, kind_of
from indai.protocol.lifecycle import State, check_successor, committed, deed_of
from indai.protocol.messages import EventBody, EventKind, Message, Move, compose, describe
from indai.protocol.negotiation import Status
from indai.v1 import negotiation_pb2

from tests.unit.kinds import (
    ANSWERED,
    ASK,
    BOOKED,
    CONSENT,
    FILED,
    GOODS,
    PAID,
    PAIRS,
    PAY,
    PERIODIC,
    REQUEST,
    ROOM,
    SHARE,
    SHARED,
    SOLD,
)
from tests.unit.test_negotiation_messages import MID, PARTIES, header, many
from tests.unit.transcripts import NOW, WISH, Script, receipt, slot

LONG = "x" * 5_000


def refused(rule: str, said: Any, **changes: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        replace(said, **changes).check()
    assert (caught.value.reason, caught.value.rule) == (Reason.MALFORMED, rule)


def breaks(rule: str, script: Script, sender: str, move: Move, body: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        script.say(sender, move, body)
    assert caught.value.rule == rule


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].about())
def test_what_is_composed_is_described_again(pair: tuple[Wish, Terms]) -> None:
    wish, terms = pair
    for move in (Move.PROPOSE, Move.COUNTER):
        message = describe(compose(move, wish, header(), (), MID), mid=MID, signatures=1)
        assert (message.move, message.body, message.supersedes) == (move, wish, MID)
    offer = describe(compose(Move.OFFER, terms, header(), PARTIES, MID), mid=MID, signatures=1)
    assert (offer.body, offer.supersedes, offer.parties) == (terms, MID, ())
    assert wish.admits(terms)
    assert not any(wish.admits(other) for _, other in PAIRS if other is not terms)


def test_a_table_row_belongs_to_each_kind() -> None:
    named = negotiation_pb2.Propose.DESCRIPTOR.oneofs_by_name["terms"].fields
    assert {field.name for field in named} == set(KINDS)
    agreed = negotiation_pb2.Commitment.DESCRIPTOR.oneofs_by_name["terms"].fields
    assert {field.name for field in agreed} == set(KINDS)
    assert {kind_of(wish).name for wish, _ in PAIRS} == set(KINDS)


@pytest.mark.rule("SHR-01")
def test_what_is_shared_is_bounded() -> None:
    for said in (SHARE, SHARED):
        refused("SHR-01", said, document="doc-1")
        refused("SHR-01", said, field="")
        refused("SHR-01", said, field="E-mail")
        refused("SHR-01", said, recipient_key=b"short")
    for changes in (
        {"purpose_code": ""},
        {"purpose_code": "a b"},
        {"to_ms": CONSENT.from_ms},
        {"to_ms": CONSENT.from_ms + 4_000 * DAY_MS},
        {"data_life_value": 0},
        {"data_life_unit": Unit.INF},
        {"frequency_value": 1},
        {"fetch": Fetch.PERIODIC},
        {"fetch": Fetch.PERIODIC, "frequency_unit": Unit.INF, "frequency_value": 1},
    ):
        refused("SHR-01", SHARE, consent=replace(CONSENT, **changes))
    refused("NEG-02", SHARE, consent=replace(CONSENT, purpose_text=""))
    replace(SHARE, consent=PERIODIC).check()
    assert (
        ShareWish.from_bytes(replace(SHARE, consent=PERIODIC).to_pb().SerializeToString()).consent == PERIODIC
    )


@pytest.mark.rule("SHR-01")
def test_a_consent_without_a_mode_is_refused() -> None:
    pb = SHARE.to_pb()
    pb.consent.ClearField("mode")
    with pytest.raises(ProtocolError, match="mode"):
        ShareWish.from_pb(pb)


@pytest.mark.rule("SHR-02")
def test_shared_terms_bind_the_content() -> None:
    refused("SHR-02", SHARED, content_sha256=b"short")
    refused("SHR-02", SHARED, media_type="text")
    refused("SHR-02", SHARED, size_bytes=0)
    refused("SHR-02", SHARED, size_bytes=(1 << 20) + 1)
    assert "content" not in ShareTerms.__match_args__


@pytest.mark.rule("ASK-01")
def test_a_question_and_its_answer_are_bounded() -> None:
    for said in (ASK, ANSWERED):
        refused("NEG-02", said, question="")
        refused("NEG-02", said, question="a\rb")
        refused("ASK-01", said, topic="Two words")
    refused("NEG-02", ANSWERED, answer=LONG)
    refused("ASK-01", ANSWERED, sources=ANSWERED.sources * 17)
    refused("ASK-01", ANSWERED, confidence_percent=101)
    assert not ASK.admits(replace(ANSWERED, question="Another one?"))


@pytest.mark.rule("ASK-02")
def test_a_request_is_filed_as_it_was_asked() -> None:
    refused("ASK-02", REQUEST, category="")
    refused("NEG-02", REQUEST, text=LONG)
    refused("ASK-02", FILED, department="")
    refused("ASK-02", FILED, reference="a b")
    refused("ASK-02", FILED, due_ms=0)
    assert not replace(REQUEST, department="water").admits(FILED)
    assert not REQUEST.admits(replace(FILED, text="It is fine."))


@pytest.mark.rule("PAY-01")
def test_a_payment_is_an_amount_in_a_currency() -> None:
    for said in (PAY, PAID):
        for amount in (0, -1, 10**15 + 1):
            refused("PAY-01", said, amount_minor=amount)
        for currency in ("", "inr", "RUPEE"):
            refused("PAY-01", said, currency=currency)
        refused("PAY-01", said, due_ms=0)
        refused("PAY-01", said, payee="")
        refused("NEG-02", said, purpose="")
    refused("PAY-01", PAID, cancel_until_ms=PAID.due_ms + 1)
    replace(PAY, direction=Direction.OFFER, payee="").check()
    pb = PAY.to_pb()
    pb.ClearField("direction")
    with pytest.raises(ProtocolError, match="request or an offer"):
        PayWish.from_pb(pb)


@pytest.mark.rule("PAY-02")
@given(st.sampled_from(("payee", "amount_minor", "currency", "purpose", "due_ms", "mandate")))
@settings(max_examples=12)
def test_nothing_else_is_paid_than_was_asked_for(field: str) -> None:
    other = getattr(PAID, field) + (1 if isinstance(getattr(PAID, field), int) else "x")
    assert not PAY.admits(replace(PAID, **{field: other}))
    assert PAID.holdings(first=True) == (Money(50_000, "INR"),)
    assert PAID.holdings(first=False) == ()


@pytest.mark.rule("PAY-03")
def test_the_reference_of_a_transfer_names_its_commitment() -> None:
    reference = payment_reference(b"\xab" * 32)
    assert reference == "IND" + "AB" * 16
    assert len(reference) == 35
    assert payment_reference(b"\xac" + b"\xab" * 31) != reference


@pytest.mark.rule("BOK-01")
def test_a_booking_is_bounded() -> None:
    for said in (GOODS, SOLD, ROOM, BOOKED):
        refused("BOK-01", said, quantity=0)
        refused("BOK-01", said, quantity=10_001)
        refused("BOK-01", said, item="a b")
        refused("BOK-01", said, currency="rupees")
    refused("BOK-01", SOLD, due_ms=0)
    refused("BOK-01", BOOKED, end_ms=BOOKED.start_ms)
    refused("BOK-01", BOOKED, fee_minor=BOOKED.price_minor + 1)
    refused("BOK-01", BOOKED, cancel_until_ms=BOOKED.end_ms + 1)
    refused("BOK-01", BOOKED, due_ms=BOOKED.end_ms - 1)
    refused("BOK-01", ROOM, duration_minutes=0)
    refused("BOK-01", ROOM, duration_minutes=24 * 60 + 1)
    refused("BOK-01", ROOM, windows=())


@pytest.mark.rule("BOK-02")
def test_a_booking_answers_just_what_was_asked_for() -> None:
    for changes in (
        {"item": "room-8"},
        {"quantity": 1},
        {"start_ms": BOOKED.start_ms - 1, "end_ms": BOOKED.end_ms - 1},
        {"end_ms": BOOKED.end_ms + 1},
    ):
        assert not ROOM.admits(replace(BOOKED, **changes))
    assert not GOODS.admits(replace(SOLD, price_minor=1_001))
    assert not GOODS.admits(replace(SOLD, currency="USD"))
    assert GOODS.admits(replace(SOLD, price_minor=0, currency=""))
    assert not GOODS.admits(BOOKED)
    assert BOOKED.holdings(first=True) == (Stock("room-7", 2, BOOKED.start_ms, BOOKED.end_ms),)
    assert BOOKED.holdings(first=False) == (Money(900, "INR"),)
    assert slot().holdings(first=False) == (Slot(slot().start_ms, slot().end_ms),)


@pytest.mark.rule("NEG-27")
@pytest.mark.parametrize("pair", PAIRS[1:], ids=lambda pair: pair[0].about())
def test_who_gives_makes_the_offer(pair: tuple[Wish, Terms]) -> None:
    wish, terms = pair
    done = Script().say("A", Move.PROPOSE, wish).say("B", Move.OFFER, terms).say("A", Move.ACCEPT, terms)
    done.say("B", Move.RECEIPT, receipt(done))
    assert done.open.status is Status.COMMITTED
    assert done.open.giver == "B"
    countered = Script().say("A", Move.PROPOSE, wish)
    if not isinstance(wish, PayWish):  # the giver wants it otherwise; the taker may only agree by a wish
        countered.say("B", Move.COUNTER, wish)
        breaks("NEG-27", countered, "A", Move.OFFER, terms)


@pytest.mark.rule("NEG-27")
def test_a_payer_who_lacks_the_address_asks_for_it_and_then_offers() -> None:
    offer = replace(PAY, direction=Direction.OFFER, payee="")
    script = Script().say("A", Move.PROPOSE, offer)
    assert script.open.giver == "A"
    breaks("NEG-27", script, "B", Move.OFFER, PAID)
    breaks("NEG-27", script, "B", Move.COUNTER, offer)
    script.say("B", Move.COUNTER, PAY).say("A", Move.OFFER, PAID).say("B", Move.ACCEPT, PAID)
    assert Script().say("A", Move.OFFER, PAID).open.giver == "A"
    assert Script().say("A", Move.PROPOSE, WISH).open.giver == ""


@pytest.mark.rule("NEG-10")
def test_nobody_answers_what_was_not_asked() -> None:
    for terms in (ANSWERED, FILED):
        breaks("NEG-10", Script(), "A", Move.OFFER, terms)


@pytest.mark.rule("NEG-28")
def test_a_thread_names_what_it_supersedes_from_the_first_message_on() -> None:
    script = Script()
    script.hear(replace(script.make("A", Move.PROPOSE, WISH), supersedes=MID))
    assert script.open.supersedes == MID
    breaks("NEG-28", script, "B", Move.OFFER, slot())
    script.hear(replace(script.make("B", Move.OFFER, slot()), supersedes=MID))
    assert script.open.status is Status.OFFERED


@pytest.mark.rule("NEG-29")
def test_a_thread_stays_about_one_kind() -> None:
    breaks("NEG-29", Script().say("A", Move.PROPOSE, GOODS), "B", Move.COUNTER, ASK)
    breaks("NEG-29", Script().say("A", Move.PROPOSE, GOODS), "B", Move.OFFER, PAID)


@pytest.mark.rule("NEG-24")
def test_what_was_said_before_is_no_progress_in_any_kind() -> None:
    for wish, _ in PAIRS:
        if isinstance(wish, PayWish):
            continue
        script = Script().say("A", Move.PROPOSE, wish)
        for sender in "BAB":
            script.say(sender, Move.COUNTER, wish)
        assert script.open.status is Status.IMPASSE


@pytest.mark.rule("NEG-08")
@pytest.mark.rule("NEG-11")
def test_a_commitment_of_many_is_of_a_meeting_and_not_made_in_a_thread_of_two() -> None:
    offer = describe(compose(Move.OFFER, slot(), header(), many(3)), mid=MID, signatures=1)
    script = Script().say("A", Move.PROPOSE, WISH)
    with pytest.raises(ProtocolError) as caught:
        script.hear(replace(offer, sender="B", recipient="A", thread=script.open.thread_id))
    assert caught.value.rule == "NEG-11"
    with pytest.raises(ProtocolError) as caught:
        describe(compose(Move.OFFER, PAID, header(), many(3)), mid=MID, signatures=1)
    assert caught.value.rule == "NEG-06"


def test_an_answer_is_over_at_the_deed_and_a_payment_pending() -> None:
    states = {terms.kind: committed(deed_of(MID, ("A", "B"), terms)).state for _, terms in PAIRS}
    assert states == {
        "meet": State.COMMITTED,
        "share": State.COMMITTED,
        "ask": State.FULFILLED,
        "request": State.COMMITTED,
        "pay": State.PENDING,
        "book": State.COMMITTED,
    }
    assert PAY_KIND.one_gives


@pytest.mark.rule("LIF-15")
def test_what_was_paid_is_the_payees_word() -> None:
    life = committed(deed_of(MID, ("A", "B"), PAID))
    alone = _event("A", EventKind.POST, 1, posted_minor=50_000)
    with pytest.raises(ProtocolError) as caught:
        lifecycle.apply(life, alone, NOW)
    assert caught.value.rule == "LIF-15"
    asked = _event("B", EventKind.POST, 0, posted_minor=50_000)
    life = lifecycle.apply(life, asked, NOW)
    life = lifecycle.apply(
        life, _event("A", EventKind.POST, 1, posted_minor=50_000, requests=(asked.mid,)), NOW
    )
    assert life.state is State.POSTED


@pytest.mark.rule("LIF-16")
def test_a_successor_is_of_the_same_kind_and_parties() -> None:
    old = describe(compose(Move.OFFER, slot(), header(), PARTIES), mid=MID, signatures=1)
    new = describe(compose(Move.OFFER, slot(1), header(), PARTIES, MID), mid=b"n" * 32, signatures=1)
    check_successor(old, new)
    check_successor(old, replace(new, sender=new.recipient, recipient=new.sender))
    check_successor(old, replace(new, body=WISH, move=Move.PROPOSE))
    for wrong in (
        replace(new, supersedes=b""),
        replace(new, supersedes=b"o" * 32),
        replace(new, body=PAID),
        replace(new, recipient="ind:c"),
    ):
        with pytest.raises(ProtocolError) as caught:
            check_successor(old, wrong)
        assert caught.value.rule == "LIF-16"


@given(amount=st.integers(1, 10**15), quantity=st.integers(1, 10_000), hours=st.integers(1, 500))
@settings(max_examples=60)
def test_amounts_and_numbers_survive_the_wire_exactly(amount: int, quantity: int, hours: int) -> None:
    paid = replace(PAID, amount_minor=amount)
    assert PayTerms.from_bytes(paid.to_pb().SerializeToString()) == paid
    booked = replace(
        BOOKED, price_minor=amount, quantity=quantity, fee_minor=0, end_ms=BOOKED.start_ms + hours * HOUR_MS
    )
    again = BookTerms.from_bytes(booked.to_pb().SerializeToString())
    again.check()
    assert again == booked


def _event(sender: str, kind: EventKind, seq: int, **fields: Any) -> Message:
    body = EventBody(MID, kind, seq, MID, **fields)
    mid = (sender + kind.value).encode().ljust(32, b".")
    other = "B" if sender == "A" else "A"
    return Message(mid, Move.EVENT, sender, other, b"t" * 16, MID, NOW, NOW + DAY_MS, body)
