"""Between the contract's messages and this package's values: checks what comes in, writes what goes out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from indai.llm.pii import Pii
from indai.llm.pricing import estimate_tokens
from indai.llm.records import CallRow, DayCost, Notice, Scope, SpendingLimit
from indai.llm.values import (
    Finish,
    JsonObject,
    Message,
    ModelClass,
    Role,
    Strategy,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import llm_pb2 as pb
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator

MAX_MESSAGES: Final = 400
MAX_TEXT: Final = 2 * 1024 * 1024
MAX_TOOLS: Final = 128
MAX_SCHEMA: Final = 64 * 1024
MAX_DEADLINE_MS: Final = 600_000
OUTPUT_TOKENS: Final = 1024
MAX_OUTPUT_TOKENS: Final = 64_000
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TOOL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SUBJECT: Final = re.compile(r"[A-Za-z0-9./_-]{0,200}")
_ROLES = {
    pb.MESSAGE_ROLE_USER: Role.USER,
    pb.MESSAGE_ROLE_ASSISTANT: Role.ASSISTANT,
    pb.MESSAGE_ROLE_TOOL: Role.TOOL,
}
CLASSES = {
    pb.MODEL_CLASS_DEFAULT: ModelClass.DEFAULT,
    pb.MODEL_CLASS_CHEAP: ModelClass.CHEAP,
    pb.MODEL_CLASS_MULTILINGUAL: ModelClass.MULTILINGUAL,
    pb.MODEL_CLASS_VOICE: ModelClass.VOICE,
}
_CLASS_NUMBERS = {value: key for key, value in CLASSES.items()}
_STRATEGIES = {
    pb.ROUTING_STRATEGY_UNSPECIFIED: Strategy.RULE,
    pb.ROUTING_STRATEGY_RULE: Strategy.RULE,
    pb.ROUTING_STRATEGY_CLASSIFIER: Strategy.CLASSIFIER,
    pb.ROUTING_STRATEGY_HYBRID: Strategy.HYBRID,
}
_PII = {
    pb.PII_KIND_AADHAAR: Pii.AADHAAR,
    pb.PII_KIND_PAN: Pii.PAN,
    pb.PII_KIND_PHONE: Pii.PHONE,
    pb.PII_KIND_UPI: Pii.UPI,
    pb.PII_KIND_EMAIL: Pii.EMAIL,
}
_FINISHES = {
    Finish.STOP: pb.FINISH_STOP,
    Finish.TOOL_CALLS: pb.FINISH_TOOL_CALLS,
    Finish.LENGTH: pb.FINISH_LENGTH,
    Finish.FILTERED: pb.FINISH_FILTERED,
    Finish.INTERRUPTED: pb.FINISH_INTERRUPTED,
    Finish.STOPPED: pb.FINISH_STOPPED,
    Finish.DEGRADED: pb.FINISH_DEGRADED,
}
_KEYS = {
    pb.LIMIT_KEY_TENANT: "tenant",
    pb.LIMIT_KEY_BINDING: "binding",
    pb.LIMIT_KEY_OWNER: "owner",
}
_PERIODS = {
    pb.LIMIT_PERIOD_DAY: "day",
    pb.LIMIT_PERIOD_MONTH: "month",
    pb.LIMIT_PERIOD_CREDIT: "credit",
}
_KEY_NUMBERS = {value: key for key, value in _KEYS.items()}
_PERIOD_NUMBERS = {value: key for key, value in _PERIODS.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked GenerateRequest; `deadline_ms` is 0 for the configuration's."""

    scope: Scope
    generation: bytes
    static: str
    dynamic: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    model_class: ModelClass | None
    strategy: Strategy
    model: str
    deadline_ms: int
    max_output_tokens: int
    allowed_pii: frozenset[Pii]
    degraded_text: str
    tokens_by_tier: Mapping[str, int] = field(default_factory=dict)
    stage_ms: Mapping[str, int] = field(default_factory=dict)


def asked(request: pb.GenerateRequest) -> Asked:
    """Raises InvalidInput naming the field."""
    static, dynamic = _system(request)
    return Asked(
        scope=scope_of(request.scope),
        generation=_generation(request.generation_id),
        static=static,
        dynamic=dynamic,
        messages=_messages(request),
        tools=_tools(request),
        model_class=CLASSES.get(request.model_class),
        strategy=_STRATEGIES.get(request.strategy, Strategy.RULE),
        model=request.model,
        deadline_ms=_at_most(request.deadline_ms, MAX_DEADLINE_MS, "deadline_ms"),
        max_output_tokens=_at_most(
            request.max_output_tokens or OUTPUT_TOKENS, MAX_OUTPUT_TOKENS, "max_output_tokens"
        ),
        allowed_pii=frozenset(_PII[kind] for kind in request.allowed_pii if kind in _PII),
        degraded_text=request.degraded_text,
        tokens_by_tier=_by_tier(request),
        stage_ms=dict(request.stage_ms),
    )


def scope_of(scope: pb.LlmScope) -> Scope:
    """Raises InvalidInput for a tenant or binding that is no slug."""
    if not _SLUG.fullmatch(scope.tenant):
        raise _wrong("scope.tenant", "must be a slug: a-z, 0-9 and -")
    if scope.binding and not _SLUG.fullmatch(scope.binding):
        raise _wrong("scope.binding", "must be a slug: a-z, 0-9 and -")
    if not _SUBJECT.fullmatch(scope.owner):
        raise _wrong("scope.owner", "must be a handle")
    if len(scope.session) > 200:
        raise _wrong("scope.session", "must have at most 200 characters")
    return Scope(scope.tenant, scope.binding, scope.owner, scope.session)


def limit_of(limit: pb.SpendingLimit) -> SpendingLimit:
    """Raises InvalidInput naming the field."""
    scope = scope_of(pb.LlmScope(tenant=limit.tenant))
    if limit.key not in _KEYS:
        raise _wrong("limit.key", "must be tenant, binding or owner")
    if limit.period not in _PERIODS:
        raise _wrong("limit.period", "must be day, month or credit")
    if (limit.key == pb.LIMIT_KEY_TENANT) != (not limit.subject) or not _SUBJECT.fullmatch(limit.subject):
        raise _wrong("limit.subject", "must name the binding or the owner, and be empty for a tenant")
    return SpendingLimit(
        scope.tenant, _KEYS[limit.key], limit.subject, _PERIODS[limit.period], limit.limit_micros
    )


def usage_out(usage: Usage) -> pb.TokenUsage:
    return pb.TokenUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_hit_tokens=usage.cache_hit_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def finish_out(finish: Finish | None) -> pb.Finish.ValueType:
    return _FINISHES[finish] if finish else pb.FINISH_UNSPECIFIED


def class_out(model_class: ModelClass) -> pb.ModelClass.ValueType:
    return _CLASS_NUMBERS[model_class]


def call_out(call: ToolCall) -> pb.ToolCall:
    return pb.ToolCall(
        id=call.id,
        name=call.name,
        arguments_json=call.arguments_json,
        problem=call.problem,
        opaque=call.opaque,
    )


def row_out(row: CallRow) -> pb.LlmCall:
    return pb.LlmCall(
        id=row.id,
        generation_id=row.generation,
        attempt=row.attempt,
        scope=pb.LlmScope(
            tenant=row.scope.tenant,
            binding=row.scope.binding,
            owner=row.scope.owner,
            session=row.scope.session,
        ),
        model_class=class_out(row.model_class),
        provider=row.provider,
        model=row.model,
        why=row.why,
        started_at_ms=row.started_ms,
        usage=usage_out(row.usage),
        cost_micros=row.cost_micros,
        currency=row.currency,
        latency_ms=row.latency_ms,
        ttft_ms=row.ttft_ms,
        finish=finish_out(row.finish),
        error=row.error,
        tokens_by_tier=row.tokens_by_tier,
        stage_ms=row.stage_ms,
    )


def day_out(day: DayCost) -> pb.DailyCost:
    return pb.DailyCost(
        tenant=day.tenant,
        binding=day.binding,
        day=day.day,
        calls=day.calls,
        failed=day.failed,
        usage=usage_out(day.usage),
        cost_micros=day.cost_micros,
        currency=day.currency,
    )


def limit_out(limit: SpendingLimit) -> pb.SpendingLimit:
    return pb.SpendingLimit(
        tenant=limit.tenant,
        key=_KEY_NUMBERS[limit.key],
        subject=limit.subject,
        period=_PERIOD_NUMBERS[limit.period],
        limit_micros=limit.limit_micros,
        spent_micros=limit.spent_micros,
        reserved_micros=limit.reserved_micros,
    )


def notice_out(notice: Notice) -> pb.LlmNotice:
    return pb.LlmNotice(
        kind=notice.kind,
        subject=notice.subject,
        message=notice.message,
        first_at_ms=notice.first_ms,
        last_at_ms=notice.last_ms,
        times=notice.times,
    )


def _system(request: pb.GenerateRequest) -> tuple[str, str]:
    """The blocks above the cache boundary, and those below; joined by an empty line."""
    marks = [place for place, block in enumerate(request.system) if block.cache_boundary]
    if len(marks) > 1:
        raise _wrong(f"system[{marks[1]}].cache_boundary", "there is one boundary; mark one block")
    boundary = marks[0] + 1 if marks else 0
    texts = [block.text for block in request.system]
    return "\n\n".join(filter(None, texts[:boundary])), "\n\n".join(filter(None, texts[boundary:]))


def _messages(request: pb.GenerateRequest) -> tuple[Message, ...]:
    if not request.messages:
        raise _wrong("messages", "must not be empty")
    if len(request.messages) > MAX_MESSAGES:
        raise _too_large(f"At most {MAX_MESSAGES} messages are taken at once.")
    if request.ByteSize() > MAX_TEXT:
        raise _too_large(f"A request has at most {MAX_TEXT // 1024} KiB.")
    found = tuple(_message(each, f"messages[{at}]") for at, each in enumerate(request.messages))
    if found[-1].role is Role.ASSISTANT:
        raise _wrong(f"messages[{len(found) - 1}].role", "the last word must not be the model's")
    if not any(each.text.strip() or each.tool_results for each in found[-1:]):
        raise _wrong(f"messages[{len(found) - 1}].text", "must not be empty")
    _check_results(found)
    return found


def _message(message: pb.ChatMessage, path: str) -> Message:
    role = _ROLES.get(message.role)
    if role is None:
        raise _wrong(f"{path}.role", "must be user, assistant or tool")
    if bool(message.tool_results) != (role is Role.TOOL):
        raise _wrong(f"{path}.tool_results", "belong to the role tool, which needs some")
    if message.tool_calls and role is not Role.ASSISTANT:
        raise _wrong(f"{path}.tool_calls", "belong to the role assistant")
    calls = tuple(
        ToolCall(each.id, each.name, _arguments(each, f"{path}.tool_calls[{at}]"), opaque=each.opaque)
        for at, each in enumerate(message.tool_calls)
    )
    results = tuple(
        ToolResult(each.call_id, each.name, each.content, each.failed) for each in message.tool_results
    )
    return Message(role, message.text, calls, results)


def _arguments(call: pb.ToolCall, path: str) -> str:
    """As they are; calls with broken arguments go back to the model as an empty object."""
    try:
        value = json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError):
        value = None
    if not call.id or not _TOOL.fullmatch(call.name):
        raise _wrong(f"{path}.id", "a call has an id and a tool's name")
    return call.arguments_json if isinstance(value, dict) and call.arguments_json else "{}"


def _check_results(messages: tuple[Message, ...]) -> None:
    """Every result answers a call of the assistant's message before it: providers refuse anything else."""
    open_calls: set[str] = set()
    for at, message in enumerate(messages):
        answered = {each.call_id for each in message.tool_results}
        if not answered <= open_calls:
            raise _wrong(f"messages[{at}].tool_results", "a result answers no call of the message before")
        if open_calls - answered:
            raise _wrong(f"messages[{at}]", "a call of the message before has no result")
        open_calls = {each.id for each in message.tool_calls}


def _tools(request: pb.GenerateRequest) -> tuple[Tool, ...]:
    if len(request.tools) > MAX_TOOLS:
        raise _too_large(f"At most {MAX_TOOLS} tools are taken at once.")
    found = tuple(_tool(each, f"tools[{at}]") for at, each in enumerate(request.tools))
    if len({tool.name for tool in found}) != len(found):
        raise _wrong("tools", "two have the same name")
    return found


def _tool(tool: pb.ToolSpec, path: str) -> Tool:
    if not _TOOL.fullmatch(tool.name):
        raise _wrong(f"{path}.name", "must be letters, digits, _ and -, up to 64")
    if len(tool.arguments_schema_json) > MAX_SCHEMA:
        raise _too_large(f"The schema of {tool.name} has more than {MAX_SCHEMA // 1024} KiB.")
    try:
        schema = _schema(tool.arguments_schema_json or '{"type":"object","properties":{}}')
    except (ValueError, RecursionError, SchemaError):
        raise _wrong(f"{path}.arguments_schema_json", "must be the JSON schema of an object") from None
    return Tool(tool.name, tool.description, schema)


@lru_cache(maxsize=512)
def _schema(text: str) -> JsonObject:
    """Checked once: that takes milliseconds, and a binding's tools stay the same. Nobody changes it."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ValueError("no object")
    Draft202012Validator.check_schema(schema)
    return schema


def _by_tier(request: pb.GenerateRequest) -> dict[str, int]:
    found = dict(request.tokens_by_tier)
    for block in request.system:
        if block.tier:
            found[block.tier] = found.get(block.tier, 0) + estimate_tokens(block.text)
    return found


def _generation(identifier: bytes) -> bytes:
    if identifier and len(identifier) != 16:
        raise _wrong("generation_id", "must be a UUIDv7 of 16 bytes, or empty")
    return identifier


def _at_most(value: int, most: int, path: str) -> int:
    if value > most:
        raise _wrong(path, f"must be at most {most}")
    return value


def _wrong(path: str, what: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"The request is wrong at {path}: {what}.", fields={path: what}
    )


def _too_large(message: str) -> InvalidInput:
    return InvalidInput(Reason.TOO_LARGE, message, hint="send less at once")
