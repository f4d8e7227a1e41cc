"""The rules of a commitment's events, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.header import GRACE_MS, MAX_SKEW_MS
from indai.protocol.lifecycle import (
    EXPIRES_AFTER_MS,
    MAX_REQUESTS,
    OVERDUE_GRACE_MS,
    State,
    apply,
    committed,
    deed_of,
    may_alone,
    named_by,
)
from indai.protocol.messages import (
    DAY_MS,
    EventBody,
    EventKind,
    Message,
    Move,
    compose,
    describe,
)
from indai.v1 import envelope_pb2, negotiation_pb2

from tests.unit.lives import DEED, MID, PAYMENT, TERMS, Life
from tests.unit.transcripts import NOW, THREAD

FULFIL, CANCEL, SUPERSEDE = EventKind.FULFIL, EventKind.CANCEL, EventKind.SUPERSEDE
EXPIRE, OVERDUE, DISPUTE = EventKind.EXPIRE, EventKind.OVERDUE, EventKind.DISPUTE
POST, VOID = EventKind.POST, EventKind.VOID
OTHER = b"\xbb" * 32


def refused(rule: str, reason: Reason, work: Callable[[], object]) -> None:
    with pytest.raises(ProtocolError) as error:
        work()
    assert (error.value.rule, error.value.reason) == (rule, reason)


def illegal(rule: str, life: Life, message: Message) -> None:
    before = life.history
    refused(rule, Reason.ILLEGAL_MOVE, lambda: life.hear(message))
    assert life.history is before


# Form


def header() -> envelope_pb2.Header:
    return envelope_pb2.Header(
        sender_subject="A",
        recipient_subject="B",
        issued_at_ms=NOW,
        expires_at_ms=NOW + DAY_MS,
        thread=THREAD,
        in_reply_to=MID,
    )


BODIES = [
    EventBody(MID, CANCEL, 1, MID, (OTHER,), "ILL", "I am ill."),
    EventBody(MID, SUPERSEDE, 0, MID, superseded_by=OTHER),
    EventBody(MID, POST, 3, MID, posted_minor=50_000),
]


@pytest.mark.rule("LIF-01")
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.kind.value)
def test_an_event_that_is_composed_is_described_again(body: EventBody) -> None:
    payload = compose(Move.EVENT, body, header())
    message = describe(payload, mid=OTHER, signatures=1)
    assert (message.move, message.body, message.sender) == (Move.EVENT, body, "A")


@pytest.mark.rule("LIF-01")
@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 0},
        {"kind": 99},
        {"commitment": b"short"},
        {"prev": OTHER},  # not what the header answers
        {"requests": [b"short"]},
        {"requests": [OTHER] * 32},
        {"seq": 0, "requests": [OTHER]},
        {"superseded_by": OTHER},
        {"posted_minor": 1},
        {"kind": negotiation_pb2.EVENT_KIND_SUPERSEDE},
        {"kind": negotiation_pb2.EVENT_KIND_POST},
        {"reason": "not a name"},
    ],
)
def test_an_event_of_another_form_is_refused(changes: dict[str, object]) -> None:
    fields = {"header": header(), "commitment": MID, "kind": 2, "seq": 1, "prev": MID, **changes}
    payload = negotiation_pb2.Event(**fields)  # type: ignore[arg-type]
    refused("LIF-01", Reason.MALFORMED, lambda: describe(payload, mid=OTHER, signatures=1))


@pytest.mark.rule("NEG-04")
def test_terms_say_until_when_one_party_may_cancel_and_when_the_meeting_is_due() -> None:
    own = replace(TERMS, cancel_until_ms=TERMS.start_ms - DAY_MS, due_ms=TERMS.end_ms + DAY_MS)
    own.check()
    deed = deed_of(MID, ("A", "B"), own)
    assert (deed.cancel_until_ms, deed.due_ms) == (own.cancel_until_ms, own.due_ms)
    assert (DEED.cancel_until_ms, DEED.due_ms) == (TERMS.start_ms, TERMS.end_ms)
    for wrong in (
        replace(own, cancel_until_ms=own.end_ms + 1),
        replace(own, cancel_until_ms=-1),
        replace(own, due_ms=own.end_ms - 1),
        replace(own, due_ms=own.end_ms + 367 * DAY_MS),
    ):
        refused("NEG-04", Reason.MALFORMED, wrong.check)


# Who and in which order


@pytest.mark.rule("LIF-02")
def test_a_stranger_has_no_say_and_an_event_belongs_to_one_commitment() -> None:
    life = Life()
    illegal("LIF-02", life, replace(life.make("A", CANCEL), sender="M"))
    illegal("LIF-02", life, replace(life.make("B", CANCEL), recipient="M"))
    illegal("LIF-02", life, life.make("A", CANCEL, commitment=OTHER))


@pytest.mark.rule("LIF-03")
def test_events_are_numbered_without_a_gap_and_name_the_one_before() -> None:
    life = Life(at_ms=DEED.due_ms + OVERDUE_GRACE_MS)
    skipped = life.make("A", OVERDUE, seq=2)
    refused("LIF-03", Reason.OUT_OF_ORDER, lambda: life.hear(skipped))
    illegal("LIF-03", life, life.make("A", OVERDUE, prev=OTHER))
    overdue = life.say("A", OVERDUE)
    illegal("LIF-03", life, life.make("A", FULFIL, seq=1, prev=MID))  # a second first event
    illegal("LIF-03", life, life.make("A", FULFIL, prev=MID))
    life.say("A", FULFIL, prev=overdue.mid)
    assert life.history.state is State.FULFILLED
    assert [event.body.seq for event in life.history.chain] == [1, 2]  # type: ignore[union-attr]


@pytest.mark.rule("LIF-04")
def test_the_other_party_numbers_nothing_but_its_own_dispute() -> None:
    life = Life()
    illegal("LIF-04", life, life.make("B", CANCEL, seq=1))
    illegal("LIF-03", life, life.make("B", DISPUTE, seq=2))
    unknown = life.make("B", DISPUTE, seq=1, prev=OTHER)
    refused("LIF-03", Reason.OUT_OF_ORDER, lambda: life.hear(unknown))
    life.say("B", CANCEL)  # a request
    assert (life.history.state, life.history.chain) == (State.COMMITTED, ())
    branch = life.make("B", DISPUTE, seq=1)
    life.say("A", CANCEL)  # numbered meanwhile
    life.hear(branch)
    assert life.history.disputed == {"B"}
    assert life.history.state is State.CANCELLED


@pytest.mark.rule("HDR-04")
def test_an_event_from_the_future_is_refused() -> None:
    life = Life()
    early = replace(life.make("A", CANCEL), issued_at_ms=NOW + MAX_SKEW_MS + 1)
    refused("HDR-04", Reason.FROM_FUTURE, lambda: life.hear(early))


@pytest.mark.rule("LIF-05")
@pytest.mark.parametrize("kind", [FULFIL, CANCEL, OVERDUE, EXPIRE, SUPERSEDE])
def test_what_has_ended_stays_ended(kind: EventKind) -> None:
    life = Life()
    life.say("A", CANCEL)
    life.at_ms = DEED.due_ms + EXPIRES_AFTER_MS
    successor = OTHER if kind is SUPERSEDE else b""
    life.history = named_by(life.history, OTHER)
    illegal("LIF-05", life, life.make("A", kind, superseded_by=successor))
    life.say("A", DISPUTE)
    assert (life.history.state, life.history.disputed) == (State.CANCELLED, frozenset("A"))


# What each kind needs


@pytest.mark.rule("LIF-06")
def test_a_meeting_is_fulfilled_by_the_word_of_either_party_once_it_is_over() -> None:
    for sender in "AB":
        life = Life(at_ms=TERMS.end_ms - 1)
        requests = () if sender == "A" else (life.say("B", FULFIL).mid,)
        illegal("LIF-06", life, life.make("A", FULFIL, requests=requests))
        life.at_ms += 1
        life.say("A", FULFIL, requests=requests)
        assert life.history.state is State.FULFILLED


@pytest.mark.rule("LIF-07")
def test_one_party_cancels_until_the_start_and_afterwards_only_both() -> None:
    life = Life(at_ms=TERMS.start_ms)
    life.say("A", CANCEL)
    assert life.history.state is State.CANCELLED
    life = Life(at_ms=TERMS.start_ms + 1)
    illegal("LIF-07", life, life.make("A", CANCEL))
    asked = life.say("B", CANCEL)
    life.say("A", CANCEL, requests=(asked.mid,))
    assert life.history.state is State.CANCELLED


@pytest.mark.rule("LIF-07")
def test_of_three_parties_one_cancels_in_time_and_the_first_has_the_grace_to_number_it() -> None:
    three = committed(replace(DEED, parties=("A", "B", "C")))
    life = Life(three, at_ms=TERMS.start_ms)
    asked = life.say("B", CANCEL)
    life.at_ms += GRACE_MS + 1
    illegal("LIF-07", life, life.make("A", CANCEL, requests=(asked.mid,)))
    life.at_ms -= 1
    life.say("A", CANCEL, requests=(asked.mid,))
    late = Life(three, at_ms=TERMS.start_ms + 1)
    asked = late.say("B", CANCEL)
    illegal("LIF-07", late, late.make("A", CANCEL, requests=(asked.mid,)))


@pytest.mark.rule("LIF-08")
def test_only_a_commitment_that_names_this_one_supersedes_it() -> None:
    life = Life()
    change = life.make("A", SUPERSEDE, superseded_by=OTHER)
    refused("LIF-08", Reason.OUT_OF_ORDER, lambda: life.hear(change))
    life.history = named_by(life.history, OTHER)
    life.hear(change)
    assert life.history.state is State.SUPERSEDED
    assert not may_alone(DEED, SUPERSEDE, NOW)


@pytest.mark.rule("LIF-09")
def test_overdue_and_expiry_are_the_first_partys_and_come_in_their_time() -> None:
    life = Life(at_ms=DEED.due_ms + OVERDUE_GRACE_MS - 1)
    illegal("LIF-09", life, life.make("A", OVERDUE))
    life.at_ms += 1
    illegal("LIF-09", life, life.make("B", OVERDUE))
    illegal("LIF-04", life, life.make("B", OVERDUE, seq=1))
    illegal("LIF-04", life, life.make("B", EXPIRE, seq=1))
    asked = life.say("B", FULFIL)
    illegal("LIF-12", life, life.make("A", OVERDUE, requests=(asked.mid,)))
    life.say("A", OVERDUE)
    illegal("LIF-09", life, life.make("A", OVERDUE))
    life.at_ms = DEED.due_ms + EXPIRES_AFTER_MS - 1
    illegal("LIF-09", life, life.make("A", EXPIRE))
    life.at_ms += 1
    life.say("A", EXPIRE)
    assert life.history.state is State.EXPIRED


@pytest.mark.rule("LIF-10")
def test_each_party_disputes_once_and_what_was_agreed_stays() -> None:
    life = Life()
    asked = life.say("B", DISPUTE)
    life.say("A", DISPUTE, requests=(asked.mid,))
    assert (life.history.state, life.history.disputed) == (State.COMMITTED, frozenset("B"))
    asked = life.say("B", DISPUTE)
    illegal("LIF-10", life, life.make("A", DISPUTE, requests=(asked.mid,)))
    life.say("B", DISPUTE, seq=1, prev=MID)  # signed beside it before B knew
    illegal("LIF-10", life, life.make("B", DISPUTE, seq=2))
    life.say("A", DISPUTE)
    illegal("LIF-10", life, life.make("A", DISPUTE))
    assert life.history.disputed == {"A", "B"}


@pytest.mark.rule("LIF-11")
def test_a_pending_amount_is_resolved_once() -> None:
    for kind, state in ((POST, State.POSTED), (VOID, State.VOIDED), (EXPIRE, State.EXPIRED)):
        life = Life(committed(PAYMENT), at_ms=PAYMENT.due_ms)
        amount = 50_000 if kind is POST else 0
        asked = (life.say("B", VOID).mid,) if kind is VOID else ()
        life.say("A", kind, requests=asked, posted_minor=amount)
        assert life.history.state is state
        for again in (POST, VOID, EXPIRE):
            amount = 1 if again is POST else 0
            illegal("LIF-05", life, life.make("A", again, posted_minor=amount))


@pytest.mark.rule("LIF-11")
def test_never_more_than_is_pending_is_posted_and_nothing_else_resolves_it() -> None:
    life = Life(committed(PAYMENT))
    illegal("LIF-11", life, life.make("A", POST, posted_minor=50_001))
    illegal("LIF-11", life, life.make("A", POST, posted_minor=0))
    for kind in (FULFIL, CANCEL, OVERDUE, SUPERSEDE):
        illegal("LIF-11", life, life.make("A", kind))
    illegal("LIF-09", life, life.make("A", EXPIRE))  # before it is due
    illegal("LIF-07", life, life.make("A", VOID))  # alone, where the terms give no time for it
    meeting = Life()
    illegal("LIF-11", meeting, meeting.make("A", POST, posted_minor=1))


@pytest.mark.rule("LIF-12")
def test_a_request_is_granted_once_by_its_own_kind() -> None:
    life = Life(at_ms=TERMS.end_ms)
    asked, again = life.say("B", DISPUTE), life.say("B", FULFIL)
    own = life.say("A", FULFIL, seq=0)
    unknown = life.make("A", FULFIL, requests=(OTHER,))
    refused("LIF-12", Reason.OUT_OF_ORDER, lambda: life.hear(unknown))
    illegal("LIF-12", life, life.make("A", FULFIL, requests=(asked.mid,)))
    illegal("LIF-12", life, life.make("A", FULFIL, requests=(own.mid,)))
    illegal("LIF-12", life, life.make("A", FULFIL, requests=(again.mid, life.say("B", FULFIL).mid)))
    life.say("A", DISPUTE, requests=(asked.mid,))
    illegal("LIF-12", life, life.make("A", DISPUTE, requests=(asked.mid,)))
    assert life.history.requested("B", DISPUTE) is None
    assert life.history.requested("B", FULFIL) is not None


@pytest.mark.rule("LIF-13")
def test_an_event_that_comes_again_has_no_effect() -> None:
    life = Life()
    event = life.say("A", CANCEL)
    assert apply(life.history, event, NOW) is life.history


@pytest.mark.rule("LIF-14")
def test_requests_are_counted() -> None:
    life = Life()
    for _ in range(MAX_REQUESTS):
        life.say("B", DISPUTE)
    refused("LIF-14", Reason.TOO_MANY_MOVES, lambda: life.hear(life.make("B", CANCEL)))
    life.say("A", DISPUTE, seq=0)
