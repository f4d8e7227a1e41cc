"""The rules against a model written apart from them: a table of who may do what; two copies agree."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from indai.protocol.errors import ProtocolError
from indai.protocol.messages import Body, HoldBody, Move, WithdrawBody
from indai.protocol.negotiation import Status, transcript

from tests.unit.transcripts import NOW, WISH, Script, receipt, reject, slot, wish

# (status, move) -> next status, for the party whose turn it is. What is missing is refused.
TABLE = {
    ("PROPOSED", Move.COUNTER): "PROPOSED",
    ("PROPOSED", Move.OFFER): "OFFERED",
    ("PROPOSED", Move.REJECT): "REJECTED",
    ("PROPOSED", Move.HOLD): "PROPOSED",
    ("OFFERED", Move.COUNTER): "PROPOSED",
    ("OFFERED", Move.OFFER): "OFFERED",
    ("OFFERED", Move.ACCEPT): "ACCEPTED",
    ("OFFERED", Move.REJECT): "REJECTED",
    ("OFFERED", Move.HOLD): "OFFERED",
    ("ACCEPTED", Move.RECEIPT): "COMMITTED",
    ("ACCEPTED", Move.REJECT): "REJECTED",
}
TERMS = (Move.COUNTER, Move.OFFER)


class TwoCopies(RuleBasedStateMachine):
    """Both parties apply each message at once: no crossing here, that is the simulation's part."""

    @initialize(concrete=st.booleans())
    def begin(self, concrete: bool) -> None:
        self.ours, self.theirs = Script(), Script()
        first = self.ours.make("A", Move.OFFER if concrete else Move.PROPOSE, slot() if concrete else WISH)
        self.ours.hear(first)
        self.theirs.hear(first)
        self.status, self.turn, self.held = ("OFFERED" if concrete else "PROPOSED"), "B", False
        self.terms, self.said = 1, {first.body}
        self.newest = {"A": first.mid, "B": b""}
        self.steps = 0

    @rule(
        sender=st.sampled_from("AB"),
        move=st.sampled_from([m for m in Move if m not in (Move.PROPOSE, Move.WITHDRAW, Move.EVENT)]),
    )
    def answer(self, sender: str, move: Move) -> None:
        self.steps += 1
        message = self.ours.make(sender, move, self._body(move))
        if self.ours.open.find(*message.identity):
            assert self._both_take(message)  # an ACCEPT once more
            return
        expected = TABLE.get((self.status, move)) if sender == self.turn else None
        if (move in TERMS and self.terms == 7) or (move is Move.HOLD and self.held):
            expected = None
        taken = self._both_take(message)
        if expected is None:
            # Recorded all the same: what may have crossed a withdrawal, and a HOLD that may be overtaken.
            late = self.status == "WITHDRAWN" or move is Move.HOLD
            assert not taken or late, f"{move} in {self.status}"
            return
        assert taken, f"{move} refused in {self.status}"
        self.status, self.held = expected, move is Move.HOLD
        if move is not Move.HOLD:
            self.turn = "" if expected in ("REJECTED", "COMMITTED") else ("B" if sender == "A" else "A")
        if move in (*TERMS, Move.ACCEPT):
            self.newest[sender] = message.mid
        self.terms += move in TERMS

    @rule(sender=st.sampled_from("AB"), author=st.sampled_from("AB"))
    def withdraw(self, sender: str, author: str) -> None:
        mid = self.newest[author]
        if self.status == "ACCEPTED" or not mid:
            return  # taking an acceptance back ends nothing: it has tests of its own
        if self.status == "OFFERED" and sender == self.turn != author:
            return  # to the receiver this is an acceptance that its withdrawal overtook
        taken = self._both_take(self.ours.make(sender, Move.WITHDRAW, WithdrawBody(mid), mid))
        allowed = sender == author and self.status in ("PROPOSED", "OFFERED")
        crossed = self.status in ("REJECTED", "WITHDRAWN", "COMMITTED")
        assert taken if allowed else not taken or crossed
        if allowed:
            self.status, self.turn = "WITHDRAWN", ""

    @invariant()
    def the_copies_agree_with_the_model_and_each_other(self) -> None:
        if not hasattr(self, "status"):
            return
        assert self.ours.open.status.value == self.status
        assert self.ours.open.status is self.theirs.open.status
        assert transcript(self.ours.open) == transcript(self.theirs.open)
        if not self.ours.open.status.ended:
            assert self.ours.open.turn == self.turn
        assert len(self.ours.open.messages) <= 8 + 8 + 3  # moves, holds, an end and two withdrawals

    def _body(self, move: Move) -> Body:
        if move is Move.COUNTER:
            return wish(0, 5 + self.steps)  # always new, and around all that was said: never an impasse
        if move is Move.OFFER:
            return slot(self.terms)
        if move is Move.HOLD:
            return HoldBody(NOW + 1)
        if move is Move.REJECT:
            return reject("LAPSED")
        return receipt(self.ours) if move is Move.RECEIPT else self.ours.open.standing.body

    def _both_take(self, message: object) -> bool:
        taken = []
        for script in (self.ours, self.theirs):
            try:
                script.hear(message)  # type: ignore[arg-type]
                taken.append(True)
            except ProtocolError:
                taken.append(False)
        assert taken[0] == taken[1]
        return taken[0]


TwoCopies.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestTwoCopies = TwoCopies.TestCase


def test_the_model_knows_every_status() -> None:
    known = {before for before, _ in TABLE} | set(TABLE.values())
    assert {status.value for status in Status} - known == {"WITHDRAWN", "IMPASSE"}
