"""Makes values out of matched words: no small words at the ends, no pronouns, nothing that goes on too
long."""

from __future__ import annotations

from indai.memory.extraction.wordings import compiled

MAX_WORDS = 5
MAX_NAME_WORDS = 3

_LEADING, _TRAILING, _EMPTY = compiled("LEADING"), compiled("TRAILING"), compiled("EMPTY")


def thing(words: str) -> str:
    """What somebody likes, does or owns, in lower case; "" if the words name nothing."""
    text = _trimmed(words.casefold())
    parts = text.split()
    if not parts or len(parts) > MAX_WORDS or _empty(parts[0]) or _empty(parts[-1]):
        return ""
    return text


def name(words: str) -> str:
    """A person or a place as it was written, each word capitalised where the script has capitals; "" for
    none."""
    parts = _trimmed(words).split()
    if not parts or len(parts) > MAX_NAME_WORDS or any(map(_empty, parts)):
        return ""
    if any(letter.isdigit() for letter in words) or max(map(len, parts)) < 2:
        return ""
    return " ".join(part[:1].upper() + part[1:] for part in parts)


def capitalised(words: str) -> bool:
    """Whether it is written as a name: by capitals, or in a script that has none."""
    return all(not part[0].isascii() or part[0].isupper() for part in _trimmed(words).split())


def _empty(word: str) -> bool:
    return _EMPTY.fullmatch(word) is not None


def _trimmed(words: str) -> str:
    text = words.strip()
    while (shorter := _TRAILING.sub("", _LEADING.sub("", text))) != text:
        text = shorter
    return text
