"""`indai.v1.PolicyService`: an owner's rules in, decisions with their reasons out."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import asyncpg
import grpc
from indai.client.decisions import Outcome
from indai.policy.compiled import OWNER, CompiledPolicy, Decided, compile_policy, decide_many
from indai.policy.explain import explain, sentence
from indai.policy.facts import MeetFacts
from indai.policy.store import StoredVersion, activate, active_hash, read_version
from indai.policy.values import MINUTES_PER_DAY
from indai.policy.windows import WindowFacts, allowed_windows
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.protocol.quoting import quoted
from indai.v1 import policy_pb2 as pb
from indai.v1 import policy_pb2_grpc

MAX_FACTS = 64
LEASE_S = 1.0
_MARGIN_S = 0.05
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
        # By (owner, hash), least recently used first. A hash names its content, so nothing here grows stale.
        self._compiled: OrderedDict[tuple[str, bytes], CompiledPolicy] = OrderedDict()
        # By owner: the active version's hash, and until when (loop time, s) it counts without a look.
        self._leases: dict[str, tuple[bytes, float]] = {}

    async def SetPolicy(
        self,
        request: pb.SetPolicyRequest,
        context: grpc.aio.ServicerContext[pb.SetPolicyRequest, pb.SetPolicyResponse],
    ) -> pb.SetPolicyResponse:
        """Compile, store, activate."""
        owner = _handle(request.owner, "owner")
        policy = await asyncio.to_thread(compile_policy, request.yaml)
        replaced = await active_hash(self._pool, owner)
        changed = await activate(self._pool, owner, policy, self._clock())
        self._leases.pop(owner, None)
        self._keep(owner, policy)
        if changed and replaced is not None:
            # Other replicas may decide under the version before until their lease ends.
            await asyncio.sleep(LEASE_S + _MARGIN_S)
        return pb.SetPolicyResponse(
            version=_version(await self._read(owner, policy.policy_hash)), changed=changed
        )

    async def CheckPolicy(
        self,
        request: pb.CheckPolicyRequest,
        context: grpc.aio.ServicerContext[pb.CheckPolicyRequest, pb.CheckPolicyResponse],
    ) -> pb.CheckPolicyResponse:
        """Every problem, or the rules in words."""
        try:
            policy = await asyncio.to_thread(compile_policy, request.yaml)
        except InvalidInput as error:
            fields = error.fields or {"yaml": str(error)}
            problems = [pb.PolicyProblem(field=path, description=text) for path, text in fields.items()]
            return pb.CheckPolicyResponse(problems=problems)
        return pb.CheckPolicyResponse(rules=[sentence(rule) for rule in policy.rules[OWNER].rules])

    async def GetPolicy(
        self,
        request: pb.GetPolicyRequest,
        context: grpc.aio.ServicerContext[pb.GetPolicyRequest, pb.GetPolicyResponse],
    ) -> pb.GetPolicyResponse:
        """The active version, or the one with the hash."""
        version = await self._read(_handle(request.owner, "owner"), request.policy_hash)
        return pb.GetPolicyResponse(version=_version(version))

    async def Decide(
        self,
        request: pb.DecideRequest,
        context: grpc.aio.ServicerContext[pb.DecideRequest, pb.DecideResponse],
    ) -> pb.DecideResponse:
        """One decision for each of the facts, under the version active now."""
        owner = _handle(request.owner, "owner")
        if len(request.facts) > MAX_FACTS:
            raise InvalidInput(Reason.TOO_LARGE, f"At most {MAX_FACTS} facts are decided in one call.")
        facts = [_facts(one, f"facts[{place}]") for place, one in enumerate(request.facts)]
        policy = await self._active(owner)
        return pb.DecideResponse(
            decisions=[_decision(policy, decided) for decided in decide_many(policy, owner, facts)]
        )

    async def ListAllowedWindows(
        self,
        request: pb.ListAllowedWindowsRequest,
        context: grpc.aio.ServicerContext[pb.ListAllowedWindowsRequest, pb.ListAllowedWindowsResponse],
    ) -> pb.ListAllowedWindowsResponse:
        """Spans for proposals."""
        owner = _handle(request.owner, "owner")
        if not 0 < request.duration_minutes <= MINUTES_PER_DAY:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A meeting takes 1 to 1440 minutes.",
                fields={"duration_minutes": "must be 1 to 1440"},
            )
        facts = WindowFacts(
            peer=_handle(request.peer, "peer") if request.peer else "",
            duration_ms=request.duration_minutes * _MINUTE_MS,
            start_ms=request.start_ms,
            end_ms=request.end_ms,
            now_ms=request.now_ms,
            verified=request.verified,
            agreed_ms=request.agreed_start_ms,
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

    async def _active(self, owner: str) -> CompiledPolicy:
        found = await self._active_hash(owner)
        if found is not None and (cached := self._compiled.get((owner, found))):
            self._compiled.move_to_end((owner, found))
            return cached
        version = await self._read(owner, b"")
        policy = await asyncio.to_thread(compile_policy, version.source)
        if policy.policy_hash != version.policy_hash:
            # The program compiles these rules differently since an upgrade: that is a version of its own.
            await activate(self._pool, owner, policy, self._clock())
        self._keep(owner, policy)
        return policy

    async def _active_hash(self, owner: str) -> bytes | None:
        """What the table said at most `LEASE_S` ago: who changes it waits that long before they say so."""
        now = asyncio.get_running_loop().time()
        known = self._leases.get(owner)
        if known is not None and now < known[1]:
            return known[0]
        found = await active_hash(self._pool, owner)
        if found is not None:
            if len(self._leases) >= _MAX_CACHED:
                self._leases.clear()
            self._leases[owner] = found, now + LEASE_S
        return found

    async def _read(self, owner: str, policy_hash: bytes) -> StoredVersion:
        version = await read_version(self._pool, owner, policy_hash)
        if version is None:
            which = "such version of a policy" if policy_hash else "policy"
            raise NotFound(
                Reason.NOT_FOUND, f"{quoted(owner)} has no {which}.", hint="activate one with SetPolicy"
            )
        return version

    def _keep(self, owner: str, policy: CompiledPolicy) -> None:
        self._compiled[owner, policy.policy_hash] = policy
        self._compiled.move_to_end((owner, policy.policy_hash))
        if len(self._compiled) > _MAX_CACHED:
            self._compiled.popitem(last=False)


def _handle(text: str, field: str) -> str:
    try:
        return str(Handle.parse(text))
    except InvalidInput as error:
        error.fields = {field: error.message}
        raise


def _facts(facts: pb.Facts, path: str) -> MeetFacts:
    if facts.WhichOneof("intent") != "meet":
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "The facts name no intent.", fields={f"{path}.intent": "must be meet"}
        )
    return MeetFacts(
        peer=_handle(facts.peer, f"{path}.peer") if facts.peer else "",
        start_ms=facts.meet.start_ms,
        end_ms=facts.meet.end_ms,
        now_ms=facts.now_ms,
        verified=facts.verified,
        already_that_day=facts.meet.already_that_day,
        channel=facts.channel,
        outgoing=facts.outgoing,
    )


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
        words=explain(policy, decided),
    )


def _version(version: StoredVersion) -> pb.PolicyVersion:
    return pb.PolicyVersion(
        policy_hash=version.policy_hash,
        schema_hash=version.schema_hash,
        yaml=version.source,
        layers=[
            pb.PolicyLayer(
                name=layer.name, grant=layer.grant, ask=layer.ask, unmatched=_OUTCOMES[layer.unmatched]
            )
            for layer in version.layers
        ],
        schema=version.schema,
        engine=version.engine,
        time_zone=version.time_zone,
        activated_at_ms=version.activated_ms,
    )
