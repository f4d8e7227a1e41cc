"""What would have happened under other rules: recorded decisions taken again with a candidate policy.

The facts of a record are taken as they were stated then; local time, circles and relationships follow the
candidate. Facts that an older program did not state have their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from indai.client.decisions import Outcome
from indai.policy.compiled import CompiledPolicy, Decided, decide
from indai.policy.explain import explain
from indai.policy.facts import Facts, facts_of
from indai.protocol.errors import InvalidInput
from indai.v1 import policy_pb2 as pb

_OUTCOMES = {
    pb.OUTCOME_PERMIT: Outcome.PERMIT,
    pb.OUTCOME_REFUSE: Outcome.REFUSE,
    pb.OUTCOME_ASK: Outcome.ASK,
}


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recorded decision. `before` with its rules is what was recorded, `after` what the candidate says.

    `approved`: the owner said yes to it then. `words` say why, for the owner.
    """

    mid: bytes
    decided_at_ms: int
    facts: Facts
    before: Outcome
    before_rules: tuple[str, ...]
    before_obligations: tuple[str, ...]
    approved: bool
    after: Decided
    words: str

    @property
    def changed(self) -> bool:
        """Whether the answer is another one."""
        return self.before is not self.after.evaluation.outcome

    @property
    def duties_changed(self) -> bool:
        """Whether the answer is the same, with other obligations."""
        return not self.changed and self.before_obligations != self.after.evaluation.obligations


@dataclass(frozen=True, slots=True)
class Simulation:
    """All of them in order. `unread`: records whose facts this program cannot read, which are left out."""

    decisions: tuple[Replayed, ...]
    unread: int

    @property
    def changed(self) -> list[Replayed]:
        """Those with another answer."""
        return [one for one in self.decisions if one.changed]


def simulate(policy: CompiledPolicy, records: Iterable[pb.DecisionRecord]) -> Simulation:
    """Take each decision again."""
    found: list[Replayed] = []
    unread = 0
    for record in records:
        replayed = _again(policy, record)
        if replayed is None:
            unread += 1
        else:
            found.append(replayed)
    return Simulation(tuple(found), unread)


def _again(policy: CompiledPolicy, record: pb.DecisionRecord) -> Replayed | None:
    decision = record.decision
    facts = facts_of(decision.request_json, decision.entities_json)
    before = _OUTCOMES.get(decision.outcome)
    if facts is None or before is None:
        return None
    try:
        after = decide(policy, record.owner, facts)
    except InvalidInput:
        return None
    return Replayed(
        mid=record.mid,
        decided_at_ms=record.decided_at_ms,
        facts=facts,
        before=before,
        before_rules=tuple(decision.rules),
        before_obligations=tuple(decision.obligations),
        approved=record.approved_by_owner,
        after=after,
        words=explain(policy, after),
    )
