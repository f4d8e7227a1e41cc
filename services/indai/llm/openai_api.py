"""The gateway for an owner's other tools, over HTTP in OpenAI's format: on loopback, with the owner's token.

    POST /v1/chat/completions    with `stream` true or false
    POST /v1/embeddings
    GET  /v1/models              the classes, then the configured models

An editor or a script that knows OpenAI's servers is pointed at this one and pays from the owner's budget. A
page of a browser is kept out: no CORS headers, and a request with an Origin is refused.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from indai.llm import openai_values as values
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused
from indai.tools.identity import refuse_aadhaar
from indai.v1 import llm_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub

Admit = Callable[[str], Awaitable[pb.LlmScope]]
"""Takes the bearer token, gives whose it is, or raises Refused(UNAUTHENTICATED)."""

DEADLINE_MS: Final = 300_000
MAX_BODY: Final = 2 * 1024 * 1024
_CREATED: Final = 0  # the time is of no use to a tool, and there is no clock here


def openai_routes(gateway: LlmServiceAsyncStub, admit: Admit) -> list[web.RouteDef]:
    """The routes, to be served on loopback only."""
    endpoint = _Endpoint(gateway, admit)
    return [
        web.post("/v1/chat/completions", endpoint.chat),
        web.post("/v1/embeddings", endpoint.embeddings),
        web.get("/v1/models", endpoint.models),
    ]


class _Endpoint:
    def __init__(self, gateway: LlmServiceAsyncStub, admit: Admit) -> None:
        self._gateway = gateway
        self._admit = admit

    async def chat(self, request: web.Request) -> web.StreamResponse:
        try:
            scope = await self._scope(request)
            body = await _body(request)
            asked = values.generate_request(body, scope)
            asked.deadline_ms = DEADLINE_MS
            stream: Any = self._gateway.Generate(asked, timeout=DEADLINE_MS / 1000 + 10)
            async with contextlib.aclosing(stream) as events:
                # The first event says that it was accepted: until then an error is a status.
                first = await anext(events)
                name = f"chatcmpl-{first.accepted.generation_id.hex()}"
                if body.get("stream"):
                    return await self._streamed(request, name, events, body)
                return await self._whole(name, events)
        except IndaiError as error:
            return _error(error)

    async def _whole(self, name: str, events: Any) -> web.Response:
        text, model = "", ""
        calls: list[dict[str, Any]] = []
        async for event in events:
            match event.WhichOneof("event"):
                case "started":
                    model = event.started.model
                case "text":
                    text += event.text
                case "tool_call":
                    calls.append(values.tool_call(event.tool_call, len(calls)))
                case "done":
                    done = event.done
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": values.finish_reason(done.finish)}
        return web.json_response(
            {
                "id": name,
                "object": "chat.completion",
                "created": _CREATED,
                "model": model,
                "choices": [choice],
                "usage": values.usage(done),
            }
        )

    async def _streamed(
        self, request: web.Request, name: str, events: Any, body: dict[str, Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        chunk = _Chunks(name)
        calls = 0
        try:
            async for event in events:
                match event.WhichOneof("event"):
                    case "started":
                        chunk.model = event.started.model
                        await response.write(chunk.delta({"role": "assistant", "content": ""}))
                    case "text":
                        await response.write(chunk.delta({"content": event.text}))
                    case "tool_call":
                        delta = {"tool_calls": [values.tool_call(event.tool_call, calls)]}
                        calls += 1
                        await response.write(chunk.delta(delta))
                    case "done":
                        reason = values.finish_reason(event.done.finish)
                        await response.write(chunk.delta({}, reason))
                        if (body.get("stream_options") or {}).get("include_usage"):
                            await response.write(chunk.usage(values.usage(event.done)))
        except IndaiError as error:
            await response.write(_event(values.error_body(error)))
        except ConnectionResetError:
            return response  # the tool has left, and closing `events` aborts the provider's stream
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def embeddings(self, request: web.Request) -> web.Response:
        try:
            asked = values.embed_request(await _body(request), await self._scope(request))
            answer = await self._gateway.Embed(asked, timeout=60)
        except IndaiError as error:
            return _error(error)
        data = [
            {"object": "embedding", "index": at, "embedding": list(each.values)}
            for at, each in enumerate(answer.embeddings)
        ]
        return web.json_response({"object": "list", "model": answer.model, "data": data})

    async def models(self, request: web.Request) -> web.Response:
        try:
            await self._scope(request)
            answer = await self._gateway.ListModels(pb.ListModelsRequest())
        except IndaiError as error:
            return _error(error)
        names = [*values.CLASSES, *(model.name for model in answer.models)]
        data = [
            {"id": name, "object": "model", "created": _CREATED, "owned_by": "indai"}
            for name in dict.fromkeys(names)
        ]
        return web.json_response({"object": "list", "data": data})

    async def _scope(self, request: web.Request) -> pb.LlmScope:
        if "Origin" in request.headers:
            raise Refused(Reason.PERMISSION_DENIED, "Pages of a browser are not served here.")
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refused(
                Reason.UNAUTHENTICATED, "This call needs a token.", hint="send the owner's as a bearer token"
            )
        return await self._admit(token.strip())


class _Chunks:
    """Server-sent events of one answer."""

    def __init__(self, name: str) -> None:
        self._head = {"id": name, "object": "chat.completion.chunk", "created": _CREATED}
        self.model = ""

    def delta(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _event({**self._head, "model": self.model, "choices": [choice]})

    def usage(self, usage: dict[str, Any]) -> bytes:
        return _event({**self._head, "model": self.model, "choices": [], "usage": usage})


async def _body(request: web.Request) -> dict[str, Any]:
    if (request.content_length or 0) > MAX_BODY:
        raise InvalidInput(Reason.TOO_LARGE, f"A request has at most {MAX_BODY // 1024} KiB.")
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError, web.HTTPRequestEntityTooLarge):
        raise InvalidInput(Reason.MALFORMED, "The request is no JSON, or too large.") from None
    if not isinstance(body, dict):
        raise InvalidInput(Reason.MALFORMED, "The request is no JSON object.")
    refuse_aadhaar(body, "The request")
    return body


def _error(error: IndaiError) -> web.Response:
    return web.json_response(values.error_body(error), status=error.reason.status.http)


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
