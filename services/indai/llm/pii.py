"""Personal data in texts that leave the country: found, replaced, and put back where that is safe. Pure.

    kind      found by                                                       put back in answers
    Aadhaar   12 digits, Verhoeff (python-stdnum) and a word of context,     never
              since one random number in ten passes the check
    PAN       its form (python-stdnum)                                       never
    phone     a valid number of India, or one written with + (phonenumbers)  yes
    UPI       name@handle with a known handle                                yes
    e-mail    its form                                                       yes

Digits of other scripts are folded first. A value is replaced by `[PHONE_1]` and the like, the same value
always by the same word within one request, numbered in order of appearance: the static part of a prompt
comes first, so its bytes stay the same from turn to turn. Identity numbers are never put back: an answer that
needs one is wrong here. The others are, since a model that is told "call me on [PHONE_1]" must be able to
hand the number to a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Final

import phonenumbers
from indai.tools.identity import aadhaar_spans, fold_digits
from stdnum.in_ import pan


class Pii(StrEnum):
    """Kinds of personal data."""

    AADHAAR = "aadhaar"
    PAN = "pan"
    PHONE = "phone"
    UPI = "upi"
    EMAIL = "email"


RESTORED: Final = frozenset({Pii.PHONE, Pii.UPI, Pii.EMAIL})
_ORDER: Final = (Pii.EMAIL, Pii.UPI, Pii.PAN, Pii.AADHAAR, Pii.PHONE)

# Handles of payment addresses, as the apps and banks issue them; a mail address has a dot after the @.
_UPI_HANDLES: Final = frozenset(files(__package__).joinpath("upi_handles.txt").read_text("ascii").split())
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]+\.)+[^\W\d_]{2,24}(?![\w-])")
_UPI: Final = re.compile(r"(?<![\w.-])[a-zA-Z0-9.\-_]{2,64}@([a-zA-Z]{2,24})(?![\w.@-]*\w)")
_PAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{5}[ -]?\d{4}[ -]?[A-Za-z](?![A-Za-z0-9])")
_DIGITS: Final = re.compile(r"\d[\d ().-]{6,}\d")
_PLACEHOLDER: Final = re.compile(r"\[(AADHAAR|PAN|PHONE|UPI|EMAIL)_\d{1,4}\]")
_LONGEST: Final = len("[AADHAAR_9999]")


class Scrubber:
    """Replaces what may not leave in the texts of one request, and puts it back in its answer."""

    def __init__(self, allowed: frozenset[Pii] = frozenset()) -> None:
        self._kinds = [kind for kind in _ORDER if kind not in allowed]
        self._words: dict[tuple[Pii, str], str] = {}
        self._values: dict[str, str] = {}

    def scrub(self, text: str) -> str:
        """The text with a word in place of each value."""
        folded = fold_digits(text)
        for kind in self._kinds:
            replaced = self._replace(kind, text, folded)
            if replaced is not text:
                text, folded = replaced, fold_digits(replaced)
        return text

    def scrub_first(self, text: str) -> str:
        """The same for the static part of a prompt, which is the first and the same from turn to turn: what
        was found in it is remembered, since looking for telephone numbers takes milliseconds."""
        if self._words:
            return self.scrub(text)
        scrubbed, words, values = _scrubbed(text, tuple(self._kinds))
        self._words, self._values = dict(words), dict(values)
        return scrubbed

    def restore(self, text: str) -> str:
        """A text of the model with the values that may be put back."""
        return _PLACEHOLDER.sub(lambda found: self._values.get(found[0], found[0]), text)

    @property
    def replaced(self) -> Mapping[str, int]:
        """How many values of each kind were replaced; for the row."""
        counts: dict[str, int] = {}
        for kind, _ in self._words:
            counts[kind.value] = counts.get(kind.value, 0) + 1
        return counts

    def _replace(self, kind: Pii, text: str, folded: str) -> str:
        """The same text where nothing of a kind was found."""
        pieces, at = [], 0
        for start, end in _spans(kind, folded):
            if start < at:
                continue
            pieces += [text[at:start], self._word(kind, folded[start:end], text[start:end])]
            at = end
        return "".join((*pieces, text[at:])) if pieces else text

    def _word(self, kind: Pii, canonical: str, written: str) -> str:
        key = (
            kind,
            re.sub(r"[\s()./\u2010-\u2015\u200b-\u200d\u2060-]", "", canonical)
            if kind is not Pii.EMAIL
            else canonical.lower(),
        )
        if key not in self._words:
            number = 1 + sum(each is kind for each, _ in self._words)
            self._words[key] = f"[{kind.value.upper()}_{number}]"
            if kind in RESTORED:
                self._values[self._words[key]] = written
        return self._words[key]


class Restorer:
    """Puts values back in a stream of texts, whose pieces may cut a word in two."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = ""

    def take(self, text: str) -> str:
        """What can be released now."""
        text = self._held + text
        at = text.rfind("[")
        # An open bracket near the end may become a placeholder.
        if at >= 0 and "]" not in text[at:] and len(text) - at < _LONGEST:
            text, self._held = text[:at], text[at:]
        else:
            self._held = ""
        return self._scrubber.restore(text)

    def rest(self) -> str:
        """What was held back, at the end."""
        held, self._held = self._held, ""
        return held


def _spans(kind: Pii, text: str) -> Iterator[tuple[int, int]]:
    """Where values of a kind stand in a text with folded digits."""
    match kind:
        case Pii.EMAIL if "@" in text:
            yield from (found.span() for found in _EMAIL.finditer(text))
        case Pii.UPI if "@" in text:
            yield from (found.span() for found in _UPI.finditer(text) if found[1].lower() in _UPI_HANDLES)
        case Pii.PAN:
            yield from (found.span() for found in _PAN.finditer(text) if _is_pan(found[0]))
        case Pii.AADHAAR:
            yield from aadhaar_spans(text)
        case Pii.PHONE if _DIGITS.search(text):
            for found in phonenumbers.PhoneNumberMatcher(text, "IN"):
                yield found.start, found.end


@lru_cache(maxsize=64)
def _scrubbed(
    text: str, kinds: tuple[Pii, ...]
) -> tuple[str, Mapping[tuple[Pii, str], str], Mapping[str, str]]:
    scrubber = Scrubber(frozenset(Pii) - set(kinds))
    return scrubber.scrub(text), scrubber._words, scrubber._values


def _is_pan(text: str) -> bool:
    return bool(pan.is_valid(re.sub(r"[ -]", "", text).upper()))
