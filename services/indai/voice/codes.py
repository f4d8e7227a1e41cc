"""Codes of approvals as they are said: their first characters, by the words of the radiotelephony spelling
alphabet (ICAO Annex 10, volume II, 5.2.1.3), which people and recognisers tell apart.

Four of eight characters are quoted: nobody says them by accident, and a call knows only the codes that it has
asked about itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

QUOTED: Final = 4
_WORDS: Final = [
    "alfa",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliett",
    "kilo",
    "lima",
    "mike",
    "november",
    "oscar",
    "papa",
    "quebec",
    "romeo",
    "sierra",
    "tango",
    "uniform",
    "victor",
    "whiskey",
    "xray",
    "yankee",
    "zulu",
]
_DIGITS: Final = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_SAID: Final = {
    **{word[0]: word for word in _WORDS},
    **{str(digit): word for digit, word in enumerate(_DIGITS)},
}
_ALSO: Final = {"alpha": "a", "juliet": "j", "whisky": "w", "niner": "9", "oh": "0"}
_MEANT: Final = {word: char for char, word in _SAID.items()} | _ALSO
_YES: Final = frozenset({"yes", "yeah", "approve", "haan", "han", "हाँ", "हां"})
_NO: Final = frozenset({"no", "decline", "nahi", "nahin", "नहीं"})
_BETWEEN: Final = re.compile(r"[\s.,;:!?।-]+")  # not all signs of Indic letters are \w
_X_RAY: Final = re.compile(r"\bx[\s-]ray\b")


def spelled(code: str) -> str:
    """What is said of a code: `golf, hotel, juliett, kilo`."""
    return ", ".join(_SAID[char] for char in code.lower()[:QUOTED] if char in _SAID)


def quoted(text: str, codes: Iterable[str]) -> str:
    """`yes CODE` or `no CODE` for a text that says so of one of the codes, and of nothing else; otherwise
    nothing."""
    first, *words = _BETWEEN.sub(" ", _X_RAY.sub("xray", text.casefold())).split() or [""]
    said = "".join(_MEANT.get(word, word) for word in words)
    found = [code for code in codes if len(said) >= QUOTED and code.lower().startswith(said)]
    if len(found) != 1 or first not in _YES | _NO:
        return ""
    return f"{'yes' if first in _YES else 'no'} {found[0]}"
