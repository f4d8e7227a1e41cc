"""Anthropic's Messages API through its own SDK. https://docs.anthropic.com/en/api/messages-streaming

Its cache goes by the order tools, system, messages, whatever order the body's fields stand in; the mark on
the last static block covers the tools too. The SDK repeats nothing (`max_retries=0`): the chain does. It
takes no proxy, address or key from the environment, follows no redirect and traces nothing. An error event in
the middle of a stream arrives as a status error with code 200, whose body says what it was.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anthropic
import httpx2
from anthropic.types import RawMessageStreamEvent
from indai.llm.providers.faults import broken, fault_of, named, retry_after_ms, unreachable
from indai.llm.providers.http import CONNECT_S
from indai.llm.values import (
    Counted,
    Event,
    Fault,
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

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}
_FINISHES: Final = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "pause_turn": Finish.STOP,
    "tool_use": Finish.TOOL_CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.FILTERED,
}
# Types of errors in the middle of a stream: https://docs.anthropic.com/en/api/errors
_TYPES: Final = {
    "authentication_error": Fault.AUTH,
    "permission_error": Fault.AUTH,
    "billing_error": Fault.AUTH,
    "rate_limit_error": Fault.RATE_LIMITED,
    "overloaded_error": Fault.SERVER,
    "api_error": Fault.SERVER,
    "timeout_error": Fault.TIMEOUT,
    "not_found_error": Fault.NOT_FOUND,
    "invalid_request_error": Fault.REJECTED,
    "request_too_large": Fault.REJECTED,
}


class AnthropicProvider:
    """See the module."""

    def __init__(self, name: str, address: str, key: str) -> None:
        self._name = name
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=address,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False),
            open_telemetry=False,
        )

    def __repr__(self) -> str:
        return f"AnthropicProvider({self._name})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """See `indai.llm.values`."""
        gathered = _Gathered(self._name)
        try:
            stream = await self._client.messages.create(**_body(request), stream=True)
            async with stream:
                async for event in stream:
                    for told in gathered.take(event):
                        yield told
        except anthropic.AnthropicError as error:
            raise self._fault(error) from None
        except (httpx2.HTTPError, httpx2.StreamError, ValueError, AttributeError, TypeError, KeyError):
            raise broken(self._name) from None
        yield gathered.finished()

    async def embed(self, model: str, texts: Sequence[str], *, query: bool) -> Vectors:
        """It has no vectors."""
        raise ProviderFault(Fault.NOT_FOUND, f"{self._name} has no models of embeddings.")

    async def close(self) -> None:
        """See `indai.llm.values`."""
        await self._client.close()

    def _fault(self, error: anthropic.AnthropicError) -> ProviderFault:
        match error:
            case anthropic.APIStatusError(status_code=200):
                kind = _TYPES.get(str(error.type))
                wait = retry_after_ms(error.response.headers)
                return named(self._name, kind, " in the middle", wait) if kind else broken(self._name)
            case anthropic.APIStatusError():
                return fault_of(self._name, error.status_code, error.response.headers)
            case anthropic.APITimeoutError() | anthropic.APIConnectionError():
                return unreachable(self._name)
        return broken(self._name)


@dataclass(slots=True)
class _Gathered:
    """What the events of one answer add up to."""

    name: str
    calls: dict[int, list[str]] = field(default_factory=dict)  # id, name, arguments
    finish: Finish | None = None
    ended: bool = False
    usage: Usage = field(default_factory=Usage)

    def take(self, event: RawMessageStreamEvent) -> list[Event]:
        """Our events for one of theirs."""
        match event.type:
            case "message_start":
                self.usage = _usage(event.message.usage, Usage())
                return [Counted(self.usage)]
            case "content_block_start":
                return self._block(event.index, event.content_block)
            case "content_block_delta":
                return self._delta(event.index, event.delta)
            case "message_delta":
                self.usage = _usage(event.usage, self.usage)
                self.finish = _FINISHES.get(str(event.delta.stop_reason), Finish.STOP)
                return [Counted(self.usage)]
            case "message_stop":
                self.ended = True
        return []

    def finished(self) -> Finished:
        """The end. Raises ProviderFault(BROKEN) when the stream did not say that it was one."""
        if self.finish is None or not self.ended:
            raise broken(self.name)
        calls = tuple(
            ToolCall(identifier, name, arguments or "{}")
            for _, (identifier, name, arguments) in sorted(self.calls.items())
        )
        return Finished(self.finish, self.usage, calls)

    def _block(self, index: int, block: Any) -> list[Event]:
        if block.type == "tool_use":
            self.calls[index] = [block.id, block.name, ""]
            return [Progress()]
        return [TextDelta(block.text)] if block.type == "text" and block.text else []

    def _delta(self, index: int, delta: Any) -> list[Event]:
        if delta.type == "text_delta":
            return [TextDelta(delta.text)] if delta.text else []
        if delta.type == "input_json_delta":
            self.calls[index][2] += delta.partial_json
        return [Progress()]


def _usage(usage: Any, before: Usage) -> Usage:
    """Anthropic counts fresh, read and written input apart; later counts replace earlier ones."""
    read = before.cache_hit_tokens if usage.cache_read_input_tokens is None else usage.cache_read_input_tokens
    written = (
        before.cache_write_tokens
        if usage.cache_creation_input_tokens is None
        else usage.cache_creation_input_tokens
    )
    fresh = (
        before.input_tokens - before.cache_hit_tokens - before.cache_write_tokens
        if usage.input_tokens is None
        else usage.input_tokens
    )
    return Usage(fresh + read + written, usage.output_tokens or 0, read, written)


def _body(request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"model": request.model, "max_tokens": request.max_output_tokens}
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in request.tools
    ]
    if tools and not request.static:
        tools[-1] |= _CACHED
    if tools:
        body["tools"] = tools
    system = [{"type": "text", "text": request.static} | _CACHED] if request.static else []
    if request.dynamic:
        system.append({"type": "text", "text": request.dynamic})
    if system:
        body["system"] = system
    body["messages"] = [_message(each) for each in request.messages]
    return body


def _message(message: Message) -> JsonObject:
    if message.role is Role.TOOL:
        content = [
            {
                "type": "tool_result",
                "tool_use_id": each.call_id,
                "content": each.content,
                "is_error": each.failed,
            }
            for each in message.tool_results
        ]
        return {"role": "user", "content": content}
    blocks: list[JsonObject] = [{"type": "text", "text": message.text}] if message.text else []
    for call in message.tool_calls:
        arguments = cast("JsonObject", json.loads(call.arguments_json))
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return {"role": message.role.value, "content": blocks or [{"type": "text", "text": "…"}]}
