"""Take a policy decision, or take a recorded one again: Cedar's answers combined into permit, refuse or ask.

The service that decides and the auditor who replays call the same function with the same four texts (layers,
schema, request, entities), so a recorded decision follows from its record or it does not. Language and
engine: Cedar (https://docs.cedarpolicy.com), through `cedarpy`. The engine is imported on first use: who only
looks a handle up does not need it, and `engine_version` says whether it is there.

The three values, for each layer:

    invalid request, any evaluation error, unknown obligation  -> refuse
    a GRANT forbid                                             -> refuse
    an ASK permit                                              -> ask
    a GRANT permit                                             -> permit, with obligations
    none of these                                              -> the layer's own default

Layers are combined by the most restrictive: refuse over ask over permit; no layer at all refuses.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from indai.client.obligations import UnknownObligation, merge
from indai.protocol.errors import InvalidInput, Reason, Unavailable

if TYPE_CHECKING:
    import cedarpy

# A schema in which actions are members of groups: then a policy may match an action that it doesn't name.
_GROUPS = re.compile(r'\baction\b[^{;]*\bin\b|"memberOf"')
_POSITIONAL_ID = re.compile(r"\bpolicy(\d+)\b")


class Outcome(StrEnum):
    """What the agent may do: act alone, not at all, or only after its owner said yes."""

    PERMIT = "permit"
    REFUSE = "refuse"
    ASK = "ask"


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_RESTRICTIVENESS = {Outcome.PERMIT: 0, Outcome.ASK: 1, Outcome.REFUSE: 2}


@dataclass(frozen=True, slots=True)
class Layer:
    """One authority's rules as Cedar text.

    Every policy carries `@id("<layer>/<rule>")`, unique over all layers; every other annotation is an
    obligation.
    `grant` holds permits and forbids, `ask` permits only, `advise` permits that answer nothing and only add
    obligations. `unmatched` is REFUSE or ASK.
    """

    name: str
    grant: str
    ask: str
    unmatched: Outcome = Outcome.REFUSE
    advise: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer to one request.

    `rules`: ids `<layer>/<rule>` that made it, in the order they are written; empty for a default or an
    error. `obligations`: `<name>:<value>`, to be met if the thing is done (also after the owner's yes); empty
    if refused. `errors`: why nothing could be evaluated; never empty together with a refusal that no rule and
    no default made. `layer`: whose answer this is, the first by authority, of a permit the last; "" for
    an error.
    """

    outcome: Outcome
    rules: tuple[str, ...] = ()
    obligations: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    layer: str = field(default="", compare=False)


def most_restrictive(outcomes: Iterable[Outcome]) -> Outcome:
    """Refuse over ask over permit; nothing at all is a refusal."""
    return max(outcomes, key=_RESTRICTIVENESS.__getitem__, default=Outcome.REFUSE)


def engine_version() -> str | None:
    """Engine and version, e.g. `cedarpy 4.12.2`, or None where it is not installed."""
    try:
        _engine()
        return f"cedarpy {importlib.metadata.version('cedarpy')}"
    except (Unavailable, importlib.metadata.PackageNotFoundError):
        return None


def policy_hash(
    layers: Sequence[Layer], schema: str, time_zone: str, source: str, others: Mapping[str, str] | None = None
) -> bytes:
    """SHA-256, 32 bytes, over everything that a version of a policy consists of, as canonical JSON.

    `source`: the owner's text; `others`: the texts of the other layers that were set, by their names.
    """
    whole: dict[str, object] = {
        "layers": [layer_values(layer) for layer in layers],
        "schema": schema,
        "source": source,
        "time_zone": time_zone,
    }
    if others:
        whole["sources"] = dict(others)
    return hashlib.sha256(b"ind.ai/policy/v1\n" + canonical_json(whole).encode()).digest()


def layer_values(layer: Layer) -> list[str]:
    """A layer in the form that is hashed and stored; without advice it has the four values that it always
    had.
    """
    values = [layer.name, layer.grant, layer.ask, layer.unmatched.value]
    return [*values, layer.advise] if layer.advise else values


def layer_of(values: Sequence[str]) -> Layer:
    """The inverse."""
    name, grant, ask, unmatched, *advise = values
    return Layer(name, grant, ask, Outcome(unmatched), *advise)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no white space: equal values give equal texts."""
    return _CANONICAL.encode(value)


def evaluate(layers: Sequence[Layer], schema: str, request: str, entities: str) -> Evaluation:
    """Decide one request. A request or entities that make no sense refuse; texts that are no policy raise.

    `request`: JSON object of principal, action, resource and context; `entities`: JSON list, both as Cedar
    defines. Raises InvalidInput(INVALID_POLICY) if layers or schema do not parse, Unavailable if the engine
    is not installed.
    """
    return evaluate_many(layers, schema, [request], entities)[0]


def evaluate_many(
    layers: Sequence[Layer], schema: str, requests: Sequence[str], entities: str
) -> list[Evaluation]:
    """Decide several requests over one set of entities, in order; as `evaluate` for each."""
    return evaluate_parsed(layers, schema, [_parse_request(request) for request in requests], entities)


def evaluate_parsed(
    layers: Sequence[Layer], schema: str, requests: Sequence[dict[str, Any] | None], entities: str
) -> list[Evaluation]:
    """The same for requests that were made here; None stands for one that made no sense. A context may be
    JSON text already.
    """
    sets = _load(tuple(layers), schema)
    try:
        known = _entities(entities, schema)
    except ValueError as error:
        return [_failed(f"entities: {error}")] * len(requests)
    return [
        _judge(sets, _engine().is_authorized(one, sets.about(one["action"]["id"]), known, sets.schema))
        if one
        else _failed("malformed request")
        for one in requests
    ]


@dataclass(frozen=True, slots=True)
class _Rule:
    layer: str
    id: str
    asks: bool
    advises: bool
    forbids: bool
    obligations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Sets:
    """All layers as one parsed policy set: one engine call tells which rules of every set are satisfied.

    Policies that name other actions can't match a request: each action has a set without them.
    """

    layers: tuple[Layer, ...]
    policies: cedarpy.PolicySet
    schema: cedarpy.Schema
    rules: tuple[_Rule, ...]  # by position: Cedar calls the n-th policy of a text `policy<n>`
    actions: frozenset[str]  # that some policy names
    by_action: dict[str, cedarpy.PolicySet]  # their sets, each made when it is first asked for

    def about(self, action: str) -> cedarpy.PolicySet:
        """What can match the action; everything for one that no policy names."""
        if action not in self.actions:
            return self.policies
        if action not in self.by_action:
            self.by_action[action] = _about(self.layers, action)
        return self.by_action[action]


def _engine() -> (
    Any
):  # the module itself: imported late so that a client without it can still verify signatures
    try:
        import cedarpy  # noqa: PLC0415
    except ImportError as missing:
        raise Unavailable(
            Reason.UNREACHABLE, "the policy engine is not installed", hint="pip install cedarpy"
        ) from missing
    return cedarpy


@lru_cache(maxsize=1024)
def _load(layers: tuple[Layer, ...], schema: str) -> _Sets:
    """Parse once and keep: parsing costs ten times what a decision costs."""
    engine = _engine()
    if any(layer.unmatched is Outcome.PERMIT for layer in layers):
        raise InvalidInput(Reason.INVALID_POLICY, "a layer's default is to refuse or to ask")
    try:
        rules = tuple(rule for layer in layers for rule in _rules_of(engine, layer))
        text = _text(layers)
        policies = engine.PolicySet.from_str(text)
        actions = frozenset() if _GROUPS.search(schema) else _all_actions(engine, text)
        parsed_schema = engine.Schema.from_str(schema)
    except ValueError as error:
        raise InvalidInput(Reason.INVALID_POLICY, f"the compiled policy does not parse: {error}") from None
    ids = [rule.id for rule in rules]
    if len(set(ids)) != len(ids) or len(ids) != len(policies):
        raise InvalidInput(Reason.INVALID_POLICY, "two compiled rules have the same id")
    return _Sets(layers, policies, parsed_schema, rules, actions, {})


def _all_actions(engine: Any, text: str) -> frozenset[str]:
    policies = json.loads(engine.policies_to_json_str(text))["staticPolicies"].values()
    return frozenset(one for policy in policies for one in _actions(policy["action"]) or ())


def _about(layers: Sequence[Layer], action: str) -> Any:
    """The policies that name the action, or none; their ids stay the same."""
    engine = _engine()
    parsed = json.loads(engine.policies_to_json_str(_text(layers)))
    chosen = {}
    for key, policy in parsed["staticPolicies"].items():
        named = _actions(policy["action"])
        if named is None or action in named:
            chosen[key] = policy
    return engine.PolicySet.from_json_str(json.dumps({**parsed, "staticPolicies": chosen}))


def _text(layers: Sequence[Layer]) -> str:
    """All sets as one text in the order of the rules, so that positions there are the engine's ids."""
    return "\n".join(text for layer in layers for text in (layer.grant, layer.ask, layer.advise))


def _actions(scope: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The actions that a policy's scope names, None where it is open or has another form."""
    entities = scope.get("entities") or [scope["entity"]] if scope.get("op") in ("==", "in") else []
    if not entities or any(entity.get("type") != "Action" for entity in entities):
        return None
    return tuple(str(entity["id"]) for entity in entities)


def _rules_of(engine: Any, layer: Layer) -> Iterable[_Rule]:
    for text, role in ((layer.grant, "grant"), (layer.ask, "ask"), (layer.advise, "advise")):
        if not text:
            continue
        parsed = json.loads(engine.policies_to_json_str(text))
        policies = parsed["staticPolicies"]
        if parsed["templates"]:
            raise InvalidInput(Reason.INVALID_POLICY, "a compiled policy has no templates")
        for position in range(len(policies)):
            policy = policies[f"policy{position}"]
            obligations = dict(policy.get("annotations") or {})
            rule_id = str(obligations.pop("id", ""))
            forbids = policy["effect"] == "forbid"
            if not rule_id.startswith(f"{layer.name}/") or (forbids and role != "grant"):
                raise InvalidInput(
                    Reason.INVALID_POLICY, f"compiled rule {rule_id or position} is not one of its layer"
                )
            yield _Rule(layer.name, rule_id, role == "ask", role == "advise", forbids, obligations)


@lru_cache(maxsize=4096)
def _entities(entities: str, schema: str) -> Any:
    return _engine().Entities.from_json_str(entities, schema)


def _parse_request(request: str) -> dict[str, Any] | None:
    """The request as the engine takes it, or None: a recorded request may have been written by anybody."""
    try:
        parsed = json.loads(request)
        uids = [parsed["principal"], parsed["action"], parsed["resource"]]
        well_formed = len(parsed) == 4 and isinstance(parsed["context"], dict)
        names = [name for uid in uids for name in (uid["type"], uid["id"])]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return parsed if well_formed and all(isinstance(name, str) for name in names) else None


def _failed(*errors: str) -> Evaluation:
    return Evaluation(Outcome.REFUSE, errors=tuple(sorted(errors)))


def _judge(sets: _Sets, answer: cedarpy.AuthzResult) -> Evaluation:
    """Combine the engine's one answer over all sets into the three values."""
    if answer.diagnostics.errors:
        return _failed(*(_named(sets, error) for error in answer.diagnostics.errors))
    positions = sorted(int(reason.removeprefix("policy")) for reason in answer.diagnostics.reasons)
    satisfied = [sets.rules[position] for position in positions]
    if any(rule.forbids for rule in satisfied):
        forbidding = [rule for rule in satisfied if rule.forbids]
        return Evaluation(Outcome.REFUSE, tuple(rule.id for rule in forbidding), layer=forbidding[0].layer)
    answers = [_layer_answer(layer, satisfied) for layer in sets.layers]
    outcome = most_restrictive(answered for answered, _ in answers)
    # Every layer permits what is permitted: then the nearest one is named.
    made = list(zip(sets.layers, answers, strict=True))[:: -1 if outcome is Outcome.PERMIT else 1]
    by = next((layer.name for layer, (answered, _) in made if answered is outcome), "")
    if outcome is Outcome.REFUSE:
        return Evaluation(Outcome.REFUSE, layer=by)
    try:
        obligations = merge((rule.obligations for rule in satisfied), asked=outcome is Outcome.ASK)
    except UnknownObligation as unknown:
        return _failed(f"unknown obligation {unknown}")
    ids = tuple(rule for answered, rules in answers if answered is outcome for rule in rules)
    return Evaluation(outcome, ids, obligations, layer=by)


def _layer_answer(layer: Layer, satisfied: Sequence[_Rule]) -> tuple[Outcome, tuple[str, ...]]:
    own = [rule for rule in satisfied if rule.layer == layer.name and not rule.advises]
    if asking := tuple(rule.id for rule in own if rule.asks):
        return Outcome.ASK, asking
    if own:
        return Outcome.PERMIT, tuple(rule.id for rule in own)
    return layer.unmatched, ()


def _named(sets: _Sets, error: str) -> str:
    """The engine's message with our rule ids in place of its positional ones."""
    return _POSITIONAL_ID.sub(
        lambda m: sets.rules[int(m[1])].id if int(m[1]) < len(sets.rules) else m[0], error
    )
