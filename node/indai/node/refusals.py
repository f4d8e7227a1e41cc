"""The owner's record of messages that were refused before they touched a thread.

Bounded: a flood of forgeries costs two lines a second for each owner and reason, the first message and the
count of the others, and never a database write, or a line of the log, for each message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from indai.client.tasks import end_tasks
from indai.node.agents import Agents
from indai.node.inbound import Inbound, addressed
from indai.node.store import Row, Store, hexed
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError
from indai.protocol.handles import Handle
from indai.protocol.header import ID_BYTES
from indai.protocol.quoting import quoted

WINDOW_S = 1.0
MAX_TROUBLES = 1024
MAX_KINDS = 64  # distinct (owner, reason) pairs in one second; the rest goes unsaid

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
        self._troubles: OrderedDict[tuple[str, bytes | None, str], None] = OrderedDict()
        self._counting: asyncio.Task[None] | None = None

    async def note(self, raw: bytes, inbound: Inbound | None, error: IndaiError) -> None:
        """One refused message."""
        address, reason = addressed(raw), error.reason.name
        owner = address.owner if address.owner in self._agents else ""
        if not isinstance(error, ProtocolError) and not self._is_first(owner, address.mid, reason):
            return
        kind = self._kinds.get((owner, reason))
        if kind is not None:
            kind.more += 1
            return
        if len(self._kinds) >= MAX_KINDS:
            return
        peer = _handle(address.peer)
        self._kinds[owner, reason] = _Kind(peer)
        if self._counting is None:
            self._counting = asyncio.create_task(self._count())
        log.warning("message refused", reason=reason, error=error.message, owner=owner, peer=peer)
        if not owner:
            return
        named = quoted(address.peer) + ("" if inbound else " (as it calls itself)")
        did = "Refused" if isinstance(error, ProtocolError) else "Could not yet take"
        words = f"{did} a message from {named}: {error}"
        await self._write([self._row(owner, reason, peer, words, address.thread, address.mid)])

    def _is_first(self, owner: str, mid: bytes | None, reason: str) -> bool:
        """Whether this trouble of ours with this message is new: its sender comes again until it is over."""
        key = (owner, mid, reason)
        if key in self._troubles:
            return False
        self._troubles[key] = None
        if len(self._troubles) > MAX_TROUBLES:
            self._troubles.popitem(last=False)
        return True

    async def close(self) -> None:
        """Write the counts that are left."""
        await end_tasks(self._counting)
        await self._end_second()

    async def _count(self) -> None:
        await asyncio.sleep(WINDOW_S)
        self._counting = None
        await self._end_second()

    async def _end_second(self) -> None:
        kinds, self._kinds = self._kinds, {}
        for (owner, reason), kind in kinds.items():
            if kind.more:
                log.warning("more messages refused", reason=reason, owner=owner, count=kind.more)
        await self._write(
            [
                self._row(owner, reason, kind.peer, f"Refused {kind.more} more messages for the same reason.")
                for (owner, reason), kind in kinds.items()
                if kind.more and owner
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
            "thread": hexed(thread) if thread and len(thread) == ID_BYTES else None,
            "mid": hexed(mid),
            "peer": peer,
            "event": "refused-message",
            "reason": reason,
            "words": words,
        }


def _handle(text: str) -> str:
    """The handle that a message gives itself; "" where it is none, since nobody's text is shown raw."""
    try:
        return str(Handle.parse(text))
    except InvalidInput:
        return ""
