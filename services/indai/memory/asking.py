"""What a question asks for besides its words: whose turns, and which time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from indai.memory.interfaces import Wanted
from indai.memory.lexical import KEY, tokens, words
from indai.memory.timewords import asks_when, spans
from indai.memory.translit import key


def understand(query: str, now_ms: int, speakers: Iterable[str], zone: str = "UTC") -> Wanted:
    """The one speaker that the question names, in any script, and the span of time it speaks of."""
    return refined(Wanted(now_ms=now_ms), query, speakers, zone)


def refined(wanted: Wanted, query: str, speakers: Iterable[str], zone: str = "UTC") -> Wanted:
    """What was asked for outright, and else what the question's own words ask for."""
    if not wanted.speaker:
        wanted = replace(wanted, speaker=_named(query, speakers))
    wanted = replace(wanted, asks_when=wanted.asks_when or asks_when(query))
    times = [] if wanted.from_ms or wanted.to_ms else spans(query, wanted.now_ms, zone)
    if not times:
        return wanted
    return replace(
        wanted, from_ms=min(span.from_ms for span in times), to_ms=max(span.to_ms for span in times)
    )


def _named(query: str, speakers: Iterable[str]) -> str:
    forms = set(words(query)) | {token.key for token in tokens(query) if token.key}
    named = [name for name in dict.fromkeys(speakers) if _names(name) & forms]
    return named[0] if len(named) == 1 else ""


def _names(speaker: str) -> set[str]:
    return {form for word in words(speaker) for form in (word, KEY + key(word)) if len(form) > 2}
