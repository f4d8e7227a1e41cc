"""`ask` on the node: a question is answered with a quotation from the peer's own slice, or by the owner.

What can be said is prepared before the batch (`prepare`), since memory takes its time; in the batch the
policy decides. Where no text answers, or a rule says so, the owner is asked: the question waits in the inbox,
and what they write becomes the answer, which they then approve word by word (NEG-34).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from indai.client.obligations import value_of
from indai.node.agents import Agents
from indai.node.clock import DatabaseClock
from indai.node.duties import answered
from indai.node.extraction import extract
from indai.node.kinds.acquaintance import Acquaintances, common
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.node.own_answers import OwnAnswers
from indai.node.policies import Policies
from indai.node.quoting_model import QuotingModel
from indai.node.slices import Slices
from indai.node.throttle import Throttle
from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.kinds.ask import ASK, MAX_ANSWER, MAX_SOURCES, AskTerms, AskWish, Source
from indai.protocol.messages import Message, Terms, Wish
from indai.protocol.party_state import Side
from indai.v1 import policy_pb2

DENIED = "POLICY_DENIED"
GENERAL = "general"
MAX_PREPARED = 2_000
PER_PEER, PER_MS = 30, 3_600_000  # answers that are looked for, for one peer of one owner
# Stands in a question to the owner where an answer is to come; never signed.
NO_ANSWER = "(I have to ask my owner.)"


class Questions(KindModule):
    """Questions to every owner of this node, and theirs to others."""

    kind = ASK

    def __init__(
        self,
        policies: Policies,
        agents: Agents,
        slices: Slices,
        own: OwnAnswers,
        acquaintances: Acquaintances,
        model: QuotingModel | None,
        clock: DatabaseClock,
    ) -> None:
        self._policies = policies
        self._agents = agents
        self._slices = slices
        self._own = own
        self._acquaintances = acquaintances
        self._model = model
        self._clock = clock
        self._prepared: OrderedDict[tuple[str, bytes], AskTerms | None] = OrderedDict()
        self._throttle = Throttle(PER_PEER, PER_MS)

    async def prepare(self, owner: str, peer: str, message: Message) -> None:
        """Look for an answer in what this peer may read. Nothing is looked for that the rules refuse, or
        for a peer that asks too much."""
        wish, key = message.body, (owner, message.thread)
        if not isinstance(wish, AskWish) or key in self._prepared:
            return
        now_ms = self._clock()
        zone = self._agents.get(owner).zone
        known = await self._acquaintances.of(owner, peer, [ASK.name], zone, now_ms, message.thread)
        facts = common(peer, now_ms, known, outgoing=False, hops=message.hops)
        facts.ask.CopyFrom(policy_pb2.AskFacts(topic=wish.topic or GENERAL))
        request = policy_pb2.DecideRequest(owner=owner, facts=[facts])
        (decision,) = (await self._policies.decide(request)).decisions
        if answered(decision, ASK.name) == policy_pb2.OUTCOME_REFUSE:
            return
        if not self._throttle.admits((owner, peer), now_ms):
            return
        redacted = value_of(decision.obligations, "redact").split(",")
        texts = await self._slices.read(owner, peer, wish.question, known, now_ms, redacted)
        found = await self._model.quote(owner, wish.question, texts) if self._model else None
        found = found or extract(wish.question, texts)
        terms = None
        if found is not None:
            sources = tuple(Source(text.title[:200], text.uri) for text in found.texts[:MAX_SOURCES])
            answer = found.answer[:MAX_ANSWER]
            terms = _sound(AskTerms(wish.question, wish.topic, answer, sources, found.covered_percent))
        self._prepared[key] = terms
        if len(self._prepared) > MAX_PREPARED:
            self._prepared.popitem(last=False)

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """The owner's question, if their rules let it be asked."""
        decision, outcome = await self._judge(case, _wish(wish).topic)
        return _judged(decision, outcome, wish=wish)

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """What was found for this peer; the owner is asked where that is nothing."""
        asked = _wish(wish)
        if case.outgoing:
            return Answer(policy_pb2.OUTCOME_REFUSE, reason=DENIED, words="They want to be asked otherwise.")
        decision, outcome = await self._judge(case, asked.topic)
        if outcome == policy_pb2.OUTCOME_REFUSE:
            return _judged(decision, outcome)
        terms = self._prepared.get((case.owner, case.side.thread_id))
        if terms is None or terms.question != asked.question:
            terms = AskTerms(asked.question, asked.topic, NO_ANSWER)
            decision.words += " Nothing that they may read answers it: give an answer of your own."
            outcome = policy_pb2.OUTCOME_ASK
        return _judged(decision, outcome, terms=terms)

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """Ours: what was found, or what the owner wrote meanwhile. A peer's: an answer to our question."""
        said = _terms(terms)
        decision, outcome = await self._judge(case, said.topic)
        if _is_offered(case.side) or outcome == policy_pb2.OUTCOME_REFUSE:
            return _judged(decision, outcome, terms=said)
        own = await self._own.get(case.owner, case.side.thread_id)
        if own:
            said = replace(
                said, answer=own, sources=(Source(f"{case.owner} in person"),), confidence_percent=100
            )
        if said.answer == NO_ANSWER:
            # Only the owner's yes to the question as it stands leads here; nothing of it is kept.
            what = "There is nothing to say yes to yet: the question has no answer."
            raise Refused(Reason.ILLEGAL_MOVE, what, hint='write one: indai answer CODE "..."')
        return _judged(decision, outcome, terms=said)

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """Nothing: the answer is in the commitment."""
        return ()

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """An answer to just what was asked."""
        return wish.admits(terms)

    async def _judge(self, case: Case, topic: str) -> tuple[policy_pb2.Decision, int]:
        facts, known = await self._acquaintances.facts(case, [ASK.name])
        facts.ask.CopyFrom(policy_pb2.AskFacts(topic=topic or GENERAL))
        request = policy_pb2.DecideRequest(owner=case.owner, facts=[facts])
        (decision,) = (await self._policies.decide(request)).decisions
        outcome = answered(decision, ASK.name)
        if outcome == policy_pb2.OUTCOME_ASK and not case.outgoing:
            decision.words += f" {known.words(case.peer)}."
        return decision, outcome


def _is_offered(side: Side) -> bool:
    return side.thread is not None and side.thread.offer is not None


def _sound(terms: AskTerms) -> AskTerms | None:
    """None for a quotation that may not be signed as it is, e.g. with control characters."""
    try:
        terms.check()
    except ProtocolError:
        return None
    return terms


def _judged(
    decision: policy_pb2.Decision, outcome: int, *, terms: Terms | None = None, wish: Wish | None = None
) -> Answer:
    reason = DENIED if outcome == policy_pb2.OUTCOME_REFUSE else ""
    return Answer(outcome, decision, terms=terms, wish=wish, reason=reason)


def _wish(wish: Wish) -> AskWish:
    if not isinstance(wish, AskWish):
        raise RuntimeError(f"a {wish.kind} is no question")
    return wish


def _terms(terms: Terms) -> AskTerms:
    if not isinstance(terms, AskTerms):
        raise RuntimeError(f"a {terms.kind} is no answer")
    return terms
