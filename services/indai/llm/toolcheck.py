"""Checks the tool calls of a model: the tool exists, the arguments are a JSON object that fits its schema.

A call that fails is handed on with its problem in words that the model can act on; nobody may run it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from indai.llm.values import Tool, ToolCall
from indai.protocol.quoting import quoted
from jsonschema.validators import Draft202012Validator

MAX_ARGUMENTS = 256 * 1024
_MAX_WORDS = 300


def checked(calls: Iterable[ToolCall], tools: Mapping[str, Tool]) -> tuple[ToolCall, ...]:
    """The calls, each with what is wrong with it."""
    return tuple(replace(call, problem=problem(call, tools)) for call in calls)


def problem(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    """What is wrong with a call; empty when nothing is."""
    tool = tools.get(call.name)
    if tool is None:
        return f"There is no tool {quoted(call.name)}; there are: {', '.join(sorted(tools)) or 'none'}."
    if len(call.arguments_json) > MAX_ARGUMENTS:
        return "The arguments are too long."
    try:
        arguments = json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError):
        return "The arguments are no JSON."
    if not isinstance(arguments, dict):
        return "The arguments are no JSON object."
    error = next(iter(Draft202012Validator(tool.schema).iter_errors(arguments)), None)
    if error is None:
        return ""
    where = ".".join(str(part) for part in error.absolute_path)
    return f"The arguments do not fit{f' at {where}' if where else ''}: {error.message[:_MAX_WORDS]}."
