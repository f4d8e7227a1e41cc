"""No form at all: for channels that show letters only, and sentences for those that speak."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from indai.edge.forms.document import CODE_BLOCK, ITEM, Block, Span, parse

_SENTENCES: Final = re.compile(r"(?<=[.!?…।॥؟۔])\s+|\n+")
_ADDRESS: Final = re.compile(r"\b(?:https?://|www\.)\S+|\bmailto:\S+")
_GAP: Final = re.compile(r"\s(?=[.!?…।॥؟۔,;:])")  # where a picture stood
_PICTURES: Final = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]+")


def render(blocks: Sequence[Block]) -> str:
    """The blocks as letters."""
    lines: list[str] = []
    for block in blocks:
        words = block.text if block.kind == CODE_BLOCK else "".join(map(_span, block.spans))
        lead = "  " * block.depth + (f"{block.marker} " if block.marker else "") if block.kind == ITEM else ""
        lines.append(lead + words)
    return "\n".join(lines)


def spoken(markdown: str) -> list[str]:
    """Sentences to say: no marks, addresses or pictures, and each with an end."""
    found: list[str] = []
    for block in parse(markdown):
        for sentence in _SENTENCES.split(_PICTURES.sub(" ", _ADDRESS.sub(" ", block.text))):
            words = _GAP.sub("", " ".join(sentence.split()).strip(" -|"))
            if any(char.isalnum() for char in words):
                found.append(words if words[-1] in ".!?…।॥؟۔" else words.rstrip(":;,") + ".")
    return found


def _span(span: Span) -> str:
    return span.text if span.link in ("", span.text) else f"{span.text} ({span.link})"
