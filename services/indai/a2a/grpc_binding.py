"""The gRPC binding: `lf.a2a.v1.A2AService` with the messages of the published SDK (A2A 1.0, section 10)."""
# The generated base class names the methods.
# ruff: noqa: N802

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import structlog
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from a2a.utils.errors import A2AError, InternalError
from google.protobuf import empty_pb2
from indai.a2a.calls import Call, check_version, extensions_of, idempotency_key_of
from indai.a2a.errors import grpc_status, meaning_of
from indai.a2a.servicer import A2AServicer
from indai.client.rpc import trailers
from indai.client.tls import caller_spki
from indai.protocol.errors import IndaiError

CallerOf = Callable[[Mapping[str, str], bytes], Awaitable[str]]
"""Who calls, from headers and the hash of the key of mutual TLS (empty without). Raises Unauthenticated."""

Answer = TypeVar("Answer")

log = structlog.get_logger(__name__)


class GrpcBinding(a2a_pb2_grpc.A2AServiceServicer):
    """Translates between gRPC and the servicer."""

    def __init__(self, servicer: A2AServicer, caller_of: CallerOf) -> None:
        self._servicer, self._caller_of = servicer, caller_of

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        return await self._unary(self._servicer.send_message, request, context)

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        async for event in self._stream(self._servicer.send_streaming_message, request, context):
            yield event

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        return await self._unary(self._servicer.get_task, request, context)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        return await self._unary(self._servicer.list_tasks, request, context)

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Any) -> pb.Task:
        return await self._unary(self._servicer.cancel_task, request, context)

    async def SubscribeToTask(
        self, request: pb.SubscribeToTaskRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        async for event in self._stream(self._servicer.subscribe_to_task, request, context):
            yield event

    async def CreateTaskPushNotificationConfig(
        self, request: pb.TaskPushNotificationConfig, context: Any
    ) -> pb.TaskPushNotificationConfig:
        return await self._unary(self._servicer.create_push_config, request, context)

    async def GetTaskPushNotificationConfig(
        self, request: pb.GetTaskPushNotificationConfigRequest, context: Any
    ) -> pb.TaskPushNotificationConfig:
        return await self._unary(self._servicer.get_push_config, request, context)

    async def ListTaskPushNotificationConfigs(
        self, request: pb.ListTaskPushNotificationConfigsRequest, context: Any
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        return await self._unary(self._servicer.list_push_configs, request, context)

    async def DeleteTaskPushNotificationConfig(
        self, request: pb.DeleteTaskPushNotificationConfigRequest, context: Any
    ) -> empty_pb2.Empty:
        await self._unary(self._servicer.delete_push_config, request, context)
        return empty_pb2.Empty()

    async def GetExtendedAgentCard(
        self, request: pb.GetExtendedAgentCardRequest, context: Any
    ) -> pb.AgentCard:
        return await self._unary(self._servicer.get_extended_card, request, context)

    async def _call(self, context: Any) -> Call:
        headers = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        check_version(headers)
        spki = caller_spki(context) or b""
        return Call(
            await self._caller_of(headers, spki), spki, extensions_of(headers), idempotency_key_of(headers)
        )

    async def _unary(
        self, operation: Callable[[Any, Call], Awaitable[Answer]], request: Any, context: Any
    ) -> Answer:
        try:
            return await operation(request, await self._call(context))
        except (A2AError, IndaiError) as error:
            await _abort(context, foreseen(error))
            raise  # the abort has raised already

    async def _stream(
        self, operation: Callable[[Any, Call], AsyncIterator[Answer]], request: Any, context: Any
    ) -> AsyncIterator[Answer]:
        try:
            async for event in operation(request, await self._call(context)):
                yield event
        except (A2AError, IndaiError) as error:
            await _abort(context, foreseen(error))


async def _abort(context: Any, error: A2AError) -> None:
    await context.abort(meaning_of(error).grpc, error.message, trailers(grpc_status(error)))


def foreseen(error: Exception) -> A2AError:
    """The error as A2A knows it. Ours, such as a database that is away, say no more than that."""
    if isinstance(error, A2AError):
        return error
    if isinstance(error, IndaiError):
        log.warning("a call failed", reason=error.reason.name, error=error.message)
        return InternalError("This node can't answer at the moment; try again.")
    log.error("a call failed", exc_info=error)
    return InternalError("Something went wrong inside the program.")
