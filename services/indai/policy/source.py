"""Read YAML (1.1, safe types only) into a tree that keeps line numbers, within fixed limits.

Anchors and aliases are refused (one line could stand for millions), so are tags, duplicate keys and second
documents. Scalars stay text: each field knows what it takes, so `10:30` never turns into the sexagesimal
number 630.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.quoting import quoted

MAX_BYTES = 64 * 1024
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as it is written, without its quotes; `value` is "" for an empty one."""

    value: str
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Tree, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping; each key with its own line."""

    entries: tuple[tuple[Text, Tree], ...]
    line: int


Tree = Text | Items | Fields


def invalid(line: int, path: str, problem: str) -> InvalidInput:
    """The error for one problem."""
    return InvalidInput(
        Reason.INVALID_POLICY,
        f"the policy is invalid at line {line}: {problem}",
        fields={path: f"line {line}: {problem}"},
    )


def read(text: str) -> Tree:
    """Parse one document. Lines count from 1. Raises InvalidInput(INVALID_POLICY)."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise InvalidInput(
            Reason.INVALID_POLICY,
            "the policy is larger than 64 KiB",
            hint="name a whole authority as `acme.com/*`",
        )
    _refuse_tabs(text)
    try:
        return _document(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        raise invalid(mark.line + 1 if mark else 1, "yaml", f"not YAML: {problem}") from None
    except yaml.YAMLError:
        raise invalid(1, "yaml", "not YAML: a character that text must not contain") from None


def _refuse_tabs(text: str) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise invalid(number, "yaml", "a tab; indent with spaces")


def _document(events: Iterator[yaml.Event]) -> Tree:
    """Build the tree from parse events, so that nothing is expanded before it is checked."""
    next(events)  # the stream's start
    if isinstance(next(events), yaml.StreamEndEvent):
        raise invalid(1, "yaml", "empty; start with `version: 1`")
    tree = _tree(events, next(events), 0)
    next(events)  # the document's end
    after = next(events)
    if not isinstance(after, yaml.StreamEndEvent):
        raise invalid(_line(after), "yaml", "a second document; keep one policy in a file")
    return tree


def _tree(events: Iterator[yaml.Event], event: yaml.Event, depth: int) -> Tree:
    line = _line(event)
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise invalid(line, "yaml", "an anchor or alias (& or *); write the value out, or quote it")
    if tag := getattr(event, "tag", None):
        raise invalid(line, "yaml", f"a tag ({quoted(tag)}); write the plain value")
    if depth > _MAX_DEPTH:
        raise invalid(line, "yaml", "nested too deeply")
    if isinstance(event, yaml.SequenceStartEvent):
        return _items(events, line, depth)
    if isinstance(event, yaml.MappingStartEvent):
        return _fields(events, line, depth)
    if not isinstance(event, yaml.ScalarEvent):
        raise invalid(line, "yaml", "empty; start with `version: 1`")
    plain_null = event.value in ("~", "null") and event.style is None
    return Text("" if plain_null else event.value, line)


def _items(events: Iterator[yaml.Event], line: int, depth: int) -> Items:
    items: list[Tree] = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        items.append(_tree(events, event, depth + 1))
    return Items(tuple(items), line)


def _fields(events: Iterator[yaml.Event], line: int, depth: int) -> Fields:
    entries: list[tuple[Text, Tree]] = []
    seen: set[str] = set()
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _tree(events, event, depth + 1)
        if not isinstance(key, Text):
            raise invalid(key.line, "yaml", "a field's name is a word")
        if key.value in seen:
            raise invalid(key.line, "yaml", f"{quoted(key.value)} is written twice; keep one")
        seen.add(key.value)
        entries.append((key, _tree(events, next(events), depth + 1)))
    return Fields(tuple(entries), line)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
