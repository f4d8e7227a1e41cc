"""What decides for an owner, kept for as long as nobody has changed it.

Looking at one owner's rows for each decision would cost more than the decision. Instead all owners share one
look a second, at 256 numbers (`policy.generation`) of which each change raises one in its own transaction.
Who changes a policy waits until every replica's last look is over before they say that it holds.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from functools import lru_cache

import asyncpg
from indai.policy.store import EVERYONE, State, active_state, authority_of, generations

LEASE_S = 1.0
MARGIN_S = 0.05
MAX_KEPT = 100_000  # owners' states, of some 300 bytes each

Marks = tuple[int, ...]


class Leases:
    """The states of owners, at most `LEASE_S` old."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._numbers: Marks = ()
        self._until = 0.0  # loop time, s
        self._looking = asyncio.Lock()
        self._forgotten = 0
        self._known: OrderedDict[tuple[str, str], tuple[State, Marks]] = OrderedDict()

    async def state(self, owner: str, session: str) -> State:
        """What the tables said at most `LEASE_S` ago."""
        marks = _marks(await self._look(), owner)
        key = (owner, session)
        known = self._known.get(key)
        if known is not None and known[1] == marks:
            self._known.move_to_end(key)
            return known[0]
        # The marks are older than what is read now: a change in between is read again, never missed.
        found = await active_state(self._pool, owner, session)
        if found.policy_hash is not None:
            self._known[key] = found, marks
            self._known.move_to_end(key)
            if len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
        return found

    def forget(self) -> None:
        """Look again at the next question: something was changed here."""
        self._forgotten += 1
        self._until = 0.0

    async def outlast(self) -> None:
        """Return when no replica decides by what it read before now."""
        await asyncio.sleep(LEASE_S + MARGIN_S)

    async def _look(self) -> Marks:
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            return self._numbers
        async with self._looking:  # one look for all who ask meanwhile
            if loop.time() >= self._until:
                began, forgotten = loop.time(), self._forgotten
                numbers = await generations(self._pool)
                self._numbers = numbers
                self._until = began + LEASE_S if forgotten == self._forgotten else 0.0
            return self._numbers


def _marks(numbers: Marks, owner: str) -> Marks:
    """Of the owner's own rows, their authority's and everyone's."""
    return tuple(numbers[_bucket(scope)] for scope in (owner, authority_of(owner), EVERYONE))


@lru_cache(maxsize=MAX_KEPT)
def _bucket(scope: str) -> int:
    """As `policy.count_change`."""
    return hashlib.sha256(scope.encode()).digest()[0]
