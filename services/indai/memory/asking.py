"""What a question asks for besides its words: whose turns, and which time."""

from __future__ import annotations

from collections.abc import Iterable

from indai.memory.interfaces import Wanted
from indai.memory.lexical import words
from indai.memory.translit import key


def understand(query: str, now_ms: int, speakers: Iterable[str]) -> Wanted:
    """The speaker that the question names, in any script, and the span of time it speaks of."""
    asked = words(query)
    keys = {key(word) or word for word in asked}
    named = [name for name in dict.fromkeys(speakers) if name and _names(name) & (keys | set(asked))]
    return Wanted(now_ms=now_ms, speaker=" ".join(named) if len(named) == 1 else "")


def _names(speaker: str) -> set[str]:
    return {form for word in words(speaker) for form in (word, key(word)) if len(form) > 2}
