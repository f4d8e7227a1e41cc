"""Which script a text is in, and which languages are written in it.

Scripts are named by ISO 15924 and found by their Unicode blocks (The Unicode Standard, chapters 9 and 12 to
14); the languages are the 22 of the Eighth Schedule of the Constitution of India and English, named by BCP
47.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

LATIN = "Latn"
UNKNOWN = "Zyyy"

# First and last code point of each block.
_BLOCKS: tuple[tuple[int, int, str], ...] = (
    (0x0600, 0x06FF, "Arab"),
    (0x0750, 0x077F, "Arab"),
    (0xFB50, 0xFDFF, "Arab"),
    (0xFE70, 0xFEFF, "Arab"),
    (0x0900, 0x097F, "Deva"),
    (0xA8E0, 0xA8FF, "Deva"),
    (0x0980, 0x09FF, "Beng"),
    (0x0A00, 0x0A7F, "Guru"),
    (0x0A80, 0x0AFF, "Gujr"),
    (0x0B00, 0x0B7F, "Orya"),
    (0x0B80, 0x0BFF, "Taml"),
    (0x0C00, 0x0C7F, "Telu"),
    (0x0C80, 0x0CFF, "Knda"),
    (0x0D00, 0x0D7F, "Mlym"),
    (0x1C50, 0x1C7F, "Olck"),
    (0xABC0, 0xABFF, "Mtei"),
    (0xAAE0, 0xAAFF, "Mtei"),
)

# Stops of a sentence that stand in the block of Devanagari and are used with most Indic scripts.
_SHARED = "।॥"

# The languages of each script; the first is taken when nothing in a text tells them apart.
BY_SCRIPT: Mapping[str, tuple[str, ...]] = {
    "Deva": ("hi", "mr", "ne", "mai", "kok", "doi", "brx", "sa", "sd", "ks"),
    "Arab": ("ur", "ks", "sd"),
    "Beng": ("bn", "as", "mni"),
    "Guru": ("pa",),
    "Gujr": ("gu",),
    "Orya": ("or",),
    "Taml": ("ta",),
    "Telu": ("te",),
    "Knda": ("kn",),
    "Mlym": ("ml",),
    "Olck": ("sat",),
    "Mtei": ("mni",),
}

# The script that our messages in a language are in.
SCRIPT_OF: Mapping[str, str] = {
    "en": LATIN,
    "as": "Beng", "bn": "Beng", "brx": "Deva", "doi": "Deva", "gu": "Gujr", "hi": "Deva",
    "kn": "Knda", "kok": "Deva", "ks": "Arab", "mai": "Deva", "ml": "Mlym", "mni": "Mtei",
    "mr": "Deva", "ne": "Deva", "or": "Orya", "pa": "Guru", "sa": "Deva", "sat": "Olck",
    "sd": "Arab", "ta": "Taml", "te": "Telu", "ur": "Arab",
}  # fmt: skip

_ALSO_CALLED = {"gom": "kok", "nep": "ne", "npi": "ne", "hin": "hi", "eng": "en"}
RIGHT_TO_LEFT = frozenset({"ks", "sd", "ur"})


def script_of(letter: str) -> str:
    """The script of one character; "" for what has none (digits, marks, pictures)."""
    code = ord(letter)
    if letter in _SHARED:
        return ""
    if code < 0x0600:
        return (LATIN if code < 0x0250 else UNKNOWN) if letter.isalpha() else ""
    for first, last, script in _BLOCKS:
        if first <= code <= last:
            return script if letter.isalpha() or not letter.isdecimal() else ""
    return UNKNOWN if letter.isalpha() else ""


def dominant(text: str) -> str:
    """The script most of a text is in; "" without letters.

    An Indic script wins over Latin at a third of the letters: names of things and places stand in Latin
    letters in most languages, the other way round they hardly do.
    """
    found = Counter(script for letter in text if (script := script_of(letter)))
    if not found:
        return ""
    indic = max((script for script in found if script in BY_SCRIPT), key=lambda each: found[each], default="")
    if indic and 2 * found[indic] >= found[LATIN]:
        return indic
    return max(found, key=lambda each: found[each])


def base(tag: str) -> str:
    """The language of a BCP 47 tag ("hi" of "hi-Latn-IN"), in the names used here; "" if it is not one of
    ours.
    """
    language = tag.replace("_", "-").split("-")[0].lower()
    language = {"gom": "kok", "nep": "ne", "hin": "hi", "eng": "en", "asm": "as", "pnb": "pa"}.get(
        language, language
    )
    return language if language in SCRIPT_OF else ""


def is_latin(tag: str) -> bool:
    """Whether a tag says that an Indian language is written in Latin letters: "hi-Latn"."""
    return "latn" in tag.lower().replace("_", "-").split("-")[1:]
