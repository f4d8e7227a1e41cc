"""The form that WhatsApp and Slack share: *bold*, _italic_, ~strike~, `code`, and no way to escape them.

A literal character that the channel would take for a mark is replaced by its look-alike, and only where a
mark could begin: prices, addresses and file names stay as they are.
"""

from __future__ import annotations

import re
from typing import Final

from indai.edge.forms.document import BOLD, CODE, ITALIC, STRIKE, Span

_LOOK_ALIKE: Final = {"*": "\u2217", "_": "\u02cd", "~": "\u223c", "`": "\u02cb"}
_OPENS: Final = re.compile(r"(?<![^\W_])([*_~`]+)(?=\S)|(?<=\S)([*_~`]+)(?![^\W_])")
_AROUND: Final = ((ITALIC, "_"), (BOLD, "*"), (STRIKE, "~"))


def plain(text: str) -> str:
    """Text in which nothing is taken for a mark."""
    return _OPENS.sub(lambda found: "".join(_LOOK_ALIKE[char] for char in found[0]), text)


def marked(span: Span, text: str) -> str:
    """`text` with the span's marks around each line: a mark does not reach over a line's end, and touches
    what it marks. In code nothing else is a mark."""
    if CODE in span.marks:
        return "\n".join(_wrapped(line.replace("`", _LOOK_ALIKE["`"]), "`") for line in text.split("\n"))
    words = plain(text)
    for mark, sign in _AROUND:
        if mark in span.marks:
            words = "\n".join(_wrapped(line, sign) for line in words.split("\n"))
    return words


def _wrapped(line: str, sign: str) -> str:
    words = line.strip()
    if not words:
        return line
    lead = line[: len(line) - len(line.lstrip())]
    return f"{lead}{sign}{words}{sign}{line[len(line.rstrip()) :]}"
