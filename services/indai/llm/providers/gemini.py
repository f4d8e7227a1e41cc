"""Google Gemini over REST: `streamGenerateContent` as server-sent events.
https://ai.google.dev/api/generate-content

Tools come first in the body, then the system instruction (its static part first), then the contents: Gemini
caches by prefix on its own. A call of a function may carry a signature of the model's thoughts, which must
come back with it: it travels as the call's `opaque`.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from indai.llm.providers.faults import broken, fault_of
from indai.llm.providers.http import JsonClient, joined, parsed
from indai.llm.values import (
    Counted,
    Event,
    Finish,
    Finished,
    JsonObject,
    Message,
    ModelRequest,
    Progress,
    ProviderFault,
    Role,
    TextDelta,
    ToolCall,
    Usage,
    Vectors,
)

_FINISHES: Final = {"STOP": Finish.STOP, "MAX_TOKENS": Finish.LENGTH}
_BROKEN: Final = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER")
_OWN_ID: Final = "made_"  # of calls that came without an id


class GeminiProvider:
    """See the module. `address` is the server without a version."""

    def __init__(self, name: str, address: str, key: str) -> None:
        self._client = JsonClient(name, f"{address}/v1beta", {"x-goog-api-key": key})

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """See `indai.llm.values`."""
        gathered = _Gathered(self._client.name)
        path = f"/models/{quote(request.model, safe='')}:streamGenerateContent?alt=sse"
        async with contextlib.aclosing(self._client.events(path, _body(request))) as batches:
            async for batch in batches:
                for event in joined(gathered.all(batch)):
                    yield event
        yield gathered.finished()

    async def embed(self, model: str, texts: Sequence[str], *, query: bool) -> Vectors:
        """See `indai.llm.values`."""
        task = "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"
        requests = [
            {"model": f"models/{model}", "content": {"parts": [{"text": text}]}, "taskType": task}
            for text in texts
        ]
        path = f"/models/{quote(model, safe='')}:batchEmbedContents"
        answer = await self._client.post(path, {"requests": requests})
        try:
            values = tuple(tuple(float(each) for each in one["values"]) for one in answer["embeddings"])
        except (KeyError, TypeError, ValueError):
            raise broken(self._client.name) from None
        return Vectors(values)

    async def close(self) -> None:
        """See `indai.llm.values`."""
        await self._client.close()


@dataclass(slots=True)
class _Gathered:
    """What the chunks of one answer add up to."""

    name: str
    calls: list[ToolCall] = field(default_factory=list)
    finish: Finish | None = None
    usage: Usage = field(default_factory=Usage)

    def all(self, batch: Iterable[str]) -> Iterable[Event]:
        """The events of what came at once."""
        for piece in batch:
            yield from self.take(parsed(piece, self.name))

    def take(self, chunk: JsonObject) -> Iterable[Event]:
        """The events of one chunk. Raises ProviderFault for an error in the middle, and for nonsense."""
        if "error" in chunk:
            raise self._error(chunk["error"])
        try:
            return list(self._chunk(chunk))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise broken(self.name) from None

    def finished(self) -> Finished:
        """The end. Raises ProviderFault(BROKEN) when the stream did not say that it was one."""
        if self.finish is None:
            raise broken(self.name)
        finish = Finish.TOOL_CALLS if self.calls and self.finish is Finish.STOP else self.finish
        return Finished(finish, self.usage, tuple(self.calls))

    def _chunk(self, chunk: JsonObject) -> Iterable[Event]:
        if counted := chunk.get("usageMetadata"):
            self.usage = _usage(counted)
            yield Counted(self.usage)
        if (chunk.get("promptFeedback") or {}).get("blockReason"):
            self.finish = Finish.FILTERED
        for candidate in (chunk.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or []:
                yield self._part(part)
            if reason := candidate.get("finishReason"):
                if reason in _BROKEN:
                    raise broken(self.name)
                self.finish = _FINISHES.get(reason, Finish.FILTERED)

    def _part(self, part: Any) -> Event:
        if call := part.get("functionCall"):
            identifier = str(call.get("id") or f"{_OWN_ID}{secrets.token_hex(8)}")
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
            opaque = str(part.get("thoughtSignature") or "")
            self.calls.append(ToolCall(identifier, str(call["name"]), arguments, opaque=opaque))
            return Progress()
        text = part.get("text")
        return TextDelta(str(text)) if text and not part.get("thought") else Progress()

    def _error(self, error: Any) -> ProviderFault:
        code = error.get("code") if isinstance(error, dict) else None
        return fault_of(self.name, code, {}) if isinstance(code, int) else broken(self.name)


def _usage(counted: Any) -> Usage:
    said = int(counted.get("candidatesTokenCount") or 0) + int(counted.get("thoughtsTokenCount") or 0)
    read = int(counted.get("promptTokenCount") or 0) + int(counted.get("toolUsePromptTokenCount") or 0)
    return Usage(read, said, int(counted.get("cachedContentTokenCount") or 0))


def _body(request: ModelRequest) -> JsonObject:
    body: JsonObject = {}
    if request.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    if system := [{"text": text} for text in (request.static, request.dynamic) if text]:
        body["systemInstruction"] = {"parts": system}
    body["contents"] = [_content(each) for each in request.messages]
    body["generationConfig"] = {"maxOutputTokens": request.max_output_tokens}
    return body


def _content(message: Message) -> JsonObject:
    if message.role is Role.TOOL:
        responses = [
            {
                "functionResponse": _with_id(
                    each.call_id, {"name": each.name, "response": _answer(each.content)}
                )
            }
            for each in message.tool_results
        ]
        return {"role": "user", "parts": responses}
    parts: list[JsonObject] = [{"text": message.text}] if message.text or not message.tool_calls else []
    for call in message.tool_calls:
        function = _with_id(call.id, {"name": call.name, "args": json.loads(call.arguments_json)})
        parts.append({"functionCall": function} | _signed(call))
    return {"role": "model" if message.role is Role.ASSISTANT else "user", "parts": parts}


def _signed(call: ToolCall) -> JsonObject:
    return {"thoughtSignature": call.opaque} if call.opaque else {}


def _with_id(identifier: str, function: JsonObject) -> JsonObject:
    return function if identifier.startswith(_OWN_ID) else {"id": identifier, **function}


def _answer(content: str) -> JsonObject:
    """A response must be an object."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = content
    return value if isinstance(value, dict) else {"result": value}
