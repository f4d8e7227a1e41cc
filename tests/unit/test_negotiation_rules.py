"""The rules of a thread, one behaviour a test."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.header import GRACE_MS
from indai.protocol.messages import DAY_MS, HOUR_MS, Body, Message, Move
from indai.protocol.negotiation import OfferState, Status, apply, decide_accept, open_thread, transcript
from indai.protocol.rules import RULES

from tests.unit.transcripts import (
    NOW,
    WISH,
    Script,
    accepted,
    committed,
    hold,
    offered,
    proposed,
    receipt,
    reject,
    slot,
    wish,
    withdraw,
)


def refused(script: Script, message: Message, rule: str, reason: Reason, now_ms: int = NOW) -> None:
    before = script.thread
    with pytest.raises(ProtocolError) as caught:
        script.hear(message, now_ms)
    assert (caught.value.rule, caught.value.reason) == (rule, reason)
    assert script.thread == before


def test_the_fast_path_is_propose_offer_accept_receipt() -> None:
    script = committed()
    assert script.open.status is Status.COMMITTED
    assert [message.move.name for message in script.open.messages] == [
        "PROPOSE",
        "OFFER",
        "ACCEPT",
        "RECEIPT",
    ]
    assert script.open.turn == ""


@pytest.mark.rule("NEG-10")
def test_a_thread_may_begin_with_a_concrete_offer() -> None:
    script = Script().say("A", Move.OFFER, slot()).say("B", Move.ACCEPT, slot())
    script.say("A", Move.RECEIPT, receipt(script))
    assert script.open.status is Status.COMMITTED


@pytest.mark.rule("NEG-10")
@pytest.mark.parametrize(
    ("move", "body"),
    [
        (Move.COUNTER, WISH),
        (Move.HOLD, hold()),
        (Move.REJECT, reject()),
        (Move.WITHDRAW, withdraw(b"m" * 32)),
    ],
)
def test_nothing_else_begins_a_thread(move: Move, body: Body) -> None:
    script = Script()
    refused(script, script.make("A", move, body), "NEG-10", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-10")
def test_an_answer_to_an_unknown_thread_is_waited_for_not_refused() -> None:
    script = Script()
    refused(script, script.make("B", Move.OFFER, slot(), b"m" * 32), "NEG-10", Reason.OUT_OF_ORDER)


@pytest.mark.rule("NEG-10")
def test_a_second_propose_is_refused() -> None:
    script = proposed()
    refused(script, script.make("B", Move.PROPOSE, wish(1)), "NEG-10", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-11")
def test_a_third_party_and_another_thread_are_refused() -> None:
    script = proposed()
    offer = script.make("B", Move.OFFER, slot())
    refused(script, replace(offer, sender="C"), "NEG-11", Reason.ILLEGAL_MOVE)
    refused(script, replace(offer, thread=b"another-thread.."), "NEG-11", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-12")
@pytest.mark.parametrize(
    ("move", "body"),
    [(Move.COUNTER, wish(1)), (Move.OFFER, slot()), (Move.REJECT, reject()), (Move.HOLD, hold())],
)
def test_only_the_last_recipient_may_answer(move: Move, body: Body) -> None:
    script = proposed()
    refused(script, script.make("A", move, body), "NEG-12", Reason.NOT_YOUR_TURN)


@pytest.mark.rule("NEG-13")
def test_an_answer_to_what_was_answered_already_is_refused_for_good() -> None:
    script = proposed().say("B", Move.COUNTER, wish(1)).say("A", Move.COUNTER, wish(0, 3))
    stale = script.make("B", Move.OFFER, slot(), script.open.messages[0].mid)
    refused(script, stale, "NEG-13", Reason.NOT_YOUR_TURN)


@pytest.mark.rule("NEG-13")
@pytest.mark.parametrize(
    ("move", "body"),
    [
        (Move.OFFER, slot()),
        (Move.HOLD, hold()),
        (Move.WITHDRAW, withdraw(b"m" * 32)),
        (Move.REJECT, reject()),
    ],
)
def test_an_answer_to_what_has_not_arrived_may_come_again(move: Move, body: Body) -> None:
    script = proposed()
    refused(script, script.make("B", move, body, b"m" * 32), "NEG-13", Reason.OUT_OF_ORDER)


@pytest.mark.rule("NEG-14")
def test_a_counter_replaces_the_offer_so_that_it_cannot_be_accepted_any_more() -> None:
    script = offered()
    first = script.open.standing
    script.say("A", Move.COUNTER, wish(1))
    assert script.open.standing.body == wish(1)
    late = script.make("A", Move.ACCEPT, slot(), first.mid)
    refused(script, late, "NEG-16", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-14")
def test_an_acceptance_cannot_be_countered() -> None:
    script = accepted()
    refused(script, script.make("B", Move.COUNTER, wish(1)), "NEG-14", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-15")
@pytest.mark.parametrize("terms", [slot(8), replace(slot(), end_ms=slot().end_ms + HOUR_MS)])
def test_an_offer_outside_the_wish_is_refused(terms: Body) -> None:
    script = proposed()
    refused(script, script.make("B", Move.OFFER, terms), "NEG-15", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-16")
def test_only_a_standing_offer_is_accepted_and_only_by_its_recipient() -> None:
    script = proposed()
    refused(script, script.make("B", Move.ACCEPT, slot()), "NEG-16", Reason.ILLEGAL_MOVE)
    script = offered()
    refused(script, script.make("B", Move.ACCEPT, slot()), "NEG-16", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-16")
@pytest.mark.parametrize(("after_ms", "late"), [(0, False), (GRACE_MS, False), (GRACE_MS + 1, True)])
def test_an_expired_offer_is_not_accepted(after_ms: int, late: bool) -> None:
    script = offered()
    message = script.make("A", Move.ACCEPT, slot())
    now_ms = script.open.standing.expires_at_ms + after_ms
    if late:
        refused(script, message, "NEG-16", Reason.EXPIRED, now_ms)
    else:
        assert script.hear(message, now_ms).open.status is Status.ACCEPTED


@pytest.mark.rule("NEG-17")
def test_a_receipt_needs_an_acceptance_the_offerer_and_the_right_commitment() -> None:
    script = offered()
    refused(script, script.make("A", Move.RECEIPT, receipt(script)), "NEG-17", Reason.ILLEGAL_MOVE)
    script = accepted()
    refused(script, script.make("A", Move.RECEIPT, receipt(script)), "NEG-12", Reason.NOT_YOUR_TURN)
    refused(script, script.make("B", Move.RECEIPT, receipt(script, b"x" * 32)), "NEG-17", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-17")
def test_a_withdrawn_acceptance_that_never_came_gets_no_receipt() -> None:
    script = offered()
    mid = script.open.standing.mid
    script.say("A", Move.WITHDRAW, withdraw(mid), mid)
    refused(script, script.make("B", Move.RECEIPT, receipt(script)), "NEG-17", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-18")
def test_a_hold_keeps_the_turn_and_comes_once() -> None:
    script = proposed().say("B", Move.HOLD, hold())
    assert (script.open.turn, script.open.status) == ("B", Status.PROPOSED)
    refused(script, script.make("B", Move.HOLD, hold()), "NEG-18", Reason.ILLEGAL_MOVE)
    script.say("B", Move.OFFER, slot()).say("A", Move.HOLD, hold()).say("A", Move.ACCEPT, slot())
    assert script.open.status is Status.ACCEPTED


@pytest.mark.rule("NEG-18")
def test_a_hold_overtaken_by_its_answer_has_no_effect() -> None:
    script = proposed()
    late = script.make("B", Move.HOLD, hold())
    script.say("B", Move.OFFER, slot()).hear(late)
    assert (script.open.turn, script.open.status) == ("A", Status.OFFERED)
    assert [message.move for message in transcript(script.open)] == [Move.PROPOSE, Move.HOLD, Move.OFFER]


@pytest.mark.rule("NEG-19")
def test_an_acceptance_is_rejected_only_as_lapsed_and_only_by_the_offerer() -> None:
    script = accepted()
    refused(script, script.make("B", Move.REJECT, reject()), "NEG-19", Reason.ILLEGAL_MOVE)
    refused(script, script.make("A", Move.REJECT, reject("LAPSED")), "NEG-12", Reason.NOT_YOUR_TURN)
    assert script.say("B", Move.REJECT, reject("LAPSED")).open.status is Status.REJECTED


@pytest.mark.rule("NEG-20")
def test_a_party_withdraws_only_what_is_its_own_and_newest() -> None:
    script = proposed().say("B", Move.COUNTER, wish(1)).say("A", Move.COUNTER, wish(0, 3))
    first, theirs, mine = (message.mid for message in script.open.messages)
    refused(script, script.make("A", Move.WITHDRAW, withdraw(theirs), theirs), "NEG-20", Reason.ILLEGAL_MOVE)
    refused(script, script.make("A", Move.WITHDRAW, withdraw(first), first), "NEG-20", Reason.ILLEGAL_MOVE)
    refused(script, script.make("A", Move.WITHDRAW, withdraw(mine), first), "NEG-20", Reason.ILLEGAL_MOVE)
    script.say("A", Move.WITHDRAW, withdraw(mine), mine)
    assert script.open.status is Status.WITHDRAWN
    refused(script, script.make("A", Move.WITHDRAW, withdraw(mine), mine), "NEG-20", Reason.ILLEGAL_MOVE)


@pytest.mark.rule("NEG-20")
def test_withdrawing_an_acceptance_leaves_the_decision_to_the_offerer() -> None:
    script = accepted()
    mid = script.open.standing.mid
    script.say("A", Move.WITHDRAW, withdraw(mid), mid)
    assert (script.open.status, script.open.turn) == (Status.ACCEPTED, "B")
    lapsed = script.make("B", Move.REJECT, reject("LAPSED"))
    assert apply(script.open, lapsed, NOW).status is Status.REJECTED
    assert script.say("B", Move.RECEIPT, receipt(script)).open.status is Status.COMMITTED


@pytest.mark.rule("NEG-21")
@pytest.mark.parametrize("move", [Move.COUNTER, Move.OFFER, Move.REJECT, Move.RECEIPT])
def test_what_has_ended_stays_ended(move: Move) -> None:
    bodies: dict[Move, Body] = {Move.COUNTER: wish(1), Move.OFFER: slot(1), Move.REJECT: reject()}
    for script in (committed(), offered().say("A", Move.REJECT, reject())):
        for sender in "AB":
            body = bodies.get(move, receipt(script))
            refused(script, script.make(sender, move, body), "NEG-21", Reason.THREAD_CLOSED)


@pytest.mark.rule("NEG-21")
def test_the_offerer_cannot_withdraw_what_it_committed() -> None:
    script = committed()
    mid = script.open.standing.mid
    refused(script, script.make("B", Move.WITHDRAW, withdraw(mid), mid), "NEG-21", Reason.THREAD_CLOSED)


@pytest.mark.rule("NEG-22")
def test_a_retransmission_changes_nothing_even_after_the_end() -> None:
    script = committed()
    for message in script.made:
        assert apply(script.open, message, NOW + 30 * DAY_MS) is script.open


@pytest.mark.rule("NEG-23")
def test_a_thread_has_at_most_eight_moves_and_the_last_is_an_accept() -> None:
    script = proposed()
    for number, sender in enumerate("BABAB", 1):
        script.say(sender, Move.COUNTER, wish(0, 4 + number))
    script.say("A", Move.OFFER, slot())
    over = script.make("B", Move.COUNTER, wish(0, 3))
    refused(script, over, "NEG-23", Reason.TOO_MANY_MOVES)
    assert script.say("B", Move.ACCEPT, slot()).open.status is Status.ACCEPTED


@pytest.mark.rule("NEG-24")
def test_three_moves_without_progress_end_in_an_impasse() -> None:
    script = proposed()
    for number, sender in enumerate("BAB", 1):
        assert not script.open.status.ended
        script.say(sender, Move.COUNTER, wish(10 * number))
    assert (script.open.status, script.open.turn) == (Status.IMPASSE, "")


@pytest.mark.rule("NEG-24")
def test_repeating_oneself_is_no_progress_and_something_new_is() -> None:
    script = proposed().say("B", Move.COUNTER, wish(9)).say("A", Move.COUNTER, replace(WISH, title="Please"))
    assert script.open.stalled == 2
    script.say("B", Move.COUNTER, wish(1))
    assert script.open.stalled == 0


@pytest.mark.rule("NEG-25")
@pytest.mark.parametrize(
    ("move", "body"),
    [(Move.OFFER, slot()), (Move.COUNTER, wish(1)), (Move.REJECT, reject()), (Move.HOLD, hold())],
)
def test_an_answer_that_crosses_a_withdrawal_is_recorded_without_effect(move: Move, body: Body) -> None:
    ours, theirs = proposed(), proposed()
    mid = ours.open.standing.mid
    ours.count = 100
    taken_back = ours.make("A", Move.WITHDRAW, withdraw(mid), mid)
    answer = theirs.make("B", move, body)
    ours.hear(taken_back).hear(answer)
    theirs.hear(answer).hear(taken_back)
    assert ours.open.status is Status.WITHDRAWN
    assert theirs.open.status.ended
    assert transcript(ours.open) == transcript(theirs.open)


@pytest.mark.rule("NEG-25")
def test_an_accept_that_crosses_the_offers_withdrawal_is_recorded_without_effect() -> None:
    ours, theirs = offered(), offered()
    mid = ours.open.standing.mid
    taken_back = ours.make("B", Move.WITHDRAW, withdraw(mid), mid)
    accept = theirs.make("A", Move.ACCEPT, slot())
    ours.hear(taken_back).hear(accept)
    theirs.hear(accept).hear(taken_back)
    assert ours.open.status is theirs.open.status is Status.WITHDRAWN
    assert transcript(ours.open) == transcript(theirs.open)
    refused(ours, ours.make("B", Move.RECEIPT, receipt(ours)), "NEG-21", Reason.THREAD_CLOSED)


@pytest.mark.rule("NEG-25")
def test_an_accept_overtaken_by_its_own_withdrawal_is_recorded_without_effect() -> None:
    script = offered()
    mid = script.open.standing.mid
    accept = script.make("A", Move.ACCEPT, slot())
    script.say("A", Move.WITHDRAW, withdraw(mid), mid).say("B", Move.REJECT, reject("LAPSED")).hear(accept)
    assert script.open.status is Status.REJECTED
    order = [message.move for message in transcript(script.open)]
    assert order == [Move.PROPOSE, Move.OFFER, Move.ACCEPT, Move.REJECT, Move.WITHDRAW]


@pytest.mark.rule("NEG-26")
@pytest.mark.parametrize(
    ("state", "after_ms", "decision"),
    [
        (OfferState.OPEN, -1, OfferState.COMMITTED),
        (OfferState.OPEN, GRACE_MS, OfferState.COMMITTED),
        (OfferState.OPEN, GRACE_MS + 1, OfferState.LAPSED),
        (OfferState.COMMITTED, DAY_MS, OfferState.COMMITTED),
        (OfferState.LAPSED, -DAY_MS, OfferState.LAPSED),
    ],
)
def test_the_offerer_decides_once_by_its_own_clock(
    state: OfferState, after_ms: int, decision: OfferState
) -> None:
    assert decide_accept(state, NOW, NOW + after_ms) is decision


def test_the_manual_states_the_rules_in_force() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "negotiation.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(NEG-[0-9]{2})` \| (.*) \|$", manual, re.MULTILINE))
    assert rows == {rule.id: rule.text for rule in RULES.values() if rule.id.startswith("NEG-")}


def test_a_transcript_replays_in_its_canonical_order() -> None:
    ordered = transcript(committed().open)
    thread = open_thread(ordered[0])
    for message in ordered[1:]:
        thread = apply(thread, message, NOW)
    assert thread.status is Status.COMMITTED
