"""Channels whose calls always have a deadline, raise only `IndaiError`, and repeat only what may be repeated.

`CheckedChannel` wraps any `grpc.aio.Channel` (a socket's or the in-process one), so generated stubs work on
it as they are. Await a unary call, iterate a server stream; call objects with their own metadata are not
offered.

A call is repeated when the connection failed (UNAVAILABLE without a word from the server) and the method is
marked with protobuf's `idempotency_level` in the contract. An UNAVAILABLE that the server spoke itself is the
caller's to judge.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import MethodOptions
from grpc import aio
from indai.client import because
from indai.client.addresses import parse_address
from indai.client.rpc import from_rpc_error, server_status, unreachable
from indai.protocol.errors import IndaiError

UNARY_TIMEOUT_S: Final = 10.0
STREAM_TIMEOUT_S: Final = 600.0
ATTEMPTS: Final = 3
BACKOFF_S: Final = 0.05
"""Before the first repetition; doubled for each further one, with jitter."""

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The largest answer taken from a service of one's own node."""

Options = Sequence[tuple[str, int | str]]

CHANNEL_OPTIONS: Final[Options] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # One retry mechanism: ours. gRPC's own gives up early when a deadline is set in the service
    # configuration.
    ("grpc.enable_retries", 0),
    # A restarted neighbour is found again within seconds; gRPC's own back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_http_proxy", 0),
)

Metadata = tuple[tuple[str, str], ...]


def bearer(token: str) -> Metadata:
    """Call metadata that presents an owner's or the operator's token."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def plain_channel(
    address: str, *, token: str = "", options: Options = (), carries: bool = False
) -> CheckedChannel:
    """A channel without TLS, for loopback. Raises InvalidInput when `address` is none."""
    target = parse_address(address).target
    inner = aio.insecure_channel(target, options=[*CHANNEL_OPTIONS, *options])
    return CheckedChannel(inner, address, metadata=bearer(token), carries=carries)


class CheckedChannel(aio.Channel):
    """A channel with one error contract; see the module.

    `metadata` is added to each call. `on_unreachable` is told each time the connection, not the service, has
    failed. `carries`: calls say because of which threads they are made (`indai.client.because`); it is set
    only where the other end is the owner's own node.
    """

    def __init__(
        self,
        inner: aio.Channel,
        address: str,
        *,
        timeout_s: float = UNARY_TIMEOUT_S,
        stream_timeout_s: float = STREAM_TIMEOUT_S,
        metadata: Metadata = (),
        on_unreachable: Callable[[], None] | None = None,
        carries: bool = False,
    ) -> None:
        self._carries = carries
        self._inner = inner
        self._timeout_s = timeout_s
        self._stream_timeout_s = stream_timeout_s
        self._metadata = metadata
        self._on_unreachable = on_unreachable
        self.address = address

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """See `grpc.aio.Channel`; the callable returns an awaitable of the response."""
        invoke = self._inner.unary_unary(method, *args, **kwargs)
        attempts = ATTEMPTS if is_idempotent(method) else 1

        async def call(
            request: Any,
            *,
            timeout: float | None = None,  # noqa: ASYNC109 - the stub's own signature
            metadata: Metadata = (),
            **rest: Any,
        ) -> Any:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + (self._timeout_s if timeout is None else timeout)
            said = (*self._said(), *metadata)
            for attempt in range(attempts):
                try:
                    return await self._attempt(invoke, method, request, deadline - loop.time(), said, rest)
                except _ConnectionFailed as failed:
                    pause = BACKOFF_S * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
                    if attempt + 1 == attempts or loop.time() + pause >= deadline:
                        raise failed.error from None
                await asyncio.sleep(pause)
            raise AssertionError("unreachable: the last attempt returns or raises")

        return call

    async def _attempt(
        self, invoke: Any, method: str, request: Any, limit_s: float, metadata: Metadata, rest: dict[str, Any]
    ) -> Any:
        try:
            return await invoke(request, timeout=limit_s, metadata=metadata, **rest)
        except aio.AioRpcError as error:
            raise self._failed(error, method) from None
        except aio.UsageError:
            raise self._closed() from None
        except asyncio.CancelledError:
            # A closed channel cancels its calls, which looks like a cancelled task but is none.
            if _task_is_cancelled():
                raise
            raise self._closed() from None

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """See `grpc.aio.Channel`; the callable returns an async iterator, and leaving it cancels the call."""
        invoke = self._inner.unary_stream(method, *args, **kwargs)

        async def call(
            request: Any,
            *,
            timeout: float | None = None,  # noqa: ASYNC109 - the stub's own signature
            metadata: Metadata = (),
            **rest: Any,
        ) -> AsyncIterator[Any]:
            limit = self._stream_timeout_s if timeout is None else timeout
            stream = None
            try:
                stream = invoke(request, timeout=limit, metadata=(*self._said(), *metadata), **rest)
                async for response in stream:
                    yield response
            except aio.AioRpcError as error:
                failed = self._failed(error, method)
                raise (failed.error if isinstance(failed, _ConnectionFailed) else failed) from None
            except aio.UsageError:
                raise self._closed().error from None
            except asyncio.CancelledError:
                if _task_is_cancelled():
                    raise
                raise self._closed().error from None
            finally:
                if stream is not None:
                    stream.cancel()

        return call

    def _said(self) -> Metadata:
        return (*self._metadata, *because.metadata()) if self._carries else self._metadata

    def _failed(self, error: aio.AioRpcError, method: str) -> Exception:
        meaning = from_rpc_error(error, address=self.address, method=method)
        if error.code() is not grpc.StatusCode.UNAVAILABLE or server_status(error) is not None:
            return meaning
        return self._connection_failed(meaning)

    def _closed(self) -> _ConnectionFailed:
        return self._connection_failed(unreachable(self.address, "the connection was closed"))

    def _connection_failed(self, meaning: IndaiError) -> _ConnectionFailed:
        if self._on_unreachable is not None:
            self._on_unreachable()
        return _ConnectionFailed(meaning)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """Unsupported: no method of the contract streams requests. Needed by no stub until one does."""
        raise NotImplementedError("no method of the contract streams requests")

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `stream_unary`."""
        raise NotImplementedError("no method of the contract streams requests")

    async def close(self, grace: float | None = None) -> None:
        """Ends running calls after `grace` seconds."""
        await self._inner.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """See `grpc.aio.Channel`."""
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """See `grpc.aio.Channel`."""
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """See `grpc.aio.Channel`."""
        await self._inner.channel_ready()

    async def __aenter__(self) -> CheckedChannel:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _ConnectionFailed(Exception):
    """Carries the meaning of a failed connection to the loop that may repeat the call."""

    def __init__(self, error: IndaiError) -> None:
        super().__init__()
        self.error = error


def is_idempotent(method: str) -> bool:
    """True when the contract marks `/package.Service/Method` as safe to repeat."""
    pool = descriptor_pool.Default()
    try:
        descriptor = pool.FindMethodByName(method.strip("/").replace("/", "."))
    except KeyError:
        return False
    options = descriptor.GetOptions()
    return options.idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN


def _task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
