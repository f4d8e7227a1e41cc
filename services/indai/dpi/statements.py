"""Financial information as its providers write it (ReBIT FI schemas, XML): the account and its transactions.

Everything in it is a stranger's text. Amounts become integers in minor units; what is no amount is left out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring
from indai.protocol.errors import IndaiError, Reason

MAX_TRANSACTIONS = 100
MAX_TEXT = 140
MAX_MINOR = 10**15


@dataclass(frozen=True, slots=True)
class Entry:
    """A transaction: day (ISO), DEBIT or CREDIT, minor units, the bank's words."""

    day: str
    kind: str
    amount_minor: int
    words: str


@dataclass(frozen=True, slots=True)
class Statement:
    """An account of a provider's. The number is masked by the provider, and checked to be."""

    provider: str
    number: str
    kind: str
    currency: str
    balance_minor: int | None
    entries: tuple[Entry, ...]


def read_statement(provider: str, number: str, raw: bytes) -> Statement:
    """One account. Raises IndaiError(MALFORMED)."""
    try:
        root = fromstring(_unwrapped(raw), forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        raise IndaiError(Reason.MALFORMED, "The financial information can't be read.") from None
    summary = next(_named(root, "Summary"), None)
    attributes = dict(summary.attrib) if summary is not None else {}
    balance = _minor(attributes.get("currentBalance") or attributes.get("currentValue"))
    entries = [_entry(each.attrib) for each in _named(root, "Transaction")]
    kept = [each for each in entries if each is not None]
    kept.sort(key=lambda each: each.day, reverse=True)
    return Statement(
        provider[:64],
        masked(number),
        _text(root.attrib.get("type")),
        _text(attributes.get("currency")) or "INR",
        balance,
        tuple(kept[:MAX_TRANSACTIONS]),
    )


def masked(number: str) -> str:
    """The last four characters, whatever the provider masked."""
    return "XXXX" + number[-4:] if number else ""


def _unwrapped(raw: bytes) -> bytes:
    """Providers seal the XML itself, or its base64."""
    if raw.lstrip()[:1] == b"<":
        return raw
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        return raw


def _named(root: Any, name: str) -> Iterator[Any]:
    """Elements of a name, in any namespace: each kind of information has its own."""
    return (each for each in root.iter() if str(each.tag).rpartition("}")[2] == name)


def _entry(attributes: Any) -> Entry | None:
    amount = _minor(attributes.get("amount"))
    day = _text(attributes.get("valueDate") or attributes.get("transactionTimestamp"))[:10]
    if amount is None or len(day) != 10:
        return None
    return Entry(day, _text(attributes.get("type")), amount, _text(attributes.get("narration")))


def _minor(text: Any) -> int | None:
    try:
        value = Decimal(str(text)) * 100
        found = int(value)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return found if value == found and abs(found) <= MAX_MINOR else None


def _text(value: Any) -> str:
    cleaned = "".join(each if each.isprintable() else " " for each in str(value or ""))
    return cleaned.strip()[:MAX_TEXT]
