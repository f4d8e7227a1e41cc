"""`indai.v1.A2AKeyService`: an owner's keys for A2A clients."""

from __future__ import annotations

from typing import Any

from indai.a2a.callers import Callers
from indai.node.auth import caller
from indai.v1 import a2a_pb2 as pb
from indai.v1 import a2a_pb2_grpc

PAGE, MAX_PAGE = 100, 500


class A2AKeyServicer(a2a_pb2_grpc.A2AKeyServiceServicer):
    """The owner is the caller."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def CreateA2AKey(self, request: pb.CreateA2AKeyRequest, context: Any) -> pb.CreateA2AKeyResponse:
        """A new key."""
        return pb.CreateA2AKeyResponse(key=await self._callers.create(caller(context).owner, request.name))

    async def ListA2AKeys(self, request: pb.ListA2AKeysRequest, context: Any) -> pb.ListA2AKeysResponse:
        """By name; the page's token is the last name."""
        size = min(request.page_size or PAGE, MAX_PAGE)
        keys = [
            key for key in await self._callers.listed(caller(context).owner) if key.name > request.page_token
        ]
        answer = pb.ListA2AKeysResponse()
        for key in keys[:size]:
            answer.keys.add(name=key.name, revoked=key.revoked).create_time.FromDatetime(key.created_at)
        if len(keys) > size:
            answer.next_page_token = keys[size - 1].name
        return answer

    async def RevokeA2AKey(self, request: pb.RevokeA2AKeyRequest, context: Any) -> pb.RevokeA2AKeyResponse:
        """No more."""
        await self._callers.revoke(caller(context).owner, request.name)
        return pb.RevokeA2AKeyResponse()
