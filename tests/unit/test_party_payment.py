"""A pending payment's two-phase life between two agents: posted, voided or expired, once, never over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from indai.protocol.errors import ProtocolError, Refused
from indai.protocol.lifecycle import Deed, State, committed
from indai.protocol.messages import EventKind, Message
from indai.protocol.party import wakes_at
from indai.protocol.party_state import OwnerActs, Record, Tick, Unbook

from tests.unit.kinds import PAID
from tests.unit.lives import MID
from tests.unit.test_party_life import Agent, hear, side_of
from tests.unit.transcripts import NOW

HOUR = 3_600_000
POST, VOID = EventKind.POST, EventKind.VOID


def both(payee: str) -> tuple[Agent, Agent]:
    """A numbers; `payee` is one of them, and an hour is left until the payment is due."""
    deed = Deed(MID, ("A", "B"), NOW + HOUR, 0, NOW + HOUR, pending_minor=50_000, payee=payee)
    agents = [
        Agent(replace(side_of(*names), terms=PAID, life=committed(deed)))
        for names in (("A", "B"), ("B", "A"))
    ]
    return agents[0], agents[1]


def settle(one: Agent, other: Agent, sent: list[Message], at_ms: int = NOW) -> None:
    """Hand messages over until both are silent."""
    while sent:
        sent, one, other = hear(other, sent, at_ms), other, one


def paid(amount: int) -> OwnerActs:
    return OwnerActs(POST, posted_minor=amount)


@pytest.mark.parametrize("payee", ["A", "B"])
def test_the_payees_word_posts_it_on_both_sides(payee: str) -> None:
    a, b = both(payee)
    one, other = (a, b) if payee == "A" else (b, a)
    settle(one, other, one.do(paid(49_000), NOW))
    assert (a.state, b.state) == (State.POSTED, State.POSTED)
    assert {type(effect) for effect in (*a.effects, *b.effects)} >= {Record}
    for agent in (a, b):
        assert agent.do(paid(49_000), NOW) == []  # a provider that says it again
        with pytest.raises(Refused):
            agent.do(OwnerActs(VOID), NOW)


def test_more_than_is_pending_is_never_posted() -> None:
    a, _ = both("A")
    with pytest.raises(ProtocolError) as refused:
        a.do(paid(50_001), NOW)
    assert refused.value.rule == "LIF-11"


def test_a_payer_cannot_say_that_the_payee_was_paid() -> None:
    a, b = both("B")
    with pytest.raises(Refused):
        a.do(paid(50_000), NOW)
    a, b = both("A")
    with pytest.raises(ProtocolError) as refused:
        b.do(paid(50_000), NOW)
    assert refused.value.rule == "LIF-15"
    assert (a.state, b.state) == (State.PENDING, State.PENDING)


@pytest.mark.parametrize("who", ["A", "B"])
def test_either_side_voids_it_while_the_terms_allow(who: str) -> None:
    a, b = both("A")
    one, other = (a, b) if who == "A" else (b, a)
    settle(one, other, one.do(OwnerActs(VOID), NOW))
    assert (a.state, b.state) == (State.VOIDED, State.VOIDED)
    assert a.do(OwnerActs(VOID), NOW) == []
    with pytest.raises(Refused):
        a.do(paid(1), NOW)


def test_what_nobody_resolves_expires_when_it_is_due() -> None:
    a, b = both("A")
    assert wakes_at(a.side) == NOW + HOUR
    assert a.do(Tick(), NOW + HOUR - 1) == []
    settle(a, b, a.do(Tick(), NOW + HOUR), NOW + HOUR)
    assert a.state is State.EXPIRED
    assert any(isinstance(effect, Unbook) for effect in a.effects)
    with pytest.raises(Refused):
        a.do(paid(1), NOW + HOUR)
