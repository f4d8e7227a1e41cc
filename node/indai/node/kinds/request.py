"""`request` on the node: filed with an office's department, under a number and a service level.

A pitch or an introduction, and anything that is asked of somebody who is no office, is the owner's own: it
waits in their inbox with a line on who asks and how well they are known, whatever a rule permits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indai.node.duties import answered
from indai.node.kinds.acquaintance import Acquaintance, Acquaintances
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.node.offices import Department, Offices, route
from indai.node.policies import Policies
from indai.protocol.forms import DAY_MS
from indai.protocol.kinds.ask import REQUEST, RequestTerms, RequestWish
from indai.protocol.messages import Terms, Wish
from indai.v1 import policy_pb2

DENIED, NOT_AVAILABLE = "POLICY_DENIED", "NOT_AVAILABLE"
OWNERS = Department("owner", "The owner", 7 * DAY_MS)
PITCHES = frozenset({"pitch", "introduction"})


class Requests(KindModule):
    """Requests to every owner of this node, and theirs to offices."""

    kind = REQUEST

    def __init__(self, policies: Policies, offices: Offices, acquaintances: Acquaintances) -> None:
        self._policies = policies
        self._offices = offices
        self._acquaintances = acquaintances

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """What the owner wants to file, if their rules let them."""
        wanted = _wish(wish)
        decision, outcome, _ = await self._judge(case, wanted.category, wanted.department)
        return _judged(decision, outcome, wish=wish)

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """The department, a number, and until when it will be resolved."""
        wanted = _wish(wish)
        if case.outgoing:
            return Answer(policy_pb2.OUTCOME_REFUSE, reason=DENIED, words="They want to be asked otherwise.")
        department = self._department(case.owner, wanted)
        named = department.name if department else wanted.department
        decision, outcome, known = await self._judge(case, wanted.category, named)
        if outcome == policy_pb2.OUTCOME_REFUSE:
            return _judged(decision, outcome)
        if department is None:
            decision.words += " But no department does this."
            return Answer(policy_pb2.OUTCOME_REFUSE, decision, reason=NOT_AVAILABLE)
        if self._is_owners(case.owner, wanted.category):
            outcome = policy_pb2.OUTCOME_ASK
        if outcome == policy_pb2.OUTCOME_ASK:
            what = wanted.category if wanted.category in PITCHES else "request"
            decision.words += f" A {what}: {known.words(case.peer)}."
        reference = f"{department.name[:40].upper()}-{case.side.thread_id.hex()[-10:].upper()}"
        due_ms = case.now_ms + department.service_ms
        terms = RequestTerms(wanted.subject, wanted.text, wanted.category, department.name, reference, due_ms)
        return _judged(decision, outcome, terms=terms)

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """Still permitted; ours only while the department is there."""
        said = _terms(terms)
        offered = case.side.thread is not None and case.side.thread.offer is not None
        decision, outcome, _ = await self._judge(case, said.category, said.department)
        if not offered and outcome != policy_pb2.OUTCOME_REFUSE:
            if self._is_owners(case.owner, said.category):
                outcome = policy_pb2.OUTCOME_ASK
            elif said.department not in [one.name for one in self._offices.of(case.owner)]:
                return Answer(policy_pb2.OUTCOME_REFUSE, decision, reason=NOT_AVAILABLE)
        return _judged(decision, outcome, terms=said)

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """Nothing outside: the queue is the list of commitments."""
        return ()

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """Filed as the owner asked."""
        return wish.admits(terms)

    def _is_owners(self, owner: str, category: str) -> bool:
        """Whether nobody but the owner takes it."""
        return category in PITCHES or not self._offices.of(owner)

    def _department(self, owner: str, wish: RequestWish) -> Department | None:
        if self._is_owners(owner, wish.category):
            return replace(OWNERS, name=wish.department or OWNERS.name)
        return route(self._offices.of(owner), wish)

    async def _judge(
        self, case: Case, category: str, department: str
    ) -> tuple[policy_pb2.Decision, int, Acquaintance]:
        facts, known = await self._acquaintances.facts(case, [REQUEST.name])
        facts.ask.CopyFrom(policy_pb2.AskFacts(topic=category, is_request=True, department=department))
        request = policy_pb2.DecideRequest(owner=case.owner, facts=[facts])
        (decision,) = (await self._policies.decide(request)).decisions
        return decision, answered(decision, "ask"), known


def _judged(
    decision: policy_pb2.Decision, outcome: int, *, terms: Terms | None = None, wish: Wish | None = None
) -> Answer:
    reason = DENIED if outcome == policy_pb2.OUTCOME_REFUSE else ""
    return Answer(outcome, decision, terms=terms, wish=wish, reason=reason)


def _wish(wish: Wish) -> RequestWish:
    if not isinstance(wish, RequestWish):
        raise RuntimeError(f"a {wish.kind} is no request")
    return wish


def _terms(terms: Terms) -> RequestTerms:
    if not isinstance(terms, RequestTerms):
        raise RuntimeError(f"a {terms.kind} is no request")
    return terms
