"""How much may be asked of agents here: by one person, of one agent, of an organisation, of the whole node.

Sliding spans, in memory and bounded: a restart begins anew. Only what is new counts, so a provider may
deliver a message as often as it likes. The owner at their own agent is held by the caps of its configuration
and the limit of the node alone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from indai.protocol.errors import Reason, Refused
from indai.runtime.conversations.doors import PERSONAL
from indai.runtime.conversations.values import Place

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
MAX_KEYS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many messages in a span."""

    name: str
    most: int
    span_ms: int


PERSON: Final = (Limit("you", 30, MINUTE_MS), Limit("you", 300, HOUR_MS))
AGENT: Final = Limit("this agent", 600, MINUTE_MS)
ORGANISATION: Final = Limit("this organisation", 3_000, MINUTE_MS)
NODE: Final = Limit("this node", 12_000, MINUTE_MS)


class Limits:
    """One event loop owns it."""

    def __init__(self) -> None:
        self._taken: OrderedDict[Hashable, deque[int]] = OrderedDict()

    def take(self, person: UUID, place: Place, now_ms: int) -> None:
        """One more message. Raises Refused(RATE_LIMITED), and then nothing has counted."""
        asked: list[tuple[Hashable, Limit]] = [("node", NODE)]
        if place.door != "private":
            asked += [((person, place.owner, each.span_ms), each) for each in PERSON]
            asked.append(((place.owner, place.binding), AGENT))
        if place.tenant != PERSONAL:
            asked.append((("tenant", place.tenant), ORGANISATION))
        spans = [(self._recent(key, limit, now_ms), limit) for key, limit in asked]
        for recent, limit in spans:
            if len(recent) >= limit.most:
                raise Refused(
                    Reason.RATE_LIMITED,
                    f"Too many messages for {limit.name}: {limit.most} in {limit.span_ms // MINUTE_MS} min.",
                    hint="wait a little and write again",
                )
        for recent, _ in spans:
            recent.append(now_ms)
        while len(self._taken) > MAX_KEYS:
            self._taken.popitem(last=False)

    def _recent(self, key: Hashable, limit: Limit, now_ms: int) -> deque[int]:
        recent = self._taken.setdefault(key, deque())
        self._taken.move_to_end(key)
        while recent and recent[0] <= now_ms - limit.span_ms:
            recent.popleft()
        return recent
