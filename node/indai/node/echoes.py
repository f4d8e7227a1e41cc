"""Ends what runs round between programs that keep silent about why they begin something.

Hops count what says which thread it is passed on from. Of what begins without that word, the node sees only
when: again and again right after the same other has begun a thread here, and with the same one. A person,
or a program with work of its own, does that a few times; two dozen times without a quiet hour in between is a
circle, be it of two agents or of twenty, and the owner's own node begins no more of them. Kept in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from indai.protocol.errors import Reason, Refused
from indai.protocol.forms import HOUR_MS, MINUTE_MS

NEAR_MS, QUIET_MS = 5 * MINUTE_MS, HOUR_MS
MOST = 24
MAX_KEPT = 20_000  # of owners, and of ways through them; the least recently met begin anew


class Echoes:
    """One event loop owns it."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._runs: OrderedDict[tuple[str, str, str], tuple[int, int]] = OrderedDict()

    def hear(self, owner: str, peer: str, now_ms: int) -> None:
        """`peer` has begun a thread with the owner."""
        self._heard[owner] = (peer, now_ms)
        self._heard.move_to_end(owner)
        if len(self._heard) > MAX_KEPT:
            self._heard.popitem(last=False)

    def begin(self, owner: str, peers: Sequence[str], now_ms: int) -> None:
        """The owner begins a thread with these and does not say why; raises Refused(TOO_MANY_HOPS) when that
        has followed on the same peer's too often."""
        heard, heard_ms = self._heard.get(owner, ("", 0))
        if now_ms - heard_ms > NEAR_MS:
            self._heard.pop(owner, None)
            return
        for peer in peers:
            key = (owner, heard, peer)
            count, last_ms = self._runs.get(key, (0, now_ms))
            count = 1 if now_ms - last_ms > QUIET_MS else min(count + 1, MOST + 1)
            self._runs[key] = (count, now_ms)
            self._runs.move_to_end(key)
            if len(self._runs) > MAX_KEPT:
                self._runs.popitem(last=False)
            if count > MOST:
                what = f"{MOST} times in a row you began something with {peer} right after {heard} had."
                raise Refused(
                    Reason.TOO_MANY_HOPS, what, hint="say which thread it is passed on from, or wait an hour"
                )
        del self._heard[owner]  # one thread that came is the reason of one that goes
