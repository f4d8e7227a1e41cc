"""One side of a negotiation driven step by step, and the stages the party's tests begin from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from indai.protocol.messages import (
    HOUR_MS,
    MeetTerms,
    MeetWish,
    Message,
    Move,
    ReceiptBody,
)
from indai.protocol.party import step
from indai.protocol.party_state import (
    Consult,
    Effect,
    Event,
    HostAnswers,
    Outcome,
    OwnerStarts,
    Phase,
    Received,
    Send,
    Sent,
    Side,
    Tell,
)

from tests.unit.transcripts import NOW, THREAD, WISH, slot

PERMIT = HostAnswers(Outcome.PERMIT)
ASK = HostAnswers(Outcome.ASK)
CONFIRMED = Tell("The meeting is confirmed.")


def permit(terms: MeetTerms | MeetWish, life_ms: int = HOUR_MS) -> HostAnswers:
    return HostAnswers(Outcome.PERMIT, terms, offer_life_ms=life_ms)


def refuse(reason: str = "POLICY_DENIED") -> HostAnswers:
    return HostAnswers(Outcome.REFUSE, reason=reason)


@dataclass
class Agent:
    """A host without storage: answers each Consult from a list, signs each Send, remembers the effects."""

    name: str
    now_ms: int = NOW
    side: Side | None = None
    effects: list[Effect] = field(default_factory=list)
    signed: list[Message] = field(default_factory=list)

    def do(self, event: Event, *answers: HostAnswers) -> list[Message]:
        """What one event makes us send; the effects of it are left in `effects`."""
        self.effects, sent, events, waiting = [], [], [event], list(answers)
        while events:
            self.side, effects = step(self.side, events.pop(0), self.now_ms)
            self.effects += effects
            for effect in effects:
                if isinstance(effect, Consult):
                    events.append(waiting.pop(0) if waiting else refuse())
                elif isinstance(effect, Send):
                    sent.append(self._sign(effect))
                    events.append(Sent(sent[-1]))
        assert not waiting, "an answer nobody asked for"
        assert self.side is not None
        assert Side.from_json(self.side.to_json()) == self.side
        return sent

    def hear(self, messages: Sequence[Message], *answers: HostAnswers) -> list[Message]:
        return [reply for message in messages for reply in self.do(Received(message), *answers)]

    def did(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def state(self) -> Side:
        assert self.side is not None
        return self.side

    @property
    def phase(self) -> Phase:
        return self.state.phase

    def _sign(self, send: Send) -> Message:
        mid = (ord(self.name) * 1000 + len(self.signed)).to_bytes(32, "big")
        body = send.body or ReceiptBody(send.in_reply_to, "ledger", 0, self.now_ms)
        times = self.now_ms, self.now_ms + send.expires_in_ms
        if send.move is Move.ACCEPT and self.state.thread:
            offer = self.state.thread.standing
            mid, times = send.in_reply_to, (offer.issued_at_ms, offer.expires_at_ms)
        peer = "B" if self.name == "A" else "A"
        message = Message(mid, send.move, self.name, peer, THREAD, send.in_reply_to, *times, body)
        self.signed.append(message)
        return message


def start(wanted: MeetWish | MeetTerms = WISH) -> OwnerStarts:
    return OwnerStarts(wanted, THREAD, "A", "B")


def offered(life_ms: int = HOUR_MS) -> tuple[Agent, Agent, list[Message]]:
    """A has proposed, B has offered; the OFFER is on its way."""
    a, b = Agent("A"), Agent("B")
    return a, b, b.hear(a.do(start(), PERMIT), permit(slot(), life_ms))


def accepted(life_ms: int = HOUR_MS) -> tuple[Agent, Agent, list[Message]]:
    """A has accepted; the ACCEPT is on its way."""
    a, b, offer = offered(life_ms)
    return a, b, a.hear(offer, PERMIT)
