"""The specialist of payments: it settles how somebody wants to pay before a model or a tool is asked.

The mode comes from what was chosen in the channel, then from what was said before, then from the text itself
(a UPI address, the word for a card). Sums and links are the tools' business; nothing is paid here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from indai.runtime.turn.state import Context
from indai.runtime.words import say

MODES: Final = {"upi": "UPI", "card": "Card", "netbanking": "Net banking"}
CHOICE: Final = "pay-by:"
_UPI: Final = re.compile(
    r"\b(?:upi|bhim|gpay|google pay|phonepe|paytm)\b|यूपीआई|[\w.-]{2,64}@[a-z]{2,15}\b(?!\.)", re.IGNORECASE
)
_CARD: Final = re.compile(r"\b(?:credit|debit)?\s?card\b|कार्ड", re.IGNORECASE)
_BANK: Final = re.compile(r"\b(?:net ?banking|neft|imps|rtgs)\b|नेट बैंकिंग", re.IGNORECASE)
_PAYS: Final = re.compile(
    r"\b(?:pay|payment|checkout|bhugtan|paise bhej|payment link)\b|भुगतान|पैसे भेज|கட்டணம் செலுத்த", re.IGNORECASE
)
LISTED: Final = "mode"


def is_payment(context: Context) -> bool:
    """Whether the message is about paying, by its words or a choice that was offered."""
    text = context.turn.request.choice or context.perceived.text
    return text.startswith(CHOICE) or _PAYS.search(text) is not None


def mode_of(context: Context) -> str:
    """How it is paid; empty when nothing says."""
    choice = context.turn.request.choice
    if choice.startswith(CHOICE) and choice.removeprefix(CHOICE) in MODES:
        return choice.removeprefix(CHOICE)
    if (known := context.working.get("pay_mode")) in MODES:
        return str(known)
    for pattern, mode in ((_UPI, "upi"), (_CARD, "card"), (_BANK, "netbanking")):
        if pattern.search(context.perceived.text):
            return mode
    return ""


def needs_mode(context: Context) -> bool:
    """Whether it must be asked: a shop's customer chooses, while an owner's own agent pays by its tool."""
    sells = any(name in context.composed.tools for name in ("create-payment-link", "payment-link"))
    return sells and is_payment(context) and not mode_of(context)


async def ask_mode(context: Context) -> Mapping[str, Any]:
    """A question with its answers to tap."""
    return {
        "text": say("pay_how", context.perceived.language),
        "choices": tuple((f"{CHOICE}{mode}", words) for mode, words in MODES.items()),
    }
