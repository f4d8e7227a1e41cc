"""A tool's result as a person reads it, field by field: labels, money, local times, importance. Pure.

What a schema says of a property: `x-label` its name for people, `x-format` how to write it, `x-importance` 1
(can be left out) to 3 (must be said), `x-untrusted` that an outsider may have written it, `x-hidden` that it
is for programs only. An outsider's words lose what a reader would not see, come on one line, are cut and
stand in quotation marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from indai.mcp.values import quoted
from indai.tools.values import Field, Spec, Touch

MAX_FIELDS: Final = 40
MAX_TEXT: Final = 1_000
MAX_ITEMS: Final = 10
MAX_DEPTH: Final = 4

Money = Callable[[int, str], str]
"""Writes an amount (minor units, ISO 4217) for people."""


def fields_of(spec: Spec, result: Mapping[str, Any], time_zone: str, money: Money) -> tuple[Field, ...]:
    """The fields of a result that fits its schema, the most important first, at most 40."""
    writer = _Writer(_zone(time_zone), Touch.UNTRUSTED in spec.touches, result, money)
    found = list(islice(writer.object("", spec.result, result, 2, 0), MAX_FIELDS))
    return tuple(sorted(found, key=lambda each: -each.importance))


def one_line(text: str, limit: int = MAX_TEXT) -> str:
    """An outsider's words: visible characters on one line, cut."""
    return " ".join(quoted(text, "", limit).text.split())


def local_time(at_ms: int, zone: ZoneInfo) -> str:
    """`Tue 24 Nov 2026, 10:00`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, zone):%a %-d %b %Y, %H:%M}"


class _Writer:
    def __init__(self, zone: ZoneInfo, untrusted: bool, whole: Mapping[str, Any], money: Money) -> None:
        self._zone = zone
        self._untrusted = untrusted
        self._whole = whole
        self._money = money

    def object(
        self, label: str, schema: Mapping[str, Any], value: Mapping[str, Any], weight: int, depth: int
    ) -> Iterator[Field]:
        properties = schema.get("properties", {})
        order = [*(name for name in properties if name in value), *(n for n in value if n not in properties)]
        for name in order:
            about = properties.get(name, {})
            own = about.get("x-label") or _words(name)
            if not (about.get("x-hidden") or about.get("x-secret")):
                path = f"{label} {own}" if label else own
                importance = int(about.get("x-importance", weight))
                for one in self._value(path, about, value[name], importance, depth, value):
                    yield replace(one, unkept=True) if about.get("x-unkept") else one

    def _value(
        self,
        label: str,
        about: Mapping[str, Any],
        value: Any,
        weight: int,
        depth: int,
        beside: Mapping[str, Any],
    ) -> Iterator[Field]:
        if value is None or value in ("", [], {}):
            return
        if isinstance(value, Mapping):
            if depth < MAX_DEPTH:
                yield from self.object(label, about, value, weight, depth + 1)
        elif isinstance(value, list):
            yield from self._list(label, about, value, weight, depth, beside)
        else:
            untrusted = bool(about.get("x-untrusted", self._untrusted)) and isinstance(value, str)
            yield Field(label, self._text(about, value, untrusted, beside), weight, untrusted)

    def _list(
        self,
        label: str,
        about: Mapping[str, Any],
        value: list[Any],
        weight: int,
        depth: int,
        beside: Mapping[str, Any],
    ) -> Iterator[Field]:
        items = about.get("items", {})
        for number, each in enumerate(value[:MAX_ITEMS], 1):
            name = f"{label} {number}"
            if isinstance(each, Mapping):
                yield from self._row(name, label, items, each, weight, depth + 1)
            else:
                for one in self._value(name, items, each, weight, depth + 1, beside):
                    yield replace(one, row_of=label)
        if len(value) > MAX_ITEMS:
            yield Field(f"more {label}", str(len(value) - MAX_ITEMS), 1)

    def _row(
        self,
        name: str,
        label: str,
        schema: Mapping[str, Any],
        value: Mapping[str, Any],
        weight: int,
        depth: int,
    ) -> Iterator[Field]:
        """A thing of a list on one line: what must be said of it, in the schema's order."""
        if depth >= MAX_DEPTH:
            return
        parts = list(self.object("", schema, value, weight, depth))
        shown = [each.text if each.importance >= 2 else "" for each in parts]
        text = ", ".join(each for each in shown if each)[:MAX_TEXT]
        if text:
            importance = max(each.importance for each in parts)
            yield Field(name, text, importance, any(each.untrusted for each in parts), label)

    def _text(self, about: Mapping[str, Any], value: Any, untrusted: bool, beside: Mapping[str, Any]) -> str:
        if untrusted:
            return f"“{one_line(value)}”"
        if isinstance(value, bool):
            return "yes" if value else "no"
        match about.get("x-format"):
            case "money_minor" if isinstance(value, int):
                currency = beside.get("currency") or self._whole.get("currency") or "INR"
                return self._money(value, str(currency))
            case "local_time":
                return self._time(value)
            case "date" if isinstance(value, str):
                return _day(value)
            case "code":
                names = about.get("x-names", {})
                return str(names.get(str(value), value))[:MAX_TEXT]
            case _:
                return one_line(str(value))

    def _time(self, value: Any) -> str:
        """Milliseconds since the epoch, or RFC 3339."""
        if isinstance(value, int) and 0 <= value < 253_000_000_000_000:
            return f"{local_time(value, self._zone)} ({self._zone.key})"
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            return one_line(str(value))
        if at.tzinfo is None:
            return f"{at:%a %-d %b %Y, %H:%M}"
        return f"{at.astimezone(self._zone):%a %-d %b %Y, %H:%M} ({self._zone.key})"


def _day(value: str) -> str:
    try:
        return f"{date.fromisoformat(value[:10]):%a %-d %b %Y}"
    except ValueError:
        return one_line(value)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("Asia/Kolkata")
