"""What the built-in provider says, in English, Hindi or Hinglish. Pure; the same words for the same outcome.

The sentences are in `phrases/*.txt`, one file for each language. What a tool or a peer wrote is passed on as
it is, not translated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from indai.llm.values import ToolResult

_MOST = 6
_STATES = {
    **dict.fromkeys(("agreed", "accepted", "committed", "confirmed", "booked", "paid"), "agreed"),
    **dict.fromkeys(("waiting", "pending", "proposed", "asked", "sent"), "waiting"),
    **dict.fromkeys(("refused", "declined", "rejected", "denied"), "refused"),
    **dict.fromkeys(("cancelled", "canceled"), "cancelled"),
    **dict.fromkeys(("expired", "timed_out"), "expired"),
}
_ABOUT = ("person", "with", "peer", "when", "time", "minutes")


@cache
def _phrases(language: str) -> dict[str, str]:
    text = files("indai.llm.local").joinpath("phrases", f"{language}.txt").read_text("utf-8")
    pairs = (line.split(": ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return dict(pairs)


def reply(intent: str, language: str = "en", slots: Mapping[str, str | int] | None = None) -> str:
    """An answer that needs no tool; for a request that would need one, what was understood."""
    phrases = _phrases(language)
    if intent in ("greet", "thank", "feedback") or not intent:
        return phrases[intent or "unknown"]
    about = ", ".join(f"{name} {_amount(name, value)}" for name, value in (slots or {}).items())
    return phrases["no_tool"].format(intent=intent, about=about or "-")


def ask_for(missing: Sequence[str], language: str = "en", intent: str = "meet") -> str:
    """A question for what is missing, the first thing first."""
    phrases = _phrases(language)
    slot = missing[0]
    if slot == "person" and intent in ("pay", "share"):
        slot = "payee"
    elif slot == "person" and intent == "ask":
        slot = "peer"
    return phrases.get(f"ask.{slot}") or phrases["ask.other"].format(name=slot.replace("_", " "))


def tell(results: Sequence[ToolResult], language: str = "en") -> str:
    """What the tools answered, in sentences."""
    return " ".join(_tell(each, _phrases(language)) for each in results)


def _amount(name: str, value: str | int) -> str:
    return f"₹{value // 100}.{value % 100:02}" if name == "amount" and isinstance(value, int) else str(value)


def _tell(result: ToolResult, phrases: Mapping[str, str]) -> str:
    try:
        value = json.loads(result.content)
    except ValueError:
        value = result.content
    if isinstance(value, Mapping) and (result.failed or value.get("ok") is False):
        why = str(value.get("message") or value.get("code") or phrases["failed.plain"])
        return phrases["failed"].format(why=why.rstrip(".।"))
    if result.failed:
        return phrases["failed"].format(why=str(value).rstrip(".।"))
    if isinstance(value, Mapping):
        return _fields(value, phrases)
    if isinstance(value, list):
        items = "; ".join(_plain(each, phrases) for each in value[:_MOST])
        return phrases["found"].format(count=len(value), items=items)
    return str(value)


def _fields(value: Mapping[str, Any], phrases: Mapping[str, str]) -> str:
    for name in ("summary", "message", "text"):
        if isinstance(value.get(name), str):
            return str(value[name])
    if state := _state(value):
        return phrases[state].format(about=_about(value, phrases))
    shown = [
        f"{name.replace('_', ' ')} {_plain(each, phrases)}"
        for name, each in value.items()
        if name != "ok" and not isinstance(each, dict | list)
    ]
    return phrases["done.about"].format(about=", ".join(shown[:_MOST])) if shown else phrases["done"]


def _state(value: Mapping[str, Any]) -> str:
    said = (str(value.get(name, "")).lower() for name in ("outcome", "state", "status"))
    return next((_STATES[each] for each in said if each in _STATES), "")


def _about(value: Mapping[str, Any], phrases: Mapping[str, str]) -> str:
    """ ": bob, tomorrow, 15:00, 30 minutes", or nothing."""
    said = [
        phrases["minutes"].format(minutes=value[name]) if name == "minutes" else _plain(value[name], phrases)
        for name in _ABOUT
        if value.get(name)
    ]
    return f": {', '.join(said)}" if said else ""


def _plain(value: Any, phrases: Mapping[str, str]) -> str:
    if isinstance(value, Mapping):
        named = value.get("title") or value.get("name") or value.get("id")
        return str(named) if named else ", ".join(f"{key} {each}" for key, each in list(value.items())[:3])
    if isinstance(value, bool):
        return phrases["yes" if value else "no"]
    return str(value)
