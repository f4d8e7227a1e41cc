"""Amounts as people write them: `₹2,00,000.00` (lakhs and crores), `EUR 1,999.50`. Minor units inside."""

from __future__ import annotations

from indai.policy.money import minor_digits


def spoken(amount_minor: int, currency: str) -> str:
    """The amount with all digits of its currency (ISO 4217), grouped as where it is used."""
    digits = minor_digits(currency)
    whole, rest = divmod(amount_minor, 10**digits)
    fraction = f".{rest:0{digits}d}" if digits else ""
    if currency == "INR":
        return f"₹{_indian(whole)}{fraction}"
    return f"{currency} {whole:,}{fraction}"


def decimal(amount_minor: int, currency: str) -> str:
    """The amount for programs: `2000.00`."""
    digits = minor_digits(currency)
    whole, rest = divmod(amount_minor, 10**digits)
    return f"{whole}.{rest:0{digits}d}" if digits else str(whole)


def _indian(whole: int) -> str:
    """The last three digits, then pairs."""
    text = str(whole)
    head, tail = text[:-3], text[-3:]
    pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)][::-1]
    return ",".join([*pairs, tail])
