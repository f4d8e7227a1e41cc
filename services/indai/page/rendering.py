"""Markdown as HTML for a page. Every text is escaped, and the only tags and attributes are the ones here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby
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
    parse,
)
from indai.page.front import FileLink
from indai.v1 import conversation_pb2 as pb
from markupsafe import Markup

_TAGS: Final = ((CODE, "code"), (ITALIC, "em"), (BOLD, "strong"), (STRIKE, "s"))
_REL: Final = 'rel="nofollow noopener noreferrer" target="_blank"'


def html(markdown: str) -> Markup:
    """The text as elements that stand below a heading of the page."""
    parts: list[str] = []
    for listed, blocks in groupby(parse(markdown), _list):
        if listed:
            items = "".join(f"<li>{_words(block)}</li>" for block in blocks)
            parts.append(f"<{listed}>{items}</{listed}>")
        else:
            parts += map(_block, blocks)
    return Markup("".join(parts))  # noqa: S704 - each text in it is escaped below


def _list(block: Block) -> str:
    if block.kind != ITEM:
        return ""
    return "ol" if block.marker[:1].isdigit() else "ul"


def files(media: Iterable[pb.Media], link: FileLink) -> list[dict[str, str]]:
    """Names and addresses of the files of an answer; those without an address are left out."""
    shown = ((each.file_name or each.media_type, link(each)) for each in media)
    return [{"name": name, "url": url} for name, url in shown if url]


def _block(block: Block) -> str:
    if block.kind == CODE_BLOCK:
        return f"<pre>{escape(block.text)}</pre>"
    words = _words(block)
    if block.kind == HEADING:
        return f"<p><strong>{words}</strong></p>"
    if block.kind == QUOTE:
        return f"<blockquote>{words}</blockquote>"
    return f"<p>{words}</p>"


def _words(block: Block) -> str:
    return _joined(block.spans)


def _joined(spans: Iterable[Span]) -> str:
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    words = escape(span.text).replace("\n", "<br>")
    for mark, tag in _TAGS:
        if mark in span.marks:
            words = f"<{tag}>{words}</{tag}>"
    return f'<a href="{escape(span.link)}" {_REL}>{words}</a>' if span.link else words
