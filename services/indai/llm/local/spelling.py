"""How words are spelled: the forms of a verb, and one key for the ways in which Hindi is romanised. Pure.

Nobody agrees on a spelling of romanised Hindi ("shukravaar", "shukrawar", "sukrvar"), and the same words come
in Devanagari. `key` gives near spellings of both scripts the same letters, `forms` lists a verb as it is inflected,
with the helping verbs that follow it ("bhej do") or grow on to it ("bhejdo").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_DEVANAGARI = re.compile(r"[\u0900-\u097f]")
_VOWELS = "aeiou"

_ENGLISH = ("s", "ed", "ing")
_AFTER_CONSONANT = (
    "o na ni ne iye iyega ie en ein e u un oon unga ungi oonga enge ega egi oge ta ti te kar ke a"
).split()
_AFTER_VOWEL = "o na ni ne iye iyega ie yen yein ye un unga ungi enge yenge ega yega egi ta te kar ke ya yi".split()
_HELPERS = "do dena dijiye dijie de dein lo lena lijiye le dun dete lete lenge denge dunga".split()
_GROWN = "do dena dijiye de lo lena le".split()
_IRREGULAR = {
    "de": "de dena dene deni dijiye dijie dein dun dunga denge dega deta dete dekar dedo de do dede".split(),
    "le": "le lo lena lene leni lijiye lijie lein lun lunga lenge lega leta lete lekar lelo le lo lele".split(),
    "दे": "दे देना देने देनी दीजिए दीजिये दें दूं दूंगा देंगे देगा देता देते देकर दे_दो दे_देना दे_दीजिए दे_दे".split(),
    "ले": "ले लो लेना लेने लेनी लीजिए लीजिये लें लूं लूंगा लेंगे लेगा लेता लेते लेकर ले_लो ले_लेना ले_लीजिए".split(),
}
_HINDI_AFTER_CONSONANT = "ो ना नी ने िए िये िएगा ें ूं ूंगा ूंगी ेंगे ेगा ेगी ता ती ते कर के ा ी े".split()
_HINDI_AFTER_VOWEL = "ओ ना नी ने इए इये इएगा एं ऊं ऊंगा ऊंगी एंगे एगा एगी ता ती ते कर के या ई ए".split()
_HINDI_HELPERS = "दो देना दीजिए दीजिये दे दें लो लेना लीजिए लीजिये ले लें दूं देते लेते लेंगे देंगे".split()

# Letters to letters, in this order: what a Hindi ear hears as one.
_SAME = (
    ("w", "v"), ("z", "j"), ("x", "ks"), ("q", "k"), ("ph", "f"), ("sh", "s"), ("ch", "c"), ("ee", "i"),
    ("oo", "u"), ("aa", "a"), ("ai", "e"), ("ei", "e"), ("ou", "au"), ("iy", "i"), ("ey", "e"), ("y", "i"),
)  # fmt: skip
_CONSONANTS = dict(
    zip(
        "कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसह",
        "k kh g gh n ch chh j jh n t th d dh n t th d dh n p ph b bh m y r l v sh sh s h".split(),
        strict=True,
    )
)
_SIGNS = dict(zip("ािीुूेैोौृॉ", ("aa", "i", "i", "u", "u", "e", "ai", "o", "au", "ri", "o"), strict=True))
_LETTERS = dict(
    zip("अआइईउऊएऐओऔऋऑ", ("a", "aa", "i", "i", "u", "u", "e", "ai", "o", "au", "ri", "o"), strict=True)
)


def fold(word: str) -> str:
    """One spelling for a word's ways to be written: small letters, no dots below, anusvara for chandrabindu."""
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
    if stem in _IRREGULAR:
        yield from (form.replace("_", " ") for form in _IRREGULAR[stem])
        return
    yield stem
    if _DEVANAGARI.search(stem):
        vowel = stem[-1] in _SIGNS or stem[-1] in _LETTERS
        yield from (stem + end for end in (_HINDI_AFTER_VOWEL if vowel else _HINDI_AFTER_CONSONANT))
        yield from (f"{stem} {helper}" for helper in _HINDI_HELPERS)
        return
    yield from (stem + end for end in (_AFTER_VOWEL if stem[-1] in _VOWELS else _AFTER_CONSONANT))
    yield from (stem + end for end in _GROWN)
    yield from (f"{stem} {helper}" for helper in _HELPERS)


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
        if each in _CONSONANTS:
            syllables.append((_CONSONANTS[each], "a"))
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


def _silent(syllables: list[tuple[str, str]], at: int) -> bool:
    if at == len(syllables) - 1:
        return True
    before = at > 0 and bool(syllables[at - 1][1])
    after = at + 2 <= len(syllables) and syllables[at + 1][1] not in ("", "a")
    return before and after and bool(syllables[at + 1][0])
