"""A local server that speaks the wire format of each provider, and misbehaves as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the server does with one request. `cut_after`: closes the connection after so many events;
    `hang_at`: sends so many and then nothing; `raw_event`: an event that is no JSON comes first."""

    text: tuple[str, ...] = ("Hello", " there")
    call: tuple[str, str] | None = None
    usage: tuple[int, int, int, int] = (100, 20, 0, 0)  # input with all cached, output, read, written
    finish: str = "stop"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    cut_after: int | None = None
    hang_at: int | None = None
    raw_event: bool = False
    error_event: str = ""


@dataclass
class Seen:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        found: Json = json.loads(self.raw)
        return found


@dataclass
class Upstream:
    """One server; replies are used up in order, and the last one stays."""

    kind: str
    replies: list[Reply] = field(default_factory=lambda: [Reply()])
    seen: list[Seen] = field(default_factory=list)
    address: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Upstream]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path_qs, headers, await request.read()))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        self.asked.set()
        try:
            return await self._reply(request, reply)
        except (asyncio.CancelledError, ConnectionResetError):
            self.aborted.set()
            raise

    async def _reply(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        if reply.status != 200:
            words = {"error": {"message": "SECRET-IN-ERROR", "type": "x"}}
            return web.json_response(words, status=reply.status, headers=dict(reply.headers))
        if reply.hang_at == 0:
            await asyncio.Event().wait()
        if "embed" in request.path.lower():
            return web.json_response(_embeddings(self.kind, json.loads(self.seen[-1].raw)))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **dict(reply.headers)})
        await response.prepare(request)
        for number, event in enumerate(self._events(reply)):
            if reply.hang_at == number:
                await asyncio.Event().wait()
            if reply.cut_after == number:
                assert request.transport is not None
                request.transport.close()
                return response
            await response.write(event)
        await response.write_eof()
        return response

    def _events(self, reply: Reply) -> Iterator[bytes]:
        if reply.raw_event:
            yield b'event: message_start\ndata: {"broken": \n\n'
        yield from {"anthropic": _anthropic, "gemini": _gemini}.get(self.kind, _openai)(reply)


def _sse(value: Json, event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


def _anthropic(reply: Reply) -> Iterator[bytes]:
    total, output, read, written = reply.usage
    usage = {
        "input_tokens": total - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": 1,
    }
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }

    def event(kind: str, **fields: Any) -> bytes:
        return _sse({"type": kind, **fields}, kind)

    yield event("message_start", message=message)
    yield event("ping")
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in reply.text:
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    if reply.error_event:
        yield event("error", error={"type": reply.error_event, "message": "SECRET-IN-ERROR"})
        return
    yield event("content_block_stop", index=0)
    if reply.call:
        name, arguments = reply.call
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        yield event("content_block_start", index=1, content_block=block)
        for part in (arguments[:5], arguments[5:]):
            delta = {"type": "input_json_delta", "partial_json": part}
            yield event("content_block_delta", index=1, delta=delta)
        yield event("content_block_stop", index=1)
    reason = {"stop": "tool_use" if reply.call else "end_turn", "length": "max_tokens"}[reply.finish]
    yield event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": output})
    yield event("message_stop")


def _openai(reply: Reply) -> Iterator[bytes]:
    def chunk(delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse({"id": "c1", "object": "chat.completion.chunk", "choices": [choice]})

    yield b": comment\n\n"
    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.text:
        yield chunk({"content": piece})
    if reply.error_event:
        yield _sse({"error": {"code": 503, "message": "SECRET-IN-ERROR"}})
        return
    if reply.call:
        name, arguments = reply.call
        head = {"index": 0, "id": "call_9", "type": "function"}
        yield chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": arguments[:5]}}]})
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments[5:]}}]})
    yield chunk({}, {"stop": "tool_calls" if reply.call else "stop", "length": "length"}[reply.finish])
    total, output, read, _ = reply.usage
    usage = {"prompt_tokens": total, "completion_tokens": output, "total_tokens": total + output}
    yield _sse({"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": read}}})
    yield b"data: [DONE]\n\n"


def _gemini(reply: Reply) -> Iterator[bytes]:
    total, output, read, _ = reply.usage
    counted = {"promptTokenCount": total, "candidatesTokenCount": output, "cachedContentTokenCount": read}

    def chunk(parts: list[Json], reason: str = "") -> bytes:
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
        if reason:
            candidate["finishReason"] = reason
        return _sse({"candidates": [candidate], "usageMetadata": counted})

    yield chunk([{"text": "hm", "thought": True}])
    for piece in reply.text:
        yield chunk([{"text": piece}])
    if reply.error_event:
        yield _sse({"error": {"code": 503, "message": "SECRET-IN-ERROR"}})
        return
    if reply.call:
        name, arguments = reply.call
        call = {"name": name, "args": json.loads(arguments)}
        yield chunk([{"functionCall": call, "thoughtSignature": "c2lnbmVk"}])
    yield chunk([], {"stop": "STOP", "length": "MAX_TOKENS"}[reply.finish])


def _embeddings(kind: str, body: Json) -> Json:
    if kind == "gemini":
        return {"embeddings": [{"values": [0.5, float(at)]} for at, _ in enumerate(body["requests"])]}
    rows = [{"index": at, "embedding": [0.25, float(at)]} for at, _ in enumerate(body["input"])]
    return {"data": rows[::-1], "usage": {"prompt_tokens": 7}}
