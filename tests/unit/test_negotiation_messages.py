"""Reading and writing the messages of a negotiation: fields in range, one meaning each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.messages import (
    DAY_MS,
    MINUTE_MS,
    Body,
    HoldBody,
    MeetTerms,
    MeetWish,
    Move,
    Payload,
    ReceiptBody,
    RejectBody,
    Window,
    WithdrawBody,
    compose,
    describe,
)
from indai.v1 import envelope_pb2, negotiation_pb2

from tests.unit.transcripts import NOW, WISH, slot

MID = b"m" * 32


def header(**changes: object) -> envelope_pb2.Header:
    fields: dict[str, object] = {
        "sender_subject": "ind:a",
        "recipient_subject": "ind:b",
        "issued_at_ms": NOW,
        "expires_at_ms": NOW + DAY_MS,
        "thread": b"t" * 16,
    }
    return envelope_pb2.Header(**{**fields, **changes})  # type: ignore[arg-type]


def party(subject: str) -> negotiation_pb2.Party:
    return negotiation_pb2.Party(handle="ind.ai/x", subject_id=subject, key_id="k")


PARTIES = (party("ind:a"), party("ind:b"))


def payload(move: Move, body: Body, **changes: object) -> Payload:
    return compose(move, body, header(**changes), PARTIES if move is Move.OFFER else ())


def refused(rule: str, message: Payload, signatures: int = 1) -> None:
    with pytest.raises(ProtocolError) as caught:
        describe(message, mid=MID, signatures=signatures)
    assert (caught.value.rule, caught.value.reason) == (rule, Reason.MALFORMED)


@pytest.mark.parametrize(
    ("move", "body"),
    [
        (Move.PROPOSE, WISH),
        (Move.COUNTER, WISH),
        (Move.OFFER, slot()),
        (Move.RECEIPT, ReceiptBody(MID, "node.example/ledger/2027", 3, NOW)),
        (Move.HOLD, HoldBody(NOW + 1)),
        (Move.REJECT, RejectBody("NO_COMMON_SLOT", "Sorry.")),
        (Move.WITHDRAW, WithdrawBody(MID)),
    ],
)
def test_what_is_composed_is_described_again(move: Move, body: Body) -> None:
    message = describe(payload(move, body), mid=MID, signatures=1)
    assert (message.move, message.body, message.mid) == (move, body, MID)
    assert (message.sender, message.recipient, message.in_reply_to) == ("ind:a", "ind:b", b"")


def test_a_commitment_with_both_signatures_is_the_second_partys_accept() -> None:
    message = describe(payload(Move.OFFER, slot()), mid=MID, signatures=2)
    assert (message.move, message.sender, message.recipient) == (Move.ACCEPT, "ind:b", "ind:a")
    assert message.in_reply_to == MID


@pytest.mark.rule("NEG-01")
def test_a_message_says_exactly_one_thing() -> None:
    refused("NEG-01", negotiation_pb2.Move(header=header()))
    refused("NEG-01", negotiation_pb2.Move(header=header(), propose=negotiation_pb2.Propose()))
    refused("NEG-01", negotiation_pb2.Commitment(header=header(), parties=PARTIES))
    refused("NEG-01", payload(Move.PROPOSE, WISH), signatures=2)
    refused("NEG-01", payload(Move.OFFER, slot()), signatures=3)
    refused("NEG-01", payload(Move.OFFER, slot()), signatures=0)
    refused("NEG-01", payload(Move.WITHDRAW, WithdrawBody(b"short")))
    refused("NEG-01", payload(Move.RECEIPT, ReceiptBody(MID, "log", 0, 0)))
    refused("NEG-01", payload(Move.PROPOSE, WISH, thread=b"short"))


@pytest.mark.rule("NEG-02")
@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "a\nb", "a\x00", "a\u202eb", "a\u2028b", "a\x9bb"])
def test_a_title_is_bounded_and_has_no_control_characters(text: str) -> None:
    refused("NEG-02", payload(Move.PROPOSE, replace(WISH, title=text)))
    refused("NEG-02", payload(Move.OFFER, replace(slot(), title=text)))


@pytest.mark.rule("NEG-02")
@pytest.mark.parametrize("text", ["x" * 200, "दोपहर का भोजन", "क्‍ष", "👩‍🔬 lab", "غداء"])
def test_any_script_is_a_title(text: str) -> None:
    assert describe(payload(Move.PROPOSE, replace(WISH, title=text)), mid=MID, signatures=1)


@pytest.mark.rule("NEG-02")
def test_place_uid_reason_and_sentence_are_checked() -> None:
    refused("NEG-02", payload(Move.PROPOSE, replace(WISH, place="x" * 201)))
    refused("NEG-02", payload(Move.OFFER, replace(slot(), ical_uid="")))
    refused("NEG-02", payload(Move.OFFER, replace(slot(), ical_uid="x" * 256)))
    refused("NEG-02", payload(Move.REJECT, RejectBody("not a name")))
    refused("NEG-02", payload(Move.REJECT, RejectBody("")))
    refused("NEG-02", payload(Move.REJECT, RejectBody("DECLINED", "x" * 301)))
    refused("NEG-02", payload(Move.RECEIPT, ReceiptBody(MID, "", 0, NOW)))


@pytest.mark.rule("NEG-03")
@pytest.mark.parametrize(
    "wish",
    [
        replace(WISH, duration_minutes=0),
        replace(WISH, duration_minutes=1441),
        replace(WISH, windows=()),
        replace(WISH, windows=WISH.windows * 33),
        replace(WISH, windows=(Window(NOW, NOW),)),
        replace(WISH, windows=(Window(NOW + MINUTE_MS, NOW),)),
        replace(WISH, windows=(Window(-DAY_MS, NOW),)),
        replace(WISH, windows=(Window(NOW, 1 << 60),)),
        replace(WISH, windows=(*WISH.windows, Window(NOW, NOW + 30 * MINUTE_MS - 1))),
    ],
)
def test_an_impossible_wish_is_refused(wish: MeetWish) -> None:
    refused("NEG-03", payload(Move.PROPOSE, wish))


@pytest.mark.rule("NEG-04")
@pytest.mark.parametrize(
    ("start_ms", "end_ms"), [(NOW, NOW), (NOW, NOW - 1), (0, NOW), (NOW, NOW + DAY_MS + 1)]
)
def test_an_impossible_slot_is_refused(start_ms: int, end_ms: int) -> None:
    refused("NEG-04", payload(Move.OFFER, replace(slot(), start_ms=start_ms, end_ms=end_ms)))


@pytest.mark.rule("NEG-05")
def test_a_message_expires_after_it_is_issued_and_an_offer_within_a_day() -> None:
    refused("NEG-05", payload(Move.PROPOSE, WISH, expires_at_ms=NOW))
    refused("NEG-05", payload(Move.OFFER, slot(), expires_at_ms=NOW + DAY_MS + 1))
    assert describe(payload(Move.PROPOSE, WISH, expires_at_ms=NOW + 9 * DAY_MS), mid=MID, signatures=1)


def many(count: int) -> tuple[negotiation_pb2.Party, ...]:
    """A, B and others."""
    return (*PARTIES, *(party(f"ind:c{number}") for number in range(count - 2)))


@pytest.mark.rule("NEG-08")
def test_up_to_twenty_sign_one_commitment_each_beside_the_offerer_or_all() -> None:
    message = compose(Move.OFFER, slot(), header(), many(5))
    offer = describe(message, mid=b"m" * 32, signatures=1)
    assert (offer.move, len(offer.parties)) == (Move.OFFER, 5)
    vote = describe(message, mid=b"m" * 32, signatures=2, signer=3)
    assert (vote.move, vote.sender, vote.recipient) == (Move.ACCEPT, "ind:c1", "ind:a")
    assert describe(message, mid=b"m" * 32, signatures=5).sender == "ind:b"
    for signatures, signer in ((2, None), (4, None), (6, None), (2, 0), (2, 5), (3, 1), (5, 1)):
        with pytest.raises(ProtocolError) as caught:
            describe(message, mid=b"m" * 32, signatures=signatures, signer=signer)
        assert caught.value.rule == "NEG-08"


@pytest.mark.rule("NEG-06")
def test_the_parties_are_two_and_the_offerer_is_the_first() -> None:
    refused("NEG-06", payload(Move.PROPOSE, WISH, recipient_subject="ind:a"))
    refused("NEG-06", payload(Move.PROPOSE, WISH, recipient_subject=""))
    for parties in (PARTIES[::-1], PARTIES[:1], (PARTIES[0], PARTIES[0]), many(21)):
        refused("NEG-06", compose(Move.OFFER, slot(), header(), parties))


@pytest.mark.rule("NEG-07")
@pytest.mark.parametrize("deadline_ms", [0, NOW, NOW + 7 * DAY_MS + 1])
def test_a_hold_has_a_deadline_within_a_week(deadline_ms: int) -> None:
    refused("NEG-07", payload(Move.HOLD, HoldBody(deadline_ms)))


@settings(max_examples=60)
@given(
    st.builds(
        MeetWish,
        st.text(max_size=220),
        st.integers(0, 2000),
        st.lists(
            st.builds(Window, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1)),
            max_size=3,
        ).map(tuple),
        st.text(max_size=10),
    )
)
def test_a_described_wish_admits_a_slot_and_any_other_is_refused_by_a_rule(wish: MeetWish) -> None:
    try:
        message = describe(payload(Move.PROPOSE, wish), mid=MID, signatures=1)
    except ProtocolError:
        return  # any other exception is a failure
    assert isinstance(message.body, MeetWish)
    start_ms = message.body.windows[0].start_ms
    end_ms = start_ms + message.body.duration_minutes * MINUTE_MS
    assert message.body.admits(MeetTerms(start_ms, end_ms, "x", "", "u"))


@pytest.mark.rule("HDR-07")
def test_only_what_begins_a_thread_counts_hops() -> None:
    assert describe(payload(Move.PROPOSE, WISH, hops=2), mid=MID, signatures=1).hops == 2
    assert describe(payload(Move.OFFER, slot(), hops=1), mid=MID, signatures=1).hops == 1
    for move, body in (
        (Move.COUNTER, WISH),
        (Move.WITHDRAW, WithdrawBody(MID)),
        (Move.REJECT, RejectBody("NO")),
    ):
        refused("HDR-07", payload(move, body, hops=1))
