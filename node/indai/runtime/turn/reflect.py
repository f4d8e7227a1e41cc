"""Reflect: from a tool's result to what the prompt gets. Raw JSON never does.

Three to five key facts, the most important first, each with its label; what an outsider wrote is quoted, on
one line, as data. Whether it answers at all is said as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from indai.tools.values import Field, Outcome, Status

KEY_FACTS: Final = 5
MOST_ROWS: Final = 10
_MAX_VALUE: Final = 400

USE: Final = "Use only this; say so if it does not answer."


def reflected(outcome: Outcome) -> str:
    """A result as the model reads it: a sentence, then the key facts."""
    lines = [_words(outcome)] if outcome.words else []
    lines += [
        f"{each.label}: {_shown(each)}"
        for each in key_facts(outcome.fields)
        if each.untrusted or each.text not in outcome.words
    ]
    if outcome.status is Status.RUNNING:
        lines.append("It goes on in the background; the person is told when it ends.")
    if not lines:
        lines.append("The tool found nothing.")
    return "\n".join(lines)


def key_facts(found: Iterable[Field]) -> list[Field]:
    """The most important ones, in the order of the result; the rows of a list are one fact together."""
    listed = [each for each in found if each.text]
    chosen: set[str] = set()
    for at in sorted(range(len(listed)), key=lambda at: (-listed[at].importance, at)):
        if len(chosen) < KEY_FACTS:
            chosen.add(_fact(listed[at]))
    rows: dict[str, int] = {}
    kept = []
    for each in listed:
        rows[each.row_of] = rows.get(each.row_of, 0) + 1
        if _fact(each) in chosen and (not each.row_of or rows[each.row_of] <= MOST_ROWS):
            kept.append(each)
    return kept


def _fact(field: Field) -> str:
    return field.row_of or field.label


def completeness(outcome: Outcome) -> str:
    """How much of an answer this is: whole, partial or none."""
    if outcome.status is Status.FAILED or not (outcome.words or outcome.fields):
        return "none"
    return "whole" if outcome.status is Status.DONE else "partial"


def is_untrusted(outcome: Outcome) -> bool:
    """Whether words of outsiders are in what the model reads."""
    return any(each.untrusted for each in outcome.fields)


def names_of(outcome: Outcome) -> frozenset[str]:
    """What a sentence with a price may name: identifiers and names that the tool returned."""
    found: set[str] = set()
    _collect(outcome.result, found)
    return frozenset(found)


def figures_of(outcome: Outcome) -> frozenset[str]:
    """The whole numbers that the tool returned: what a sentence may count."""
    found: set[str] = set()
    _count(outcome.result, found)
    return frozenset(found)


def _count(value: object, found: set[str]) -> None:
    if isinstance(value, dict):
        for each in value.values():
            _count(each, found)
    elif isinstance(value, list):
        for each in value[:100]:
            _count(each, found)
    elif isinstance(value, int) and not isinstance(value, bool):
        found.add(str(value))


def _collect(value: object, found: set[str]) -> None:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("sku", "id", "name", "title") and isinstance(each, str) and len(each) > 2:
                found.add(each.lower())
            _collect(each, found)
    elif isinstance(value, list):
        for each in value[:100]:
            _collect(each, found)


def _words(outcome: Outcome) -> str:
    """The tool's own sentence; one that repeats an outsider is quoted as a whole."""
    theirs = (each.text.strip("“”… ") for each in outcome.fields if each.untrusted)
    if any(each and each in " ".join(outcome.words.split()) for each in theirs):
        return f"someone outside wrote {json.dumps(outcome.words[:_MAX_VALUE], ensure_ascii=False)}"
    return outcome.words


def _shown(found: Field) -> str:
    text = found.text[:_MAX_VALUE]
    if found.untrusted:
        return f"someone outside wrote {json.dumps(text, ensure_ascii=False)}"
    return text.replace("\n", " ")
