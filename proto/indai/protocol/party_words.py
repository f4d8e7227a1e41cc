"""What one party says of a thread as a whole: how it ended, what it is about, until when it makes sense."""

from __future__ import annotations

from typing import Final

from indai.protocol.contest import OVERTAKEN
from indai.protocol.kinds.base import Terms, Wish
from indai.protocol.kinds.table import kind_of
from indai.protocol.negotiation import LAPSED, Status
from indai.protocol.party_state import Phase, Side

UNANSWERED: Final = "UNANSWERED"
"""The reason of a REJECT whose owner has said nothing until the deadline: a no, but nobody's (NEG-33)."""

RAN_OUT: Final = (LAPSED, UNANSWERED)
"""Reasons that say that time has run out, and not that somebody has refused."""

_ENDS: Final = {
    Phase.REJECTED: "The {noun} was refused.",
    Phase.WITHDRAWN: "The request was taken back.",
    Phase.LAPSED: "The request ran out of time.",
}


def ended(side: Side) -> str:
    """How a thread has ended without an agreement, for the owner of this side."""
    if side.reason == OVERTAKEN:
        return f"Another change of the {noun(side)} that this was to move came first."
    if side.reason == UNANSWERED:
        theirs = side.thread is not None and side.thread.status is Status.REJECTED
        return f"{'The other side' if theirs else 'You'} did not answer in time, and silence is no consent."
    return _ENDS[side.phase].format(noun=noun(side))


def noun(side: Side) -> str:
    """What the thread is about: `meeting`, `payment`."""
    said = side.thread.subject_matter if side.thread else side.terms
    return kind_of(said).noun if said else "matter"


def begins_ms(terms: Wish | Terms) -> int:
    """The last moment at which what is asked can still begin, ms."""
    return terms.sign_by_ms() if isinstance(terms, Terms) else terms.answer_by_ms()
