"""Amounts as people write them on the command line: `2000`, `₹2,000`, `2000 INR`, `EUR 19.99`."""

from __future__ import annotations

from indai.cli.errors import wrong
from indai.policy.money import parse_amount
from indai.policy.values import Problem

DEFAULT = "INR"


def money(text: str) -> tuple[int, str]:
    """(minor units, ISO 4217 code); rupees where no currency is named."""
    written = text.strip()
    if written.startswith("₹"):
        written = f"INR {written[1:].strip()}"
    try:
        return parse_amount(written, "" if any(char.isalpha() for char in written) else DEFAULT)
    except Problem:
        raise wrong(
            f"{text!r} is no amount of money.", "write it like 2000, '₹2,000.50' or 'EUR 19.99'"
        ) from None
