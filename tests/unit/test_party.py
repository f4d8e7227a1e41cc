"""One party's driver: who is asked what, and what is reserved, committed and told, step by step."""

from __future__ import annotations

import pytest
from indai.protocol.errors import Refused
from indai.protocol.header import GRACE_MS
from indai.protocol.messages import (
    DAY_MS,
    HOUR_MS,
    HoldBody,
    Move,
    RejectBody,
)
from indai.protocol.negotiation import OfferState, Status, transcript
from indai.protocol.party import wakes_at
from indai.protocol.party_state import (
    AskOwner,
    Commit,
    Consult,
    Consume,
    Enact,
    HostAnswers,
    Outcome,
    OwnerAnswers,
    OwnerWithdraws,
    Phase,
    Question,
    Release,
    Resend,
    Reserve,
    Send,
    Tell,
    Tick,
)

from tests.unit.party_agents import ASK, CONFIRMED, PERMIT, Agent, accepted, offered, permit, refuse, start
from tests.unit.transcripts import NOW, THREAD, WISH, slot, wish


@pytest.mark.rule("NEG-36")
def test_two_round_trips_settle_a_meeting_and_both_sides_commit_it() -> None:
    a, b, accept = accepted()
    receipt = b.hear(accept)
    assert [message.move for message in receipt] == [Move.RECEIPT]
    assert b.effects[:4] == [Consume(slot()), Enact(slot()), Commit(accept[0].mid), CONFIRMED]
    a.hear(receipt)
    assert a.effects == [Consume(slot()), Enact(slot()), Commit(accept[0].mid), CONFIRMED]
    assert a.phase is b.phase is Phase.COMMITTED
    assert a.state.thread
    assert b.state.thread
    assert transcript(a.state.thread) == transcript(b.state.thread)


@pytest.mark.rule("NEG-36")
def test_a_concrete_proposal_takes_one_round_trip() -> None:
    a, b = Agent("A"), Agent("B")
    offer = a.do(start(slot()), PERMIT)
    assert a.did(Consult) == [Consult(Question.SIGN_TERMS, slot())]
    a.hear(b.hear(offer, PERMIT))
    assert a.phase is Phase.COMMITTED
    assert a.state.offer is OfferState.COMMITTED


@pytest.mark.rule("NEG-30")
def test_a_slot_is_reserved_in_the_very_step_that_signs_for_it() -> None:
    a, b, offer = offered()
    assert [type(effect) for effect in b.effects] == [Consult, Reserve, Send]
    a.hear(offer, PERMIT)
    assert [type(effect) for effect in a.effects] == [Consult, Reserve, Send]


@pytest.mark.rule("NEG-30")
@pytest.mark.parametrize("end", ["reject", "withdraw", "counter", "expiry", "taken-back"])
def test_an_offer_that_ends_gives_its_slot_back_in_the_same_step(end: str) -> None:
    a, b, offer = offered()
    if end == "reject":
        b.hear(a.hear(offer, refuse()))
    elif end == "counter":
        b.hear(a.hear(offer, permit(wish(1))), refuse())
    elif end == "withdraw":
        b.do(OwnerWithdraws())
    elif end == "taken-back":
        b.hear(a.do(OwnerWithdraws()))
    else:
        b.now_ms = offer[0].expires_at_ms + GRACE_MS + 1
        b.do(Tick())
    assert b.did(Release) == [Release(slot())]
    assert (b.state.reserved, b.state.offer) == (None, OfferState.LAPSED)
    assert b.phase.ended


@pytest.mark.rule("NEG-31")
@pytest.mark.rule("NEG-35")
def test_a_silent_offerer_leaves_the_acceptor_in_doubt_with_its_slot_kept() -> None:
    a, _, accept = accepted()
    a.now_ms = accept[0].expires_at_ms + GRACE_MS
    a.do(Tick())
    assert a.phase is Phase.AWAITING_RECEIPT
    assert wakes_at(a.state) == a.now_ms + 1
    a.now_ms += 1
    a.do(Tick())
    assert (a.phase, a.state.reserved, wakes_at(a.state)) == (Phase.IN_DOUBT, slot(), None)
    assert not a.did(Release)


@pytest.mark.rule("NEG-35")
def test_in_doubt_a_late_receipt_still_confirms() -> None:
    a, b, accept = accepted()
    receipt = b.hear(accept)
    a.now_ms += 3 * DAY_MS
    a.do(Tick())
    a.hear(receipt)
    assert (a.phase, a.did(Tell)) == (Phase.COMMITTED, [CONFIRMED])


@pytest.mark.rule("NEG-35")
def test_withdrawing_in_doubt_is_answered_by_reject_when_the_accept_never_came() -> None:
    a, b, accept = accepted()
    a.now_ms += 3 * DAY_MS
    a.do(Tick())
    taken_back = a.do(OwnerWithdraws())
    assert (a.phase, a.state.reserved) == (Phase.IN_DOUBT, slot())
    assert a.do(OwnerWithdraws()) == []
    rejection = b.hear(taken_back)
    assert [message.move for message in rejection] == [Move.REJECT]
    assert b.hear(accept) == []
    a.hear(rejection)
    assert (a.phase, b.phase) == (Phase.WITHDRAWN, Phase.WITHDRAWN)
    assert a.did(Release) == [Release(slot())]


@pytest.mark.rule("NEG-26")
def test_withdrawing_what_is_committed_is_answered_by_the_receipt_again() -> None:
    a, b, accept = accepted()
    receipt = b.hear(accept)
    b.hear(a.do(OwnerWithdraws()))
    assert b.did(Resend) == [Resend(receipt[0].mid)]
    a.hear(receipt)
    assert a.phase is b.phase is Phase.COMMITTED


@pytest.mark.rule("NEG-26")
@pytest.mark.parametrize("ticked", [False, True])
@pytest.mark.parametrize(("after_ms", "move"), [(GRACE_MS, Move.RECEIPT), (GRACE_MS + 1, Move.REJECT)])
def test_the_offerers_clock_decides_about_a_late_accept(ticked: bool, after_ms: int, move: Move) -> None:
    a, b, accept = accepted()
    b.now_ms = accept[0].expires_at_ms + after_ms
    if ticked:
        b.do(Tick())
    answer = b.hear(accept)
    assert [message.move for message in answer] == [move]
    a.hear(answer)
    assert a.phase is b.phase is (Phase.COMMITTED if move is Move.RECEIPT else Phase.LAPSED)
    assert a.state.reserved is b.state.reserved is None


@pytest.mark.rule("NEG-26")
def test_an_offer_withdrawn_before_its_accept_came_binds_nobody() -> None:
    a, b, accept = accepted()
    taken_back = b.do(OwnerWithdraws())
    assert b.hear(accept) == []
    a.hear(taken_back)
    assert a.did(Release) == [Release(slot())]
    assert a.phase is b.phase is Phase.WITHDRAWN


@pytest.mark.rule("NEG-32")
def test_the_acceptors_owner_hears_confirmed_only_at_the_receipt() -> None:
    a, b, accept = accepted()
    assert CONFIRMED not in a.effects
    a.hear(b.hear(accept))
    assert CONFIRMED in a.effects


@pytest.mark.rule("NEG-34")
def test_a_responder_that_must_ask_holds_then_offers_exactly_what_was_shown() -> None:
    a, b = Agent("A"), Agent("B")
    hold = b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot(2)))
    assert [message.move for message in hold] == [Move.HOLD]
    assert b.did(AskOwner) == [AskOwner(slot(2), slot(2).start_ms)]
    assert not b.did(Reserve)
    a.hear(hold)
    assert (a.phase, b.phase) == (Phase.ON_HOLD, Phase.ASKING_OWNER)
    offer = b.do(OwnerAnswers(True), PERMIT)
    assert b.did(Consult) == [Consult(Question.SIGN_TERMS, slot(2), approved=True)]
    assert (offer[0].move, offer[0].body) == (Move.OFFER, slot(2))
    a.hear(b.hear(a.hear(offer, PERMIT)))
    assert a.phase is b.phase is Phase.COMMITTED


@pytest.mark.rule("NEG-34")
def test_an_initiator_that_must_ask_holds_then_accepts() -> None:
    a, b, offer = offered()
    b.hear(a.hear(offer, ASK))
    assert (a.phase, b.phase) == (Phase.ASKING_OWNER, Phase.ON_HOLD)
    assert a.state.deadline_ms == offer[0].expires_at_ms
    accept = a.do(OwnerAnswers(True), PERMIT)
    assert [type(effect) for effect in a.effects] == [Consult, Reserve, Send]
    a.hear(b.hear(accept))
    assert a.phase is b.phase is Phase.COMMITTED


@pytest.mark.rule("NEG-34")
def test_an_approved_slot_that_was_taken_meanwhile_is_a_new_question() -> None:
    a, b = Agent("A"), Agent("B")
    b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot(2)))
    deadline_ms = b.state.deadline_ms
    b.now_ms += 1000
    sent = b.do(OwnerAnswers(True), refuse("NO_COMMON_SLOT"), HostAnswers(Outcome.ASK, slot(3)))
    assert sent == []  # the peer waits already: there is one HOLD for each turn
    assert b.did(AskOwner) == [AskOwner(slot(3), deadline_ms)]
    assert b.phase is Phase.ASKING_OWNER


@pytest.mark.rule("NEG-34")
def test_a_host_that_would_sign_other_terms_than_approved_must_ask_again() -> None:
    a, b = Agent("A"), Agent("B")
    b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot(2)))
    assert b.do(OwnerAnswers(True), permit(slot(3))) == []
    assert (b.phase, b.state.terms, b.state.reserved) == (Phase.ASKING_OWNER, slot(3), None)


@pytest.mark.rule("NEG-33")
@pytest.mark.parametrize("asker", ["A", "B"])
def test_a_silent_owner_is_a_no_at_the_deadline(asker: str) -> None:
    a, b = Agent("A"), Agent("B")
    if asker == "B":
        a.hear(b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot())))
        silent, other = b, a
    else:
        a, b, offer = offered()
        b.hear(a.hear(offer, ASK))
        silent, other = a, b
    silent.now_ms = silent.state.deadline_ms - 1
    assert silent.do(Tick()) == []
    silent.now_ms += 1
    rejection = silent.do(OwnerAnswers(True))  # too late: as good as silence
    assert isinstance(rejection[0].body, RejectBody)
    assert rejection[0].body.reason == "UNANSWERED"
    other.hear(rejection)
    assert a.phase is b.phase is Phase.LAPSED
    assert silent.did(Tell) == [Tell("You did not answer in time, and silence is no consent.")]
    assert other.did(Tell) == [Tell("The other side did not answer in time, and silence is no consent.")]
    assert a.state.reserved is b.state.reserved is None


@pytest.mark.rule("NEG-33")
def test_a_hold_never_outlives_the_offer_or_the_slot() -> None:
    a, _, offer = offered(life_ms=HOUR_MS // 2)
    hold = a.hear(offer, ASK)
    assert hold[0].body == HoldBody(offer[0].expires_at_ms)


def test_a_refusal_tells_the_peer_no_more_than_the_reason() -> None:
    a, b = Agent("A"), Agent("B")
    a.hear(b.hear(a.do(start(), PERMIT), refuse()))
    assert a.phase is b.phase is Phase.REJECTED
    assert (a.state.reason, b.state.reason) == ("POLICY_DENIED", "POLICY_DENIED")


def test_a_wish_our_own_policy_refuses_never_leaves_the_house() -> None:
    a = Agent("A")
    assert a.do(start(), refuse()) == []
    assert (a.phase, a.state.thread) == (Phase.REJECTED, None)


def test_a_wish_our_own_policy_asks_about_is_proposed_once_approved() -> None:
    a = Agent("A")
    assert a.do(start(), ASK) == []
    assert wakes_at(a.state) == NOW + 5 * HOUR_MS
    sent = a.do(OwnerAnswers(True), PERMIT)
    assert a.did(Consult) == [Consult(Question.PROPOSE_WISH, WISH, approved=True)]
    assert (sent[0].move, sent[0].body) == (Move.PROPOSE, WISH)


def test_a_wish_taken_back_before_it_was_proposed_ends_in_silence() -> None:
    a = Agent("A")
    a.do(start(), ASK)
    assert a.do(OwnerWithdraws()) == []
    assert a.phase is Phase.WITHDRAWN


def test_a_responder_with_nothing_of_its_own_to_withdraw_rejects() -> None:
    a, b = Agent("A"), Agent("B")
    b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot()))
    sent = b.do(OwnerWithdraws())
    assert [message.move for message in sent] == [Move.REJECT]


def test_an_unanswered_wish_lapses_and_a_later_offer_is_turned_down() -> None:
    a, b, offer = offered(life_ms=DAY_MS)
    a.now_ms += DAY_MS + GRACE_MS + 1
    a.do(Tick())
    assert a.phase is Phase.LAPSED
    rejection = a.hear(offer)
    assert [message.move for message in rejection] == [Move.REJECT]
    b.hear(rejection)
    assert (b.phase, b.state.reserved) == (Phase.LAPSED, None)


def test_an_offer_that_expired_on_the_way_is_not_accepted() -> None:
    a, _, offer = offered()
    a.now_ms = offer[0].expires_at_ms
    rejection = a.hear(offer)
    assert (rejection[0].move, a.phase) == (Move.REJECT, Phase.LAPSED)


def test_an_offer_never_outlives_the_beginning_of_its_slot() -> None:
    _, b, offer = offered(life_ms=DAY_MS)
    assert offer[0].expires_at_ms == slot().start_ms
    late = Agent("B", now_ms=slot().start_ms)
    assert late.hear(Agent("A").do(start(), PERMIT), permit(slot()))[0].move is Move.REJECT
    assert b.state.reserved == slot()


@pytest.mark.rule("NEG-24")
def test_an_impasse_ends_both_sides_and_frees_the_slot() -> None:
    a, b, offer = offered()
    counter = a.hear(offer, permit(wish(10)))
    counter = b.hear(counter, permit(wish(20)))
    counter = a.hear(counter, permit(wish(30)))
    b.hear(counter)
    assert (a.phase, b.phase) == (Phase.REJECTED, Phase.REJECTED)
    assert (a.state.reason, b.state.reserved) == ("IMPASSE", None)
    assert a.state.thread
    assert a.state.thread.status is Status.IMPASSE


@pytest.mark.rule("NEG-23")
def test_a_host_that_would_counter_forever_is_stopped() -> None:
    a, b = Agent("A"), Agent("B")
    agents, message = (b, a), a.do(start(), PERMIT)
    for number in range(6):
        message = agents[number % 2].hear(message, permit(wish(0, 5 + number)))
    rejection = (
        b.hear(message, permit(slot())) if message[0].recipient == "B" else a.hear(message, permit(slot()))
    )
    assert isinstance(rejection[0].body, RejectBody)
    assert rejection[0].body.reason == "IMPASSE"


@pytest.mark.rule("NEG-37")
def test_what_an_owner_wants_instead_goes_out_on_the_same_thread_and_is_remembered_as_theirs() -> None:
    a, b = Agent("A"), Agent("B")
    a.hear(b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot(2))))
    later = wish(5)
    counter = b.do(OwnerAnswers(False, later), PERMIT)
    assert b.did(Consult) == [Consult(Question.PROPOSE_WISH, later)]
    assert [(one.move, one.body, one.thread) for one in counter] == [(Move.COUNTER, later, THREAD)]
    assert (b.phase, b.state.wanted) == (Phase.NEGOTIATING, later)
    b.hear(a.hear(b.hear(a.hear(counter, permit(slot(10))), PERMIT)))
    assert a.phase is b.phase is Phase.COMMITTED
    with pytest.raises(Refused):
        b.do(OwnerAnswers(False, wish(6)))


@pytest.mark.rule("NEG-37")
def test_who_gives_may_put_other_terms_within_the_wish_in_the_place_of_what_was_asked() -> None:
    a, b = Agent("A"), Agent("B")
    a.hear(b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot(2))))
    offer = b.do(OwnerAnswers(False, slot(3)), PERMIT)
    assert [(one.move, one.body) for one in offer] == [(Move.OFFER, slot(3))]
    a.hear(b.hear(a.hear(offer, PERMIT)))
    assert a.phase is b.phase is Phase.COMMITTED
