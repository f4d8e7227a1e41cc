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

from indai.language import detect
from indai.language.scripts import SCRIPT_OF
from indai.llm.local.spelling import fold, forms, key

LANGUAGES = ("en", "hi", "hinglish")
"""Those that requests are read in."""
SPOKEN = tuple(
    each
    for each in sorted(SCRIPT_OF)
    if each not in LANGUAGES and files("indai.llm.local").joinpath("phrases", f"{each}.txt").is_file()
)
"""Those that outcomes are said in besides."""
_INDIC = re.compile(r"[\u0600-\u06ff\u0750-\u077f\u0900-\u0d7f\u1c50-\u1c7f\uaae0-\uaaff\uabc0-\uabff]")
_SAMPLE = 500  # characters by which a language is told
_SURE = 0.85  # languages in Devanagari have most words in common with Hindi
# A name's parts are bounded (RFC 1035), or "a.a.a.a…" would be read to its end from each of its letters.
_HANDLE = r"[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,16}/[a-z0-9_-]+"
_LETTER = r"(?:[^\W\d_]|[\u0900-\u0963\u0971-\u097f])"
_PIECE = re.compile(
    rf"(?P<handle>{_HANDLE})|(?P<number>\d+(?:,\d+)*(?:[.:]\d+)?)|w/|(?P<word>{_LETTER}+(?:['-]{_LETTER}+)*)|[₹@&,]",
    re.IGNORECASE,
)
_LONGEST = 4
_TYPED = 6  # letters of a word whose typing errors are put right
_LONGEST_TYPED = 32
_KEYED = 4  # letters of a key: shorter ones are shared by too many words
_DIGITS = 12
_ENGLISH_TOO = {
    *("log", "char", "mile", "rad", "bees", "jan", "male", "tale", "mango", "role", "rote", "rate", "tala"),
    *("late", "lane", "mange", "dale", "hue", "pane", "bane", "use", "in", "un", "to", "ya", "are", "run"),
    *(
        "aa",
        "bare",
        "band",
        "ban",
        "final",
        "scene",
        "mat",
        "par",
        "fir",
        "mint",
        "pone",
        "ration",
        "tin",
        "tang",
    ),
    *(
        "hum",
        "dam",
        "tut",
        "programme",
        "wicket",
        "timing",
        "thanx",
        "rat",
        "rum",
        "sang",
        "bat",
        "bis",
        "das",
    ),
    *("runs", "or", "the", "me", "he", "na", "do"),
}
_WORDS_FOR_ONE = 6  # one romanised Hindi word in so many makes the message Hinglish


@dataclass(frozen=True, slots=True)
class Token:
    """A word or phrase: as it was written, in small letters, and its meanings (kind to value)."""

    written: str
    said: str
    means: dict[str, str]
    number: str = ""

    def unknown(self) -> bool:
        """Whether it may be a name: no list has it, or it is a name that is a word as well, or a relative."""
        if "name" in self.means:
            return len(self.means) == 1 or self.written[:1].isupper() or not self.written.isascii()
        return "relative" in self.means or (not self.means and not self.number)


@cache
def _lists() -> dict[tuple[str, ...], dict[str, str]]:
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for language in LANGUAGES:
        for line in _lines(language):
            _add(found, line, language)
    return found


def _lines(language: str) -> Iterator[str]:
    text = files("indai.llm.local").joinpath("words", f"{language}.txt").read_text("utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def _add(found: dict[tuple[str, ...], dict[str, str]], line: str, language: str) -> None:
    head, _, phrases = line.partition(":")
    kind, _, value = head.partition(" ")
    if kind == "intent":
        kind, value = value, value
    for spelled in _spelled(phrases, language):
        found.setdefault(spelled, {})[kind] = value


def _spelled(phrases: str, language: str) -> Iterator[tuple[str, ...]]:
    """Every phrase of a line, and every form of those that are verbs, as words."""
    for phrase in map(fold, phrases.split(",")):
        for form in forms(phrase.strip()[:-1], language) if phrase.endswith("~") else (phrase,):
            if words := tuple(form.split()):
                yield words


@cache
def _known() -> frozenset[str]:
    """Every word that a phrase of the lists has."""
    return frozenset(word for phrase in _lists() for word in phrase)


@cache
def _by_key() -> dict[str, str]:
    """The romanised words of the Hinglish list by the key of their spelling."""
    found: dict[str, str] = {}
    for word in _words("hinglish"):
        if word not in _words("en") and len(spelled := key(word)) >= _KEYED:
            found.setdefault(spelled, word)
    return found


@cache
def _near() -> dict[str, str]:
    """Every long word of the lists with a letter left out, to the word."""
    long = [word for name in LANGUAGES for word in _listed(name) if len(word) >= _TYPED]
    return {short: word for word in long for short in _shortened(word)}


def _shortened(word: str) -> Iterator[str]:
    yield word
    for at in range(1, len(word)):
        yield word[:at] + word[at + 1 :]


@lru_cache(maxsize=4096)
def _corrected(word: str) -> str:
    """The listed word that this is another spelling of or one typing error away from, or the word itself."""
    if word in _known():
        return word
    if found := _by_key().get(key(word)):
        return found
    if not _TYPED <= len(word) <= _LONGEST_TYPED:
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
    folded = [_corrected(fold(each)) for each in pieces[at : at + _LONGEST]]
    for size in range(len(folded), 1, -1):
        means = _lists().get(tuple(folded[:size]))
        if means:
            return size, Token(" ".join(pieces[at : at + size]), " ".join(folded[:size]), means)
    means = _lists().get((folded[0],), {})
    return 1, Token(piece, unicodedata.normalize("NFC", piece.lower()), means or _mark(piece))


def _mark(piece: str) -> dict[str, str]:
    return {"comma": ""} if piece == "," else {}


def language(text: str) -> str:
    """The language to answer in: that of the script, `hi` for Devanagari where nothing tells otherwise;
    `hinglish` if words are romanised Hindi, else `en`."""
    if _INDIC.search(text):
        found = detect(text[:_SAMPLE])
        if found.language in SPOKEN and (found.script != "Deva" or found.confidence >= _SURE):
            return found.language
        return "hi" if re.search(r"[\u0900-\u097f]", text) else "en"
    said = [fold(match[0]) for match in _PIECE.finditer(text[:8000]) if match["word"]]
    romanised = sum(word in _only_hinglish() for word in said)
    return "hinglish" if romanised * _WORDS_FOR_ONE >= max(len(said), 1) else "en"


@cache
def _only_hinglish() -> frozenset[str]:
    """The words of the Hinglish list that no English phrase has, and that are not names."""
    names = {word for word, means in _lists().items() if "name" in means}
    romanised = {word for word in _words("hinglish") if (word,) not in names}
    return frozenset(romanised - _words("en").keys() - _ENGLISH_TOO)


@cache
def _words(language: str) -> dict[str, None]:
    """The words of a list in all their forms, in its order."""
    lines = (line.partition(":")[2] for line in _lines(language))
    return {word: None for line in lines for phrase in _spelled(line, language) for word in phrase}


@cache
def _listed(language: str) -> dict[str, None]:
    """The words of a list as they stand there, verbs as stems."""
    lines = (line.partition(":")[2] for line in _lines(language))
    return {word: None for line in lines for word in fold(re.sub("[,~]", " ", line)).split()}
