"""Which obligations of a decision this node meets, for each kind of intent: any other one refuses.

    buffer, title_prefix, reveal_windows   when slots are chosen, and in the calendar
    redact, keep_at_most         what they take out, or shorten, is not shared and not quoted
    cite_sources                 every answer names its sources
    require_receipt                        a commitment stands with its receipt only, as the protocol has it
    tell_owner                             every decision is in the owner's journal
    tone, language                         for whoever words the messages; typed intents have no prose
    ask_within, quiet_hours, notify, via   for whoever brings the question to the owner

The decision is recorded as it was taken, so that it can be taken again; that nothing came of it is the
node's own doing.
"""

from __future__ import annotations

from collections.abc import Mapping

from indai.client.obligations import unmet, value_of
from indai.v1 import policy_pb2

_EVERYWHERE = (
    "require_receipt", "tell_owner", "tone", "language", "ask_within", "quiet_hours", "notify", "via",
)  # fmt: skip
MET: Mapping[str, frozenset[str]] = {
    "meet": frozenset({*_EVERYWHERE, "buffer", "title_prefix", "reveal_windows"}),
    "share": frozenset({*_EVERYWHERE, "redact", "keep_at_most"}),
    "ask": frozenset({*_EVERYWHERE, "redact", "cite_sources"}),
    "pay": frozenset(_EVERYWHERE),
    "book": frozenset(_EVERYWHERE),
}


def answered(decision: policy_pb2.Decision, kind: str = "meet") -> int:
    """What follows from the decision here: a refusal, if it demands what nobody here does."""
    left = unmet(decision.obligations, MET[kind])
    if not left or decision.outcome == policy_pb2.OUTCOME_REFUSE:
        return decision.outcome
    decision.words = f"Refused: this node cannot do what your rules demand ({', '.join(left)})."
    return policy_pb2.OUTCOME_REFUSE


def windows_revealed(decision: policy_pb2.Decision, most: int) -> int:
    """How many windows one proposal may reveal: the rule's number, at most the node's own."""
    value = value_of(decision.obligations, "reveal_windows")
    return min(int(value), most) if value else most
