"""The owner's record of messages that were refused before they touched a thread.

Written in batches and bounded: a flood of forgeries costs one line a second for each owner and reason, with
the count, and never a database write for each message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from indai.node.agents import Agents
from indai.node.inbound import Inbound, addressed
from indai.node.store import Store, hexed
from indai.protocol.errors import IndaiError
from indai.protocol.quoting import quoted

FLUSH_S = 1.0
MAX_LINES = 64  # distinct (owner, reason) pairs in one flush; the rest is only logged

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Line:
    peer: str
    thread: bytes | None
    mid: bytes | None
    words: str
    count: int = 1


class Refusals:
    """Collects refusals and writes them to the owners' journals."""

    def __init__(self, store: Store, agents: Agents, clock: Callable[[], int]) -> None:
        self._store = store
        self._agents = agents
        self._clock = clock
        self._lines: dict[tuple[str, str], _Line] = {}
        self._flusher: asyncio.Task[None] | None = None

    async def note(self, raw: bytes, inbound: Inbound | None, error: IndaiError) -> None:
        """One refused message. The first of its kind is written at once, so that the owner sees it."""
        address = addressed(raw)
        reason = error.reason.name
        log.warning(
            "message refused", reason=reason, error=error.message, owner=address.owner, peer=address.peer
        )
        if address.owner not in self._agents:
            return
        line = self._lines.get((address.owner, reason))
        if line is not None:
            line.count += 1
            return
        if len(self._lines) >= MAX_LINES:
            return
        proved = "" if inbound else " (as it calls itself)"
        words = f"Refused a message from {quoted(address.peer)}{proved}: {error.message}"
        self._lines[address.owner, reason] = _Line(address.peer, address.thread, address.mid, words)
        if self._flusher is None:
            await self._flush()
            self._flusher = asyncio.create_task(self._later())

    async def close(self) -> None:
        """Write what is left."""
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        await self._flush()

    async def _later(self) -> None:
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                if not self._lines:
                    break
                await self._flush()
        finally:
            self._flusher = None

    async def _flush(self) -> None:
        lines, self._lines = self._lines, {}
        if not lines:
            return
        try:
            rows = [self._row(*key, line) for key, line in lines.items()]
            await self._store.apply({owner for owner, _ in lines}, {"journal": rows}, 0, None)
        except IndaiError as error:
            log.warning("journal not written", reason=error.reason.name, error=error.message)

    def _row(self, owner: str, reason: str, line: _Line) -> dict[str, object]:
        more = f" ({line.count} times)" if line.count > 1 else ""
        return {
            "owner": owner,
            "at_ms": self._clock(),
            "thread": hexed(line.thread),
            "mid": hexed(line.mid),
            "peer": line.peer[:300],
            "event": "refused-message",
            "reason": reason,
            "words": line.words + more,
        }
