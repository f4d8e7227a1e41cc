"""Numbers of identity that nobody may hand in: raw Aadhaar numbers, in any script and however written.

An Aadhaar number has 12 digits, the first 2 to 9, and Verhoeff's check digit (python-stdnum). One random
number in ten passes that check, so a word of context must stand near it, and twelve digits that chance put
into an id (hexadecimal digits with letters among them, a UUID) are none. `refuse_aadhaar` is the guard of
tools' arguments and results and of every request that a person's program makes; what is kept instead is a
reference that DigiLocker issued. A person who writes one into a conversation is not turned away for it:
`without_aadhaar` takes it out before anything is stored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from indai.protocol.errors import Reason, Refused
from stdnum.in_ import aadhaar

CONTEXT: Final = 60
"""How far a word of context may be from the number, in characters."""

_ID: Final = re.compile(
    r"(?<![0-9a-z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9]*[a-f])[0-9a-f]{16,})(?![0-9a-z])",
    re.IGNORECASE,
)

LEFT_OUT: Final = "[Aadhaar number left out]"

_BETWEEN: Final = r"[\s./\u2010-\u2015\u200b-\u200d\u2060-]?"
_TWELVE: Final = re.compile(rf"(?<![\d.+])\d(?:{_BETWEEN}\d){{11}}(?!\d|[.,]\d)")
_WORDS: Final = re.compile(
    r"a{1,2}dh?a{1,2}r|\buid(ai)?\b|आधार|ஆதார்|ఆధార్|ಆಧಾರ್|আধার|આધાર|ਆਧਾਰ|ആധാർ|ଆଧାର", re.IGNORECASE
)


def fold_digits(text: str) -> str:
    """The text with the decimal digits of all scripts as ASCII ones; as long as before."""
    return text if text.isascii() else text.translate(_FOLDING)


class _Folding(dict[int, str]):
    """What each character folds to, learnt as it comes: `translate` is a loop in C."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = str(unicodedata.decimal(char)) if code > 127 and char.isdecimal() else char
        self[code] = folded
        return folded


_FOLDING: Final = _Folding()


def aadhaar_spans(folded: str) -> Iterator[tuple[int, int]]:
    """Where Aadhaar numbers stand in a text whose digits are folded."""
    for start, end in _numbers(folded):
        if _WORDS.search(folded[max(0, start - CONTEXT) : end + CONTEXT]):
            yield start, end


def _numbers(folded: str) -> Iterator[tuple[int, int]]:
    """Where numbers stand that pass the check and are no part of an id."""
    for found in _TWELVE.finditer(folded):
        start, end = found.span()
        if is_aadhaar(found[0]) and not any(
            each.start() <= start and end <= each.end() for each in _ID.finditer(folded)
        ):
            yield start, end


def is_aadhaar(text: str) -> bool:
    """Whether a text is nothing but a number that passes the check: for fields that hold an identity number,
    whose name is the context."""
    digits = re.sub(_BETWEEN.rstrip("?"), "", fold_digits(text))
    return len(digits) == 12 and digits.isdecimal() and _verhoeff(digits)


def may_hold_aadhaar(text: str) -> bool:
    """Whether a number in a text passes the check, whatever stands beside it."""
    return next(_numbers(fold_digits(text)), None) is not None


def without_aadhaar(text: str, *, asked: bool = False) -> str:
    """The text with a word in the place of each Aadhaar number. `asked`: what was said before it was about
    such numbers, which is context enough."""
    folded = fold_digits(text)
    spans = _numbers(folded) if asked else aadhaar_spans(folded)
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], LEFT_OUT]
        at = end
    return "".join((*pieces, text[at:])) if pieces else text


def is_about_aadhaar(text: str) -> bool:
    """Whether a text has a word of context."""
    return _WORDS.search(text) is not None


def refuse_aadhaar(value: Any, what: str = "This") -> None:
    """Raises Refused(POLICY_DENIED), which does not repeat the number, for a value that `holds_aadhaar`."""
    if holds_aadhaar(value):
        raise Refused(
            Reason.POLICY_DENIED,
            f"{what} has an Aadhaar number in it, which is not taken.",
            hint="leave it out; a document is named by its DigiLocker reference",
        )


def holds_aadhaar(value: Any) -> bool:
    """Whether a value (text, or what JSON holds) has an Aadhaar number in it. Names of fields, and what
    stands beside a number, are its context."""
    texts = (*_leaves(value, ""), _whole(value))
    return any(next(aadhaar_spans(fold_digits(text)), None) is not None for text in texts)


def _leaves(value: Any, name: str) -> Iterator[str]:
    """Every text and number, after the names of the fields it is in."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name} {key}".replace("_", " ")[-CONTEXT:])
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for inner in value:
            yield from _leaves(inner, name)
    elif isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        yield f"{name}: {value}"
    elif isinstance(value, float) and value.is_integer():  # some formats know no other numbers
        yield f"{name}: {int(value)}"


def _whole(value: Any) -> str:
    """All of it as one text: a number's context may be the field beside it."""
    return "; ".join(_leaves(value, "")) if isinstance(value, Mapping | list | tuple) else ""


@lru_cache(maxsize=256)
def _verhoeff(digits: str) -> bool:
    return bool(aadhaar.is_valid(digits))
