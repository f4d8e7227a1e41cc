"""How words are spelled: the forms of a verb, and one key for the ways in which Hindi is romanised. Pure.

Nobody agrees on a spelling of romanised Hindi ("shukravaar", "shukrawar", "sukrvar"), and the same words come
in Devanagari. `key` gives near spellings of both scripts the same letters, `forms` lists a verb as it is
inflected (`forms.txt`), with the helping verbs that follow it ("bhej do") or grow on to it ("bhejdo").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_DEVANAGARI = re.compile(r"[\u0900-\u097f]")
_VOWELS = "aeiou"

# Letters to letters, in this order: what a Hindi ear hears as one.
_SAME = (
    ("w", "v"), ("z", "j"), ("x", "ks"), ("q", "k"), ("ph", "f"), ("sh", "s"), ("ch", "c"), ("ee", "i"),
    ("oo", "u"), ("aa", "a"), ("ai", "e"), ("ei", "e"), ("ou", "au"), ("iy", "i"), ("ey", "e"), ("y", "i"),
)  # fmt: skip
_SIGNS = dict(zip("ािीुूेैोौृॉ", ("aa", "i", "i", "u", "u", "e", "ai", "o", "au", "ri", "o"), strict=True))
_LETTERS = dict(
    zip("अआइईउऊएऐओऔऋऑ", ("a", "aa", "i", "i", "u", "u", "e", "ai", "o", "au", "ri", "o"), strict=True)
)


def fold(word: str) -> str:
    """One spelling for the ways to write a word: small letters, no dots below, anusvara for chandrabindu."""
    plain = unicodedata.normalize("NFD", word.lower()).replace("\u093c", "").replace("\u0901", "\u0902")
    return unicodedata.normalize("NFC", plain).replace("’", "'")


def forms(phrase: str, language: str) -> Iterator[str]:
    """Every form of a verb of `language` (its last word is the stem), the stem first."""
    before, _, stem = phrase.rpartition(" ")
    lead = f"{before} " if before else ""
    for form in _english(stem) if language == "en" else _hindi(stem):
        yield lead + form


def _english(stem: str) -> Iterator[str]:
    yield stem
    base = stem[:-1] if stem.endswith("e") else stem
    yield from (stem + "s", base + "ed", base + "ing")


def _hindi(stem: str) -> Iterator[str]:
    if irregular := _endings().get(f"verb {stem}"):
        yield from (form.replace("_", " ") for form in irregular)
        return
    indian = bool(_DEVANAGARI.search(stem))
    vowel = stem[-1] in _SIGNS or stem[-1] in _LETTERS if indian else stem[-1] in _VOWELS
    script = "hindi-" if indian else ""
    yield stem
    yield from (stem + end for end in _endings()[f"{script}after-{'vowel' if vowel else 'consonant'}"])
    yield from (stem + helper for helper in _endings()["grown"] if not indian)
    yield from (f"{stem} {helper}" for helper in _endings()[f"{script}helpers"])


@cache
def _endings() -> dict[str, tuple[str, ...]]:
    text = files("indai.llm.local").joinpath("forms.txt").read_text("utf-8")
    pairs = (line.split(": ") for line in text.splitlines() if not line.startswith("#"))
    return {name: tuple(fold(rest).split()) for name, rest in pairs}


def key(word: str) -> str:
    """The letters that near spellings of a Hindi word share, in whichever of the two scripts."""
    plain = _romanised(word) if _DEVANAGARI.search(word) else word
    for written, heard in _SAME:
        plain = plain.replace(written, heard)
    plain = re.sub(r"(?<=[bcdgjkpt])h", "", plain)
    plain = re.sub(r"h\b", "", plain)
    return re.sub(r"(.)\1+", r"\1", plain)


def _romanised(word: str) -> str:
    """Devanagari in Latin letters, without the vowels that are written but not spoken."""
    syllables: list[tuple[str, str]] = []
    for each in word:
        if each in _consonants():
            syllables.append((_consonants()[each], "a"))
        elif each in _SIGNS and syllables:
            syllables[-1] = (syllables[-1][0], _SIGNS[each])
        elif each == "\u094d" and syllables:
            syllables[-1] = (syllables[-1][0], "")
        elif each in _LETTERS:
            syllables.append(("", _LETTERS[each]))
        elif each in "\u0902\u0903" and syllables:
            syllables.append(("n" if each == "\u0902" else "h", ""))
    spoken = [
        consonant + ("" if vowel == "a" and _silent(syllables, at) else vowel)
        for at, (consonant, vowel) in enumerate(syllables)
    ]
    return "".join(spoken)


@cache
def _consonants() -> dict[str, str]:
    return dict(zip(_endings()["consonants"], _endings()["consonants-heard"], strict=True))


def _silent(syllables: list[tuple[str, str]], at: int) -> bool:
    if at == len(syllables) - 1:
        return True
    before = at > 0 and bool(syllables[at - 1][1])
    after = at + 2 <= len(syllables) and syllables[at + 1][1] not in ("", "a")
    return before and after and bool(syllables[at + 1][0])
