"""Slack's mrkdwn: https://docs.slack.dev/messaging/formatting-message-text. The three control characters are
escaped, so that no text is a mention or a link of its own."""

from __future__ import annotations

from collections.abc import Sequence

from indai.edge.forms.document import BOLD, CODE_BLOCK, HEADING, ITEM, QUOTE, Block, Span
from indai.edge.forms.starred import marked, plain


def escape(text: str) -> str:
    """Slack's escaping of text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
        return "```" + escape(block.text.replace("```", "\u02cb\u02cb\u02cb")) + "```"
    spans = block.spans
    if block.kind == HEADING:
        spans = tuple(Span(span.text, frozenset({BOLD}), span.link) for span in spans)
    words = "".join(map(_span, spans))
    if block.kind == QUOTE:
        return "\n".join(f"> {line}" for line in words.split("\n"))
    if block.kind == ITEM:
        marker = "•" if block.marker == "-" else block.marker
        lead = "    " * block.depth + (f"{marker} " if marker else "  ")
        return lead + words.replace("\n", "\n" + "    " * block.depth + "  ")
    return words


def _span(span: Span) -> str:
    if span.link and span.link == span.text:
        return f"<{escape(span.link)}>"
    if span.link:
        label = plain(escape(span.text)).replace("\n", " ").replace("|", "/")
        return f"<{escape(span.link)}|{label}>"
    return marked(span, escape(span.text))
