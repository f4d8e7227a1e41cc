"""What may stand in a field: text, spans of time, ids, amounts. A check names the rule that it enforces."""

from __future__ import annotations

import re
import unicodedata

from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.quoting import quoted

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
END_OF_TIME_MS = (
    253_370_764_800_000  # the year 9999: the last in which no zone and no day added leaves any calendar
)
MAX_MINOR = 10**15

_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NAME = re.compile(r"[a-z0-9._-]*")
_TOKEN = re.compile(r"[!-~]*")
_CURRENCY = re.compile(r"[A-Z]{3}")


def check_text(name: str, text: str, limit: int, *, required: bool = False, lines: bool = False) -> None:
    """Text for people of at most `limit` characters; with `lines` it may have several. NEG-02."""
    if required and not text.strip():
        raise malformed("NEG-02", f"The {name} is empty")
    if len(text) > limit:
        raise malformed("NEG-02", f"The {name} has {len(text)} characters, over the limit of {limit}")
    if lines:
        text = text.replace("\n", " ")
    if not (text.isascii() and text.isprintable()) and any(map(_is_control, text)):
        raise malformed("NEG-02", f"The {name} {quoted(text)} holds control characters")


def check_name(rule: str, name: str, text: str, limit: int, *, required: bool = True) -> None:
    """A name for programs: a-z, 0-9, dot, hyphen, underscore."""
    if len(text) > limit or (required and not text) or not _NAME.fullmatch(text):
        raise malformed(rule, f"The {name} has 1 to {limit} of a-z, 0-9, dot, hyphen and underscore")


def check_token(rule: str, name: str, text: str, limit: int, *, required: bool = True) -> None:
    """An id of somebody else's making: printable ASCII without spaces."""
    if len(text) > limit or (required and not text) or not _TOKEN.fullmatch(text):
        raise malformed(rule, f"The {name} has 1 to {limit} printable ASCII characters")


def check_span(rule: str, what: str, start_ms: int, end_ms: int) -> None:
    """An interval [start_ms, end_ms) that is not empty, from 1970 to 9999."""
    if not 0 < start_ms < end_ms < END_OF_TIME_MS:
        raise malformed(rule, f"{what} does not end after it begins")


def check_moment(rule: str, what: str, at_ms: int) -> None:
    """A time after 1970 and before 9999."""
    if not 0 < at_ms < END_OF_TIME_MS:
        raise malformed(rule, f"{what} is no time between 1970 and 9999")


def check_price(rule: str, amount_minor: int, currency: str, *, free: bool = False) -> None:
    """An amount of 1 to 10^15 minor units with its ISO 4217 code; with `free`, 0 without a code too."""
    if free and not amount_minor and not currency:
        return
    if not 1 <= amount_minor <= MAX_MINOR:
        raise malformed(rule, f"An amount is 1 to {MAX_MINOR} minor units, not {amount_minor}")
    if not _CURRENCY.fullmatch(currency):
        raise malformed(rule, f"A currency is three capitals (ISO 4217), not {quoted(currency)}")


def check_ids(rule: str, *mids: bytes) -> None:
    """Message ids have 32 bytes."""
    for mid in mids:
        if len(mid) != 32:
            raise malformed(rule, f"A message id has 32 bytes, not {len(mid)}")


def malformed(rule: str, what: str) -> ProtocolError:
    """The error for a field out of range."""
    return ProtocolError(Reason.MALFORMED, what + ".", rule=rule)


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in _BIDI_CONTROLS
