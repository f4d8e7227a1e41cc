"""A channel that calls servicers of the same process directly: no socket, the same stubs, the same contract.

Messages are serialised and parsed as on the wire, so neither side can change the other's objects; metadata,
deadline, trailers and the status are kept. The servicer runs in the caller's task, so cancelling the caller
cancels it, and a call does nothing until it is awaited. `local_channel` gives the checked form that everyone
uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Never

import grpc
from grpc import aio
from indai.client.channels import CheckedChannel, Metadata
from indai.node.service import STREAM_DEADLINE_S, UNARY_DEADLINE_S, Service, method_handlers

PEER: Final = "in-process"
AuthContext = Mapping[str, Sequence[bytes]]


def local_channel(
    services: Sequence[Service],
    *,
    metadata: Metadata = (),
    auth_context: AuthContext | None = None,
    carries: bool = False,
) -> CheckedChannel:
    """A checked channel to `services`; `auth_context` is what mutual TLS would have shown. `carries` as in
    `CheckedChannel`."""
    return CheckedChannel(InProcessChannel(services, auth_context), PEER, metadata=metadata, carries=carries)


class InProcessChannel(aio.Channel):
    """See the module. Streams of requests are not offered: no method of the contract has any."""

    def __init__(self, services: Sequence[Service], auth_context: AuthContext | None = None) -> None:
        self._methods = {
            f"/{service}/{method}": handler
            for service, methods in method_handlers(services).items()
            for method, handler in methods.items()
        }
        self._auth_context = auth_context or {}

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        """See `grpc.aio.Channel`."""
        handler: Any = self._methods.get(method)

        async def run(request: Any, context: InProcessContext) -> Any:
            if handler is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            copied = handler.request_deserializer(request_serializer(request))
            response = await handler.unary_unary(copied, context)
            return response_deserializer(handler.response_serializer(response))

        def call(
            request: Any, *, timeout: float | None = None, metadata: Any = (), **_: Any
        ) -> InProcessCall:
            context = self._context(UNARY_DEADLINE_S if timeout is None else timeout, metadata)
            return InProcessCall(context, lambda: run(request, context))

        return call

    def unary_stream(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        """See `grpc.aio.Channel`."""
        handler: Any = self._methods.get(method)

        async def run(request: Any, context: InProcessContext) -> AsyncGenerator[Any, None]:
            if handler is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            copied = handler.request_deserializer(request_serializer(request))
            responses = handler.unary_stream(copied, context)
            try:
                async for response in responses:
                    yield response_deserializer(handler.response_serializer(response))
            finally:
                await responses.aclose()

        def call(
            request: Any, *, timeout: float | None = None, metadata: Any = (), **_: Any
        ) -> InProcessStream:
            context = self._context(STREAM_DEADLINE_S if timeout is None else timeout, metadata)
            return InProcessStream(context, run(request, context))

        return call

    def _context(self, timeout: float, metadata: Any) -> InProcessContext:
        return InProcessContext(asyncio.get_running_loop().time() + timeout, metadata, self._auth_context)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Unsupported; see the class."""
        raise NotImplementedError("no method of the contract streams requests")

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """Unsupported; see the class."""
        raise NotImplementedError("no method of the contract streams requests")

    async def close(self, grace: float | None = None) -> None:
        """Nothing is held."""

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Always ready."""
        return grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Never, once the state is ready."""
        if last_observed_state is grpc.ChannelConnectivity.READY:
            await asyncio.get_running_loop().create_future()

    async def channel_ready(self) -> None:
        """At once."""

    async def __aenter__(self) -> InProcessChannel:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class InProcessContext:
    """What a servicer sees of its call: the part of `grpc.aio.ServicerContext` that our servicers use."""

    __slots__ = ("_auth_context", "_metadata", "code", "deadline", "details", "trailers")

    def __init__(self, deadline: float, metadata: Any, auth_context: AuthContext) -> None:
        self.deadline = deadline
        self._metadata = tuple(metadata or ())
        self._auth_context = auth_context
        self.code = grpc.StatusCode.OK
        self.details = ""
        self.trailers: tuple[Any, ...] = ()

    def invocation_metadata(self) -> tuple[Any, ...]:
        """The caller's metadata."""
        return self._metadata

    def auth_context(self) -> AuthContext:
        """What the transport proved of the caller."""
        return self._auth_context

    def peer(self) -> str:
        """Where the call comes from."""
        return PEER

    def time_remaining(self) -> float:
        """Seconds until the deadline; there always is one."""
        return max(0.0, self.deadline - asyncio.get_running_loop().time())

    def set_trailing_metadata(self, metadata: Any) -> None:
        """Metadata that goes with the status."""
        self.trailers = tuple(metadata)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        """Ends the call with a status."""
        self.code, self.details = code, details
        self.trailers = tuple(trailing_metadata) or self.trailers
        raise aio.AbortError(details)

    def error(self) -> aio.AioRpcError:
        """The status as the caller's exception."""
        return aio.AioRpcError(self.code, aio.Metadata(), aio.Metadata(*self.trailers), self.details)

    def overdue(self) -> aio.AioRpcError:
        """The caller's exception when the deadline has passed."""
        return aio.AioRpcError(
            grpc.StatusCode.DEADLINE_EXCEEDED, aio.Metadata(), aio.Metadata(), "Deadline Exceeded"
        )


class InProcessCall:
    """A unary call: await it once."""

    __slots__ = ("_context", "_run")

    def __init__(self, context: InProcessContext, run: Callable[[], Awaitable[Any]]) -> None:
        self._context = context
        self._run = run

    def __await__(self) -> Generator[Any, None, Any]:
        return self._finish().__await__()

    async def _finish(self) -> Any:
        limit = asyncio.timeout_at(self._context.deadline)
        try:
            async with limit:
                return await self._run()
        except aio.AbortError:
            raise self._context.error() from None
        except TimeoutError:
            if limit.expired():
                raise self._context.overdue() from None
            raise

    async def trailing_metadata(self) -> aio.Metadata:
        """What the servicer sent with the status."""
        return aio.Metadata(*self._context.trailers)


class InProcessStream:
    """A server stream, to be iterated once. The deadline interrupts only a wait, never the consumer."""

    def __init__(self, context: InProcessContext, responses: AsyncGenerator[Any, None]) -> None:
        self._context = context
        self._responses = responses
        self._closing: asyncio.Task[None] | None = None

    def __aiter__(self) -> InProcessStream:
        return self

    async def __anext__(self) -> Any:
        limit = asyncio.timeout_at(self._context.deadline)
        try:
            async with limit:
                return await anext(self._responses)
        except aio.AbortError:
            raise self._context.error() from None
        except TimeoutError:
            if limit.expired():
                raise self._context.overdue() from None
            raise

    def cancel(self) -> bool:
        """Ends the stream; the servicer's generator is closed soon."""
        if self._closing is not None:
            return False
        self._closing = asyncio.get_running_loop().create_task(self._close())
        return True

    async def _close(self) -> None:
        await self._responses.aclose()
