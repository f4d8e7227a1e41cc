"""How many messages an owner takes from one peer: a burst, and then so many a second.

A thread is bounded by itself, and open threads are counted (`indai.node.crowd`); what is left is two programs
that begin ever new threads with each other and end them. Every message counts, and what begins a thread waits
when nothing is left: what goes on may always end. Kept in memory; a restart fills it again.
"""

from __future__ import annotations

from collections import OrderedDict

from indai.node.quota import Bucket
from indai.protocol.errors import Reason, Refused

BURST, PER_S = 2_048, 1
MAX_PAIRS = 20_000  # remembered; the least recently met begin anew


class Budget:
    """One event loop owns it."""

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def take(self, owner: str, peer: str, now_ms: int, *, begins: bool) -> None:
        """One message of `peer` for `owner`; raises Refused(RATE_LIMITED) for one that begins a thread when
        the pair has used up what it may say."""
        bucket = self._pairs.setdefault((owner, peer), Bucket(BURST, PER_S, BURST, now_ms))
        self._pairs.move_to_end((owner, peer))
        if len(self._pairs) > MAX_PAIRS:
            self._pairs.popitem(last=False)
        if bucket.level(now_ms) < 1 and begins:
            raise Refused(
                Reason.RATE_LIMITED,
                "You two have said a great deal to each other; this one can wait.",
                hint="come again",
            )
        bucket.take(1)
