"""What a commitment is about, and whether a recorded decision was about the same: each kind of intent states
its own facts to the policy, and the ones that its terms fix must be theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from indai.protocol.errors import ProtocolError
from indai.protocol.kinds.ask import AskTerms, RequestTerms
from indai.protocol.kinds.base import Terms
from indai.protocol.kinds.book import BookTerms
from indai.protocol.kinds.meet import MeetTerms
from indai.protocol.kinds.pay import PayTerms
from indai.protocol.kinds.share import ShareTerms
from indai.protocol.kinds.table import kind_of, read_terms
from indai.v1 import negotiation_pb2

_NAMES = (
    "start_ms", "end_ms", "direction", "amount_minor", "currency", "payee", "sku", "quantity", "item",
    "purpose", "topic", "is_request", "department", "recurring",
)  # fmt: skip
NO_TOPIC = "general"  # of a question that names none
NO_CURRENCY = "XXX"  # ISO 4217, for what is free of charge


@dataclass(frozen=True, slots=True)
class Asked:
    """The request that a policy decided: the kind of intent and the facts of its context."""

    intent: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def is_about(self, commitment: negotiation_pb2.Commitment, *, first: bool) -> bool:
        """Whether these are the facts of what is signed, for its first party or another."""
        try:
            terms = read_terms(commitment)
        except ProtocolError:
            return False
        fixed = _fixed(terms, first=first)
        return self.intent == kind_of(terms).intent and all(
            self.facts.get(name) == value for name, value in fixed.items()
        )


def asked_about(request_json: str) -> tuple[str, Asked]:
    """(peer, what was asked) of a recorded request; empty where it says nothing of the kind."""
    try:
        request = json.loads(request_json)
        context = request["context"]
        return str(request["principal"]["id"]), Asked(
            str(request["action"]["id"]), {name: context[name] for name in _NAMES if name in context}
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", Asked()


def in_words(commitment: negotiation_pb2.Commitment) -> str:
    """One line: what, and when or how much."""
    try:
        terms = read_terms(commitment)
    except ProtocolError:
        return ""
    if isinstance(terms, MeetTerms) or (isinstance(terms, BookTerms) and terms.end_ms):
        start = datetime.fromtimestamp(terms.start_ms / 1000, UTC)
        minutes = (terms.end_ms - terms.start_ms) // 60_000
        again = (
            f", {len(terms.again_ms) + 1} times" if isinstance(terms, MeetTerms) and terms.again_ms else ""
        )
        return f"{terms.about()}, {start:%Y-%m-%d %H:%M} UTC, {minutes} min{again}"
    if isinstance(terms, PayTerms):
        return f"{terms.about()}, {terms.amount_minor} minor units of {terms.currency}"
    return terms.about()


def _fixed(terms: Terms, *, first: bool) -> dict[str, object]:
    """The facts that follow from the terms alone."""
    match terms:
        case MeetTerms():
            series = {"recurring": True} if terms.again_ms else {}
            return {"start_ms": terms.start_ms, "end_ms": terms.end_ms, **series}
        case PayTerms():
            return {
                "direction": "request" if first else "offer",
                "amount_minor": terms.amount_minor,
                "currency": terms.currency,
                "payee": terms.payee,
            }
        case ShareTerms():
            item = f"profile/{terms.field}" if terms.field else f"document/{terms.document}"
            return {
                "item": item if first else f"received/{item}",
                "purpose": terms.consent.purpose_code,
            }
        case AskTerms():
            return {"topic": terms.topic or NO_TOPIC, "is_request": False}
        case RequestTerms():
            filed = {"department": terms.department} if first else {}
            return {"topic": terms.category, "is_request": True, **filed}
        case BookTerms():
            when = {"start_ms": terms.start_ms, "end_ms": terms.end_ms} if terms.end_ms else {}
            return {
                "sku": terms.item,
                "quantity": terms.quantity,
                "amount_minor": terms.price_minor,
                "currency": terms.currency or NO_CURRENCY,
                **when,
            }
        case _:
            return {}
