"""How many bad messages a caller may send: checking one costs a signature and perhaps a look-up.

Token buckets, kept by the key of the caller's TLS certificate. Such a key costs nothing to make, so callers
from whom nothing was ever accepted share one bucket, and pay before the work: a flood under ever new keys
empties the strangers' bucket and nobody else's. What was good is paid back. Peers we have dealt with have a
bucket each and pay for what was refused only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from indai.protocol.errors import Reason, Unavailable

STRANGERS_BURST, STRANGERS_PER_S = 512, 64
PEER_BURST, PEER_PER_S = 1_024, 16
MAX_PEERS = 10_000  # remembered; the least recently met become strangers again

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Bucket:
    """`burst` tokens at most, and `per_s` more each second; `filled_ms`: when `tokens` was right."""

    burst: int
    per_s: int
    tokens: float
    filled_ms: int
    told: bool = False

    def level(self, now_ms: int) -> float:
        """How many there are now."""
        grown = self.tokens + (now_ms - self.filled_ms) * self.per_s / 1000
        self.tokens, self.filled_ms = min(float(self.burst), grown), now_ms
        return self.tokens

    def take(self, count: int) -> None:
        """Use that many up, or put them back."""
        # Never deeper than one burst: however large the flood was, it is forgotten in a foreseeable time.
        self.tokens = max(self.tokens - count, -float(self.burst))


class Quota:
    """Admits deliveries. One event loop owns it."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._strangers = Bucket(STRANGERS_BURST, STRANGERS_PER_S, STRANGERS_BURST, clock())
        self._peers: OrderedDict[bytes, Bucket] = OrderedDict()

    def enter(self, caller: bytes, count: int) -> None:
        """Before `count` messages are looked at. Raises Unavailable(RATE_LIMITED)."""
        bucket = self._peers.get(caller, self._strangers)
        if bucket.level(self._clock()) < 1:
            if not bucket.told:
                bucket.told = True
                log.warning("caller limited", caller=caller.hex()[:16], stranger=bucket is self._strangers)
            raise Unavailable(
                Reason.RATE_LIMITED, "Too many refused messages came from there.", hint="try again later"
            )
        bucket.told = False
        if bucket is self._strangers:
            bucket.take(count)

    def leave(self, caller: bytes, good: int, bad: int, *, proven: bool) -> None:
        """After them: how many were good, how many were refused for what they are; `proven` when a good
        one came from its sender's own node."""
        bucket = self._peers.get(caller)
        if bucket is not None:
            self._peers.move_to_end(caller)
            bucket.take(bad)
            return
        self._strangers.take(-good)
        if proven:
            self._peers[caller] = Bucket(PEER_BURST, PEER_PER_S, PEER_BURST, self._clock())
            if len(self._peers) > MAX_PEERS:
                self._peers.popitem(last=False)
