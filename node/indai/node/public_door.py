"""The public door: a stranger's plain question, answered from what the owner shows everybody.

Whoever asks proves nothing, so the strictest rules hold: unverified, known for no days, at the door `public`.
Only what the owner's rules permit outright is quoted; where they would ask the owner, there is nobody who
could be told later, so the stranger is told to sign. No model reads a stranger's words.
"""

from __future__ import annotations

from indai.node.clock import DatabaseClock
from indai.node.duties import answered
from indai.node.extraction import extract
from indai.node.kinds.ask import GENERAL
from indai.node.policies import Policies
from indai.node.slices import Slices
from indai.node.throttle import Throttle
from indai.v1 import policy_pb2

STRANGER = "stranger.invalid"
"""Whoever proves nobody, as rules see them: a name that nobody can have (RFC 6761)."""
MAX_QUESTION = 2_000
PER_OWNER, PER_MS = 600, 3_600_000  # questions of all strangers together

CLOSED = "I don't answer such questions here."
SIGN = "I would have to ask my owner first: send this as a signed ask."
NOTHING = "I have nothing to show everybody about that."
BUSY = "Too many questions came just now; ask again later."


class PublicDoor:
    """Answers for every owner of this node."""

    def __init__(self, policies: Policies, slices: Slices, clock: DatabaseClock) -> None:
        self._policies, self._slices, self._clock = policies, slices, clock
        self._throttle = Throttle(PER_OWNER, PER_MS)

    async def answer(self, owner: str, question: str) -> str:
        """Words for the stranger, with the titles of what they quote."""
        now_ms = self._clock()
        if not self._throttle.admits((owner, STRANGER), now_ms):
            return BUSY
        facts = policy_pb2.Facts(
            peer=STRANGER, verified=False, now_ms=now_ms, channel="a2a", door="public", outgoing=False
        )
        facts.ask.CopyFrom(policy_pb2.AskFacts(topic=GENERAL))
        request = policy_pb2.DecideRequest(owner=owner, facts=[facts])
        (decision,) = (await self._policies.decide(request)).decisions
        outcome = answered(decision, "ask")
        if outcome == policy_pb2.OUTCOME_ASK:
            return SIGN
        if outcome != policy_pb2.OUTCOME_PERMIT:
            return CLOSED
        asked = question[:MAX_QUESTION]
        found = extract(asked, await self._slices.read_public(owner, asked, facts))
        if found is None:
            return NOTHING
        titles = ", ".join(text.title for text in found.texts)
        return f"{found.answer}\n\nFrom: {titles}"
