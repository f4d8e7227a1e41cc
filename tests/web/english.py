"""What of a page is still English: every text that a reader meets in Latin letters, but for what has to be.

Names, handles, code and other people's words stay as they are in every language; what has words of ours and
shows them in Latin letters on a page in Hindi was forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Final

_SILENT: Final = frozenset({"code", "pre", "script", "style", "textarea"})
"""Elements with names, commands and the owner's own text."""
_VOID: Final = frozenset({"input", "meta", "link", "br", "hr", "img", "path", "rect", "line", "circle"})
_READ_OUT: Final = ("aria-label", "placeholder", "title", "alt", "data-confirm", "data-label")
_NAMES: Final = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"|‘[^’]*’|\bindai(?: [a-z-]+)+|`[^`]*`|"  # a peer's words, an id, a command, code
    r"https?://\S+|[\w.-]+@[\w.-]+|\b[\w.-]+\.(?:ai|org|com|example|policy|yaml)\b[\w./-]*"
    r"|\bind:[a-z2-7]+|\b[0-9a-f]{8,}\b"
    r"|\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_-]+(?:/[A-Z][A-Za-z_-]+)?|\bdocs/\S+"  # a time zone, a page of ours
)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'’]+")


class _Texts(HTMLParser):
    """Collects what is read, with the language that its element is said to be in."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language, self.found = language, list[str]()
        self._open: list[tuple[str, bool]] = []

    @property
    def _heard(self) -> bool:
        return all(heard for _, heard in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        ours = tag not in _SILENT and (tag == "html" or (said.get("lang") or self.language) == self.language)
        if ours and self._heard:
            self.found += [said[name] or "" for name in _READ_OUT if name in said]
        if tag not in _VOID:
            self._open.append((tag, ours))

    def handle_endtag(self, tag: str) -> None:
        while self._open and tag not in _VOID:
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        if self._heard:
            self.found.append(data)


def english(page: str, language: str, names: Iterable[str]) -> set[str]:
    """The texts of a page in `language` that have Latin words other than `names`, each as it stands."""
    texts = _Texts(language)
    texts.feed(page)
    # A longer name before a part of it.
    known = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or "(?!)")
    return {
        " ".join(text.split())
        for text in texts.found
        if _WORD.search(_NAMES.sub(" ", known.sub(" ", _NAMES.sub(" ", text))))
    }
