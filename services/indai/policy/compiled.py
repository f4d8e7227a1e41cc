"""A compiled policy: the layers above and below the owner's and their own, with the schema, as one immutable
version that decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import cedarpy
from indai.client.decisions import Evaluation, Layer, engine_version, evaluate_parsed, policy_hash
from indai.policy.cedar import SCHEMA, compile_layer
from indai.policy.facts import Facts, entities_json, request_of, written
from indai.policy.language import parse
from indai.policy.rules import Rules
from indai.protocol.errors import InvalidInput, Reason

PLATFORM, OWNER = "platform", "owner"
# In order of authority. `platform` is built in; the two below it are set for everyone under them.
_MAX_PEERS = 1024
LAYERS = (PLATFORM, "operator", "organisation", OWNER, "agent", "session")

# The layer above every owner: what no rule of theirs can widen. In the owner's own language, so that it is
# compiled, combined and explained like theirs. What went through many agents is a loop.
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
    hops: { max: 8 }
    depth: { max: 4 }
  - id: possible-sharing
    say: "Sharing for at most ten years"
    allow: share
    with: anyone
    retention: { max: 3660d }
    hops: { max: 8 }
    depth: { max: 4 }
  - id: possible-dealings
    say: "Questions and payments"
    allow: [ask, pay]
    with: anyone
    hops: { max: 8 }
    depth: { max: 4 }
  - id: possible-bookings
    say: "Bookings of at least one unit"
    allow: book
    with: anyone
    quantity: { min: 1 }
    hops: { max: 8 }
    depth: { max: 4 }
"""


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One version. `rules` and `layers` by authority, highest first; hashes are 32 bytes (SHA-256).

    `source`: the owner's text; `others`: those of the other layers that were set, by name. `engine`: what
    compiled and decides, e.g. `cedarpy 4.12.2`. `time_zone`: the owner's, in which all days are local.
    """

    source: str
    rules: Mapping[str, Rules]
    layers: tuple[Layer, ...]
    schema: str
    policy_hash: bytes
    schema_hash: bytes
    engine: str
    others: Mapping[str, str] = field(default_factory=dict)
    snapshots: dict[tuple[str, bool], tuple[str, str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def time_zone(self) -> str:
        return self.rules[OWNER].time_zone


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with the exact texts it was taken on; `indai.client.decisions.evaluate` takes it again from
    them.
    """

    facts: Facts
    request: str
    entities: str
    evaluation: Evaluation


def compile_policy(source: str, others: Mapping[str, str] | None = None) -> CompiledPolicy:
    """Read, compile and validate an owner's YAML, and that of other layers (by name). Raises
    InvalidInput(INVALID_POLICY) with all problems in `fields`.
    """
    owner = parse(source)
    return compile_rules(source, owner, dict(others or {}))


def compile_rules(source: str, owner: Rules, others: Mapping[str, str] | None = None) -> CompiledPolicy:
    """Compile an owner's rules that were read before."""
    texts = {name: text for name, text in (others or {}).items() if text}
    known = {PLATFORM: _platform(), OWNER: owner} | {name: parse(text, name) for name, text in texts.items()}
    rules = {name: known[name] for name in LAYERS if name in known}
    layers = tuple(compile_layer(name, layer) for name, layer in rules.items())
    _validate(layers)
    return CompiledPolicy(
        source=source,
        rules=rules,
        layers=layers,
        schema=SCHEMA,
        policy_hash=policy_hash(layers, SCHEMA, owner.time_zone, source, texts),
        schema_hash=hashlib.sha256(SCHEMA.encode()).digest(),
        engine=engine_version() or "",
        others=texts,
    )


def decide(policy: CompiledPolicy, owner: str, facts: Facts) -> Decided:
    """Take one decision, about 0.1 ms. Raises InvalidInput(INVALID_ARGUMENT) for facts that are none."""
    return decide_many(policy, owner, [facts])[0]


def decide_many(policy: CompiledPolicy, owner: str, facts: Sequence[Facts]) -> list[Decided]:
    """Take several decisions, in order; each distinct peer's entities are derived and parsed once."""
    decided: dict[int, Decided] = {}
    for peer in dict.fromkeys((fact.peer, fact.verified) for fact in facts):
        entities, relationship = _snapshot(policy, *peer)
        places = [place for place, fact in enumerate(facts) if (fact.peer, fact.verified) == peer]
        requests = [request_of(owner, facts[place], policy.time_zone, relationship) for place in places]
        evaluations = evaluate_parsed(policy.layers, policy.schema, requests, entities)
        for place, request, evaluation in zip(places, requests, evaluations, strict=True):
            decided[place] = Decided(facts[place], written(request), entities, evaluation)
    return [decided[place] for place in range(len(facts))]


def _snapshot(policy: CompiledPolicy, peer: str, verified: bool) -> tuple[str, str]:
    """The peer's entities and what they are to the owner; the same for one version, so they are kept."""
    known = policy.snapshots.get((peer, verified))
    if known is None:
        if len(policy.snapshots) >= _MAX_PEERS:
            policy.snapshots.clear()
        entities = entities_json(peer, verified, policy.rules)
        known = policy.snapshots[peer, verified] = entities, policy.rules[OWNER].relationship(peer)
    return known


@lru_cache(maxsize=1)
def _platform() -> Rules:
    return parse(PLATFORM_YAML, PLATFORM)


@lru_cache(maxsize=1)
def _schema() -> cedarpy.Schema:
    return cedarpy.Schema.from_str(SCHEMA)


def _validate(layers: Sequence[Layer]) -> None:
    """Cedar's own type checker over every text: what passes it cannot err on a valid request, but for
    overflow.
    """
    for layer in layers:
        text = "\n".join((layer.grant, layer.ask, layer.advise))
        result = cedarpy.validate_policies(text, _schema())
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
