"""What the built-in provider says, in English, Hindi or Hinglish, and outcomes in other languages.

Pure; the same words for the same outcome. The sentences are in `phrases/*.txt`, one file for each language;
the others are drafts. A result is JSON, or `label: value` lines, which the runtime makes of one. Days are
said in the language; what a tool or a peer wrote stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from indai.language.phrasebook import in_language
from indai.llm.local.words import LANGUAGES, SPOKEN
from indai.llm.values import ToolResult

DEEDS = ("meet", "move", "cancel", "ask", "share", "pay", "book")
"""Intents that are said as something to do."""
_MOST = 6
_STATES = {
    **dict.fromkeys(("agreed", "accepted", "committed", "confirmed"), "agreed"),
    **dict.fromkeys(
        ("waiting", "pending", "proposed", "asked", "sent", "waits for the other side"), "waiting"
    ),
    **dict.fromkeys(("needs_you", "needs_approval", "asking_owner", "waits for your word"), "needs_you"),
    **dict.fromkeys(("refused", "declined", "rejected", "denied"), "refused"),
    **dict.fromkeys(("cancelled", "canceled", "taken back"), "cancelled"),
    **dict.fromkeys(("expired", "timed_out", "ran out of time"), "expired"),
    **{state: state for state in ("booked", "paid", "shared", "moved")},
}
_SAID = {
    "kept": "kept",
    "removed": "removed",
    "receipt": "receipt",
    "export": "export",
    "from now on": "goal.set",
    "ended": "goal.ended",
    "paused": "goal.paused",
    "resumed": "goal.resumed",
}
"""Results of one field that are a sentence of ours."""
_WHO = ("person", "with", "peer", "to", "from")
_ABOUT = ("item", "field", "amount", "about", "when", "time", "minutes", "quantity")
_PLACES = ("with", "to", "asked", "from")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NOTHING = "The tool found nothing."
_QUOTED = "someone outside wrote "
_EMPTY = "count: 0"
_REMINDER = re.compile(r"task: (?P<task>.+)\nwhen: (?P<when>.+)")
_SPAN = re.compile(
    r"(?P<day>\w{3} \d{1,2} \w{3} \d{4}), (?P<from>\d\d:\d\d) \(.+?\), (?P=day), (?P<to>\d\d:\d\d)"
)
_ROW = re.compile(r"\D+ \d+")


@cache
def _phrases(language: str) -> dict[str, str]:
    """The sentences of a language, in English those that it has not; `language` itself under "language"."""
    text = files("indai.llm.local").joinpath("phrases", f"{language}.txt").read_text("utf-8")
    pairs = (line.split(": ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    whole = {} if language in LANGUAGES else _phrases("en")
    return {**whole, **dict(pairs), "language": "hi-Latn" if language == "hinglish" else language}


def reply(intent: str, language: str = "en", slots: Mapping[str, str | int] | None = None) -> str:
    """An answer that needs no tool; for a request that would need one, what was understood."""
    phrases = _phrases(language)
    if intent in ("greet", "thank", "feedback", "unknown.visitor") or not intent:
        return phrases[intent or "unknown"]
    said = [_slot(name, slots[name], phrases) for name in ("person", *_ABOUT) if slots and slots.get(name)]
    about = f" ({', '.join(said)})" if said else ""
    return phrases["no_tool"].format(deed=phrases[f"deed.{intent}"], about=about)


def able(deeds: Sequence[str], language: str = "en", *, for_others: bool = False) -> str:
    """What this agent is for, by the tools that it has. `for_others`: it serves visitors, and asks nobody."""
    phrases = _phrases(language)
    if not deeds:
        return phrases["able.nothing"]
    said = phrases["able"].format(deeds=", ".join(phrases[f"deed.{each}"] for each in deeds))
    return f"{said} {phrases['able.nothing']}" if for_others else said


def ask_for(missing: Sequence[str], language: str = "en", intent: str = "meet") -> str:
    """A question for what is missing, the first thing first."""
    phrases = _phrases(language)
    slot = missing[0]
    if slot == "person" and intent in ("pay", "share"):
        slot = "payee"
    elif slot == "person" and intent == "ask":
        slot = "peer"
    return phrases.get(f"ask.{slot}") or phrases["ask.other"].format(name=slot.replace("_", " "))


def questions() -> dict[str, str]:
    """Our questions for what is missing, in every language, with the slot that each asks for."""
    persons = dict.fromkeys(("payee", "peer"), "person")
    return {
        phrase: persons.get(slot, slot)
        for language in (*LANGUAGES, *SPOKEN)
        for key, phrase in _phrases(language).items()
        if key.startswith("ask.") and (slot := key.removeprefix("ask.")) != "other"
    }


def tell(results: Sequence[ToolResult], language: str = "en") -> str:
    """What the tools answered, in sentences."""
    return " ".join(_tell(each, _phrases(language)) for each in results)


def _tell(result: ToolResult, phrases: Mapping[str, str]) -> str:
    value = _read(result.content)
    failed = result.failed or (isinstance(value, Mapping) and value.get("ok") is False)
    if failed:
        why = _why(value, phrases)
        # What a tool asks is a question to the person, no failure.
        return why if why.endswith("?") else phrases["failed"].format(why=why)
    if isinstance(value, Mapping):
        return _fields(value, phrases)
    for name, phrase in _SAID.items():
        if isinstance(value, str) and value.startswith(f"{name}: ") and "\n" not in value:
            return phrases[phrase].format(value=value.removeprefix(f"{name}: ").rstrip(".।"))
    if isinstance(value, list):
        return _found(value, phrases)
    if isinstance(value, str) and value.startswith(_EMPTY):
        _, _, period = value.partition("period: ")
        day = _day(period.strip(), phrases)
        said = phrases["found.nothing.then"].format(day=day) if day else phrases["found.nothing"]
        return said[:1].upper() + said[1:]
    if isinstance(value, str) and (at := _REMINDER.fullmatch(value)):
        return phrases["reminder"].format(task=at["task"], when=at["when"])
    return phrases["found.nothing"] if value == _NOTHING else str(value)


def goals_told(goals: str, language: str = "en") -> str:
    """The owner's goals, as the runtime has them in the prompt; empty for none."""
    phrases = _phrases(language)
    return phrases["goals"].format(goals=goals) if goals else phrases["goals.none"]


def _read(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        lines = dict(line.split(": ", 1) for line in content.splitlines() if ": " in line)
        if rows := [_theirs(text) for name, text in lines.items() if _ROW.fullmatch(name)]:
            return rows
        facts = {name.lower(): value for name, value in lines.items()}
        return facts if _state(facts) else content


def _theirs(text: str) -> str:
    """An outsider's words without the note for a model: a person reads them in their quotation marks."""
    if not text.startswith(_QUOTED):
        return text
    try:
        return str(json.loads(text.removeprefix(_QUOTED)))
    except ValueError:
        return text


def _why(value: Any, phrases: Mapping[str, str]) -> str:
    """The reason of a failure: its sentence, else words for its code, never the code itself."""
    if not isinstance(value, Mapping):
        return _ours(str(value), phrases) or phrases["failed.plain"]
    if message := value.get("message"):
        return _ours(str(message), phrases)
    return phrases.get(f"code.{value.get('code', '')}", phrases["failed.plain"])


def _ours(message: str, phrases: Mapping[str, str]) -> str:
    """A sentence that a tool of ours has answered with, in the language, without its stop."""
    return in_language(message, phrases["language"]).rstrip(".।۔᱾꯫")


def _found(values: Sequence[Any], phrases: Mapping[str, str]) -> str:
    if not values:
        return phrases["found.nothing"]
    rows = (_SPAN.sub(r"\g<day>, \g<from> – \g<to>", _plain(each, phrases)) for each in values[:_MOST])
    items = "; ".join(rows)
    return phrases["found.one" if len(values) == 1 else "found"].format(count=len(values), items=items)


def _fields(value: Mapping[str, Any], phrases: Mapping[str, str]) -> str:
    for name in ("summary", "message", "text"):
        if isinstance(value.get(name), str):
            return str(value[name])
    if state := _state(value):
        return _outcome(state, value, phrases)
    shown = [
        f"{name.replace('_', ' ')} {_plain(each, phrases)}"
        for name, each in value.items()
        if name != "ok" and not name.endswith("_id") and not isinstance(each, dict | list)
    ]
    return phrases["done.about"].format(about=", ".join(shown[:_MOST])) if shown else phrases["done"]


def _state(value: Mapping[str, Any]) -> str:
    said = (str(value.get(name, "")).lower() for name in ("outcome", "state", "status"))
    return next((_STATES[each] for each in said if each in _STATES), "")


def _outcome(state: str, value: Mapping[str, Any], phrases: Mapping[str, str]) -> str:
    """ "Agreed with bob: tomorrow, 15:00, 30 minutes.", with the reason and the other side's words."""
    name = next((str(value[each]) for each in _WHO if value.get(each)), "")
    said = [_slot(each, value[each], phrases) for each in _ABOUT if value.get(each)]
    if why := value.get("reason") or value.get("why"):
        said.append(str(why))
    parts = {each: phrases[each].replace("_", " ").format(name=name) if name else "" for each in _PLACES}
    sentence = phrases[state].format(about=f": {', '.join(said)}" if said else "", **parts)
    words = str(value.get("said") or value.get("they said") or "").removeprefix(_QUOTED).strip('"“”')
    if not sentence.startswith(name) or not name:
        sentence = sentence[:1].upper() + sentence[1:]
    link = str(value.get("link to pay") or "")
    wrote = phrases["wrote"].format(words=words) if words else ""
    if invitation := str(value.get("invitation") or ""):
        link = phrases["invitation"].format(link=invitation)
    link = str(value.get("and") or link)
    return " ".join(filter(None, (sentence, wrote, link)))


def _slot(name: str, value: Any, phrases: Mapping[str, str]) -> str:
    """A value as people say it: rupees, minutes, a day in the language."""
    if name == "amount" and isinstance(value, int):
        return rupees(value)
    if name == "minutes":
        return phrases["minutes"].format(minutes=value)
    if name == "quantity":
        return f"×{value}"
    return _day(str(value), phrases) if name in ("when", "time") else _plain(value, phrases)


def rupees(paise: int) -> str:
    """₹1,20,000 or ₹840.50: grouped as in India, paise only when there are some."""
    whole, rest = divmod(paise, 100)
    digits = str(whole)
    head, tail = digits[:-3], digits[-3:]
    while head:
        tail, head = f"{head[-2:]},{tail}", head[:-2]
    return f"₹{tail}.{rest:02}" if rest else f"₹{tail}"


def _day(value: str, phrases: Mapping[str, str]) -> str:
    """Day words of the rules in the language; a date or a time stays."""
    if said := phrases.get(f"day.{value}"):
        return said
    beside, _, day = value.partition(" ")
    if beside == "next" and day in _DAYS:
        return phrases["day.next"].format(day=phrases[f"day.{day}"])
    return value


def _plain(value: Any, phrases: Mapping[str, str]) -> str:
    if isinstance(value, Mapping):
        named = value.get("title") or value.get("name") or value.get("id")
        return str(named) if named else ", ".join(f"{key} {each}" for key, each in list(value.items())[:3])
    if isinstance(value, bool):
        return phrases["yes" if value else "no"]
    return str(value)
