"""Tells apart languages that share a script, by letters that only one of them has and by their commonest
words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from indai.language.scripts import BY_SCRIPT

# Letters that one language of the script has and the others lack. Assamese: ra and wa. Sindhi: its implosives
# and others. Kashmiri: its vowel signs. Urdu shares ٹ, ڈ, ڑ, ے with Kashmiri, so that they only speak against
# Sindhi.
_LETTERS: Mapping[str, Mapping[str, str]] = {
    "Beng": {"as": "ৰৱ", "bn": "র"},
    "Arab": {"sd": "ٻڀٺٽٿڄڃڇڊڌڏڍڙڦڪڳڱڻ", "ks": "ٲٳۄۆێؠٟٕۍ", "ur": "ٹڈڑے"},
    "Deva": {"mr": "ळ", "ks": "ॳॴॵॶॷ", "sd": "ॻॼॾॿ"},
}
_BY_LETTER, _BY_WORD = 0.5, 1.0
_WORD = re.compile(r"[^\s.,!?;:()\"।॥؟،۔\-–—0-9]+")
_MOST_WORDS = 200


def tell_apart(text: str, script: str) -> tuple[str, float]:
    """The likeliest language of the script and how sure that is: 0 to 1, 0 if the text says nothing of it."""
    languages = BY_SCRIPT[script]
    if len(languages) == 1:
        return languages[0], 1.0
    points = dict.fromkeys(languages, 0.0)
    for language, letters in _LETTERS.get(script, {}).items():
        points[language] += _BY_LETTER * min(4, sum(letter in letters for letter in text))
    for word in _WORD.findall(text)[:_MOST_WORDS]:
        for language in _markers().get(word, ()):
            if language in points:
                points[language] += _BY_WORD
    best, second = sorted(languages, key=lambda each: -points[each])[:2]
    if not points[best]:
        return languages[0], 0.0
    return best, (points[best] - points[second]) / (points[best] + points[second])


@lru_cache(maxsize=1)
def _markers() -> Mapping[str, tuple[str, ...]]:
    """Languages by marking word."""
    found: dict[str, tuple[str, ...]] = {}
    for line in files("indai.language").joinpath("markers.txt").read_text("utf-8").splitlines():
        language, *words = line.split()
        if language == "#":
            continue
        for word in words:
            found[word] = (*found.get(word, ()), language)
    return found
