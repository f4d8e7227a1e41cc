"""Telegram's HTML style: https://core.telegram.org/bots/api#html-style. Every text is escaped; the only tags
are these."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from indai.edge.forms.document import (
    BOLD,
    CODE,
    CODE_BLOCK,
    HEADING,
    ITALIC,
    ITEM,
    QUOTE,
    STRIKE,
    Block,
    Span,
)

_TAGS: Final = ((CODE, "code"), (ITALIC, "i"), (BOLD, "b"), (STRIKE, "s"))


def render(blocks: Sequence[Block]) -> str:
    """The blocks as one text."""
    text = ""
    for number, block in enumerate(blocks):
        if number:
            text += "\n" if block.kind == ITEM == blocks[number - 1].kind else "\n\n"
        text += _block(block)
    return text


def _block(block: Block) -> str:
    if block.kind == CODE_BLOCK:
        return f"<pre>{escape(block.text, quote=False)}</pre>"
    words = "".join(map(_span, block.spans))
    if block.kind == HEADING:
        return f"<b>{words.replace('<b>', '').replace('</b>', '')}</b>"
    if block.kind == QUOTE:
        return f"<blockquote>{words}</blockquote>"
    if block.kind == ITEM:
        marker = "•" if block.marker == "-" else block.marker
        return "  " * block.depth + (f"{marker} " if marker else "  ") + words
    return words


def _span(span: Span) -> str:
    words = escape(span.text, quote=False)
    for mark, tag in _TAGS:
        # Telegram takes no other mark within code.
        if mark in span.marks and (mark == CODE or CODE not in span.marks):
            words = f"<{tag}>{words}</{tag}>"
    return f'<a href="{escape(span.link)}">{words}</a>' if span.link else words
