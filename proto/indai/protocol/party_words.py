"""What one party says of a thread as a whole: how it ended, what it is about, until when it makes sense."""

from __future__ import annotations

from typing import Final

from indai.protocol.kinds.base import Terms, Wish
from indai.protocol.kinds.table import kind_of
from indai.protocol.party_state import Phase, Side

ENDS: Final = {
    Phase.REJECTED: "The {noun} was refused.",
    Phase.WITHDRAWN: "The request was taken back.",
    Phase.LAPSED: "The request ran out of time.",
}


def noun(side: Side) -> str:
    """What the thread is about: `meeting`, `payment`."""
    said = side.thread.subject_matter if side.thread else side.terms
    return kind_of(said).noun if said else "matter"


def begins_ms(terms: Wish | Terms) -> int:
    """The last moment at which what is asked can still begin, ms."""
    return terms.sign_by_ms() if isinstance(terms, Terms) else terms.answer_by_ms()
