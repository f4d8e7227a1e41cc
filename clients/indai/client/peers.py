"""A cache of pinned channels to other nodes: one for each address, pinned to the key that the record names.

A channel is made anew when the record names another key, and when the connection under it failed (the peer
may have restarted with a renewed certificate for the same key). Unused ones are closed by `close_idle`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from indai.client.channels import CheckedChannel, Options
from indai.client.tls import NodeIdentity, pinned_channel

IDLE_MS: Final = 300_000
GRACE_S: Final = 10.0
"""How long calls on a replaced channel may still run."""

Clock = Callable[[], int]


@dataclass(slots=True)
class _Entry:
    channel: CheckedChannel
    pin: bytes
    broken: asyncio.Event
    used_ms: int


class PeerChannels:
    """Channels to peers, shared by all calls of one node. `clock` gives milliseconds.

    `public_only` refuses records that name an address inside a private network; a node whose peers live on
    the same machine or network turns it off.
    """

    def __init__(
        self,
        identity: NodeIdentity,
        clock: Clock,
        *,
        idle_ms: int = IDLE_MS,
        public_only: bool = True,
        options: Options = (),
    ) -> None:
        self._identity = identity
        self._clock = clock
        self._idle_ms = idle_ms
        self._public_only = public_only
        self._options = options
        self._entries: dict[str, _Entry] = {}
        # One pinning at a time for an address: callers that arrive together share its outcome.
        self._locks: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def get(self, address: str, pin: bytes) -> CheckedChannel:
        """The channel to the holder of `pin` at `address`. Raises as `pinned_channel` does."""
        entry = self._usable(address, pin)
        if entry is None:
            async with self._locks.setdefault(address, asyncio.Lock()):
                entry = self._usable(address, pin) or await self._pin(address, pin)
        entry.used_ms = self._clock()
        return entry.channel

    async def close_idle(self) -> int:
        """Closes what nobody asked for lately; gives how many."""
        oldest = self._clock() - self._idle_ms
        idle = [address for address, entry in self._entries.items() if entry.used_ms <= oldest]
        for address in idle:
            self._locks.pop(address, None)
            await self._entries.pop(address).channel.close(GRACE_S)
        return len(idle)

    async def close(self) -> None:
        """Closes every channel now."""
        entries, self._entries = list(self._entries.values()), {}
        await asyncio.gather(*(entry.channel.close() for entry in entries), *self._closing)

    def _usable(self, address: str, pin: bytes) -> _Entry | None:
        entry = self._entries.get(address)
        return entry if entry is not None and entry.pin == pin and not entry.broken.is_set() else None

    async def _pin(self, address: str, pin: bytes) -> _Entry:
        broken = asyncio.Event()
        channel = await pinned_channel(
            address,
            pin,
            self._identity,
            self._options,
            public_only=self._public_only,
            on_unreachable=broken.set,
        )
        replaced = self._entries.get(address)
        entry = self._entries[address] = _Entry(channel, pin, broken, self._clock())
        if replaced is not None:
            self._retire(replaced.channel)
        return entry

    def _retire(self, channel: CheckedChannel) -> None:
        task = asyncio.create_task(channel.close(GRACE_S))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
