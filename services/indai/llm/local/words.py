"""A message as tokens, each with what the word lists (`words/*.txt`, one for each language) say it means.

Lists of all languages apply at once, since people mix them. Dots below letters, chandrabindu and digits of
other scripts are folded. A longer phrase wins over its words; a longer word with one typing error (one letter
missing, added, changed, or two exchanged) is read as the word it is near to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

LANGUAGES = ("en", "hi", "hinglish")
_HANDLE = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/[a-z0-9_-]+"
_LETTER = r"(?:[^\W\d_]|[\u0900-\u0963\u0971-\u097f])"
_PIECE = re.compile(
    rf"(?P<handle>{_HANDLE})|(?P<number>\d+(?:,\d+)*(?:[.:]\d+)?)|w/|(?P<word>{_LETTER}+(?:['-]{_LETTER}+)*)|[₹@&,]",
    re.IGNORECASE,
)
_LONGEST = 4
_TYPED = 6
_DIGITS = 12
_WORDS_FOR_ONE = 6  # one romanised Hindi word in so many makes the message Hinglish


@dataclass(frozen=True, slots=True)
class Token:
    """A word or phrase: as it was written, in small letters, and its meanings (kind to value)."""

    written: str
    said: str
    means: dict[str, str]
    number: str = ""

    def unknown(self) -> bool:
        """Whether no list has it: perhaps a name."""
        return not self.means and not self.number


def fold(word: str) -> str:
    """One spelling for a word's ways to be written."""
    plain = unicodedata.normalize("NFD", word.lower()).replace("\u093c", "").replace("\u0901", "\u0902")
    return unicodedata.normalize("NFC", plain).replace("’", "'")


@cache
def _lists() -> dict[tuple[str, ...], dict[str, str]]:
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for language in LANGUAGES:
        text = files("indai.llm.local").joinpath("words", f"{language}.txt").read_text("utf-8")
        for line in text.splitlines():
            if line and not line.startswith("#"):
                _add(found, line)
    return found


def _add(found: dict[tuple[str, ...], dict[str, str]], line: str) -> None:
    head, _, phrases = line.partition(":")
    kind, _, value = head.partition(" ")
    if kind == "intent":
        kind, value = value, value
    for phrase in phrases.split(","):
        if key := tuple(fold(phrase).split()):
            found.setdefault(key, {})[kind] = value


@cache
def _near() -> dict[str, str]:
    """Every long word with a letter left out, to the word."""
    long = [key[0] for key in _lists() if len(key) == 1 and len(key[0]) >= _TYPED]
    return {short: word for word in long for short in _shortened(word)}


def _shortened(word: str) -> Iterator[str]:
    yield word
    for at in range(1, len(word)):
        yield word[:at] + word[at + 1 :]


@lru_cache(maxsize=4096)
def _corrected(word: str) -> str:
    """The listed word that is one typing error away; the word itself if there is none."""
    if len(word) < _TYPED or (word,) in _lists():
        return word
    return next((_near()[short] for short in _shortened(word) if short in _near()), word)


def tokens(text: str) -> list[Token]:
    """The message, token by token."""
    pieces = [piece for match in _PIECE.finditer(_plain_digits(text)) for piece in _split(match)]
    found: list[Token] = []
    at = 0
    while at < len(pieces):
        taken, token = _longest(pieces, at)
        found.append(token)
        at += taken
    return found


def _plain_digits(text: str) -> str:
    text = text.replace("’", "'")
    return "".join(
        str(unicodedata.digit(each)) if each.isdigit() and not each.isascii() else each for each in text
    )


def _split(match: re.Match[str]) -> Iterator[str]:
    piece = match[0]
    if match["word"] and (fold(piece),) not in _lists() and piece.lower().endswith("'s"):
        yield from (piece[:-2], "'s")
        return
    yield piece


def _longest(pieces: list[str], at: int) -> tuple[int, Token]:
    piece = pieces[at]
    if "/" in piece and piece != "w/":
        return 1, Token(piece, piece.lower(), {"handle": piece.lower()})
    if piece[0].isdigit():
        plain = piece.replace(",", "")
        return 1, Token(piece, piece, {}, plain) if len(plain) <= _DIGITS else Token(
            piece, piece, {"word": ""}
        )
    folded = [fold(each) for each in pieces[at : at + _LONGEST]]
    for size in range(len(folded), 1, -1):
        means = _lists().get(tuple(folded[:size]))
        if means:
            return size, Token(" ".join(pieces[at : at + size]), " ".join(folded[:size]), means)
    means = _lists().get((folded[0],)) or _lists().get((_corrected(folded[0]),), {})
    return 1, Token(piece, unicodedata.normalize("NFC", piece.lower()), means or _mark(piece))


def _mark(piece: str) -> dict[str, str]:
    return {"comma": ""} if piece == "," else {}


def language(text: str) -> str:
    """The language to answer in: `hi` for Devanagari, `hinglish` if words are romanised Hindi, else `en`."""
    if re.search(r"[\u0900-\u097f]", text):
        return "hi"
    said = [fold(match[0]) for match in _PIECE.finditer(text[:8000]) if match["word"]]
    romanised = sum(word in _only_hinglish() for word in said)
    return "hinglish" if romanised * _WORDS_FOR_ONE >= max(len(said), 1) else "en"


@cache
def _only_hinglish() -> frozenset[str]:
    """The words of the Hinglish list that no English phrase has."""
    return frozenset(_listed("hinglish") - _listed("en") - {"log", "char", "mile", "rad", "bees", "jan"})


def _listed(name: str) -> set[str]:
    text = files("indai.llm.local").joinpath("words", f"{name}.txt").read_text("utf-8")
    lines = (line.partition(":")[2] for line in text.splitlines() if not line.startswith("#"))
    return {word for line in lines for word in fold(line.replace(",", " ")).split()}
