"""The words of the pages in several languages.

The English words stand in the templates and are the keys; `words/LANGUAGE.yaml` has the others. A test holds
the files against the templates, so that a language is whole, or a draft in `words/drafts`: what owners and
their visitors see every day, or rooms, buttons and states alone. Nobody is shown a draft who has not chosen
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import yaml

ENGLISH: Final = "en"
NAMES: Final = {"en": "English", "hi": "हिन्दी"}
"""The languages that are whole, each as it calls itself."""

DRAFTS: Final = {
    "as": "অসমীয়া",
    "bn": "বাংলা",
    "brx": "बर'",
    "doi": "डोगरी",
    "gu": "ગુજરાતી",
    "kn": "ಕನ್ನಡ",
    "kok": "कोंकणी",
    "ks": "کٲشُر",
    "mai": "मैथिली",
    "ml": "മലയാളം",
    "mni": "ꯃꯤꯇꯩꯂꯣꯟ",
    "mr": "मराठी",
    "ne": "नेपाली",
    "or": "ଓଡ଼ିଆ",
    "pa": "ਪੰਜਾਬੀ",
    "sa": "संस्कृतम्",
    "sat": "ᱥᱟᱱᱛᱟᱲᱤ",
    "sd": "سنڌي",
    "ta": "தமிழ்",
    "te": "తెలుగు",
    "ur": "اردو",
}
"""The others of the eighth schedule of the Constitution of India."""

BUTTONS_ALONE: Final = frozenset({"brx", "ks", "mni", "sat", "doi", "kok", "sa"})
"""Drafts with rooms, buttons and states alone: nobody of the project could write sentences in them that
somebody might sign by."""

RIGHT_TO_LEFT: Final = frozenset({"ur", "sd", "ks"})
_RANGE: Final = re.compile(
    r"\s*([A-Za-z]{2,8}|\*)(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?\s*"
)


class Words:
    """The words in one language; call it with the English ones."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.direction = direction_of(language)
        self.name = NAMES.get(language) or DRAFTS[language]
        self._known = known(language)

    def __call__(self, english: str, **values: object) -> str:
        """The words for `english`, with `{name}` filled in; English where a language lacks them."""
        text = self._known.get(english, english)
        return text.format(**values) if values else text


@cache
def known(language: str) -> Mapping[str, str]:
    """Words by the English ones; nothing for English."""
    if language == ENGLISH:
        return {}
    folder = ("words", "drafts") if language in DRAFTS else ("words",)
    text = files("indai.web").joinpath(*folder, f"{language}.yaml").read_text("utf-8")
    found: dict[str, str] = yaml.safe_load(text)
    return found


@cache
def words_in(language: str) -> Words:
    """The words of a language that is offered, else English."""
    return Words(language if is_offered(language) else ENGLISH)


def is_offered(language: str) -> bool:
    """Whether somebody may choose it."""
    return language in NAMES or language in DRAFTS


def direction_of(language: str) -> str:
    """`rtl` or `ltr`, as HTML's `dir` wants it."""
    return "rtl" if language in RIGHT_TO_LEFT else "ltr"


def wanted(accept_language: str, offered: Sequence[str] = tuple(NAMES)) -> str:
    """The best offered language for an `Accept-Language` header (RFC 9110, section 12.5.4), else English."""
    best, weight = ENGLISH, 0.0
    for part in accept_language[:400].split(","):
        if match := _RANGE.fullmatch(part):
            language, quality = match[1].lower(), float(match[2] or 1)
            if language in offered and quality > weight:
                best, weight = language, quality
    return best
