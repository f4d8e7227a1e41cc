"""WhatsApp's form: https://faq.whatsapp.com/539178204879377 (links as they are)."""

from __future__ import annotations

from collections.abc import Sequence

from indai.edge.forms.document import BOLD, CODE_BLOCK, HEADING, ITEM, QUOTE, Block, Span
from indai.edge.forms.starred import marked


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
        return "```" + block.text.replace("```", "\u02cb\u02cb\u02cb") + "```"
    spans = block.spans
    if block.kind == HEADING:
        spans = tuple(Span(span.text, frozenset({BOLD}), span.link) for span in spans)
    words = "".join(map(_span, spans))
    if block.kind == QUOTE:
        return "\n".join(f"> {line}" for line in words.split("\n"))
    if block.kind == ITEM:
        lead = "  " * block.depth + (f"{block.marker} " if block.marker else "  ")
        return lead + words.replace("\n", "\n" + "  " * (block.depth + 1))
    return words


def _span(span: Span) -> str:
    # Nothing is replaced in an address: it must open.
    words = span.text if span.text == span.link else marked(span, span.text)
    return words if not span.link or span.text == span.link else f"{words} ({span.link})"
