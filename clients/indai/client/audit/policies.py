"""Takes every recorded policy decision again, from its own record and the policy version in the same
ledger.

What is shown is that the decision follows from the recorded facts, not that the facts were true.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from indai.client.audit.facts import Decided, Replay
from indai.client.audit.findings import Findings
from indai.client.audit.matter import asked_about
from indai.client.audit.report import Place, Severity
from indai.client.decisions import Evaluation, Layer, Outcome, engine_version, evaluate, policy_hash
from indai.protocol.errors import IndaiError, Unavailable
from indai.v1 import policy_pb2

_OUTCOMES = {
    policy_pb2.OUTCOME_PERMIT: Outcome.PERMIT,
    policy_pb2.OUTCOME_REFUSE: Outcome.REFUSE,
    policy_pb2.OUTCOME_ASK: Outcome.ASK,
}


@dataclass(frozen=True, slots=True)
class _Version:
    layers: tuple[Layer, ...]
    schema: str
    schema_hash: bytes
    index: int  # of its leaf


# Of one ledger, by owner and hash.
Versions = dict[tuple[str, bytes], _Version]


class PolicyReplay:
    """One ledger's policy versions and decisions, in the order of its leaves.

    `versions` are those that are known from elsewhere in the ledger; each counts from its own leaf on.
    """

    def __init__(self, findings: Findings, versions: Versions | None = None) -> None:
        self._findings = findings
        self.versions: Versions = dict(versions or {})

    def activate(self, activation: policy_pb2.PolicyActivation, place: Place) -> None:
        """A leaf of kind 4."""
        version = activation.version
        layers = tuple(
            Layer(one.name, one.grant, one.ask, _OUTCOMES.get(one.unmatched, Outcome.REFUSE), one.advise)
            for one in version.layers
        )
        others = {layer.name: layer.yaml for layer in version.layers if layer.yaml}
        hashed = policy_hash(layers, version.schema, version.time_zone, version.yaml, others)
        schema_hash = hashlib.sha256(version.schema.encode()).digest()
        if (hashed, schema_hash) != (version.policy_hash, version.schema_hash):
            message = f"The policy version of {activation.owner} is not the one that its hash names."
            self._findings.add(Severity.INVALID, "policy", place, message)
            return
        active = _Version(layers, version.schema, schema_hash, place.index or 0)
        known = self.versions.setdefault((activation.owner, hashed), active)
        if active.index < known.index:
            self.versions[activation.owner, hashed] = active

    def decide(self, record: policy_pb2.DecisionRecord, place: Place) -> Decided:
        """A leaf of kind 3."""
        decision = record.decision
        outcome = _OUTCOMES.get(decision.outcome, Outcome.REFUSE)
        approved = outcome is Outcome.ASK and record.approved_by_owner
        permitted = outcome is Outcome.PERMIT or approved
        replay = self._again(record, outcome, place)
        return Decided(
            record.owner, record.mid, place, permitted, replay, *asked_about(decision.request_json)
        )

    def _again(self, record: policy_pb2.DecisionRecord, outcome: Outcome, place: Place) -> Replay:
        decision = record.decision
        version = self.versions.get((record.owner, decision.policy_hash))
        if version is None or version.index > (place.index or 0):
            message = (
                f"The policy version that {record.owner} decided under is not shown before the decision."
            )
            return self._open(place, record, message)
        recorded = Evaluation(outcome, tuple(decision.rules), tuple(decision.obligations))
        try:
            taken = evaluate(version.layers, version.schema, decision.request_json, decision.entities_json)
        except Unavailable:
            return self._open(place, record, "The policy engine is not installed here (pip install cedarpy).")
        except IndaiError as error:
            return self._different(place, record, f"The decision cannot be taken again: {error.message}")
        if version.schema_hash != decision.schema_hash:
            return self._different(
                place, record, "The decision names another schema than its policy version."
            )
        if (taken.outcome, taken.rules, taken.obligations) == (
            recorded.outcome,
            recorded.rules,
            recorded.obligations,
        ):
            return Replay.SAME
        message = f"{record.owner} recorded {_words(recorded)}, and the same facts give {_words(taken)}."
        if decision.engine != engine_version():
            return self._open(place, record, f"{message} The engine was {decision.engine}.")
        return self._different(place, record, message)

    def _open(self, place: Place, record: policy_pb2.DecisionRecord, message: str) -> Replay:
        self._findings.add(Severity.OPEN, "decision", place, message, record.mid)
        return Replay.OPEN

    def _different(self, place: Place, record: policy_pb2.DecisionRecord, message: str) -> Replay:
        self._findings.add(Severity.INVALID, "decision", place, message, record.mid)
        return Replay.DIFFERENT


def _words(evaluation: Evaluation) -> str:
    rules = ", ".join(evaluation.rules) or "no rule"
    return f"{evaluation.outcome.value} by {rules}"
