"""A compiled policy: the platform's layer and the owner's, with the schema, as one immutable version that
decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cedarpy
from indai.client.decisions import Evaluation, Layer, engine_version, evaluate_many, policy_hash
from indai.policy.cedar import SCHEMA, compile_layer
from indai.policy.facts import MeetFacts, entities_json, request_json
from indai.policy.language import parse
from indai.policy.rules import Rules
from indai.protocol.errors import InvalidInput, Reason

PLATFORM, OWNER = "platform", "owner"

# The layer above every owner: what no rule of theirs can widen. In the owner's own language, so that it is
# compiled, combined and explained like theirs.
PLATFORM_YAML = """\
version: 1
timezone: UTC
rules:
  - id: possible-meetings
    say: "Meetings of 1 min to 24 h that start within the next 366 days, never in the past"
    allow: meet
    with: anyone
    duration: { min: 1m, max: 24h }
    notice: { min: 0m, max: 366d }
"""


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One version. `rules` and `layers` by authority, highest first; hashes are 32 bytes (SHA-256).

    `engine`: what compiled and decides, e.g. `cedarpy 4.12.2`. `time_zone`: the owner's, in which all days
    are local.
    """

    source: str
    rules: Mapping[str, Rules]
    layers: tuple[Layer, ...]
    schema: str
    policy_hash: bytes
    schema_hash: bytes
    engine: str

    @property
    def time_zone(self) -> str:
        return self.rules[OWNER].time_zone


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with the exact texts it was taken on; `indai.client.decisions.evaluate` takes it again from
    them.
    """

    facts: MeetFacts
    request: str
    entities: str
    evaluation: Evaluation


def compile_policy(source: str) -> CompiledPolicy:
    """Read, compile and validate an owner's YAML. Raises InvalidInput(INVALID_POLICY) with all problems in
    `fields`.
    """
    return compile_rules(source, parse(source))


def compile_rules(source: str, owner: Rules) -> CompiledPolicy:
    """Compile rules that were read before."""
    rules = {PLATFORM: parse(PLATFORM_YAML), OWNER: owner}
    layers = tuple(compile_layer(name, layer) for name, layer in rules.items())
    _validate(layers)
    time_zone = rules[OWNER].time_zone
    return CompiledPolicy(
        source=source,
        rules=rules,
        layers=layers,
        schema=SCHEMA,
        policy_hash=policy_hash(layers, SCHEMA, time_zone, source),
        schema_hash=hashlib.sha256(SCHEMA.encode()).digest(),
        engine=engine_version() or "",
    )


def decide(policy: CompiledPolicy, owner: str, facts: MeetFacts) -> Decided:
    """Take one decision, about 0.1 ms. Raises InvalidInput(INVALID_ARGUMENT) for times that are no times."""
    return decide_many(policy, owner, [facts])[0]


def decide_many(policy: CompiledPolicy, owner: str, facts: Sequence[MeetFacts]) -> list[Decided]:
    """Take several decisions, in order; each distinct peer's entities are derived and parsed once."""
    decided: dict[int, Decided] = {}
    for peer in dict.fromkeys((fact.peer, fact.verified) for fact in facts):
        entities = entities_json(*peer, policy.rules)
        places = [place for place, fact in enumerate(facts) if (fact.peer, fact.verified) == peer]
        requests = [request_json(owner, facts[place], policy.time_zone) for place in places]
        evaluations = evaluate_many(policy.layers, policy.schema, requests, entities)
        for place, request, evaluation in zip(places, requests, evaluations, strict=True):
            decided[place] = Decided(facts[place], request, entities, evaluation)
    return [decided[place] for place in range(len(facts))]


def _validate(layers: Sequence[Layer]) -> None:
    """Cedar's own type checker over every text: what passes it cannot err on a valid request, but for
    overflow.
    """
    schema = cedarpy.Schema.from_str(SCHEMA)
    for layer in layers:
        for text in (layer.grant, layer.ask):
            result = cedarpy.validate_policies(text, schema)
            if not result.validation_passed:
                first = result.errors[0].error if result.errors else "no reason given"
                raise InvalidInput(
                    Reason.INVALID_POLICY, f"the {layer.name} rules do not fit the schema: {first}"
                )


def cautious_policy(time_zone: str) -> str:
    """The YAML of an owner who has said nothing yet: verified peers are asked about, others refused."""
    return (
        f"version: 1\ntimezone: {time_zone}\nrules:\n"
        "  - id: ask-me-first\n    ask: meet\n    with: verified\n    hours: 09:00-18:00\n"
    )
