"""Owners' policies as the node uses them: activation, and the ledger leaf that pins each version.

A version's leaf (kind 4) stands in the ledger before the first decision taken under it, so that an auditor
finds what the decision was taken with. It is recorded here on activation, and again (which changes nothing)
when a restarted node first decides under it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indai.ledger.entries import prepare_policy
from indai.ledger.vault import Vault
from indai.node.agents import Agents
from indai.node.clock import DatabaseClock
from indai.node.draft import ledger_rows
from indai.node.store import Store
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason
from indai.protocol.operations import Chain
from indai.v1 import policy_pb2

if TYPE_CHECKING:
    from indai.v1.policy_pb2_grpc import PolicyServiceAsyncStub

TIMEOUT_S = 10.0


class Policies:
    """The policy service, and what of it the ledger must know."""

    def __init__(
        self,
        stub: PolicyServiceAsyncStub,
        store: Store,
        agents: Agents,
        clock: DatabaseClock,
        epoch: int,
        vault: Vault,
    ) -> None:
        self._stub = stub
        self._vault = vault
        self._store = store
        self._agents = agents
        self._clock = clock
        self._epoch = epoch
        self._recorded: set[tuple[str, bytes]] = set()

    async def activate(
        self, owner: str, yaml: str, layer: str = "", session: str = ""
    ) -> policy_pb2.SetPolicyResponse:
        """Activate an owner's rules, or a layer below them; their time zone becomes the owner's."""
        answer = await self.store(owner, yaml, layer, session)
        await self._agents.set_zone(owner, answer.version.time_zone)
        return answer

    async def store(
        self, owner: str, yaml: str, layer: str = "", session: str = ""
    ) -> policy_pb2.SetPolicyResponse:
        """Compile and store rules, also for an owner who is not here yet; the ledger has their version."""
        request = policy_pb2.SetPolicyRequest(owner=owner, yaml=yaml, layer=layer, session=session)
        answer = await self._stub.SetPolicy(request, timeout=TIMEOUT_S)
        await self._record(owner, answer.version)
        return answer

    async def active(self, owner: str, session: str = "") -> policy_pb2.GetPolicyResponse:
        """All layers that decide now, and their rules in words."""
        request = policy_pb2.GetPolicyRequest(owner=owner, session=session)
        return await self._stub.GetPolicy(request, timeout=TIMEOUT_S)

    async def set_scope(self, scope: str, yaml: str) -> bool:
        """Set the rules above all owners of a scope; each one's next decision brings its version here."""
        request = policy_pb2.SetScopeRequest(scope=scope, yaml=yaml)
        return (await self._stub.SetScope(request, timeout=TIMEOUT_S)).changed

    async def preview(self, yaml: str) -> policy_pb2.CheckPolicyResponse:
        """What an owner's rules mean, or what is wrong with them."""
        return await self._stub.CheckPolicy(policy_pb2.CheckPolicyRequest(yaml=yaml), timeout=TIMEOUT_S)

    async def check(self, yaml: str) -> None:
        """Raise InvalidInput for rules that can't be compiled."""
        answer = await self.preview(yaml)
        if answer.problems:
            problems = {problem.field: problem.description for problem in answer.problems}
            raise InvalidInput(Reason.INVALID_POLICY, "The policy can't be used.", fields=problems)

    async def decide(self, request: policy_pb2.DecideRequest) -> policy_pb2.DecideResponse:
        """Decisions, each under a version that the ledger has."""
        response = await self._stub.Decide(request, timeout=TIMEOUT_S)
        for policy_hash in {decision.policy_hash for decision in response.decisions}:
            if (request.owner, policy_hash) not in self._recorded:
                active = await self._stub.GetPolicy(
                    policy_pb2.GetPolicyRequest(owner=request.owner, policy_hash=policy_hash),
                    timeout=TIMEOUT_S,
                )
                await self._record(request.owner, active.version)
        return response

    async def check_hands(self, owner: str, peer: Chain) -> None:
        """The owner's rules name handles: they say nothing of another subject that took one over since.

        Raises ProtocolError(PIN_MISMATCH) until the owner activates other rules.
        """
        if not peer.before:
            return
        try:
            request = policy_pb2.GetPolicyRequest(owner=owner)
            active = (await self._stub.GetPolicy(request, timeout=TIMEOUT_S)).version
        except NotFound:
            return  # without rules there is no circle to be in
        if peer.history[0].time_ms >= active.activated_at_ms:
            raise ProtocolError(
                Reason.PIN_MISMATCH,
                f"The handle {peer.handle} went to somebody else after the owner's rules were set.",
                hint="if they are meant too, say so in new rules: indai policy set",
                rule="REG-39",
            )

    async def windows(
        self, request: policy_pb2.ListAllowedWindowsRequest
    ) -> policy_pb2.ListAllowedWindowsResponse:
        """Spans in which a meeting may lie."""
        return await self._stub.ListAllowedWindows(request, timeout=TIMEOUT_S)

    async def _record(self, owner: str, version: policy_pb2.PolicyVersion) -> None:
        key = (owner, version.policy_hash)
        if key in self._recorded:
            return
        entry = prepare_policy(policy_pb2.PolicyActivation(owner=owner, version=version), self._clock())
        await self._store.apply([owner], {"ledger": ledger_rows([entry], self._vault)}, self._epoch, None)
        self._recorded.add(key)
