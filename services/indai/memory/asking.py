"""What a question asks for besides its words: whose turns, and which time."""

from __future__ import annotations

from collections.abc import Iterable

from indai.memory.interfaces import Wanted
from indai.memory.lexical import KEY, tokens, words
from indai.memory.timewords import spans
from indai.memory.translit import key


def understand(query: str, now_ms: int, speakers: Iterable[str], zone: str = "UTC") -> Wanted:
    """The one speaker that the question names, in any script, and the span of time it speaks of."""
    asked = set(words(query))
    forms = asked | {token.key for token in tokens(query) if token.key}
    named = [name for name in dict.fromkeys(speakers) if _names(name) & forms]
    times = spans(query, now_ms, zone)
    return Wanted(
        now_ms=now_ms,
        speaker=named[0] if len(named) == 1 else "",
        from_ms=min((span.from_ms for span in times), default=0),
        to_ms=max((span.to_ms for span in times), default=0),
    )


def _names(speaker: str) -> set[str]:
    return {form for word in words(speaker) for form in (word, KEY + key(word)) if len(form) > 2}
