"""Any server that speaks OpenAI's chat completions (vLLM, Ollama, OpenAI itself), and Sarvam's, which differs
in the header of its key. https://platform.openai.com/docs/api-reference/chat-streaming

Tools come first in the body, then the messages, which begin with the static part of the prompt: such servers
cache by prefix.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indai.llm.providers.faults import broken, fault_of
from indai.llm.providers.http import JsonClient, joined, parsed
from indai.llm.values import (
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

_FINISHES: Final = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.FILTERED,
}
_OPENAI_ITSELF: Final = "https://api.openai.com"


class OpenAiProvider:
    """See the module. `address` ends in the version, as in `http://127.0.0.1:11434/v1`."""

    def __init__(self, name: str, address: str, key: str) -> None:
        self._client = JsonClient(name, address, self._key_header(key) if key else {})
        # OpenAI's newer models refuse the name that all other servers know.
        itself = address.startswith(_OPENAI_ITSELF)
        self._limit_field = "max_completion_tokens" if itself else "max_tokens"

    @staticmethod
    def _key_header(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """See `indai.llm.values`."""
        gathered = _Gathered(self._client.name)
        events = self._client.events("/chat/completions", self._body(request))
        async with contextlib.aclosing(events) as batches:
            async for batch in batches:
                for event in joined(gathered.all(batch)):
                    yield event
                if gathered.ended:
                    break
        yield gathered.finished()

    async def embed(self, model: str, texts: Sequence[str], *, query: bool) -> Vectors:
        """See `indai.llm.values`."""
        answer = await self._client.post("/embeddings", {"model": model, "input": list(texts)})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            values = tuple(tuple(float(each) for each in row["embedding"]) for row in rows)
            read = int((answer.get("usage") or {}).get("prompt_tokens", 0))
        except (KeyError, TypeError, ValueError):
            raise broken(self._client.name) from None
        return Vectors(values, Usage(read))

    async def close(self) -> None:
        """See `indai.llm.values`."""
        await self._client.close()

    def _body(self, request: ModelRequest) -> JsonObject:
        body: JsonObject = {"model": request.model}
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.schema,
                    },
                }
                for tool in request.tools
            ]
        body["messages"] = _messages(request)
        body[self._limit_field] = request.max_output_tokens
        return {**body, "stream": True, "stream_options": {"include_usage": True}}


class SarvamProvider(OpenAiProvider):
    """Sarvam's chat: https://docs.sarvam.ai/api-reference-docs/chat."""

    @staticmethod
    def _key_header(key: str) -> dict[str, str]:
        return {"api-subscription-key": key}


@dataclass(slots=True)
class _Gathered:
    """What the chunks of one answer add up to."""

    name: str
    calls: dict[int, list[str]] = field(default_factory=dict)  # id, name, arguments
    finish: Finish | None = None
    usage: Usage = field(default_factory=Usage)
    ended: bool = False

    def all(self, batch: Iterable[str]) -> Iterable[Event]:
        """The events of what came at once."""
        for piece in batch:
            if piece == "[DONE]":
                self.ended = True
                return
            yield from self.take(parsed(piece, self.name))

    def take(self, chunk: JsonObject) -> Iterable[Event]:
        """The events of one chunk. Raises ProviderFault for an error in the middle, and for nonsense."""
        if "error" in chunk:
            raise self._error(chunk["error"])
        try:
            if chunk.get("usage"):
                self.usage = _usage(chunk["usage"])
            choices = chunk.get("choices") or []
            return list(self._choice(choices[0])) if choices else []
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise broken(self.name) from None

    def finished(self) -> Finished:
        """The end. Raises ProviderFault(BROKEN) when the stream did not say that it was one."""
        if self.finish is None:
            raise broken(self.name)
        calls = tuple(
            ToolCall(identifier or f"call_{at}", name, arguments or "{}")
            for at, (identifier, name, arguments) in sorted(self.calls.items())
        )
        return Finished(Finish.TOOL_CALLS if calls else self.finish, self.usage, calls)

    def _choice(self, choice: Any) -> Iterable[Event]:
        delta = choice.get("delta") or {}
        if text := delta.get("content") or delta.get("refusal"):
            yield TextDelta(str(text))
        elif delta.get("reasoning_content") or delta.get("reasoning"):
            yield Progress()
        for part in delta.get("tool_calls") or []:
            self._call(part)
            yield Progress()
        if choice.get("finish_reason"):
            self.finish = _FINISHES.get(choice["finish_reason"], Finish.STOP)

    def _call(self, part: Any) -> None:
        call = self.calls.setdefault(int(part.get("index", 0)), ["", "", ""])
        function = part.get("function") or {}
        call[0] = call[0] or str(part.get("id") or "")
        call[1] += str(function.get("name") or "")
        call[2] += str(function.get("arguments") or "")

    def _error(self, error: Any) -> ProviderFault:
        code = error.get("code") if isinstance(error, dict) else None
        return fault_of(self.name, code, {}) if isinstance(code, int) else broken(self.name)


def _usage(usage: Any) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
        int(details.get("cached_tokens") or 0),
    )


def _messages(request: ModelRequest) -> list[JsonObject]:
    # One message: many chat templates know no second one of the system.
    system = "\n\n".join(filter(None, (request.static, request.dynamic)))
    found: list[JsonObject] = [{"role": "system", "content": system}] if system else []
    for message in request.messages:
        found += _message(message)
    return found


def _message(message: Message) -> list[JsonObject]:
    if message.role is Role.TOOL:
        return [
            {"role": "tool", "tool_call_id": each.call_id, "content": each.content}
            for each in message.tool_results
        ]
    written: JsonObject = {"role": message.role.value, "content": message.text or None}
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json},
            }
            for call in message.tool_calls
        ]
    elif not message.text:
        written["content"] = ""
    return [written]
