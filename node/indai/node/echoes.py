"""Ends what runs round between programs that keep silent about why they begin something.

Hops count what says which thread it is passed on from. Of what begins without that word, the node sees only
when: right after the same other has begun a thread here, with the same one, and as often as that. A person,
or a program with work of its own, does that a few times; two dozen times without a quiet hour in between is a
circle, be it of two agents or of twenty, and the owner's own node begins no more of them. What is begun far
more often than what it would follow on, or far less, has other reasons: so nobody stops an owner's own work
by beginning things with them. Kept in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from indai.protocol.errors import Reason, Refused
from indai.protocol.forms import HOUR_MS, MINUTE_MS

NEAR_MS, QUIET_MS = 5 * MINUTE_MS, HOUR_MS
MOST = 24
SLACK = 4  # so many more of one than of the other: several may run round at once
MAX_WAYS, MAX_OWNERS = 64, 20_000  # remembered; the least recently met begin anew


@dataclass(slots=True)
class _Way:
    """From one peer to another through an owner: how often in a row, and how many more came than went."""

    count: int = 0
    ahead: int = 0
    last_ms: int = 0

    def shift(self, by: int) -> None:
        """One more came (1) or went (-1)."""
        self.ahead += by
        if abs(self.ahead) > SLACK:
            self.count = self.ahead = 0


@dataclass(slots=True)
class _Owner:
    heard: str = ""
    heard_ms: int = 0
    ways: OrderedDict[tuple[str, str], _Way] = field(default_factory=OrderedDict)


class Echoes:
    """One event loop owns it."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, _Owner] = OrderedDict()

    def hear(self, owner: str, peer: str, now_ms: int) -> None:
        """`peer` has begun a thread with the owner."""
        own = self._owners.setdefault(owner, _Owner())
        self._owners.move_to_end(owner)
        if len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)
        own.heard, own.heard_ms = peer, now_ms
        for (source, _), way in own.ways.items():
            if source == peer:
                way.shift(1)

    def begin(self, owner: str, peers: Sequence[str], now_ms: int) -> None:
        """The owner begins a thread with these and does not say why; raises Refused(TOO_MANY_HOPS) when that
        has followed on the same peer's too often."""
        own = self._owners.get(owner)
        if own is None:
            return
        heard = own.heard if now_ms - own.heard_ms <= NEAR_MS else ""
        for way in own.ways.values():
            if now_ms - way.last_ms > QUIET_MS:
                way.count = way.ahead = 0
        for peer in peers:
            known = own.ways.get((heard, peer))
            if known is not None and known.count >= MOST:
                what = f"{MOST} times in a row you began something with {peer} right after {heard} had."
                raise Refused(
                    Reason.TOO_MANY_HOPS, what, hint="say which thread it is passed on from, or wait an hour"
                )
        own.heard = ""  # one thread that came is the reason of one that goes
        for peer in peers:
            for (_, to), way in own.ways.items():
                if to == peer:
                    way.shift(-1)
            if heard:
                way = own.ways.setdefault((heard, peer), _Way())
                own.ways.move_to_end((heard, peer))
                way.count, way.last_ms = way.count + 1, now_ms
        while len(own.ways) > MAX_WAYS:
            own.ways.popitem(last=False)
