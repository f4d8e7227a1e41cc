"""A commitment between A, who offered it, and B, with its events, for tests: no signatures, counted ids."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from indai.protocol.lifecycle import Deed, History, apply, committed, deed_of
from indai.protocol.messages import DAY_MS, EventBody, EventKind, Message, Move

from tests.unit.transcripts import NOW, THREAD, slot

MID = b"\xaa" * 32
TERMS = slot()
DEED = deed_of(MID, ("A", "B"), TERMS)
PAYMENT = Deed(MID, ("A", "B"), 0, 0, NOW + DAY_MS, pending_minor=50_000)


@dataclass
class Life:
    """A history as it grows. `at_ms` is the time of what is said next."""

    history: History = field(default_factory=lambda: committed(DEED))
    at_ms: int = NOW
    count: Any = field(default_factory=lambda: itertools.count(1))

    def make(self, sender: str, kind: EventKind, *, seq: int | None = None, **fields: Any) -> Message:
        """An event of A, or a request of B, that follows what is known, without applying it."""
        if seq is None:
            seq = len(self.history.chain) + 1 if sender == "A" else 0
        body = EventBody(**{"commitment": MID, "kind": kind, "seq": seq, "prev": self.history.last, **fields})
        mid = next(self.count).to_bytes(32, "big")
        other = "B" if sender == "A" else "A"
        return Message(
            mid, Move.EVENT, sender, other, THREAD, body.prev, self.at_ms, self.at_ms + DAY_MS, body
        )

    def say(self, sender: str, kind: EventKind, **fields: Any) -> Message:
        """Make and apply."""
        message = self.make(sender, kind, **fields)
        self.hear(message)
        return message

    def hear(self, message: Message) -> None:
        """Apply, at the time it was issued."""
        self.history = apply(self.history, message, self.at_ms)
