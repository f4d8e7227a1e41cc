"""Our own messages in the language of the one who reads them: `messages/<language>.yaml`.

Each file says how well it is written: "well" by somebody who commands the language, or "draft" where the
writer has little of it; and whether a native speaker has reviewed it. What binds people or lets them in is
said in English as well where it is only a draft.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from indai.language.scripts import RIGHT_TO_LEFT, SCRIPT_OF, base, is_latin

# As the files are named. Hindi alone stands in Latin letters too, since most who type it read it so.
CATALOGUES = (*sorted(SCRIPT_OF), "hi-Latn")
_BINDING = frozenset({"approval_asked", "approved", "declined", "expired", "link_code", "sign_in_code"})
_PLACE = re.compile(r"\{(\w+)\}")
# Isolates what is filled in from the direction around it (UAX #9): a Latin name in a sentence of Urdu, and
# back.
_ISOLATE, _END = "\u2068", "\u2069"
# Characters that turn the direction of what follows, and other controls: they have no business in a name.
_CONTROLS = re.compile(r"[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The messages of one language. `draft`: written by one with little of the language; `reviewed`: read by
    a native.
    """

    language: str
    draft: bool
    reviewed: bool
    messages: Mapping[str, str]


def say(key: str, language: str, **values: object) -> str:
    """A message of ours in the language of a BCP 47 tag, in English if it is none of ours.

    What is filled in is text: braces in it stay braces. Raises KeyError for a message or a place that doesn't
    exist.
    """
    return say_both(key, language, values, values)


def say_both(key: str, language: str, values: Mapping[str, object], english: Mapping[str, object]) -> str:
    """As `say`; `english` is filled into the English sentence, where one follows because what binds is said
    in a draft."""
    found = _read(chosen(language))
    text = filled(found.messages[key], values, isolate=found.language in RIGHT_TO_LEFT)
    if found.draft and key in _BINDING:
        return f"{text}\n{filled(_read('en').messages[key], english, isolate=False)}"
    return text


def keys() -> tuple[str, ...]:
    """The keys of all messages."""
    return tuple(_read("en").messages)


def places(text: str) -> frozenset[str]:
    """The names of what is filled in."""
    return frozenset(_PLACE.findall(text))


def chosen(tag: str) -> str:
    """Which of CATALOGUES a BCP 47 tag means."""
    language = base(tag) or "en"
    return "hi-Latn" if language == "hi" and is_latin(tag) else language


def filled(text: str, values: Mapping[str, object], *, isolate: bool) -> str:
    """A message with its places filled in: braces in a value stay braces, and it turns nothing around."""

    def value(match: re.Match[str]) -> str:
        plain = _CONTROLS.sub("", str(values[match[1]]))
        return f"{_ISOLATE}{plain}{_END}" if isolate else plain

    return _PLACE.sub(value, text)


def catalogue(language: str) -> Catalogue:
    """One of CATALOGUES. Raises KeyError if it isn't."""
    if language not in CATALOGUES:
        raise KeyError(language)
    return _read(language)


@cache
def _read(language: str) -> Catalogue:
    text = files("indai.language").joinpath("messages", f"{language}.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return Catalogue(
        found["language"], found["written"] == "draft", bool(found["reviewed"]), dict(found["messages"])
    )
