"""Markdown (CommonMark, with strikethrough and tables) as blocks of spans, which every form is made from.

What an agent says is data: HTML in it stays text, and only links that a person would open are links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from indai.edge.forms.addresses import addresses
from markdown_it import MarkdownIt
from markdown_it.token import Token

BOLD, ITALIC, STRIKE, CODE = "bold", "italic", "strike", "code"
PARAGRAPH, HEADING, ITEM, QUOTE, CODE_BLOCK = "paragraph", "heading", "item", "quote", "code"
_MARKS: Final = {"strong": BOLD, "em": ITALIC, "s": STRIKE}
_SCHEMES: Final = ("http", "https", "mailto", "tel")
_MAX_DEPTH: Final = 4
_MAX_ADDRESS: Final = 400
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u202d\u202e]")


@dataclass(frozen=True, slots=True)
class Span:
    """Words with their marks; `link` is an address, or empty."""

    text: str
    marks: frozenset[str] = frozenset()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, item of a list (with its marker and depth from 0), quote, or block of code."""

    kind: str
    spans: tuple[Span, ...]
    marker: str = ""
    depth: int = 0

    @property
    def text(self) -> str:
        """The words alone."""
        return "".join(span.text for span in self.spans)

    def cut(self, start: int, end: int) -> Block:
        """The characters from `start` to `end` of its words; what follows a list's item has no marker."""
        kept: list[Span] = []
        at = 0
        for span in self.spans:
            words = span.text[max(0, start - at) : max(0, end - at)]
            at += len(span.text)
            if words:
                kept.append(replace(span, text=words))
        return replace(self, spans=tuple(kept), marker=self.marker if start == 0 else "")


@dataclass
class _Place:
    """Where the reader of tokens stands."""

    lists: list[list[int | None]]
    quotes: int = 0
    fresh_item: bool = False
    heading: bool = False
    cell: bool = False


_PARSER: Final = addresses(MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]))


def parse(markdown: str) -> tuple[Block, ...]:
    """The blocks of a text; empty ones are left out."""
    tokens = _PARSER.parse(_printable(markdown))
    return tuple(block for block in _blocks(tokens) if block.text.strip())


def _printable(text: str) -> str:
    """Without control characters, which no channel shows and some refuse, and overrides of direction, which
    make words look like others."""
    return "".join(char for char in text if char in "\n\t" or not _CONTROL.match(char))


def _blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    place = _Place([])
    row: list[Span] = []
    for token in tokens:
        match token.type:
            case "bullet_list_open":
                place.lists.append([None])
            case "ordered_list_open":
                place.lists.append([int(token.attrGet("start") or 1) - 1])
            case "bullet_list_close" | "ordered_list_close":
                place.lists.pop()
            case "list_item_open":
                place.fresh_item = True
                place.lists[-1][0] = None if place.lists[-1][0] is None else place.lists[-1][0] + 1
            case "blockquote_open":
                place.quotes += 1
            case "blockquote_close":
                place.quotes -= 1
            case "heading_open":
                place.heading = True
            case "heading_close":
                place.heading = False
            case "fence" | "code_block":
                yield Block(CODE_BLOCK, (Span(token.content.rstrip("\n")),))
            case "td_open" | "th_open":
                place.cell = True
            case "td_close" | "th_close":
                place.cell = False
                row.append(Span(" | "))
            case "tr_close":
                yield Block(PARAGRAPH, tuple(row[:-1]))
                row = []
            case "inline" if place.cell:
                row += _spans(token.children or [])
            case "inline":
                yield _placed(place, tuple(_spans(token.children or [])))


def _placed(place: _Place, spans: tuple[Span, ...]) -> Block:
    if place.lists:
        number = place.lists[-1][0]
        marker = ("-" if number is None else f"{number}.") if place.fresh_item else ""
        place.fresh_item = False
        return Block(ITEM, spans, marker, min(len(place.lists) - 1, _MAX_DEPTH))
    if place.quotes:
        return Block(QUOTE, spans)
    return Block(HEADING if place.heading else PARAGRAPH, spans)


def _spans(children: Sequence[Token]) -> Iterator[Span]:
    marks: list[str] = []
    link = ""
    for token in children:
        kind = token.type
        if kind.endswith("_open") and kind[:-5] in _MARKS:
            marks.append(_MARKS[kind[:-5]])
        elif kind.endswith("_close") and kind[:-6] in _MARKS:
            marks.remove(_MARKS[kind[:-6]])
        elif kind == "link_open":
            link = _address(str(token.attrGet("href") or ""))
        elif kind == "link_close":
            link = ""
        elif kind in ("softbreak", "hardbreak"):
            yield Span("\n")
        elif kind == "image":
            yield Span(token.content, frozenset(marks), _address(str(token.attrGet("src") or "")))
        elif token.content:
            code = {CODE} if kind == "code_inline" else set()
            yield Span(token.content, frozenset(marks) | code, link)


def _address(text: str) -> str:
    """A link's address if it is one that a person would open, else nothing."""
    try:
        scheme = urlsplit(text).scheme.lower()
    except ValueError:
        return ""
    if len(text) > _MAX_ADDRESS:
        return ""  # it would not fit beside its words in the shortest of messages
    return text if scheme in _SCHEMES and text.isprintable() and not set(text) & set(' <>"|') else ""
