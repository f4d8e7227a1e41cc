"""`TenantDeskService`: each method asks where its caller stands, and then one of the parts beside this."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from indai.node.tenancy.access import COUNTERS, READERS, RUNNERS, WORKERS, Access
from indai.node.tenancy.board import Board
from indai.node.tenancy.figures import Figures
from indai.node.tenancy.talks import Talks
from indai.node.tenancy.usage import Usage
from indai.node.tenancy.watch import Watch
from indai.node.tenancy.work import Work
from indai.protocol.errors import Reason, Refused
from indai.runtime.bindings import Bindings
from indai.v1 import conversation_pb2 as talk
from indai.v1 import tenant_pb2 as pb
from indai.v1 import tenant_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub


@dataclass(frozen=True, slots=True)
class Parts:
    """What the desk is made of. `conversations`: of the cell, which asks nobody who they are."""

    access: Access
    talks: Talks
    figures: Figures
    watch: Watch
    usage: Usage
    work: Work
    board: Board
    conversations: ConversationServiceAsyncStub
    bindings: Bindings


class TenantDeskServicer(tenant_pb2_grpc.TenantDeskServiceServicer):
    """See the module, and the contract for each method."""

    def __init__(self, parts: Parts) -> None:
        self._access, self._talks, self._figures = parts.access, parts.talks, parts.figures
        self._watch, self._usage, self._work, self._board = parts.watch, parts.usage, parts.work, parts.board
        self._conversations, self._bindings = parts.conversations, parts.bindings

    async def ListDeskTenants(
        self, request: pb.ListDeskTenantsRequest, context: Any
    ) -> pb.ListDeskTenantsResponse:
        """See the contract."""
        return pb.ListDeskTenantsResponse(tenants=await self._access.tenants(context))

    async def GetDeskTenant(self, request: pb.GetDeskTenantRequest, context: Any) -> pb.GetDeskTenantResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        known = await self._bindings.tenant(post.tenant)
        return pb.GetDeskTenantResponse(
            tenant=post.tenant,
            name=known.name if known else post.tenant,
            time_zone=await self._bindings.zone(post.tenant),
            answer_minutes=await self._bindings.answer_minutes(post.tenant),
            language=(known.language if known else None) or "",
        )

    async def GetTenantFigures(
        self, request: pb.GetTenantFiguresRequest, context: Any
    ) -> pb.GetTenantFiguresResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        return await self._figures.of(post, request.days)

    async def WatchTenant(
        self, request: pb.WatchTenantRequest, context: Any
    ) -> AsyncIterator[pb.WatchTenantResponse]:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        async for waiting in self._watch.changes(post):
            yield pb.WatchTenantResponse(waiting=waiting)

    async def ListTenantConversations(
        self, request: pb.ListTenantConversationsRequest, context: Any
    ) -> pb.ListTenantConversationsResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        return await self._talks.listed(post, request)

    async def GetTenantConversation(
        self, request: pb.GetTenantConversationRequest, context: Any
    ) -> pb.GetTenantConversationResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        found = await self._talks.one(post, request)
        await self._access.note(post, "GetTenantConversation", request.session_id)
        return found

    async def TakeOverConversation(
        self, request: pb.TakeOverConversationRequest, context: Any
    ) -> pb.TakeOverConversationResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, WORKERS)
        await self._talks.find(post, request.session_id)
        await self._conversations.TakeOverSession(
            talk.TakeOverSessionRequest(session_id=request.session_id, by=post.name)
        )
        taken_by = await self._talks.taken_by(post, request.session_id)
        if taken_by != post.name:
            raise Refused(
                Reason.ILLEGAL_MOVE,
                f"{taken_by or 'Nobody'} has this conversation.",
                hint="ask them to hand it back first",
            )
        await self._access.note(post, "TakeOverConversation", request.session_id)
        return pb.TakeOverConversationResponse()

    async def HandBackConversation(
        self, request: pb.HandBackConversationRequest, context: Any
    ) -> pb.HandBackConversationResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, WORKERS)
        await self._talks.find(post, request.session_id)
        await self._conversations.HandBackSession(
            talk.HandBackSessionRequest(session_id=request.session_id, by=post.name)
        )
        await self._access.note(post, "HandBackConversation", request.session_id)
        return pb.HandBackConversationResponse()

    async def AnswerConversation(
        self, request: pb.AnswerConversationRequest, context: Any
    ) -> pb.AnswerConversationResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, WORKERS)
        await self._talks.find(post, request.session_id)
        await self._conversations.SendAsHuman(
            talk.SendAsHumanRequest(
                session_id=request.session_id,
                by=post.name,
                text=request.text,
                request_id=request.request_id,
            )
        )
        await self._access.note(post, "AnswerConversation", request.session_id)
        return pb.AnswerConversationResponse()

    async def ListGuardrailEvents(
        self, request: pb.ListGuardrailEventsRequest, context: Any
    ) -> pb.ListGuardrailEventsResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        return await self._talks.events(post, request)

    async def GetStageTimes(self, request: pb.GetStageTimesRequest, context: Any) -> pb.GetStageTimesResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, COUNTERS)
        return await self._figures.stages(post, request.days)

    async def ListTenantUsage(
        self, request: pb.ListTenantUsageRequest, context: Any
    ) -> pb.ListTenantUsageResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, COUNTERS)
        return await self._usage.of(post, request.days)

    async def ListTenantWork(
        self, request: pb.ListTenantWorkRequest, context: Any
    ) -> pb.ListTenantWorkResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, COUNTERS)
        return pb.ListTenantWorkResponse(jobs=await self._work.listed(post))

    async def ReplayTenantWork(
        self, request: pb.ReplayTenantWorkRequest, context: Any
    ) -> pb.ReplayTenantWorkResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, RUNNERS)
        await self._work.replay(post, request.source, request.job_id)
        await self._access.note(post, "ReplayTenantWork", f"{request.source} {request.job_id}")
        return pb.ReplayTenantWorkResponse()

    async def ListTenantChannels(
        self, request: pb.ListTenantChannelsRequest, context: Any
    ) -> pb.ListTenantChannelsResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, COUNTERS)
        return pb.ListTenantChannelsResponse(channels=await self._work.channels(post))

    async def ReplayTenantLetters(
        self, request: pb.ReplayTenantLettersRequest, context: Any
    ) -> pb.ReplayTenantLettersResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, RUNNERS)
        replayed = await self._work.replay_letters(post, request)
        await self._access.note(post, "ReplayTenantLetters", f"{request.channel}, {replayed} letters")
        return pb.ReplayTenantLettersResponse(replayed=replayed)

    async def ListBoard(self, request: pb.ListBoardRequest, context: Any) -> pb.ListBoardResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, READERS)
        return await self._board.listed(post, request)

    async def MoveRequest(self, request: pb.MoveRequestRequest, context: Any) -> pb.MoveRequestResponse:
        """See the contract."""
        post = await self._access.post(context, request.tenant, WORKERS)
        card = await self._board.move(post, request)
        await self._access.note(post, "MoveRequest", f"{request.office} {request.thread_id}")
        return pb.MoveRequestResponse(card=card)
