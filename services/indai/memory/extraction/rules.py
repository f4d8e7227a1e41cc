"""The rules of the deterministic extractor, compiled from `patterns.txt`, whose head says how they are
written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from indai.memory.extraction.wordings import ROWS


class Shape(Enum):
    """How the value is read."""

    THING = "thing"
    NAME = "name"
    PLACE = "place"
    NOT_PLACE = "not_place"
    NUMBER = "number"
    DAY = "day"
    EVENT = "event"
    RELATIVE = "relative"
    RELATIVE_PLACE = "relative_place"
    FAVOURITE = "favourite"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of saying one kind of fact."""

    key: str
    shape: Shape
    pattern: re.Pattern[str]
    confidence: float
    language: str


def _cased(pattern: str) -> str:
    """Any case, but where a pattern looks for capitals."""
    return f"(?i:{pattern.replace('[A-Z]', '(?-i:[A-Z])')})"


RULES = tuple(
    Rule(key, Shape(shape), re.compile(_cased(pattern)), float(confidence), language)
    for key, shape, confidence, language, pattern in ROWS
)


def matches(clause: str) -> Iterator[tuple[Rule, re.Match[str]]]:
    """The rules that a clause satisfies, in the table's order."""
    for rule in RULES:
        match = rule.pattern.match(clause)
        if match is not None:
            yield rule, match
