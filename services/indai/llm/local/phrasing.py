"""What the built-in provider says. Pure; the same words for the same outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from indai.llm.values import ToolResult

_GREETING = "Hello! What can I do for you?"
_THANKS = "You're welcome."
_UNKNOWN = (
    "I did not understand that. I can set up meetings, for example: set up 30 minutes with bob this week."
)
_ASK = {"person": "With whom?", "minutes": "For how long?", "when": "When?"}
_MOST = 6


def reply(intent: str) -> str:
    """An answer that needs no tool."""
    return {"greet": _GREETING, "thank": _THANKS}.get(intent, _UNKNOWN)


def ask_for(missing: Sequence[str]) -> str:
    """A question for what is missing, the first thing first."""
    return _ASK.get(missing[0], f"Please tell me: {missing[0].replace('_', ' ')}.")


def tell(results: Sequence[ToolResult]) -> str:
    """What the tools answered, in sentences."""
    return " ".join(_tell(each) for each in results)


def _tell(result: ToolResult) -> str:
    try:
        value = json.loads(result.content)
    except ValueError:
        value = result.content
    if isinstance(value, Mapping) and (result.failed or value.get("ok") is False):
        return f"That did not work: {value.get('message') or value.get('code') or 'the tool failed'}."
    if result.failed:
        return f"That did not work: {value}"
    if isinstance(value, Mapping):
        return _fields(value)
    if isinstance(value, list):
        return f"I found {len(value)}: " + "; ".join(_plain(each) for each in value[:_MOST]) + "."
    return str(value)


def _fields(value: Mapping[str, Any]) -> str:
    for name in ("summary", "message", "text"):
        if isinstance(value.get(name), str):
            return str(value[name])
    shown = [
        (name, each) for name, each in value.items() if name != "ok" and not isinstance(each, dict | list)
    ]
    if not shown:
        return "Done."
    return (
        "Done: " + ", ".join(f"{name.replace('_', ' ')} {_plain(each)}" for name, each in shown[:_MOST]) + "."
    )


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        named = value.get("title") or value.get("name") or value.get("id")
        return str(named) if named else ", ".join(f"{key} {each}" for key, each in list(value.items())[:3])
    return "yes" if value is True else "no" if value is False else str(value)
