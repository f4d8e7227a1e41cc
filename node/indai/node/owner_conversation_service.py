"""`ConversationService` at the owner's port: the caller's token says who writes, whatever the request says.

An owner talks as themselves, sees their own sessions and those that others have with their agent, and may
take the latter over. The operator of the node sees and takes those of tenants, as at their desks, and none
that people have with their own agents.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from indai.node import auth
from indai.protocol.errors import Reason, Refused
from indai.runtime.conversations.outbound import Outbound
from indai.runtime.conversations.people import People
from indai.runtime.conversations.reading import TENANTS, Reading, Sight
from indai.runtime.conversations.values import HANDLE, read_id
from indai.v1 import conversation_pb2 as pb
from indai.v1 import conversation_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

CHANNEL: Final = "cli"


class OwnerConversations(conversation_pb2_grpc.ConversationServiceServicer):
    """See the module. `inner` is the cell's own service."""

    def __init__(
        self,
        inner: ConversationServiceAsyncStub,
        people: People,
        reading: Reading,
        outbound: Outbound,
    ) -> None:
        self._inner, self._people, self._reading, self._outbound = inner, people, reading, outbound

    async def SendMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.SendMessageResponse]:
        """See the contract."""
        owner = _owner(context)
        name = request.message.sender.display_name
        request.message.sender.CopyFrom(_self(owner, name))
        request.message.account = owner  # their ids are their own: nobody else's message is met by one
        async for response in self._inner.SendMessage(request, timeout=context.time_remaining()):
            yield response

    async def WatchTurn(
        self, request: pb.WatchTurnRequest, context: Any
    ) -> AsyncIterator[pb.WatchTurnResponse]:
        """See the contract."""
        request.sender.CopyFrom(_self(_owner(context)))
        async for response in self._inner.WatchTurn(request, timeout=context.time_remaining()):
            yield response

    async def StopTurn(self, request: pb.StopTurnRequest, context: Any) -> pb.StopTurnResponse:
        """See the contract."""
        request.sender.CopyFrom(_self(_owner(context)))
        return await self._inner.StopTurn(request)

    async def GetPublicProfile(
        self, request: pb.GetPublicProfileRequest, context: Any
    ) -> pb.GetPublicProfileResponse:
        """See the contract."""
        return await self._inner.GetPublicProfile(request)

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Any) -> pb.ListSessionsResponse:
        """See the contract. An owner who names no person sees all sessions with their agent; one who names
        themselves sees theirs, with whomever."""
        sight = await self._sight(request, context)
        return await self._reading.sessions(sight, request)

    async def ListSessionMessages(
        self, request: pb.ListSessionMessagesRequest, context: Any
    ) -> pb.ListSessionMessagesResponse:
        """See the contract."""
        sight = await self._sight(request, context)
        return await self._reading.messages(sight, read_id(request.session_id, "session"), request)

    async def GetTurn(self, request: pb.GetTurnRequest, context: Any) -> pb.GetTurnResponse:
        """See the contract."""
        return await self._reading.turn(_reach(auth.caller(context)), read_id(request.turn_id, "turn"))

    async def CreateLinkCode(
        self, request: pb.CreateLinkCodeRequest, context: Any
    ) -> pb.CreateLinkCodeResponse:
        """See the contract."""
        request.identity.CopyFrom(_self(_owner(context)))
        return await self._inner.CreateLinkCode(request)

    async def LinkIdentity(self, request: pb.LinkIdentityRequest, context: Any) -> pb.LinkIdentityResponse:
        """See the contract: only a channel says a code."""
        raise Refused(
            Reason.PERMISSION_DENIED,
            "A code is said on the channel that is to be linked.",
            hint="write there: link CODE",
        )

    async def AdoptSession(self, request: pb.AdoptSessionRequest, context: Any) -> pb.AdoptSessionResponse:
        """See the contract: only a page knows who came back to it."""
        raise Refused(Reason.PERMISSION_DENIED, "Only a page takes over what its visitor has said.")

    async def UnlinkIdentity(
        self, request: pb.UnlinkIdentityRequest, context: Any
    ) -> pb.UnlinkIdentityResponse:
        """See the contract: an owner parts what is theirs."""
        me = await self._people.find(_self(_owner(context)))
        theirs = await self._people.find(request.identity)
        if theirs.id != me.id:
            raise Refused(Reason.PERMISSION_DENIED, "This identity is not linked to you.")
        return await self._inner.UnlinkIdentity(request)

    async def TakeOverSession(
        self, request: pb.TakeOverSessionRequest, context: Any
    ) -> pb.TakeOverSessionResponse:
        """See the contract."""
        request.by = await self._hand(request.session_id, context)
        return await self._inner.TakeOverSession(request)

    async def HandBackSession(
        self, request: pb.HandBackSessionRequest, context: Any
    ) -> pb.HandBackSessionResponse:
        """See the contract."""
        request.by = await self._hand(request.session_id, context)
        return await self._inner.HandBackSession(request)

    async def SendAsHuman(self, request: pb.SendAsHumanRequest, context: Any) -> pb.SendAsHumanResponse:
        """See the contract."""
        request.by = await self._hand(request.session_id, context)
        return await self._inner.SendAsHuman(request)

    async def WatchOutbound(
        self, request: pb.WatchOutboundRequest, context: Any
    ) -> AsyncIterator[pb.WatchOutboundResponse]:
        """What the owner's agent tells the owner here; other channels are the edge's."""
        person = await self._me(_owner(context))
        async for message in self._outbound.watch([CHANNEL], person=person):
            yield pb.WatchOutboundResponse(message=message)

    async def AcknowledgeOutbound(
        self, request: pb.AcknowledgeOutboundRequest, context: Any
    ) -> pb.AcknowledgeOutboundResponse:
        """See the contract."""
        person = await self._me(_owner(context))
        await self._outbound.acknowledge(request, read_id(request.outbound_id, "message"), person)
        return pb.AcknowledgeOutboundResponse()

    async def _me(self, owner: str) -> UUID:
        return (await self._people.meet(_self(owner))).id

    async def _sight(
        self, request: pb.ListSessionsRequest | pb.ListSessionMessagesRequest, context: Any
    ) -> Sight:
        caller = auth.caller(context)
        if not caller.operator and request.HasField("person"):
            return Sight(person=await self._me(caller.owner))
        return _reach(caller)

    async def _hand(self, session_id: str, context: Any) -> str:
        """Who takes a session in hand; raises NotFound unless it is with their agent."""
        caller = auth.caller(context)
        await self._reading.session(_reach(caller), read_id(session_id, "session"))
        return "operator" if caller.operator else caller.owner


def _reach(caller: auth.Caller) -> Sight:
    """Sessions that are with the caller's agent; for the operator, with those of tenants."""
    return TENANTS if caller.operator else Sight(owners=[caller.owner])


def _self(owner: str, name: str = "") -> pb.Identity:
    return pb.Identity(channel=CHANNEL, kind=HANDLE, value=owner, verified=True, display_name=name[:100])


def _owner(context: Any) -> str:
    """The owner who calls. Raises Refused for the operator, who is nobody's agent's owner."""
    caller = auth.caller(context)
    if not caller.owner:
        raise Refused(
            Reason.PERMISSION_DENIED,
            "An operator has no agent of their own here.",
            hint="use an owner's token",
        )
    return caller.owner
