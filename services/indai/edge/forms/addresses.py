"""Web addresses that stand in a text as people write them: found before marks are, so that an underscore in
one marks nothing and every form keeps it as it is."""

from __future__ import annotations

import re
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_inline import StateInline

_SCHEME: Final = re.compile(r"(?<![A-Za-z0-9])https?$", re.IGNORECASE)
# Without the marks that may stand around it; a full stop or bracket behind it is the sentence's.
_REST: Final = re.compile(r"://(?:[^\s<>\"'\\*`|]|\\[!-/:-@\[-`{-~])+")
_SENTENCES: Final = ".,;:!?)]}~"
_UNDERSCORE: Final = ord("_")


def addresses(parser: MarkdownIt) -> MarkdownIt:
    """The parser, which now knows them."""
    parser.inline.ruler.before("newline", "address", _address)
    return parser


def _address(state: StateInline, silent: bool) -> bool:
    """A rule of markdown-it: at `://`, with the scheme in what was read before."""
    if not (scheme := _SCHEME.search(state.pending)):
        return False
    if not (found := _REST.match(state.src, state.pos, state.posMax)):
        return False
    # An underscore at its end closes what one before it has opened, if there is such.
    within = any(each.marker == _UNDERSCORE and each.open and each.end < 0 for each in state.delimiters)
    rest = found[0].rstrip(_SENTENCES + ("_" if within else ""))
    if len(rest) <= len("://"):
        return False
    if state.linkLevel > 0:  # it is what a link is called, and leads where the link does
        state.pending += unescapeAll(rest)
    elif not silent:
        state.pending = state.pending[: scheme.start()]
        url = scheme[0] + unescapeAll(rest)
        state.push("link_open", "a", 1).attrs = {"href": url}
        state.push("text", "", 0).content = url
        state.push("link_close", "a", -1)
    state.pos += len(rest)
    return True
