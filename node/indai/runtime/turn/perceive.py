"""Perceive: what came, before anybody thinks about it. Pure, by pattern; `signals.yaml` has the words.

The text is brought into one form (NFC, no control characters); language is told by `indai.language`, a short
text inherits the conversation's; mood and small talk are patterns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml
from indai.language import detect
from indai.runtime.patterns import sentences
from indai.v1 import conversation_pb2 as pb

MAX_READ: Final = 20_000
"""Characters that are read; more is answered with a request for less."""
_SIMPLE_WORDS: Final = 3
_CURT_WORDS: Final = 2
_QUESTION: Final = 120
_DECISION: Final = re.compile(
    r"\s*(?P<word>yes|y|ok|approve|haan|han|हाँ|हां|no|n|decline|nahi|nahin|नहीं)[\s:]+"
    # A tool's question has letters without look-alikes, a negotiation's is hexadecimal: no word is either.
    r"(?P<code>[ghjkmnpqrstuvwxyz]{8}|[0-9a-f]{8}|(?=[a-f]*[0-9])[0-9a-f]{4,7})\s*[.!]?\s*",
    re.IGNORECASE,
)
_YES: Final = frozenset({"yes", "y", "ok", "approve", "haan", "han", "हाँ", "हां"})
_SIGN_IN: Final = re.compile(r"\s*/?(?:sign[ -]?in|साइन[ -]?इन)(?: code| कोड)?\s*[.!]?\s*", re.IGNORECASE)
_TAG: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}")
_UNLINK: Final = re.compile(r"\s*(?:unlink|अलग करो)\s*[.!]?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Decision:
    """The owner's word on something that waits for it."""

    code: str
    approve: bool


@dataclass(frozen=True, slots=True)
class Perceived:
    """A message as the other stages see it. `talk`: greet, thank, platform (what the agent is built of),
    feedback or complaint, where nothing else was said. `simple`: not worth looking anything up for. `mood`:
    plain, curt, stressed or joking."""

    text: str
    language: str
    mood: str = "plain"
    talk: str = ""
    simple: bool = False
    decision: Decision | None = None
    unlink: bool = False
    sign_in: bool = False
    modality: str = "text"


def perceive(message: pb.InboundMessage, language: str = "", *, coded: bool = False) -> Perceived:
    """`language` is that of the conversation so far, and stays that for a message that is a code: random
    letters (`coded`) are of no language."""
    spoken = " ".join(each.transcript for each in message.media if each.transcript)
    text = normal(message.choice or message.text or spoken)
    # It stands in prompts as it is: what is no tag could be a line of them.
    known = message.language if _TAG.fullmatch(message.language) else language
    if len(text) > MAX_READ:
        return Perceived(text, _language(text, known))
    decision = _DECISION.fullmatch(text)
    spoken_in = decision["word"] if decision else text
    found = (known or "en") if coded else _language(spoken_in, known)
    words = text.split()
    talk = _talk(text)
    return Perceived(
        text=text,
        language=found,
        mood=_mood(text, words),
        talk=talk,
        simple=bool(talk) or len(words) < _SIMPLE_WORDS,
        decision=Decision(decision["code"], decision["word"].lower() in _YES) if decision else None,
        unlink=_UNLINK.fullmatch(text) is not None,
        sign_in=_SIGN_IN.fullmatch(text) is not None,
        modality=message.media[0].kind if message.media and not message.text else "text",
    )


def normal(text: str) -> str:
    """One form for each character; no control characters but line feeds."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(
        char for char in composed if char == "\n" or unicodedata.category(char) not in ("Cc", "Cs")
    ).strip()


def _language(text: str, known: str) -> str:
    """A short or doubtful text inherits the conversation's language."""
    found = detect(text[:2_000], known).tag
    return (known or "en") if found == "und" else found


def _mood(text: str, words: list[str]) -> str:
    lowered = text.lower()
    letters = [char for char in text if char.isalpha() and char.isascii()]
    shouting = len(letters) > 8 and sum(char.isupper() for char in letters) > 0.8 * len(letters)
    if shouting or "!!" in text or _pattern("stressed").search(lowered):
        return "stressed"
    if _pattern("joking").search(lowered):
        return "joking"
    return "curt" if 0 < len(words) <= _CURT_WORDS else "plain"


def _talk(text: str) -> str:
    """Small talk that fills the whole message, or feedback that opens it."""
    lowered = text.lower().strip(" .!?।,…🙏")
    for name in ("greet", "thank"):
        if _pattern(name).fullmatch(lowered):
            return name
    if len(text) < _QUESTION and len(sentences(text)) == 1 and _pattern("platform").search(lowered):
        return "platform"
    if "?" not in text and len(text) < 300:
        for name in ("complaint", "feedback"):
            if _pattern(name).search(lowered):
                return name
    return ""


@cache
def _pattern(name: str) -> re.Pattern[str]:
    lines = [line for texts in _signals()[name].values() for line in texts]
    return re.compile("|".join(f"(?:{line})" for line in lines))


@cache
def _signals() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(
        resources.files(__package__).joinpath("signals.yaml").read_text("utf-8")
    )
    return data
