"""One party after the deed: what it grants, asks for, is reminded of, and does when nobody speaks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.lifecycle import (
    EXPIRES_AFTER_MS,
    OVERDUE_GRACE_MS,
    State,
    body_of,
    committed,
    deed_of,
)
from indai.protocol.messages import DAY_MS, HOUR_MS, EventKind, Message, Move
from indai.protocol.party import step, wakes_at
from indai.protocol.party_life import DISPUTE_WAIT_MS
from indai.protocol.party_state import (
    REMIND_BEFORE_MS,
    Effect,
    Event,
    OwnerActs,
    Phase,
    Received,
    Record,
    Remind,
    Role,
    Send,
    Sent,
    Side,
    Succeeded,
    Tell,
    Tick,
    Unbook,
    Undo,
)

from tests.unit.lives import DEED, TERMS
from tests.unit.transcripts import NOW, THREAD
from tests.unit.transcripts import committed as committed_script

CANCEL, FULFIL, DISPUTE = EventKind.CANCEL, EventKind.FULFIL, EventKind.DISPUTE
IDS = itertools.count(1)


def side_of(owner: str, peer: str) -> Side:
    role = Role.RESPONDER if owner == "A" else Role.INITIATOR
    return Side(role, owner, peer, THREAD, Phase.COMMITTED, terms=TERMS, life=committed(DEED))


@dataclass
class Agent:
    """A host that signs at once; the other side's copy takes what is sent."""

    side: Side
    effects: list[Effect] = field(default_factory=list)

    @property
    def state(self) -> State:
        assert self.side.life is not None
        return self.side.life.state

    def do(self, event: Event, at_ms: int) -> list[Message]:
        self.effects, sent, events = [], [], [event]
        while events:
            self.side, effects = step(self.side, events.pop(0), at_ms)
            self.effects += effects
            for effect in effects:
                if isinstance(effect, Send) and effect.body is not None:
                    mid = next(IDS).to_bytes(32, "big")
                    names = (self.side.owner, self.side.peer, THREAD, effect.in_reply_to)
                    message = Message(
                        mid, Move.EVENT, *names, at_ms, at_ms + effect.expires_in_ms, effect.body
                    )
                    sent.append(message)
                    events.append(Sent(message))
        return sent


def both() -> tuple[Agent, Agent]:
    """A, who offered and so numbers, and B."""
    return Agent(side_of("A", "B")), Agent(side_of("B", "A"))


def hear(agent: Agent, messages: list[Message], at_ms: int) -> list[Message]:
    return [answer for message in messages for answer in agent.do(Received(message), at_ms)]


@pytest.mark.rule("LIF-20")
@pytest.mark.rule("LIF-22")
def test_either_owner_cancels_alone_before_the_start_and_both_slots_are_free() -> None:
    a, b = both()
    (event,) = a.do(OwnerActs(CANCEL, "ILL", "I am ill."), NOW)
    assert hear(b, [event], NOW) == []
    a, b = both()
    (request,) = b.do(OwnerActs(CANCEL, "ILL", "I am ill."), NOW)
    assert b.state is State.COMMITTED
    assert Tell("The other side is asked to cancel the meeting.") in b.effects
    (event,) = hear(a, [request], NOW)
    assert body_of(event).requests == (request.mid,)
    assert (body_of(event).reason, body_of(event).sentence) == ("ILL", "I am ill.")
    hear(b, [event], NOW)
    for agent in (a, b):
        assert agent.state is State.CANCELLED
        assert agent.effects[-4:] == [
            Record(event.mid),
            Unbook(TERMS),
            Undo(TERMS),
            Tell("The meeting was cancelled."),
        ]
        assert wakes_at(agent.side) is None
        assert agent.do(OwnerActs(CANCEL), NOW) == []  # once more changes nothing
        with pytest.raises(Refused) as refused:
            agent.do(OwnerActs(FULFIL), TERMS.end_ms)
        assert refused.value.reason is Reason.THREAD_CLOSED


@pytest.mark.rule("LIF-20")
@pytest.mark.rule("LIF-07")
@pytest.mark.parametrize("first", "AB")
def test_after_the_start_it_is_cancelled_when_both_owners_say_so(first: str) -> None:
    a, b = both()
    late = TERMS.end_ms
    one, other = (a, b) if first == "A" else (b, a)
    asked = one.do(OwnerActs(CANCEL), late)
    assert hear(other, asked, late) == []
    assert other.state is State.COMMITTED
    words = [effect.words for effect in other.effects if isinstance(effect, Tell)]
    assert words == ["The other side asks to cancel the meeting; cancel it too if you agree."]
    agreed = hear(one, other.do(OwnerActs(CANCEL), late), late)
    hear(other, agreed, late)
    assert (a.state, b.state) == (State.CANCELLED, State.CANCELLED)


@pytest.mark.rule("LIF-20")
@pytest.mark.rule("LIF-06")
def test_either_owner_says_that_it_took_place_once_it_is_over() -> None:
    for first in "AB":
        a, b = both()
        one, other = (a, b) if first == "A" else (b, a)
        with pytest.raises(Refused) as refused:
            one.do(OwnerActs(FULFIL), TERMS.end_ms - 1)
        assert refused.value.reason is Reason.ILLEGAL_MOVE
        hear(one, hear(other, one.do(OwnerActs(FULFIL), TERMS.end_ms), TERMS.end_ms), TERMS.end_ms)
        assert (a.state, b.state) == (State.FULFILLED, State.FULFILLED)


@pytest.mark.rule("LIF-21")
def test_a_first_party_that_is_silent_cannot_keep_a_dispute_out_of_the_record() -> None:
    a, b = both()
    b.do(OwnerActs(DISPUTE, sentence="Nobody came."), TERMS.end_ms)
    due = TERMS.end_ms + DISPUTE_WAIT_MS
    assert wakes_at(Agent(b.side).side) in (TERMS.start_ms - REMIND_BEFORE_MS, due)
    b.do(Tick(), due)  # the reminder, which is too late to be told
    (branch,) = b.do(Tick(), due)
    assert (body_of(branch).seq, body_of(branch).sentence) == (1, "Nobody came.")
    assert Record(branch.mid) in b.effects
    hear(a, [branch], due)
    assert a.side.life is not None
    assert a.side.life.disputed == {"B"}
    assert b.do(Tick(), due + DAY_MS) == []


@pytest.mark.rule("LIF-21")
def test_a_dispute_that_is_numbered_in_time_needs_no_branch() -> None:
    a, b = both()
    request = b.do(OwnerActs(DISPUTE), NOW)
    hear(b, hear(a, request, NOW), NOW)
    assert b.side.life is not None
    assert (len(b.side.life.chain), b.side.life.disputed) == (1, frozenset("B"))
    b.do(Tick(), TERMS.start_ms)
    assert wakes_at(b.side) is None


SERIES = replace(TERMS, again_ms=(TERMS.start_ms + DAY_MS, TERMS.start_ms + 2 * DAY_MS))
FIRST, SECOND, THIRD = (each.start_ms for each in SERIES.times)
OMIT = EventKind.OMIT


def repeating() -> tuple[Agent, Agent]:
    """As `both`, of a meeting that takes place three times; A numbers."""
    agents = both()
    for agent in agents:
        life = committed(deed_of(DEED.mid, DEED.parties, SERIES))
        agent.side = replace(agent.side, terms=SERIES, life=life)
    return agents


@pytest.mark.rule("LIF-17")
@pytest.mark.rule("LIF-22")
def test_either_owner_calls_off_one_time_alone_until_it_begins_and_the_others_stand() -> None:
    a, b = repeating()
    before = SECOND - 1
    (request,) = b.do(OwnerActs(OMIT, "ILL", "I am ill.", time_ms=SECOND), before)
    (event,) = hear(a, [request], before)
    assert (body_of(event).kind, body_of(event).time_ms) == (OMIT, SECOND)
    assert a.effects[-4:-1] == [Record(event.mid), Unbook(SERIES, SECOND), Undo(SERIES, SECOND)]
    hear(b, [event], before)
    assert b.effects[:3] == [Record(event.mid), Unbook(SERIES, SECOND), Undo(SERIES, SECOND)]
    for agent in (a, b):
        assert agent.state is State.COMMITTED
        assert agent.side.life is not None
        assert agent.side.life.omitted == {SECOND}
    assert not a.do(OwnerActs(OMIT, time_ms=SECOND), before)  # said already
    with pytest.raises(Refused):
        a.do(OwnerActs(OMIT, time_ms=SECOND + 1), before)
    (event,) = a.do(OwnerActs(OMIT, time_ms=FIRST), FIRST - 1)
    hear(b, [event], FIRST - 1)
    for agent in (a, b):
        with pytest.raises(Refused):  # the last is called off with the whole
            agent.do(OwnerActs(OMIT, time_ms=THIRD), before)


@pytest.mark.rule("LIF-17")
def test_a_time_that_has_begun_is_called_off_when_both_owners_say_so() -> None:
    a, b = repeating()
    (request,) = b.do(OwnerActs(OMIT, time_ms=FIRST), FIRST + HOUR_MS)
    assert hear(a, [request], FIRST + HOUR_MS) == []
    (event,) = a.do(OwnerActs(OMIT, time_ms=FIRST), FIRST + 2 * HOUR_MS)
    assert body_of(event).requests == (request.mid,)
    hear(b, [event], FIRST + 2 * HOUR_MS)
    assert b.side.life is not None
    assert b.side.life.omitted == {FIRST}


@pytest.mark.rule("LIF-17")
@pytest.mark.rule("LIF-08")
def test_a_time_is_moved_by_the_commitment_that_takes_its_place_alone() -> None:
    a, b = repeating()
    new = b"n" * 32
    b.do(Succeeded(new, SECOND), SECOND)
    assert b.effects == []  # A says so
    (event,) = a.do(Succeeded(new, SECOND), SECOND + 1)  # it has begun: both have signed the other one
    assert (body_of(event).kind, body_of(event).superseded_by) == (OMIT, new)
    hear(b, [event], SECOND + 1)
    assert b.side.life is not None
    assert (b.state, b.side.life.omitted) == (State.COMMITTED, frozenset({SECOND}))
    with pytest.raises(ProtocolError) as early:  # to who has not seen that commitment it comes too early
        hear(repeating()[1], [event], SECOND + 1)
    assert early.value.reason is Reason.OUT_OF_ORDER
    assert not a.do(Succeeded(b"m" * 32, SECOND), SECOND)  # another one for the same time changes nothing


@pytest.mark.rule("LIF-23")
def test_both_owners_are_reminded_once_before_the_start() -> None:
    for agent in both():
        due = wakes_at(agent.side)
        assert due == TERMS.start_ms - REMIND_BEFORE_MS
        agent.do(Tick(), due - 1)
        assert agent.effects == []
        agent.do(Tick(), due)
        assert agent.effects == [Remind(TERMS)]
        agent.do(Tick(), due + 1)
        assert agent.effects == []


@pytest.mark.rule("LIF-23")
def test_owners_are_reminded_once_at_each_further_moment_while_it_stands() -> None:
    early, late = TERMS.start_ms - DAY_MS, TERMS.end_ms
    for agent in both():
        agent.side = replace(agent.side, remind_at_ms=(early, late))
        assert wakes_at(agent.side) == early
        agent.do(Tick(), early)
        assert agent.effects == [Remind(TERMS, early)]
        agent.do(Tick(), early)
        assert agent.effects == []
        agent.do(Tick(), TERMS.start_ms)  # the one before the start, too late to be told
        assert wakes_at(agent.side) == late
        agent.do(Tick(), late)
        assert agent.effects == [Remind(TERMS, late)]
    a, b = both()
    a.side = replace(a.side, remind_at_ms=(early, late))
    hear(b, a.do(OwnerActs(CANCEL), NOW), NOW)
    assert wakes_at(a.side) is None


@pytest.mark.rule("LIF-23")
@pytest.mark.rule("LIF-09")
def test_a_meeting_that_nobody_speaks_of_is_overdue_and_later_expires() -> None:
    a, b = both()
    for agent in (a, b):
        agent.do(Tick(), TERMS.start_ms)
    due = DEED.due_ms + OVERDUE_GRACE_MS
    assert (wakes_at(a.side), wakes_at(b.side)) == (due, None)
    hear(b, a.do(Tick(), due), due)
    assert (a.state, b.state) == (State.OVERDUE, State.OVERDUE)
    end = DEED.due_ms + EXPIRES_AFTER_MS
    assert wakes_at(a.side) == end
    hear(b, a.do(Tick(), end), end)
    assert (a.state, b.state) == (State.EXPIRED, State.EXPIRED)
    assert wakes_at(a.side) is None


def test_nothing_is_said_of_what_does_not_stand() -> None:
    side = Side(Role.INITIATOR, "A", "B", THREAD, Phase.NEGOTIATING)
    with pytest.raises(Refused) as refused:
        step(side, OwnerActs(CANCEL), NOW)
    assert refused.value.reason is Reason.ILLEGAL_MOVE


def test_a_life_survives_its_storage() -> None:
    thread = committed_script().open
    offer = thread.standing
    role = Role.INITIATOR if offer.sender == thread.initiator else Role.RESPONDER
    side = Side(
        role,
        offer.sender,
        offer.recipient,
        THREAD,
        Phase.COMMITTED,
        thread,
        terms=offer.body,  # type: ignore[arg-type]
    )
    stored = Side.from_json(side.to_json())  # as it was stored before there were events
    assert stored.life is not None
    assert stored.life.deed.mid == offer.mid
    agent = Agent(stored)
    agent.do(OwnerActs(DISPUTE), NOW)
    agent.do(Tick(), NOW + DAY_MS)
    agent.do(OwnerActs(CANCEL, "ILL", "I am ill."), NOW)
    again = Side.from_json(agent.side.to_json())
    assert again == agent.side
    assert again.reminded
    reminded = replace(agent.side, remind_at_ms=(NOW, NOW + DAY_MS))
    assert Side.from_json(reminded.to_json()) == reminded
