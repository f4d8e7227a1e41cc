"""How many negotiations peers may keep open with one owner, and how many questions they may raise.

Counts are by the handle of the peer that began the thread, and for the owner as a whole, since handles cost
little. Only what peers begin counts: an owner's own requests are theirs to make.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from indai.node.draft import ThreadState
from indai.protocol.errors import Reason, Refused
from indai.protocol.party_state import Phase

MAX_OPEN_PER_PEER, MAX_OPEN = 256, 2_048
MAX_ASKED_PER_PEER, MAX_ASKED = 16, 128


@dataclass(slots=True)
class Crowd:
    """One owner's counts: open threads, and those of them that wait for the owner, by peer."""

    open: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)

    def move(self, old: ThreadState | None, new: ThreadState) -> None:
        """A thread has changed from `old` (None for a new one) to `new`."""
        for state, sign in ((old, -1), (new, 1)):
            if state is not None and not state.columns["outgoing"] and not state.side.phase.ended:
                peer = state.columns["peer"]
                self.open[peer] += sign
                self.asked[peer] += sign * (state.side.phase is Phase.ASKING_OWNER)

    def copy(self) -> Crowd:
        """Another of the same counts."""
        return Crowd(self.open.copy(), self.asked.copy())

    def check(self, peer: str) -> None:
        """Raises Refused(RATE_LIMITED) when `peer`, or everybody together, has too much under way."""
        if self.open[peer] > MAX_OPEN_PER_PEER or self.open.total() > MAX_OPEN:
            raise Refused(
                Reason.RATE_LIMITED, "Too many negotiations are open; this one can wait.", hint="come again"
            )
        if self.asked[peer] > MAX_ASKED_PER_PEER or self.asked.total() > MAX_ASKED:
            raise Refused(
                Reason.RATE_LIMITED,
                "Too many questions wait for the owner; this can wait.",
                hint="come again",
            )
