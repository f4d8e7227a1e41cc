"""Text to terms for the lexical leg of recall: any script, and both spellings of Indian words.

Words are cut after UAX #29's idea (letters, marks and digits hold together), normalised by NFKC and case
folding, stripped of Latin accents, and stemmed if they look English (Snowball's Porter 2). Scripts that
write without spaces give pairs of characters. Each word that has one also gives its transliteration key
(`indai.memory.translit`), marked with `KEY`, so that no key can be taken for a word.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import snowballstemmer
from indai.memory.translit import is_indic, key

KEY = "~"
KEY_WEIGHT = 0.35
# A longer "word" is data: a key, a link, an attack on the index.
MAX_TERM = 40
MAX_CHARACTERS = 100_000

_MARKS = "".join(chr(c) for c in range(0x300, 0x3100) if unicodedata.category(chr(c)).startswith("M"))
_JOINERS = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}{_JOINERS}]|['’](?=[^\W\d_]))*")
_DROPPED = re.compile(rf"[{_JOINERS}'’]")
# Han, kana, Thai, Lao, Myanmar, Khmer: no spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_STOP = frozenset(
    word
    for line in files("indai.memory").joinpath("stopwords.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
    for word in line.split()
)
_stemmer = snowballstemmer.stemmer("english")


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a text: its term, and its transliteration key ("" if it has none)."""

    term: str
    key: str = ""


def terms(text: str) -> list[str]:
    """What a text is indexed under, in order and with repetition: terms, and keys marked with `KEY`.

    Never empty because of stop words alone: a text of nothing else keeps them.
    """
    return [
        form for token in tokens(text) for form in ((token.term, token.key) if token.key else (token.term,))
    ]


def query_terms(text: str) -> dict[str, float]:
    """What to look for, each once with its weight. A key says less than the word itself."""
    weights: dict[str, float] = {}
    for token in tokens(text):
        weights[token.term] = 1.0
        if token.key:
            weights[token.key] = KEY_WEIGHT
    return weights


def tokens(text: str) -> list[Token]:
    """The words that carry meaning, each with its key; all words if none does."""
    found = words(text)
    kept = [word for word in found if word not in _STOP]
    return [_token(word) for word in kept or found]


def words(text: str) -> list[str]:
    """Every word, normalised: NFKC, case folded, Latin without accents, digits of any script as ASCII."""
    plain = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).casefold()
    out: list[str] = []
    for match in _WORD.finditer(plain):
        word = _normal(match.group())
        if _UNSPACED.search(word):
            out.extend(_pairs(word))
        elif word:
            out.append(word[:MAX_TERM])
    return out


@lru_cache(maxsize=65_536)
def _normal(word: str) -> str:
    word = re.sub(r"['’]s$", "", word)
    word = _DROPPED.sub("", word)
    if word.isascii():
        return word
    if not is_indic(word) and not _UNSPACED.search(word):
        decomposed = unicodedata.normalize("NFD", word)
        word = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return "".join(
        str(unicodedata.decimal(letter)) if letter.isdecimal() else letter
        for letter in unicodedata.normalize("NFC", word)
    )


def _pairs(word: str) -> list[str]:
    out: list[str] = []
    for part in re.split(f"({_UNSPACED.pattern})", word):
        if _UNSPACED.fullmatch(part):
            out.extend(part[i : i + 2] for i in range(max(len(part) - 1, 1)))
        elif part:
            out.append(part[:MAX_TERM])
    return out


@lru_cache(maxsize=65_536)
def _token(word: str) -> Token:
    found = key(word)
    term = _stemmer.stemWord(word) if word.isascii() and word.isalpha() else word
    return Token(term, KEY + found[:MAX_TERM] if found else "")
