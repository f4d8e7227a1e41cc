"""The life of a commitment against a model written apart from its rules, and over a bad network.

The model is a table of what follows what. The simulation has two parties that say what they like; the
network repeats, delays and reorders it. At the end both hold the same chain and the same state.
"""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.lifecycle import History, State, apply, committed
from indai.protocol.messages import DAY_MS, HOUR_MS, EventKind, Message

from tests.unit.lives import DEED, TERMS, Life

KINDS = [kind for kind in EventKind if kind not in (EventKind.SUPERSEDE, EventKind.POST)]


class OneCommitment(RuleBasedStateMachine):
    """What A numbers, with or without B's word, as time goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(at_ms=TERMS.start_ms - 2 * HOUR_MS)
        self.state, self.disputed = "COMMITTED", set[str]()
        self.asked: dict[EventKind, Message] = {}
        self.requests = 0

    @rule(hours=st.sampled_from([1, 1, 2, 30, 24 * 31]))
    def pass_time(self, hours: int) -> None:
        self.life.at_ms += hours * HOUR_MS

    @rule(kind=st.sampled_from([EventKind.FULFIL, EventKind.CANCEL, EventKind.DISPUTE]))
    def ask(self, kind: EventKind) -> None:
        if self.requests < 8:
            self.requests += 1
            self.asked[kind] = self.life.say("B", kind)

    @rule(kind=st.sampled_from(KINDS), with_b=st.booleans())
    def number(self, kind: EventKind, with_b: bool) -> None:
        request = self.asked.get(kind) if with_b else None
        message = self.life.make("A", kind, requests=(request.mid,) if request else ())
        expected = self._expected(kind, request is not None)
        reason = self._said(message)
        assert reason is (None if expected else Reason.ILLEGAL_MOVE), kind
        if expected is None:
            return
        self.state = expected
        if kind is EventKind.DISPUTE:
            self.disputed.add("B" if request else "A")
        if request:
            del self.asked[kind]

    def _said(self, message: Message) -> Reason | None:
        try:
            self.life.hear(message)
        except ProtocolError as error:
            return error.reason
        return None

    def _expected(self, kind: EventKind, both: bool) -> str | None:
        now = self.life.at_ms
        if kind is EventKind.DISPUTE:
            return None if ("B" if both else "A") in self.disputed else self.state
        if self.state not in ("COMMITTED", "OVERDUE"):
            return None
        allowed = {
            EventKind.FULFIL: ("FULFILLED", now >= TERMS.end_ms),
            EventKind.CANCEL: ("CANCELLED", both or now <= TERMS.start_ms),
            EventKind.OVERDUE: ("OVERDUE", self.state == "COMMITTED" and now >= TERMS.end_ms + DAY_MS),
            EventKind.EXPIRE: ("EXPIRED", now >= TERMS.end_ms + 30 * DAY_MS),
        }
        state, may = allowed.get(kind, ("", False))
        return state if may else None

    @invariant()
    def the_history_is_as_the_model_has_it(self) -> None:
        history = self.life.history
        assert (history.state.value, set(history.disputed)) == (self.state, self.disputed)
        replayed = committed(DEED)
        for message in history.messages:
            replayed = apply(replayed, message, self.life.at_ms)
        assert replayed == history


TestOneCommitment = OneCommitment.TestCase
TestOneCommitment.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def _live(rng: random.Random) -> tuple[History, list[Message]]:
    """A's copy after a random life, and everything said in it, by either side, in the order it was said."""
    life = Life(at_ms=TERMS.start_ms - HOUR_MS)
    said: list[Message] = []
    for _ in range(rng.randint(1, 12)):
        life.at_ms += rng.choice([0, HOUR_MS, DAY_MS, 31 * DAY_MS])
        kind = rng.choice(KINDS)
        sender = rng.choice("AAB")
        asked = life.history.requested("B", kind) if sender == "A" else None
        branch = sender == "B" and kind is EventKind.DISPUTE and rng.random() < 0.3
        seq = len(life.history.chain) + 1 if branch else None
        message = life.make(sender, kind, seq=seq, requests=(asked.mid,) if asked else ())
        try:
            life.hear(message)
        except ProtocolError:
            continue
        said.append(message)
    return life.history, said


def _deliver(said: list[Message], rng: random.Random) -> History:
    """B's copy: what comes too early is sent again, as the outbox does, some of it twice."""
    waiting = said + rng.choices(said, k=3) if said else []
    rng.shuffle(waiting)
    history, rounds = committed(DEED), 0
    while waiting:
        rounds += 1
        assert rounds < 100, "something never arrives"
        again = []
        for message in waiting:
            try:
                history = apply(history, message, 1 << 47)
            except ProtocolError as error:
                if error.reason is not Reason.OUT_OF_ORDER:
                    raise
                again.append(message)
        waiting = again
    return history


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_both_sides_hold_the_same_life_whatever_the_network_does(seed: int) -> None:
    rng = random.Random(seed)
    ours, said = _live(rng)
    theirs = _deliver(said, rng)
    assert theirs.chain == ours.chain
    assert (theirs.state, theirs.disputed) == (ours.state, ours.disputed)
    assert set(theirs.messages) == set(ours.messages)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_no_two_chains_of_one_commitment_are_taken(seed: int) -> None:
    """Whoever numbers two events alike is refused by everybody who has seen the first."""
    rng = random.Random(seed)
    history, _ = _live(rng)
    life = Life(history, at_ms=1 << 46, count=itertools.count(1000))
    for event in history.chain:
        forged = life.make("A", EventKind.DISPUTE, seq=event.body.seq, prev=event.in_reply_to)  # type: ignore[union-attr]
        with pytest.raises(ProtocolError) as error:
            apply(history, forged, life.at_ms)
        assert error.value.rule == "LIF-03"


def test_the_simulation_reaches_every_state_of_a_meeting() -> None:
    seen = {_live(random.Random(seed))[0].state for seed in range(300)}
    assert seen == {State.COMMITTED, State.OVERDUE, State.FULFILLED, State.CANCELLED, State.EXPIRED}
