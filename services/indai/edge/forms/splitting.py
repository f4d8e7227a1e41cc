"""Long answers in parts that a channel takes, cut between blocks, then at sentence ends, then at words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from indai.edge.forms.document import Block

Render = Callable[[Sequence[Block]], str]
_SENTENCE_END: Final = re.compile(r"[.!?…।॥؟۔]['\")\]»”’]*\s+|\n+")
_WORD_END: Final = re.compile(r"\s+")
_JOINERS: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")
_LEAST: Final = 3  # a part that is cut at a sentence's end has at least a third of what it might have


def size(text: str) -> int:
    """Length in UTF-16 units: no provider counts more than these for a text."""
    return len(text.encode("utf-16-le")) // 2


def split(blocks: Sequence[Block], render: Render, limit: int) -> list[str]:
    """The rendered parts, each at most `limit` units long and not empty."""
    parts: list[str] = []
    current: list[Block] = []
    for block in _fitting(blocks, render, limit):
        if current and size(render([*current, block])) > limit:
            parts.append(render(current))
            current = []
        current.append(block)
    if current:
        parts.append(render(current))
    return [part for part in parts if part.strip()]


def _fitting(blocks: Sequence[Block], render: Render, limit: int) -> Iterator[Block]:
    for block in blocks:
        start, whole = 0, len(block.text)
        while start < whole:
            end = _end(block, start, render, limit)
            yield block.cut(start, end)
            start = end


def _end(block: Block, start: int, render: Render, limit: int) -> int:
    """Where the piece that begins at `start` ends."""
    whole = len(block.text)

    def fits(end: int) -> bool:
        return size(render([block.cut(start, end)])) <= limit

    if fits(whole):
        return whole
    low, high = start + 1, min(whole, start + limit + 1)
    while low < high:  # the longest that fits: what is rendered grows with what is cut out
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    end = _between(block.text, start, low)
    while end > start + 1 and not fits(end):  # marks around the words may make a shorter cut the longer text
        end -= 1
    return end


def _between(text: str, start: int, end: int) -> int:
    """A good place to cut at or before `end`."""
    least = start + (end - start) // _LEAST
    for pattern in (_SENTENCE_END, _WORD_END):
        ends = [found.end() for found in pattern.finditer(text, start, end)]
        if ends and ends[-1] > least:
            return ends[-1]
    while end > start + 1 and end < len(text) and _joined(text[end - 1], text[end]):
        end -= 1
    return end


def _joined(before: str, after: str) -> bool:
    """Whether two characters belong to one that is shown: vowel signs, joiners, variants, skin tones."""
    return (
        unicodedata.category(after) in ("Mn", "Mc", "Me")
        or after in _JOINERS
        or before in _JOINERS
        or unicodedata.combining(before) == 9  # a virama waits for its consonant
        or 0x1F3FB <= ord(after) <= 0x1F3FF
    )
