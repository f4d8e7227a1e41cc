"""What a hostile or repeating peer, a late owner or a faulty host may not do to a party."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.messages import (
    DAY_MS,
    HOUR_MS,
    Body,
    HoldBody,
    Message,
    Move,
    ReceiptBody,
    RejectBody,
    WithdrawBody,
)
from indai.protocol.party import step
from indai.protocol.party_state import (
    HostAnswers,
    Outcome,
    OwnerAnswers,
    OwnerWithdraws,
    Phase,
    Received,
    Sent,
    Side,
    Tick,
)

from tests.unit.party_agents import ASK, PERMIT, Agent, accepted, offered, permit, start
from tests.unit.transcripts import NOW, THREAD, WISH, slot, wish


@pytest.mark.rule("NEG-22")
def test_a_repeated_message_has_no_effect_on_either_side() -> None:
    a, b, accept = accepted()
    receipt = b.hear(accept)
    assert b.hear(accept) == []
    assert b.effects == []
    a.hear(receipt)
    a.hear(receipt)
    assert a.effects == []


def test_a_message_that_breaks_a_rule_leaves_the_state_as_it_was() -> None:
    a, b, offer = offered()
    before = a.side
    with pytest.raises(ProtocolError):
        a.do(Received(replace(offer[0], body=slot(30))))
    assert a.side == before
    assert b.phase is Phase.NEGOTIATING


def test_a_hostile_peer_breaks_rules_but_never_the_program() -> None:
    """Every move, linked to everything, at every stage: taken or refused by a rule, and the state stays
    storable.
    """
    refused = taken = 0
    for stage in range(9):
        for move, body in HOSTILE:
            for link in range(4):
                for agent in _stage(stage):
                    try:
                        agent.hear([_hostile(agent, move, body, link)])
                        taken += 1
                    except ProtocolError as error:
                        refused += error.rule.startswith("NEG-")
    assert taken > 50
    assert taken + refused == 9 * len(HOSTILE) * 4 * 2


HOSTILE: list[tuple[Move, Body]] = [
    (Move.PROPOSE, WISH),
    (Move.COUNTER, wish(1)),
    (Move.OFFER, slot(1)),
    (Move.OFFER, slot(40)),
    (Move.ACCEPT, slot()),
    (Move.RECEIPT, ReceiptBody(b"x" * 32, "ledger", 0, NOW)),
    (Move.HOLD, HoldBody(NOW + 1)),
    (Move.REJECT, RejectBody("DECLINED")),
    (Move.REJECT, RejectBody("LAPSED")),
    (Move.WITHDRAW, WithdrawBody(b"x" * 32)),
]


def _stage(number: int) -> tuple[Agent, Agent]:
    """Both agents at one of nine stages of a thread."""
    a, b, sent = accepted() if number >= 6 else offered()
    match number:
        case 0:
            a, b = Agent("A"), Agent("B")
            a.do(start(), ASK)
        case 1:
            a, b = Agent("A"), Agent("B")
            a.hear(b.hear(a.do(start(), PERMIT), HostAnswers(Outcome.ASK, slot())))
        case 2:
            b.hear(a.hear(sent, ASK))
        case 3:
            b.hear(a.hear(sent, permit(wish(1))), HostAnswers(Outcome.ASK, wish(0)))
        case 4:
            b.do(OwnerWithdraws())
        case 6:
            a.do(OwnerWithdraws())
        case 7:
            a.hear(b.hear(sent))
        case 8:
            b.now_ms += 2 * DAY_MS
            b.do(Tick())
    return a, b


def _hostile(agent: Agent, move: Move, body: Body, link: int) -> Message:
    """A message of the peer that answers nothing, the first, the newest, or what nobody has sent."""
    peer = "B" if agent.name == "A" else "A"
    messages = agent.side.thread.messages if agent.side and agent.side.thread else ()
    known = [message.mid for message in messages] or [b""]
    answers = (b"", known[0], known[-1], b"u" * 32)[link]
    if isinstance(body, ReceiptBody | WithdrawBody):
        body = replace(body, mid=answers)
    mid = answers if move is Move.ACCEPT else bytes([link + 1]) * 32
    return Message(mid, move, peer, agent.name, THREAD, answers, NOW, NOW + HOUR_MS, body)


def test_an_owner_who_speaks_to_what_has_ended_is_told_so() -> None:
    a, b, accept = accepted()
    a.hear(b.hear(accept))
    for event in (OwnerWithdraws(), OwnerAnswers(True)):
        with pytest.raises(Refused) as caught:
            a.do(event)
        assert caught.value.reason is Reason.THREAD_CLOSED


def test_a_host_that_answers_what_it_was_not_asked_is_a_fault() -> None:
    a, _, _ = offered()
    for event in (PERMIT, Sent(a.signed[0])):
        with pytest.raises(RuntimeError):
            step(a.side, event, NOW)
    with pytest.raises(RuntimeError):
        step(None, Tick(), NOW)


def test_a_state_in_the_middle_of_a_transaction_is_never_stored() -> None:
    side, _ = step(None, start(), NOW)
    with pytest.raises(RuntimeError):
        side.to_json()


def test_stored_states_are_stable_and_survive_a_database_that_reorders_keys() -> None:
    a, b, accept = accepted()
    a.hear(b.hear(accept))
    text = a.state.to_json()
    assert Side.from_json(json.dumps(dict(reversed(json.loads(text).items())))).to_json() == text
