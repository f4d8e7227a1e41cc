"""Amounts of money as they are written and said: minor units inside, ISO 4217 outside."""

from __future__ import annotations

import re

from indai.policy.values import Problem

# ISO 4217 currencies whose minor unit is not a hundredth.
_DIGITS = dict.fromkeys(
    ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF",
     "XOF", "XPF"), 0,
) | dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3)  # fmt: skip
_CURRENCY = re.compile(r"[A-Z]{3}")
_AMOUNT = re.compile(r"(?:([A-Z]{3})\s*)?(\d{1,12}|\d{1,3}(?:,\d{2,3})+)(?:\.(\d{1,3}))?(?:\s*([A-Z]{3}))?")


def parse_currency(text: str) -> str:
    """A code such as INR. Raises Problem."""
    if _CURRENCY.fullmatch(text):
        return text
    raise Problem(f"`{text[:20]}` is no currency; write its ISO code, like INR or EUR")


def parse_amount(text: str, currency: str = "") -> tuple[int, str]:
    """(minor units, currency) of `2000 INR`, `INR 19.99`, or `2000` if the file names a currency."""
    match = _AMOUNT.fullmatch(text.strip())
    if not match:
        raise Problem(f"`{text[:20]}` is no amount of money; write it like 2000 INR")
    before, whole, fraction, after = match.groups()
    found = before or after or currency
    if (before and after) or not found:
        raise Problem(f"`{text[:20]}` needs one currency; write it like 2000 INR, or `currency: INR` on top")
    digits = _DIGITS.get(found, 2)
    if len(fraction or "") > digits:
        raise Problem(f"`{text[:20]}` has more decimals than {found} has; write at most {digits}")
    return int(whole.replace(",", "") + (fraction or "").ljust(digits, "0")), found


def amount(minor: int, currency: str) -> str:
    """The inverse: 199900, INR -> `1999 INR`."""
    return f"{_decimal(minor, currency)} {currency}"


def minor_digits(currency: str) -> int:
    """How many decimals the currency has (ISO 4217)."""
    return _DIGITS.get(currency, 2)


def spoken_amount(minor: int, currency: str) -> str:
    """For people: `INR 1,999.50`."""
    whole, _, fraction = _decimal(minor, currency).partition(".")
    return f"{currency} {int(whole):,}{'.' + fraction if fraction else ''}"


def _decimal(minor: int, currency: str) -> str:
    digits = _DIGITS.get(currency, 2)
    whole, rest = divmod(minor, 10**digits)
    return f"{whole}.{rest:0{digits}d}" if rest else str(whole)
