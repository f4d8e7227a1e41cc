"""The wire format of OpenAI's chat completions and embeddings, as far as an owner's tools need it: to and
from the gateway's contract. Pure. https://platform.openai.com/docs/api-reference/chat

`model` is a configured model, or one of the classes `default`, `cheap`, `multilingual`, `voice`, or `auto`.
Unknown fields are ignored, as such servers do; content of a kind that no text holds is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.v1 import llm_pb2 as pb

CLASSES: Final[Mapping[str, pb.ModelClass.ValueType]] = {
    "auto": pb.MODEL_CLASS_UNSPECIFIED,
    "default": pb.MODEL_CLASS_DEFAULT,
    "cheap": pb.MODEL_CLASS_CHEAP,
    "multilingual": pb.MODEL_CLASS_MULTILINGUAL,
    "voice": pb.MODEL_CLASS_VOICE,
}
_FINISHES: Final = {
    pb.FINISH_TOOL_CALLS: "tool_calls",
    pb.FINISH_LENGTH: "length",
    pb.FINISH_INTERRUPTED: "length",
    pb.FINISH_FILTERED: "content_filter",
}
_TYPES: Final = {400: "invalid_request_error", 401: "authentication_error", 402: "insufficient_quota"}


def generate_request(body: Mapping[str, Any], scope: pb.LlmScope) -> pb.GenerateRequest:
    """Raises InvalidInput for what can't be understood."""
    request = pb.GenerateRequest(scope=scope)
    model = _text(body.get("model", "auto"), "model")
    if model in CLASSES:
        request.model_class = CLASSES[model]
    else:
        request.model = model
    most = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    if not isinstance(most, int) or not 0 <= most < 2**31:
        raise _wrong("max_tokens", "must be a number of tokens")
    request.max_output_tokens = most
    for at, message in enumerate(_list(body.get("messages"), "messages")):
        _add_message(request, _mapping(message, f"messages[{at}]"), f"messages[{at}]")
    for at, tool in enumerate(_list(body.get("tools") or [], "tools")):
        request.tools.append(_tool(_mapping(tool, f"tools[{at}]"), f"tools[{at}]"))
    return request


def embed_request(body: Mapping[str, Any], scope: pb.LlmScope) -> pb.EmbedRequest:
    """Raises InvalidInput for what can't be understood."""
    given = body.get("input")
    texts = [given] if isinstance(given, str) else _list(given, "input")
    return pb.EmbedRequest(
        scope=scope,
        texts=[_text(each, "input") for each in texts],
        model=_text(body.get("model", ""), "model"),
    )


def finish_reason(finish: pb.Finish.ValueType) -> str:
    """`stop`, `length`, `tool_calls` or `content_filter`."""
    return _FINISHES.get(finish, "stop")


def usage(done: pb.GenerationDone) -> dict[str, Any]:
    """Tokens."""
    used = done.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_hit_tokens},
    }


def tool_call(call: pb.ToolCall, index: int) -> dict[str, Any]:
    """One call, as it stands in a message or a delta."""
    function = {"name": call.name, "arguments": call.arguments_json or "{}"}
    return {"index": index, "id": call.id, "type": "function", "function": function}


def error_body(error: IndaiError) -> dict[str, Any]:
    """How such servers say what is wrong."""
    kind = _TYPES.get(error.reason.status.http, "api_error")
    return {"error": {"message": str(error), "type": kind, "code": error.reason.name.lower()}}


def _add_message(request: pb.GenerateRequest, message: Mapping[str, Any], path: str) -> None:
    text = _content(message.get("content"), f"{path}.content")
    match message.get("role"):
        case "system" | "developer":
            request.system.append(pb.SystemBlock(text=text))
        case "user":
            request.messages.append(pb.ChatMessage(role=pb.MESSAGE_ROLE_USER, text=text))
        case "assistant":
            calls = [
                _call(_mapping(each, f"{path}.tool_calls"), f"{path}.tool_calls")
                for each in _list(message.get("tool_calls") or [], f"{path}.tool_calls")
            ]
            request.messages.append(
                pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, text=text, tool_calls=calls)
            )
        case "tool":
            _add_result(request, _text(message.get("tool_call_id"), f"{path}.tool_call_id"), text)
        case _:
            raise _wrong(f"{path}.role", "must be system, user, assistant or tool")


def _add_result(request: pb.GenerateRequest, call_id: str, text: str) -> None:
    """Results that follow each other are one message of ours, and know their tool's name."""
    if not request.messages or request.messages[-1].role != pb.MESSAGE_ROLE_TOOL:
        request.messages.append(pb.ChatMessage(role=pb.MESSAGE_ROLE_TOOL))
    calls = [call for message in request.messages for call in message.tool_calls]
    name = next((call.name for call in reversed(calls) if call.id == call_id), "")
    request.messages[-1].tool_results.append(pb.ToolResult(call_id=call_id, name=name, content=text))


def _call(call: Mapping[str, Any], path: str) -> pb.ToolCall:
    function = _mapping(call.get("function"), f"{path}.function")
    return pb.ToolCall(
        id=_text(call.get("id"), f"{path}.id"),
        name=_text(function.get("name"), f"{path}.function.name"),
        arguments_json=_text(function.get("arguments", "{}"), f"{path}.function.arguments"),
    )


def _tool(tool: Mapping[str, Any], path: str) -> pb.ToolSpec:
    function = _mapping(tool.get("function"), f"{path}.function")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return pb.ToolSpec(
        name=_text(function.get("name"), f"{path}.function.name"),
        description=_text(function.get("description") or "", f"{path}.function.description"),
        arguments_schema_json=json.dumps(parameters, ensure_ascii=False),
    )


def _content(content: Any, path: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [_mapping(each, path) for each in _list(content, path)]
    if any(part.get("type") != "text" for part in parts):
        raise _wrong(path, "only text is understood here")
    return "\n".join(_text(part.get("text"), path) for part in parts)


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "must be a text")
    return value


def _list(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _wrong(path, "must be a list")
    return value


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, "must be an object")
    return value


def _wrong(path: str, what: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"The request is wrong at {path}: {what}.", fields={path: what}
    )
