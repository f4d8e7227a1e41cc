"""MemoryService on the owner's port: an owner's own memory, by the owner's token.

Each call is the cell's own, with the tenant taken from the caller. The request may choose a door, which can
only
narrow what the private door shows, or be the administrator's of the owner's own tenant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from indai.node import auth
from indai.node.auth import caller
from indai.node.service import Service
from indai.protocol.errors import Reason, Refused
from indai.runtime.conversations.forgetting import Forgetting
from indai.runtime.conversations.values import Clock
from indai.v1 import memory_pb2 as pb
from indai.v1 import memory_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

# End users of a branded agent are spoken for by the node, never by who owns the agent.
DOORS = (pb.DOOR_PRIVATE, pb.DOOR_WORK, pb.DOOR_PUBLIC, pb.DOOR_AGENT, pb.DOOR_ADMIN)

Request = TypeVar("Request")


def owner_memory(
    memory: MemoryServiceAsyncStub | None, find: auth.FindOwner, pool: asyncpg.Pool, clock: Clock
) -> list[Service]:
    """Owners' memory at their port, where there is a memory role."""
    if memory is None:
        return []
    servicer = OwnerMemoryServicer(memory, Forgetting(pool, memory, clock))
    return [Service(memory_pb2_grpc.add_MemoryServiceServicer_to_server, servicer, auth.owners(find))]


class OwnerMemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Passes an owner's calls on. What the node alone may do (RecordCommitments) is not offered."""

    def __init__(self, memory: MemoryServiceAsyncStub, everywhere: Forgetting) -> None:
        self._memory, self._everywhere = memory, everywhere

    async def Remember(self, request: pb.RememberRequest, context: Any) -> pb.RememberResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.Remember(_own(request, context), timeout=context.time_remaining())

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.Recall(_own(request, context), timeout=context.time_remaining())

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Any) -> pb.ListTurnsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListTurns(_own(request, context), timeout=context.time_remaining())

    async def ListFacts(self, request: pb.ListFactsRequest, context: Any) -> pb.ListFactsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListFacts(_own(request, context), timeout=context.time_remaining())

    async def CorrectFact(self, request: pb.CorrectFactRequest, context: Any) -> pb.CorrectFactResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.CorrectFact(_own(request, context), timeout=context.time_remaining())

    async def Forget(self, request: pb.ForgetRequest, context: Any) -> pb.ForgetResponse:
        """In memory, and in what was said (`indai.runtime.conversations.forgetting`)."""
        if request.everything:
            raise Refused(
                Reason.PERMISSION_DENIED,
                "Everything is forgotten only with the owner themselves.",
                hint="indai handle forget HANDLE",
            )
        return await self._everywhere.forget(_own(request, context))

    async def Import(self, request: pb.ImportRequest, context: Any) -> pb.ImportResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.Import(_own(request, context), timeout=context.time_remaining())

    async def PutDocument(self, request: pb.PutDocumentRequest, context: Any) -> pb.PutDocumentResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.PutDocument(_own(request, context), timeout=context.time_remaining())

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListDocuments(_own(request, context), timeout=context.time_remaining())

    async def DeleteDocument(
        self, request: pb.DeleteDocumentRequest, context: Any
    ) -> pb.DeleteDocumentResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.DeleteDocument(_own(request, context), timeout=context.time_remaining())

    async def SearchDocuments(
        self, request: pb.SearchDocumentsRequest, context: Any
    ) -> pb.SearchDocumentsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.SearchDocuments(_own(request, context), timeout=context.time_remaining())

    async def GetWorkingMemory(
        self, request: pb.GetWorkingMemoryRequest, context: Any
    ) -> pb.GetWorkingMemoryResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.GetWorkingMemory(_own(request, context), timeout=context.time_remaining())

    async def SetWorkingMemory(
        self, request: pb.SetWorkingMemoryRequest, context: Any
    ) -> pb.SetWorkingMemoryResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.SetWorkingMemory(_own(request, context), timeout=context.time_remaining())

    async def PutOpinion(self, request: pb.PutOpinionRequest, context: Any) -> pb.PutOpinionResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.PutOpinion(_own(request, context), timeout=context.time_remaining())

    async def ListOpinions(self, request: pb.ListOpinionsRequest, context: Any) -> pb.ListOpinionsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListOpinions(_own(request, context), timeout=context.time_remaining())

    async def PutRelations(self, request: pb.PutRelationsRequest, context: Any) -> pb.PutRelationsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.PutRelations(_own(request, context), timeout=context.time_remaining())

    async def ListRelations(self, request: pb.ListRelationsRequest, context: Any) -> pb.ListRelationsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListRelations(_own(request, context), timeout=context.time_remaining())

    async def ListScopes(self, request: pb.ListScopesRequest, context: Any) -> pb.ListScopesResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListScopes(_own(request, context), timeout=context.time_remaining())

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.ListJobs(_own(request, context), timeout=context.time_remaining())

    async def RetryJobs(self, request: pb.RetryJobsRequest, context: Any) -> pb.RetryJobsResponse:
        """See `indai.memory.servicer`."""
        return await self._memory.RetryJobs(_own(request, context), timeout=context.time_remaining())

    async def Export(self, request: pb.ExportRequest, context: Any) -> AsyncIterator[pb.ExportResponse]:
        """See `indai.memory.servicer`."""
        async for part in self._memory.Export(_own(request, context), timeout=context.time_remaining()):
            yield part

    async def RecordCommitments(
        self, request: pb.RecordCommitmentsRequest, context: Any
    ) -> pb.RecordCommitmentsResponse:
        """Refused: what was agreed comes from the ledger."""
        raise Refused(
            Reason.PERMISSION_DENIED,
            "Commitments come from the node's own ledger, not from its owner.",
            hint="agree on one, for example with: indai meet",
        )


def _own(request: Request, context: Any) -> Request:
    """The request with the caller as its tenant. Raises Refused for another tenant, or a door of others."""
    access, owner = request.access, caller(context).owner  # type: ignore[attr-defined]
    if access.tenant not in ("", owner):
        raise Refused(
            Reason.PERMISSION_DENIED,
            "This token opens its owner's memory alone.",
            hint="leave the tenant out",
        )
    if access.door == pb.DOOR_UNSPECIFIED:
        access.door = pb.DOOR_PRIVATE
    if access.door not in DOORS:
        raise Refused(Reason.PERMISSION_DENIED, "This door of the agent is not its owner's.")
    access.tenant = owner
    return request
