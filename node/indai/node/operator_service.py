"""What the node's operator does: agents, their keys, the node's own state, its whole export.

The whole export opens what owners agreed, so it is made on the node's machine alone: the operator's token is
asked for, and somebody with a session in a browser is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from indai.client.resolver import Resolver
from indai.node.agents import Agents
from indai.node.auth import caller
from indai.node.exporting import Exporter
from indai.node.ledger_key import LedgerKey
from indai.node.policies import Policies
from indai.protocol.errors import NotFound, Reason, Refused, Unavailable
from indai.protocol.keys import SigningKey
from indai.v1 import owner_pb2, owner_pb2_grpc, registry_pb2

# What an agent may do until its owner says otherwise: nothing alone.
CAUTIOUS = """\
version: 1
timezone: UTC
rules:
  - id: ask-me
    say: "Ask me about every meeting"
    ask: meet
    with: anyone
"""


class OperatorServicer(owner_pb2_grpc.OperatorServiceServicer):
    """OperatorService."""

    def __init__(
        self,
        key: LedgerKey,
        resolver: Resolver,
        agents: Agents,
        policies: Policies,
        exporter: Exporter,
        clock: Callable[[], int],
        waiting: Callable[[], int],
    ) -> None:
        self._key = key
        self._resolver = resolver
        self._agents = agents
        self._policies = policies
        self._exporter = exporter
        self._clock = clock
        self._waiting = waiting

    async def CreateAgent(
        self, request: owner_pb2.CreateAgentRequest, context: Any
    ) -> owner_pb2.CreateAgentResponse:
        """An agent with its first key and its owner's token.

        The agent's own transaction comes last: whatever fails before it, the same call can be made again.
        """
        await self._check_heir(request.handle)
        yaml = request.policy_yaml or CAUTIOUS
        await self._policies.check(yaml)
        new = await self._agents.plan(request.handle, request.calendar_path)
        stored = await self._policies.store(new.agent.owner, yaml)
        await self._agents.create(new, stored.version.time_zone)
        return owner_pb2.CreateAgentResponse(
            agent_key=self._named(new.key), node=self._key.handle, token=new.token
        )

    async def CreateAgentKey(
        self, request: owner_pb2.CreateAgentKeyRequest, context: Any
    ) -> owner_pb2.CreateAgentKeyResponse:
        """One more key; not for who took over the handle of an owner who lived here."""
        await self._check_heir(request.handle)
        key = await self._agents.add_key(request.handle)
        return owner_pb2.CreateAgentKeyResponse(agent_key=self._named(key))

    async def SetPolicyScope(
        self, request: owner_pb2.SetPolicyScopeRequest, context: Any
    ) -> owner_pb2.SetPolicyScopeResponse:
        """Rules above the owners of a scope."""
        changed = await self._policies.set_scope(request.scope, request.yaml)
        return owner_pb2.SetPolicyScopeResponse(changed=changed)

    async def SyncRegistry(
        self, request: owner_pb2.SyncRegistryRequest, context: Any
    ) -> owner_pb2.SyncRegistryResponse:
        """Read the registry's log now."""
        head = await self._resolver.tail()
        return owner_pb2.SyncRegistryResponse(registry_size=head.size)

    async def GetNode(self, request: owner_pb2.GetNodeRequest, context: Any) -> owner_pb2.GetNodeResponse:
        """Who this node is, and how it is."""
        return owner_pb2.GetNodeResponse(
            handle=self._key.handle,
            record=self._key.record,
            agents=sorted(self._agents),
            outbox=self._waiting(),
        )

    async def ExportNode(
        self, request: owner_pb2.ExportNodeRequest, context: Any
    ) -> AsyncIterator[owner_pb2.ExportNodeResponse]:
        """The whole ledger, with the threads. Raises Refused for a session in a browser."""
        _check_token(context, "The whole ledger leaves only by the operator's token.")
        async for lines in self._exporter.lines("", request.ledger):
            yield owner_pb2.ExportNodeResponse(lines=lines)

    async def CheckLedger(
        self, request: owner_pb2.OperatorServiceCheckLedgerRequest, context: Any
    ) -> AsyncIterator[owner_pb2.OperatorServiceCheckLedgerResponse]:
        """The live ledger against itself."""
        async for response in self._exporter.check(request.ledger):
            yield owner_pb2.OperatorServiceCheckLedgerResponse(check=response)

    async def PrepareLedgerKey(
        self, request: owner_pb2.OperatorServicePrepareLedgerKeyRequest, context: Any
    ) -> owner_pb2.OperatorServicePrepareLedgerKeyResponse:
        """The ledger's next key. Raises Refused for a session in a browser."""
        _check_token(context, "The ledger's key is changed only by the operator's token.")
        return await self._key.prepare()

    async def FollowLedgerKey(
        self, request: owner_pb2.FollowLedgerKeyRequest, context: Any
    ) -> owner_pb2.FollowLedgerKeyResponse:
        """The key that the node's record names signs now. Raises Refused for a session in a browser."""
        _check_token(context, "The ledger's key is changed only by the operator's token.")
        await self._resolver.tail()
        return owner_pb2.FollowLedgerKeyResponse(vkey=await self._key.follow())

    async def _check_heir(self, handle: str) -> None:
        try:
            # Not through the resolver's memory: an absence would be remembered beyond the claim that follows.
            subjects, _ = await self._resolver.history(handle)
            await self._agents.check_heir(handle, subjects[-1])
        except NotFound:
            return  # not claimed yet
        except Unavailable:
            return  # what can't be asked now is judged by the record when the key is to sign

    def _named(self, key: SigningKey) -> registry_pb2.AgentKey:
        return registry_pb2.AgentKey(
            key_id=key.key_id, public_key=key.public_key, valid_from_ms=self._clock()
        )


def _check_token(context: Any, words: str) -> None:
    """Raise Refused for who is signed in at a desk."""
    if caller(context).session is not None:
        raise Refused(Reason.PERMISSION_DENIED, words, hint="run this where the node's data directory is")
