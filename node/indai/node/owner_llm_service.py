"""`LlmService` at the owner's port: the gateway's own, with the scope that the caller's token gives.

An owner's calls are of the tenant `personal` and of nobody else's budget; the operator may name any scope.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from indai.node import auth
from indai.protocol.errors import Reason, Refused
from indai.v1 import llm_pb2 as pb
from indai.v1 import llm_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub

PERSONAL: Final = "personal"

R = TypeVar(
    "R",
    pb.GenerateRequest,
    pb.StopGenerationRequest,
    pb.EmbedRequest,
    pb.ListCallsRequest,
    pb.ListCostsRequest,
    pb.ListTierTokensRequest,
    pb.ListSpendingLimitsRequest,
    pb.ListNoticesRequest,
)


def owner_scope(owner: str, session: str = "") -> pb.LlmScope:
    """What an owner does for themselves."""
    return pb.LlmScope(tenant=PERSONAL, owner=owner, session=session)


class OwnerLlm(llm_pb2_grpc.LlmServiceServicer):
    """See the module. Each method is the gateway's of the same name."""

    def __init__(self, gateway: LlmServiceAsyncStub) -> None:
        self._gateway = gateway

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> AsyncIterator[pb.GenerateResponse]:
        """See the contract."""
        limit = context.time_remaining()
        stream: Any = self._gateway.Generate(_own(request, context), timeout=limit)
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                yield event

    async def StopGeneration(
        self, request: pb.StopGenerationRequest, context: Any
    ) -> pb.StopGenerationResponse:
        """See the contract."""
        return await self._gateway.StopGeneration(_own(request, context))

    async def Embed(self, request: pb.EmbedRequest, context: Any) -> pb.EmbedResponse:
        """See the contract."""
        return await self._gateway.Embed(_own(request, context), timeout=context.time_remaining())

    async def ListModels(self, request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:
        """See the contract."""
        return await self._gateway.ListModels(request)

    async def ListCalls(self, request: pb.ListCallsRequest, context: Any) -> pb.ListCallsResponse:
        """See the contract."""
        return await self._gateway.ListCalls(_own(request, context))

    async def ListCosts(self, request: pb.ListCostsRequest, context: Any) -> pb.ListCostsResponse:
        """See the contract."""
        return await self._gateway.ListCosts(_own(request, context))

    async def ListTierTokens(
        self, request: pb.ListTierTokensRequest, context: Any
    ) -> pb.ListTierTokensResponse:
        """See the contract."""
        return await self._gateway.ListTierTokens(_own(request, context))

    async def SetSpendingLimit(
        self, request: pb.SetSpendingLimitRequest, context: Any
    ) -> pb.SetSpendingLimitResponse:
        """See the contract."""
        if not auth.caller(context).operator:
            raise Refused(
                Reason.PERMISSION_DENIED,
                "Limits are set by the operator.",
                hint="run this where the node's data directory is",
            )
        return await self._gateway.SetSpendingLimit(request)

    async def ListSpendingLimits(
        self, request: pb.ListSpendingLimitsRequest, context: Any
    ) -> pb.ListSpendingLimitsResponse:
        """See the contract."""
        return await self._gateway.ListSpendingLimits(_own(request, context))

    async def ListNotices(self, request: pb.ListNoticesRequest, context: Any) -> pb.ListNoticesResponse:
        """See the contract."""
        return await self._gateway.ListNotices(_own(request, context))


def _own(request: R, context: Any) -> R:
    """The request with the caller's scope; the operator's stays as it is."""
    caller = auth.caller(context)
    if not caller.operator:
        request.scope.CopyFrom(owner_scope(caller.owner, request.scope.session))
    return request
