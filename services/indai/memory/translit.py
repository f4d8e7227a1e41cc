"""One key for a word however it is spelled: in an Indian script, or in Latin letters as people type it.

The nine scripts that ISCII laid out alike (Devanagari to Malayalam) are read by their offset in the Unicode
block (The Unicode Standard, chapter 12) into a rough romanisation. That and what people type then fold the
same way: no aspiration, no vowel length, no inner "a" (which also settles which inherent vowels are
silent), v = w, ph = f, z = j, sh = s, nasals alike, and no final vowel, so that gender and number of a
Hindi word agree.
"""

from __future__ import annotations

import re
from functools import lru_cache

_FIRST, _TELUGU, _LAST, _BLOCK = 0x0900, 0x0C00, 0x0D7F, 0x80


def _numbered(names: str, start: int) -> dict[int, str]:
    return dict(enumerate(names.split(), start))


_CONSONANTS = _numbered(
    "k kh g gh n ch ch j jh n t t d d n t t d d n n p f b bh m y r r l l l v s s s h", 0x15
)
_VOWELS = {
    **_numbered("e a aa i ii u uu ri li e e e ai o o o au", 0x04),
    0x60: "ri",
}
_SIGNS = {
    **_numbered("aa i ii u uu ri ri e e e ai o o o au", 0x3E),
    0x56: "ai",
    0x57: "au",
}
_NASALS = (0x01, 0x02)
_VIRAMA, _NUKTA, _ADDAK = 0x4D, 0x3C, 0x71
# A dot below changes a few letters: qa, fa, za and the flapped d, which people type as d or r.
_DOTTED = {"kh": "kh", "j": "z", "f": "f"}
# Letters outside the common layout.
_ODD = {"ৎ": "t", "ੰ": "n", "ൺ": "n", "ൻ": "n", "ർ": "r", "ൽ": "l", "ൾ": "l", "ൿ": "k", "ৰ": "r", "ৱ": "v"}

_FOLDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), into)
    for pattern, into in (
        (r"sch(?=oo|u|e)", "sk"),
        (r"jny|jn|gny", "gy"),
        (r"ksh|x", "ks"),
        (r"c+h+", "C"),
        (r"ck|q", "k"),
        (r"c(?=[eiy])", "s"),
        (r"c", "k"),
        (r"C", "c"),
        (r"ph", "f"),
        (r"sh+", "s"),
        (r"([kgjtdb])h", r"\1"),
        (r"w", "v"),
        (r"z", "j"),
        (r"ee|ea|ii", "i"),
        (r"oo|uu", "u"),
        (r"a+", "a"),
        (r"([b-df-hj-np-tv-z])\1+", r"\1"),
        # "rehta" and "rahta", "behen" and "bahan".
        (r"ehe?", "ah"),
        (r"m(?=[bpfv])", "n"),
        (r"iy(?=[aeiou])", "i"),
        (r"(?<=[^aeiou])y(?![aeiou])", "i"),
        (r"(?:ay|ai|ey|ei|ae)(?![aou])", "e"),
        (r"au|ao|ou|av(?![aeiou])", "o"),
    )
)
_ROMAN_PLURAL = re.compile(r"(?<=\w\w\w)(?:i?yaa?n|i?yon|ein|on)$")
_FINAL_VOWELS = re.compile(r"[aeiou]+$")
_NO_CONSONANT = re.compile(r"[aeiou]")


def is_indic(word: str) -> bool:
    """Whether it is written in one of the nine scripts."""
    return any(_FIRST <= ord(letter) <= _LAST for letter in word)


@lru_cache(maxsize=65_536)
def key(word: str) -> str:
    """The folded key of one normalised, lower-case word; "" for other scripts, or if too little is left."""
    if is_indic(word):
        roman = romanise(word)
    elif word.isascii() and word.isalpha():
        roman = _ROMAN_PLURAL.sub("", word)
    else:
        return ""
    return _fold(roman)


def _fold(roman: str) -> str:
    for pattern, into in _FOLDS:
        roman = pattern.sub(into, roman)
    folded = roman[:1] + roman[1:].replace("a", "")
    stripped = _FINAL_VOWELS.sub("", folded)
    if len(_NO_CONSONANT.sub("", stripped)) >= 3:
        folded = stripped
    return folded if len(folded) >= 2 else ""


def romanise(word: str) -> str:
    """An Indic word in rough Latin letters, with its inherent vowels, but for the last."""
    out: list[str] = []
    open_consonant = False
    for position, letter in enumerate(word):
        last = position == len(word) - 1
        if not _FIRST <= ord(letter) <= _LAST:
            out.append(letter if letter.isascii() else "")
            continue
        offset = (ord(letter) - _FIRST) % _BLOCK
        if letter in _ODD:
            out.append(("a" if open_consonant else "") + _ODD[letter])
        elif offset == _NUKTA and out:
            out[-1] = _DOTTED.get(out[-1], out[-1])
            continue
        elif offset in _SIGNS:
            out.append(_SIGNS[offset])
        elif offset in _NASALS:
            out.append(("a" if open_consonant else "") + ("n" if not last else _last_nasal(letter)))
        elif offset in _CONSONANTS or offset in _VOWELS:
            out.append(("a" if open_consonant else "") + _CONSONANTS.get(offset, _VOWELS.get(offset, "")))
        open_consonant = offset in _CONSONANTS and letter not in _ODD
    return _plain_plural("".join(out), word)


def _last_nasal(letter: str) -> str:
    """In Telugu, Kannada and Malayalam an "m"; elsewhere it only colours the vowel and is rarely typed."""
    return "m" if ord(letter) >= _TELUGU else ""


def _plain_plural(roman: str, word: str) -> str:
    """Without the ending of an oblique plural, whose nasal is gone already."""
    nasal = (ord(word[-1]) - _FIRST) % _BLOCK in _NASALS if _FIRST <= ord(word[-1]) <= _LAST else False
    if nasal and len(roman) > 3:
        return re.sub(r"(?:i+y(?:aa|o)|aa|o|e)$", "", roman)
    return roman
