"""The two bindings over HTTP: JSON-RPC 2.0 (A2A 1.0, section 9) and HTTP+JSON (section 11).

Both carry ProtoJSON and stream by Server-Sent Events. Unknown fields are ignored, as the specification asks
of a server that newer clients may call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    TaskNotFoundError,
)
from aiohttp import web
from google.protobuf import json_format
from google.protobuf.message import Message
from indai.a2a.agents import Agents
from indai.a2a.calls import (
    EXTENSIONS_HEADER,
    VERSION_HEADER,
    Call,
    check_version,
    extensions_of,
    idempotency_key_of,
)
from indai.a2a.cards import CardIssuer, card_json
from indai.a2a.errors import TooLarge, http_error, jsonrpc_error
from indai.a2a.grpc_binding import CallerOf, foreseen
from indai.a2a.servicer import A2AServicer

MAX_BODY: Final = 4 * 1024 * 1024
WRITE_S: Final = 30.0
"""How long a client may leave a stream unread before it is cut off."""
CARD_AGE_S: Final = 300
_JSON: Final = ("application/json", "application/a2a+json")
_A2A_JSON: Final = "application/a2a+json"
_SSE: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation: how its request is called, and what serves it."""

    request: type[Message]
    serve: Callable[[Any, Call], Any]
    streams: bool = False


class HttpBinding:
    """Translates between HTTP and the servicer."""

    def __init__(self, servicer: A2AServicer, agents: Agents, cards: CardIssuer, caller_of: CallerOf) -> None:
        self._agents, self._cards, self._caller_of = agents, cards, caller_of
        push, s = pb.TaskPushNotificationConfig, servicer
        self._operations: dict[str, _Operation] = {
            "SendMessage": _Operation(pb.SendMessageRequest, s.send_message),
            "SendStreamingMessage": _Operation(pb.SendMessageRequest, s.send_streaming_message, True),
            "GetTask": _Operation(pb.GetTaskRequest, s.get_task),
            "ListTasks": _Operation(pb.ListTasksRequest, s.list_tasks),
            "CancelTask": _Operation(pb.CancelTaskRequest, s.cancel_task),
            "SubscribeToTask": _Operation(pb.SubscribeToTaskRequest, s.subscribe_to_task, True),
            "CreateTaskPushNotificationConfig": _Operation(push, s.create_push_config),
            "GetTaskPushNotificationConfig": _Operation(
                pb.GetTaskPushNotificationConfigRequest, s.get_push_config
            ),
            "ListTaskPushNotificationConfigs": _Operation(
                pb.ListTaskPushNotificationConfigsRequest, s.list_push_configs
            ),
            "DeleteTaskPushNotificationConfig": _Operation(
                pb.DeleteTaskPushNotificationConfigRequest, s.delete_push_config
            ),
            "GetExtendedAgentCard": _Operation(pb.GetExtendedAgentCardRequest, s.get_extended_card),
        }

    def routes(self) -> list[web.RouteDef]:
        """Everything under `/a2a`, and the cards."""
        made = [
            web.get("/.well-known/agent-card.json", self._card),
            web.get("/{tenant:.+}/.well-known/agent-card.json", self._card),
            web.post("/a2a/jsonrpc", self._jsonrpc),
        ]
        for method, path, name in _REST:
            for prefix in ("/a2a", r"/a2a/{tenant:[^:]+?}"):
                made.append(web.route(method, prefix + path, self._rest(name)))
        made.append(web.route("*", "/a2a/{path:.*}", _nothing_here))
        return made

    async def _card(self, request: web.Request) -> web.Response:
        tenant = request.match_info.get("tenant", "")
        agent = await self._agents.find(tenant)
        if agent is None:
            return _http_failure(TaskNotFoundError("No such agent here."))
        body, tag = card_json(await self._cards.public(agent, tenant))
        headers = {"ETag": tag, "Cache-Control": f"public, max-age={CARD_AGE_S}"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _call(self, headers: Mapping[str, str]) -> Call:
        check_version(headers)
        return Call(
            await self._caller_of(headers, b""), b"", extensions_of(headers), idempotency_key_of(headers)
        )

    async def _jsonrpc(self, request: web.Request) -> web.StreamResponse:
        number: Any = None
        try:
            body = await _json_body(request)
            number = _request_id(body)
            operation, message = self._read_jsonrpc(body)
            call = await self._call(_headers(request))
            wrap = _jsonrpc_wrapper(number)
            if operation.streams:
                return await _stream(request, operation.serve(message, call), wrap, _jsonrpc_failer(number))
            return web.json_response(wrap(_shown(await operation.serve(message, call))))
        except (asyncio.CancelledError, web.HTTPException):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: the client gets an error of the protocol
            return web.json_response(_jsonrpc_failer(number)(foreseen(error)))

    def _read_jsonrpc(self, body: Any) -> tuple[_Operation, Message]:
        if (
            not isinstance(body, dict)
            or body.get("jsonrpc") != "2.0"
            or not isinstance(body.get("method"), str)
        ):
            raise InvalidRequestError("This is no JSON-RPC 2.0 request; batches are not taken.")
        if "id" in body and not _is_id(body["id"]):
            raise InvalidRequestError("The id of a request is a string, a whole number or null.")
        operation = self._operations.get(body["method"])
        if operation is None:
            raise MethodNotFoundError
        params = body.get("params", {})
        if not isinstance(params, dict):
            raise InvalidParamsError("The params of a request are an object.")
        return operation, _parsed(params, operation.request())

    def _rest(self, name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        operation = self._operations[name]

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                message = _parsed(await _rest_fields(request), operation.request())
                call = await self._call(_headers(request))
                if operation.streams:
                    return await _stream(
                        request,
                        operation.serve(message, call),
                        lambda event: event,
                        lambda e: http_error(e)[1],
                    )
                shown = _shown(await operation.serve(message, call))
                return web.Response(body=json.dumps(shown).encode(), content_type=_A2A_JSON)
            except (asyncio.CancelledError, web.HTTPException):
                raise
            except Exception as error:  # noqa: BLE001 - the boundary, as above
                return _http_failure(foreseen(error))

        return handle


_TASK = r"/tasks/{id:[^/:]+}"
_CONFIGS = r"/tasks/{taskId:[^/:]+}/pushNotificationConfigs"
_REST: Final = (
    ("POST", "/message:send", "SendMessage"),
    ("POST", "/message:stream", "SendStreamingMessage"),
    ("GET", "/tasks", "ListTasks"),
    ("GET", _TASK, "GetTask"),
    ("POST", f"{_TASK}:cancel", "CancelTask"),
    ("POST", f"{_TASK}:subscribe", "SubscribeToTask"),
    ("GET", f"{_TASK}:subscribe", "SubscribeToTask"),
    ("POST", _CONFIGS, "CreateTaskPushNotificationConfig"),
    ("GET", _CONFIGS, "ListTaskPushNotificationConfigs"),
    ("GET", _CONFIGS + "/{id:[^/]+}", "GetTaskPushNotificationConfig"),
    ("DELETE", _CONFIGS + "/{id:[^/]+}", "DeleteTaskPushNotificationConfig"),
    ("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
)


async def _nothing_here(request: web.Request) -> web.Response:
    return _http_failure(MethodNotFoundError(f"{request.method} {request.path[:200]} is no operation."))


def _headers(request: web.Request) -> dict[str, str]:
    """Service parameters; a GET may carry the version in its query (section 3.6.1)."""
    found = {key.lower(): value for key, value in request.headers.items()}
    if VERSION_HEADER not in found and "A2A-Version" in request.query:
        found[VERSION_HEADER] = request.query["A2A-Version"]
    if EXTENSIONS_HEADER in found:
        found[EXTENSIONS_HEADER] = ",".join(request.headers.getall(EXTENSIONS_HEADER))
    return found


async def _json_body(request: web.Request) -> Any:
    if request.content_type not in _JSON:
        raise ContentTypeNotSupportedError("Send application/json.")
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(f"A request has at most {MAX_BODY} bytes.") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise JSONParseError from None


async def _rest_fields(request: web.Request) -> dict[str, Any]:
    """The request's fields from body, query and path; the path wins."""
    fields: dict[str, Any] = {}
    if request.method == "POST" and (request.can_read_body or request.path.endswith(("send", "stream"))):
        try:
            body = await _json_body(request)
        except JSONParseError:
            raise InvalidRequestError("The body is no JSON.") from None
        if not isinstance(body, dict):
            raise InvalidRequestError("The body is a JSON object.")
        fields |= body
    fields |= {key: _query_value(key, value) for key, value in request.query.items() if key != "A2A-Version"}
    return fields | dict(request.match_info)


def _query_value(key: str, value: str) -> Any:
    """ProtoJSON has numbers as text too, but truth only as a word without quotes."""
    if key == "includeArtifacts" and value in ("true", "false"):
        return value == "true"
    return value


def _parsed(fields: dict[str, Any], message: Message) -> Message:
    try:
        return json_format.ParseDict(fields, message, ignore_unknown_fields=True, max_recursion_depth=50)
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise InvalidParamsError(f"A field can't be read: {str(error)[:200]}") from None


def _shown(answer: Message | None) -> dict[str, Any]:
    if answer is None:
        return {}
    shown: dict[str, Any] = json_format.MessageToDict(answer)
    if isinstance(answer, pb.ListTasksResponse):
        # These are there even when they are empty (section 3.1.4).
        shown = {"tasks": [], "nextPageToken": "", "totalSize": 0} | shown
    return shown


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _request_id(body: Any) -> Any:
    number = body.get("id") if isinstance(body, dict) else None
    return number if _is_id(number) else None


def _jsonrpc_wrapper(number: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda result: {"jsonrpc": "2.0", "id": number, "result": result}


def _jsonrpc_failer(number: Any) -> Callable[[A2AError], dict[str, Any]]:
    return lambda error: {"jsonrpc": "2.0", "id": number, "error": jsonrpc_error(error)}


def _http_failure(error: A2AError) -> web.Response:
    status, body = http_error(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.json_response(body, status=status, headers=headers)


async def _stream(
    request: web.Request,
    events: AsyncIterator[pb.StreamResponse],
    wrap: Callable[[dict[str, Any]], dict[str, Any]],
    fail: Callable[[A2AError], dict[str, Any]],
) -> web.StreamResponse:
    """Server-Sent Events. What fails before the first event is an ordinary error answer."""
    first = await anext(events)
    response = web.StreamResponse(headers=_SSE)
    await response.prepare(request)
    try:
        await _write(response, wrap(json_format.MessageToDict(first)))
        async for event in events:
            await _write(response, wrap(json_format.MessageToDict(event)))
    except (ConnectionError, TimeoutError):
        return response  # the client has gone, or doesn't read: the task goes on without it
    except A2AError as error:
        await _write(response, fail(error))
    finally:
        await events.aclose()  # type: ignore[attr-defined]
    await response.write_eof()
    return response


async def _write(response: web.StreamResponse, item: dict[str, Any]) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(b"data: " + json.dumps(item).encode() + b"\n\n")
