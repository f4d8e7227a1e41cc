"""The owner's record of messages that were refused before they touched a thread.

Bounded: a flood of forgeries costs two lines a second for each owner and reason, the first message and the
count of the others, and never a database write for each message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from indai.node.agents import Agents
from indai.node.inbound import Inbound, addressed
from indai.node.store import Row, Store, hexed
from indai.protocol.errors import IndaiError
from indai.protocol.quoting import quoted

WINDOW_S = 1.0
MAX_KINDS = 64  # distinct (owner, reason) pairs in one second; the rest is only logged

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Kind:
    """Refusals of one owner for one reason in the present second: the first is written, the others
    counted."""

    peer: str
    more: int = 0


class Refusals:
    """Writes refusals to the owners' journals."""

    def __init__(self, store: Store, agents: Agents, clock: Callable[[], int]) -> None:
        self._store = store
        self._agents = agents
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._counting: asyncio.Task[None] | None = None

    async def note(self, raw: bytes, inbound: Inbound | None, error: IndaiError) -> None:
        """One refused message."""
        address, reason = addressed(raw), error.reason.name
        log.warning(
            "message refused", reason=reason, error=error.message, owner=address.owner, peer=address.peer
        )
        if address.owner not in self._agents:
            return
        kind = self._kinds.get((address.owner, reason))
        if kind is not None:
            kind.more += 1
            return
        if len(self._kinds) >= MAX_KINDS:
            return
        self._kinds[address.owner, reason] = _Kind(address.peer)
        if self._counting is None:
            self._counting = asyncio.create_task(self._count())
        named = quoted(address.peer) + ("" if inbound else " (as it calls itself)")
        words = f"Refused a message from {named}: {error.message}"
        await self._write(
            [self._row(address.owner, reason, address.peer, words, address.thread, address.mid)]
        )

    async def close(self) -> None:
        """Write the counts that are left."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)
        await self._end_second()

    async def _count(self) -> None:
        await asyncio.sleep(WINDOW_S)
        self._counting = None
        await self._end_second()

    async def _end_second(self) -> None:
        kinds, self._kinds = self._kinds, {}
        await self._write(
            [
                self._row(owner, reason, kind.peer, f"Refused {kind.more} more messages for the same reason.")
                for (owner, reason), kind in kinds.items()
                if kind.more
            ]
        )

    async def _write(self, rows: list[Row]) -> None:
        if not rows:
            return
        try:
            await self._store.apply({row["owner"] for row in rows}, {"journal": rows}, 0, None)
        except IndaiError as error:
            log.warning("journal not written", reason=error.reason.name, error=error.message)

    def _row(
        self,
        owner: str,
        reason: str,
        peer: str,
        words: str,
        thread: bytes | None = None,
        mid: bytes | None = None,
    ) -> Row:
        return {
            "owner": owner,
            "at_ms": self._clock(),
            "thread": hexed(thread),
            "mid": hexed(mid),
            "peer": peer[:300],
            "event": "refused-message",
            "reason": reason,
            "words": words,
        }
