"""`indai.v1.PolicyService`: an owner's rules in, decisions with their reasons out."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping

import asyncpg
import grpc
from indai.client.decisions import Outcome
from indai.policy.compiled import (
    LAYERS,
    OWNER,
    CompiledPolicy,
    Decided,
    cautious_policy,
    compile_policy,
    decide_many,
)
from indai.policy.explain import explain
from indai.policy.leases import Leases
from indai.policy.lint import lint
from indai.policy.sentences import sentences
from indai.policy.store import (
    EVERYONE,
    StoredVersion,
    activate,
    active_state,
    authority_of,
    read_layers,
    read_version,
    set_layer,
)
from indai.policy.values import MINUTES_PER_DAY
from indai.policy.windows import WindowFacts, allowed_windows
from indai.policy.wire import about_from, facts_from, handle_of
from indai.protocol.errors import InvalidInput, NotFound, Reason, Unavailable
from indai.protocol.quoting import quoted
from indai.v1 import policy_pb2 as pb
from indai.v1 import policy_pb2_grpc

MAX_FACTS = 64
NOBODY = cautious_policy("UTC")
_ATTEMPTS = 5
_MAX_SESSION = 100
_MAX_CACHED = 1024
_MINUTE_MS = 60_000
_SHORT_RANGE_MS = 14 * 24 * 60 * _MINUTE_MS
_FEW_RULES = 20
_OUTCOMES = {
    Outcome.PERMIT: pb.OUTCOME_PERMIT,
    Outcome.REFUSE: pb.OUTCOME_REFUSE,
    Outcome.ASK: pb.OUTCOME_ASK,
}


class PolicyService(policy_pb2_grpc.PolicyServiceServicer):
    """Stateless but for caches: any number of replicas may share one database. Once SetPolicy has answered,
    every replica decides under the new version.

    `clock`: ms since the epoch, for the time of activation; decisions take theirs from the facts.
    """

    def __init__(self, pool: asyncpg.Pool, clock: Callable[[], int]) -> None:
        self._pool = pool
        self._clock = clock
        # By owner, hash, session and state of the other layers, least recently used first: the key names its
        # content, so nothing here grows stale.
        self._compiled: OrderedDict[tuple[str, bytes, str, str], CompiledPolicy] = OrderedDict()
        self._leases = Leases(pool)

    async def SetPolicy(
        self,
        request: pb.SetPolicyRequest,
        context: grpc.aio.ServicerContext[pb.SetPolicyRequest, pb.SetPolicyResponse],
    ) -> pb.SetPolicyResponse:
        """Compile, store, activate: the owner's rules, or one of the layers below them."""
        owner = handle_of(request.owner, "owner")
        _check_layer(request.layer, request.session)
        others = await read_layers(self._pool, owner, request.session)
        replaced = (await active_state(self._pool, owner, request.session)).policy_hash
        now = self._clock()
        if request.layer in ("", OWNER):
            policy = await asyncio.to_thread(compile_policy, request.yaml, others)
            changed = await activate(self._pool, owner, policy, now)
        else:
            source = (await self._read(owner, b"")).source
            others[request.layer] = request.yaml
            policy = await asyncio.to_thread(compile_policy, source, others)
            changed = await set_layer(
                self._pool, owner, request.layer, request.yaml, now, session=request.session
            )
            await activate(self._pool, owner, policy, now, active=not request.session)
        self._leases.forget()
        if changed and replaced is not None:
            # Other replicas may decide under the version before until they look again.
            await self._leases.outlast()
        stored = await self._read(owner, policy.policy_hash)
        return pb.SetPolicyResponse(version=_version(stored), changed=changed)

    async def SetScope(
        self,
        request: pb.SetScopeRequest,
        context: grpc.aio.ServicerContext[pb.SetScopeRequest, pb.SetScopeResponse],
    ) -> pb.SetScopeResponse:
        """Rules above everyone's, or above those of an authority."""
        everyone = request.scope == EVERYONE
        scope = EVERYONE if everyone else authority_of(handle_of(f"{request.scope}/any-name", "scope"))
        layer = "operator" if everyone else "organisation"
        if request.yaml:
            await asyncio.to_thread(compile_policy, NOBODY, {layer: request.yaml})
        changed = await set_layer(self._pool, scope, layer, request.yaml, self._clock())
        self._leases.forget()
        if changed:
            await self._leases.outlast()
        return pb.SetScopeResponse(changed=changed)

    async def CheckPolicy(
        self,
        request: pb.CheckPolicyRequest,
        context: grpc.aio.ServicerContext[pb.CheckPolicyRequest, pb.CheckPolicyResponse],
    ) -> pb.CheckPolicyResponse:
        """Every problem, or the rules in words."""
        try:
            policy = await asyncio.to_thread(_compile_for, request.layer or OWNER, request.yaml)
        except InvalidInput as error:
            fields = error.fields or {"yaml": str(error)}
            problems = [pb.PolicyProblem(field=path, description=text) for path, text in fields.items()]
            return pb.CheckPolicyResponse(problems=problems)
        layer = request.layer or OWNER
        rules = policy.rules[layer]
        warnings = [
            pb.PolicyProblem(field=one.rule, description=f"line {one.line}: {one.message}")
            for one in lint(rules, layer)
        ]
        return pb.CheckPolicyResponse(rules=sentences(rules), warnings=warnings)

    async def GetPolicy(
        self,
        request: pb.GetPolicyRequest,
        context: grpc.aio.ServicerContext[pb.GetPolicyRequest, pb.GetPolicyResponse],
    ) -> pb.GetPolicyResponse:
        """The active version, or the one with the hash."""
        owner = handle_of(request.owner, "owner")
        if request.policy_hash:
            return pb.GetPolicyResponse(version=_version(await self._read(owner, request.policy_hash)))
        policy = await self._active(owner, request.session)
        version = await self._read(owner, policy.policy_hash)
        said = [f"{name}/{line}" for name, rules in policy.rules.items() for line in sentences(rules)]
        return pb.GetPolicyResponse(version=_version(version), rules=said)

    async def Decide(
        self,
        request: pb.DecideRequest,
        context: grpc.aio.ServicerContext[pb.DecideRequest, pb.DecideResponse],
    ) -> pb.DecideResponse:
        """One decision for each of the facts, under the version active now."""
        owner = handle_of(request.owner, "owner")
        if len(request.facts) > MAX_FACTS:
            raise InvalidInput(Reason.TOO_LARGE, f"At most {MAX_FACTS} facts are decided in one call.")
        facts = [facts_from(one, f"facts[{place}]") for place, one in enumerate(request.facts)]
        policy = await self._active(owner, request.session)
        return pb.DecideResponse(
            decisions=[_decision(policy, decided) for decided in decide_many(policy, owner, facts)]
        )

    async def ListAllowedWindows(
        self,
        request: pb.ListAllowedWindowsRequest,
        context: grpc.aio.ServicerContext[pb.ListAllowedWindowsRequest, pb.ListAllowedWindowsResponse],
    ) -> pb.ListAllowedWindowsResponse:
        """Spans for proposals."""
        owner = handle_of(request.owner, "owner")
        if not 0 < request.duration_minutes <= MINUTES_PER_DAY:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A meeting takes 1 to 1440 minutes.",
                fields={"duration_minutes": "must be 1 to 1440"},
            )
        facts = WindowFacts(
            peer=handle_of(request.peer, "peer") if request.peer else "",
            duration_ms=request.duration_minutes * _MINUTE_MS,
            start_ms=request.start_ms,
            end_ms=request.end_ms,
            now_ms=request.now_ms,
            verified=request.verified,
            agreed_ms=request.agreed_start_ms,
            about=about_from(request.about),
        )
        policy = await self._active(owner)
        # Some 40 us for the days of a usual request: less than the way to a thread and back.
        short = (
            facts.end_ms - facts.start_ms <= _SHORT_RANGE_MS and len(policy.rules[OWNER].rules) <= _FEW_RULES
        )
        windows = (
            allowed_windows(policy, facts)
            if short
            else await asyncio.to_thread(allowed_windows, policy, facts)
        )
        return pb.ListAllowedWindowsResponse(
            windows=[
                pb.AllowedWindow(start_ms=one.start_ms, end_ms=one.end_ms, outcome=_OUTCOMES[one.outcome])
                for one in windows
            ]
        )

    async def _active(self, owner: str, session: str = "") -> CompiledPolicy:
        for _ in range(_ATTEMPTS):
            state = await self._leases.state(owner, session)
            key = (owner, state.policy_hash or b"", session, state.layers)
            if cached := self._compiled.get(key):
                self._compiled.move_to_end(key)
                return cached
            version = await self._read(owner, state.policy_hash or b"")
            others = await read_layers(self._pool, owner, session)
            if state.is_of(others):
                return await self._compile(key, version, others)
            self._leases.forget()  # somebody changed a layer meanwhile: what was read is of two moments
        raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The rules are being changed all the time; try again.")

    async def _compile(
        self, key: tuple[str, bytes, str, str], version: StoredVersion, others: Mapping[str, str]
    ) -> CompiledPolicy:
        owner, _, session, _ = key
        policy = await asyncio.to_thread(compile_policy, version.source, others)
        if policy.policy_hash != version.policy_hash:
            # A layer beside the owner's changed, or the program compiles them differently since an upgrade:
            # that is a version of its own.
            now, before = self._clock(), version.policy_hash
            await activate(self._pool, owner, policy, now, active=not session, instead_of=before)
        self._keep(key, policy)
        return policy

    async def _read(self, owner: str, policy_hash: bytes) -> StoredVersion:
        version = await read_version(self._pool, owner, policy_hash)
        if version is None:
            which = "such version of a policy" if policy_hash else "policy"
            raise NotFound(
                Reason.NOT_FOUND, f"{quoted(owner)} has no {which}.", hint="activate one with SetPolicy"
            )
        return version

    def _keep(self, key: tuple[str, bytes, str, str], policy: CompiledPolicy) -> None:
        self._compiled[key] = policy
        self._compiled.move_to_end(key)
        if len(self._compiled) > _MAX_CACHED:
            self._compiled.popitem(last=False)


def _compile_for(layer: str, text: str) -> CompiledPolicy:
    """A layer's text alone: a layer beside the owner's is tried with an owner who said nothing."""
    if layer not in LAYERS:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{quoted(layer)} is no layer.", fields={"layer": ", ".join(LAYERS[1:])}
        )
    return compile_policy(text) if layer == OWNER else compile_policy(NOBODY, {layer: text})


def _check_layer(layer: str, session: str) -> None:
    wrong = {}
    if layer not in ("", OWNER, "agent", "session"):
        wrong["layer"] = "must be owner, agent or session; layers above the owner are set for a scope"
    if (layer == "session") != bool(session):
        wrong["session"] = "must be given for the session layer, and for no other"
    if len(session) > _MAX_SESSION:
        wrong["session"] = f"must have at most {_MAX_SESSION} characters"
    if wrong:
        name, why = next(iter(wrong.items()))
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The field {name} {why}.", fields=wrong)


def _decision(policy: CompiledPolicy, decided: Decided) -> pb.Decision:
    return pb.Decision(
        outcome=_OUTCOMES[decided.evaluation.outcome],
        policy_hash=policy.policy_hash,
        schema_hash=policy.schema_hash,
        engine=policy.engine,
        request_json=decided.request,
        entities_json=decided.entities,
        rules=decided.evaluation.rules,
        obligations=decided.evaluation.obligations,
        layer=decided.evaluation.layer,
        words=explain(policy, decided),
    )


def _version(version: StoredVersion) -> pb.PolicyVersion:
    return pb.PolicyVersion(
        policy_hash=version.policy_hash,
        schema_hash=version.schema_hash,
        yaml=version.source,
        layers=[
            pb.PolicyLayer(
                name=layer.name,
                grant=layer.grant,
                ask=layer.ask,
                unmatched=_OUTCOMES[layer.unmatched],
                advise=layer.advise,
                yaml=version.others.get(layer.name, ""),
            )
            for layer in version.layers
        ],
        schema=version.schema,
        engine=version.engine,
        time_zone=version.time_zone,
        activated_at_ms=version.activated_ms,
    )
