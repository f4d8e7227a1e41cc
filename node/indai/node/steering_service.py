"""`SteeringService`: rules tried out before they are set, the handle as the registry proves it, drills."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from indai.client.introduction import Occasion, checked_page, introduce
from indai.client.resolver import Resolver
from indai.node.agents import Agents
from indai.node.approvals import Approvals
from indai.node.auth import caller
from indai.node.engine import Engine
from indai.node.kinds.served import INTENTS
from indai.node.kinds.words import amount
from indai.node.manners import Manners
from indai.node.paging import MAX_NUMBER, after, next_token, page_size
from indai.node.policies import Policies
from indai.node.questions import Change, Changeable, changeable, instead_of
from indai.node.store import Store
from indai.node.views import Row, milliseconds, timestamp
from indai.policy.compiled import OWNER, compile_policy
from indai.policy.simulate import Replayed, Simulation, simulate
from indai.protocol import drill
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.handles import Handle
from indai.protocol.handlestate import AgentKey, Delegation
from indai.protocol.keys import key_id
from indai.v1 import desk_pb2 as pb
from indai.v1 import desk_pb2_grpc, policy_pb2
from indai.web.chat_sites import ChatSites

MAX_DECISIONS: Final = 2_000
MAX_SHOWN: Final = 50
MAX_CHALLENGE: Final = 200
_LATELY = """
SELECT m.mid, m.thread, m.stored_ms, m.decision, EXISTS (
  SELECT FROM node.approvals a WHERE a.owner = m.owner AND a.thread = m.thread AND a.state = 'approved'
) AS approved
FROM node.messages m WHERE m.owner = $1 AND m.decision IS NOT NULL AND m.stored_ms >= $2
ORDER BY m.stored_ms DESC LIMIT $3
"""
_PEERS = """
SELECT peer, threads, agreed, first_ms, last_ms FROM node.peers
WHERE owner = $1 AND (last_ms, peer) < ($2, $3) ORDER BY last_ms DESC, peer DESC LIMIT $4
"""
_OUTCOMES: Final = {
    "permit": policy_pb2.OUTCOME_PERMIT,
    "refuse": policy_pb2.OUTCOME_REFUSE,
    "ask": policy_pb2.OUTCOME_ASK,
}


class SteeringServicer(desk_pb2_grpc.SteeringServiceServicer):
    """See the module. All of it is the caller's own."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        engine: Engine,
        policies: Policies,
        resolver: Resolver,
        clock: Callable[[], int],
        manners: Manners,
        sites: ChatSites,
    ) -> None:
        self._store, self._agents, self._policies = store, agents, policies
        self._resolver, self._clock, self._engine = resolver, clock, engine
        self._approvals, self._manners = Approvals(store, clock), manners
        self._sites = sites

    async def PreviewPolicy(self, request: pb.PreviewPolicyRequest, context: Any) -> pb.PreviewPolicyResponse:
        """Check, put into words, and take the decisions of the last weeks again."""
        owner = caller(context).owner
        checked = await self._policies.preview(request.yaml)
        if checked.problems:
            return pb.PreviewPolicyResponse(problems=checked.problems)
        active = await self._policies.active(owner)
        others = {one.name: one.yaml for one in active.version.layers if one.yaml and one.name != OWNER}
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(_LATELY, owner, milliseconds(request.since_time), MAX_DECISIONS)
        records = [
            policy_pb2.DecisionRecord(
                owner=owner,
                mid=row["mid"],
                decided_at_ms=row["stored_ms"],
                decision=policy_pb2.Decision.FromString(row["decision"]),
                approved_by_owner=row["approved"],
            )
            for row in rows
        ]
        threads = {row["mid"]: row["thread"].hex() for row in rows}
        # 0.1 ms a decision: beside the loop.
        again = await asyncio.to_thread(_simulated, request.yaml, others, records)
        return pb.PreviewPolicyResponse(
            rules=checked.rules,
            warnings=checked.warnings,
            decisions=len(again.decisions),
            changed=len(again.changed),
            differences=[_difference(one, threads[one.mid]) for one in again.changed[:MAX_SHOWN]],
        )

    async def GetOwnHandle(self, request: pb.GetOwnHandleRequest, context: Any) -> pb.GetOwnHandleResponse:
        """As the registry proves it now."""
        agent = self._agents.get(caller(context).owner)
        found = await self._resolver.resolve(agent.owner)
        keys = sorted(found.state.agent_keys, key=lambda key: -key.valid_from_ms)
        return pb.GetOwnHandleResponse(
            handle=found.handle,
            subject_id=found.subject_id,
            node=found.state.node,
            keys=[_key(key, here=key.key_id in agent.keys) for key in keys],
            rotation_key_ids=[key_id(key) for key in found.state.rotation_keys],
            sub_agents=[_sub_agent(one) for one in found.state.delegations],
            registry_size=found.head.size,
        )

    async def ListChatSites(self, request: pb.ListChatSitesRequest, context: Any) -> pb.ListChatSitesResponse:
        """As the owner has named them."""
        return pb.ListChatSitesResponse(sites=await self._sites.of(caller(context).owner))

    async def SetChatSites(self, request: pb.SetChatSitesRequest, context: Any) -> pb.SetChatSitesResponse:
        """All of them at once."""
        owner = caller(context).owner
        return pb.SetChatSitesResponse(sites=await self._sites.choose(owner, request.sites))

    async def Introduce(self, request: pb.IntroduceRequest, context: Any) -> pb.IntroduceResponse:
        """By a key of the owner's that the registry shows as valid now."""
        agent = self._agents.get(caller(context).owner)
        page, to = checked_page(request.page), str(Handle.parse(request.to))
        if not 16 <= len(request.challenge) <= MAX_CHALLENGE:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "The page's challenge cannot be used.")
        found, now_ms = await self._resolver.resolve(agent.owner), self._clock()
        key = agent.signing_key(found, now_ms, INTENTS[0])
        occasion = Occasion(page, to, request.challenge)
        said = introduce(key, found.handle, found.subject_id, occasion, now_ms)
        return pb.IntroduceResponse(introduction=said)

    async def GetManner(self, request: pb.GetMannerRequest, context: Any) -> pb.GetMannerResponse:
        """As the owner chose it."""
        tone = await self._manners.get(caller(context).owner)
        return pb.GetMannerResponse(tone=pb.Tone.ValueType(tone))

    async def SetManner(self, request: pb.SetMannerRequest, context: Any) -> pb.SetMannerResponse:
        """From the next answer on."""
        await self._manners.set(caller(context).owner, request.tone)
        return pb.SetMannerResponse()

    async def GetQuestion(self, request: pb.GetQuestionRequest, context: Any) -> pb.GetQuestionResponse:
        """What waits, and what of it may be put otherwise."""
        owner = caller(context).owner
        thread, action_hash = await self._approvals.find(owner, request.code)
        approval = await self._approvals.get(owner, action_hash)
        state = await self._engine.state(owner, thread)
        found = changeable(state.side) if state else Changeable()
        return pb.GetQuestionResponse(
            approval=approval,
            amount_minor=found.amount_minor,
            currency=found.currency,
            changes_time=found.time,
            changes_amount=found.amount,
        )

    async def CounterApproval(
        self, request: pb.CounterApprovalRequest, context: Any
    ) -> pb.CounterApprovalResponse:
        """Something else than what was asked, on the same thread."""
        owner = caller(context).owner
        thread, action_hash = await self._approvals.find(owner, request.code)
        state = await self._engine.state(owner, thread)
        if state is None:
            raise Refused(Reason.THREAD_CLOSED, "The question is no longer open.", hint="indai inbox")
        change = Change(
            milliseconds(request.start_time),
            milliseconds(request.end_time),
            request.duration_minutes,
            request.amount_minor if request.HasField("amount_minor") else None,
        )
        instead = instead_of(state.side, change)
        await self._engine.counter(owner, thread, action_hash, instead)
        return pb.CounterApprovalResponse(thread_id=thread.hex())

    async def ListPeers(self, request: pb.ListPeersRequest, context: Any) -> pb.ListPeersResponse:
        """With whom the owner's threads are, one row for each."""
        owner, size = caller(context).owner, page_size(request.page_size, 50)
        before, last = after(request.page_token, (MAX_NUMBER, ""))
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(_PEERS, owner, before, _text(last), size + 1)
        token = next_token(rows, size, lambda row: (row["last_ms"], row["peer"].encode().hex()))
        return pb.ListPeersResponse(peers=map(_peer, rows[:size]), next_page_token=token)

    async def CheckDrill(self, request: pb.CheckDrillRequest, context: Any) -> pb.CheckDrillResponse:
        """Whose signature it is."""
        agent = self._agents.get(caller(context).owner)
        found = await self._resolver.resolve(agent.owner)
        signer, rank = drill.who_signed(
            found.state.rotation_keys, found.handle, request.challenge, request.signature
        )
        return pb.CheckDrillResponse(key_id=signer, rank=rank)


def _simulated(yaml: str, others: dict[str, str], records: Sequence[policy_pb2.DecisionRecord]) -> Simulation:
    return simulate(compile_policy(yaml, others), records)


def _difference(one: Replayed, thread: str) -> pb.PolicyDifference:
    return pb.PolicyDifference(
        thread_id=thread,
        time=timestamp(one.decided_at_ms),
        peer=one.facts.peer,
        kind=one.facts.kind,
        before=_OUTCOMES[one.before.value],
        after=_OUTCOMES[one.after.evaluation.outcome.value],
        approved=one.approved,
        words=one.words,
    )


def _text(digits: str) -> str:
    """What a page token says of a handle; a token that somebody made up is nobody's handle."""
    return bytes.fromhex(digits).decode("utf-8", "replace").replace("\x00", "")


def _peer(row: Row) -> pb.Peer:
    return pb.Peer(
        handle=row["peer"],
        threads=row["threads"],
        agreed=row["agreed"],
        first_time=timestamp(row["first_ms"]),
        last_time=timestamp(row["last_ms"]),
    )


def _key(key: AgentKey, *, here: bool) -> pb.HandleKey:
    return pb.HandleKey(
        key_id=key.key_id,
        valid_from_time=timestamp(key.valid_from_ms),
        valid_until_time=timestamp(key.valid_until_ms or None),
        revoke_time=timestamp(key.revoked_at_ms or None),
        here=here,
    )


def _sub_agent(one: Delegation) -> pb.SubAgent:
    return pb.SubAgent(
        handle=one.handle,
        kinds=one.kinds,
        valid_from_time=timestamp(one.valid_from_ms),
        valid_until_time=timestamp(one.valid_until_ms),
        budgets=[amount(minor, currency) for currency, minor in one.budgets],
        depth=one.depth,
    )
