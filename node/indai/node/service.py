"""What every served method has in common, whichever way it is called: over a socket or inside the process.

The generated `add_…_to_server` functions hand their handlers to `method_handlers`, which wraps each once: it
admits the caller, refuses identity numbers, imposes a deadline where the caller set none, and turns errors
into a `google.rpc.Status`.
The server and the in-process channel both run these handlers, so there is one contract and one code for it.

Methods are coroutines, server streams are async generators (`context.write` is not supported).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import structlog
from grpc import aio
from indai.client import because
from indai.client.rpc import code_of, to_status, trailers
from indai.node.auth import Authenticate, Caller
from indai.node.identity_guard import check_request
from indai.protocol.errors import IndaiError, Reason, Unavailable

UNARY_DEADLINE_S: Final = 15.0
STREAM_DEADLINE_S: Final = 900.0

log = structlog.get_logger("indai.rpc")

Methods = dict[str, "grpc.RpcMethodHandler[Any, Any]"]


@dataclass(frozen=True, slots=True)
class Service:
    """A servicer with its generated `add_…_to_server`; `authenticate`, if any, admits each call."""

    add: Callable[[Any, Any], None]
    servicer: Any
    authenticate: Authenticate | None = None


class AdmittedContext:
    """The call's context with the caller known; everything else is the transport's own."""

    __slots__ = ("_context", "caller")

    def __init__(self, context: Any, caller: Caller) -> None:
        self._context = context
        self.caller = caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def method_handlers(services: Sequence[Service]) -> dict[str, Methods]:
    """The wrapped handlers by full service name and method name."""
    found: dict[str, Methods] = {}
    for service in services:
        recorder = _Recorder()
        service.add(service.servicer, recorder)
        for name, methods in recorder.found.items():
            found[name] = {
                method: _wrapped(f"/{name}/{method}", handler, service.authenticate)
                for method, handler in methods.items()
            }
    return found


class _Recorder:
    """Stands in for a server: the generated code announces a service's methods to it."""

    def __init__(self) -> None:
        self.found: dict[str, Methods] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """The same methods again, in the form that hides their names."""

    def add_registered_method_handlers(self, service_name: str, methods: Methods) -> None:
        self.found[service_name] = methods


def _wrapped(method: str, handler: Any, authenticate: Authenticate | None) -> Any:
    codec = {
        "request_deserializer": handler.request_deserializer,
        "response_serializer": handler.response_serializer,
    }
    if handler.request_streaming:
        raise NotImplementedError(f"{method} streams requests, which no transport here offers")
    if handler.response_streaming:
        behaviour = _stream(method, handler.unary_stream, authenticate)
        return grpc.unary_stream_rpc_method_handler(behaviour, **codec)
    return grpc.unary_unary_rpc_method_handler(_unary(method, handler.unary_unary, authenticate), **codec)


def _unary(method: str, behaviour: Any, authenticate: Authenticate | None) -> Any:
    async def call(request: Any, context: Any) -> Any:
        limit = asyncio.timeout(UNARY_DEADLINE_S) if context.time_remaining() is None else None
        try:
            async with limit or contextlib.nullcontext():
                if authenticate is None:
                    return await behaviour(request, context)
                context = AdmittedContext(context, await authenticate(context))
                check_request(method, request)
                with because.acting_on(*because.read(context.invocation_metadata())):
                    return await behaviour(request, context)
        except (aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, the caller gets a status
            meaning = _meaning(error, method, limit is not None and limit.expired())
        return await _abort(context, meaning)

    return call


def _stream(method: str, behaviour: Any, authenticate: Authenticate | None) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        # Inside the process the channel keeps the deadline: a timeout held across a yield would hit the
        # consumer.
        limit = asyncio.timeout(STREAM_DEADLINE_S) if context.time_remaining() is None else None
        try:
            async with limit or contextlib.nullcontext():
                if authenticate is not None:
                    context = AdmittedContext(context, await authenticate(context))
                    check_request(method, request)
                async with contextlib.aclosing(behaviour(request, context)) as responses:
                    async for response in responses:
                        yield response
                return
        except (aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary, as above
            meaning = _meaning(error, method, limit is not None and limit.expired())
        await _abort(context, meaning)

    return call


def _meaning(error: Exception, method: str, expired: bool) -> IndaiError:
    if isinstance(error, IndaiError):
        log.debug("call refused", method=method, reason=error.reason.name, message=error.message)
        return error
    if expired:
        return Unavailable(
            Reason.DEADLINE_EXCEEDED,
            f"{method} took too long.",
            hint="set a deadline that fits, or try again",
        )
    # The text of an unforeseen error may hold anything: it goes to our log, and only its id to the caller.
    error_id = secrets.token_hex(4)
    log.error("call failed", method=method, error_id=error_id, exc_info=error)
    return IndaiError(
        Reason.INTERNAL,
        f"Something went wrong inside the program (error id {error_id}).",
        hint="the log of the program has the details under this id",
        metadata={"error_id": error_id},
    )


async def _abort(context: Any, meaning: IndaiError) -> None:
    status = to_status(meaning)
    await context.abort(code_of(meaning), status.message, trailers(status))
