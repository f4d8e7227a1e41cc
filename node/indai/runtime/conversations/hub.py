"""Tells those who follow a turn, in this process, what was stored of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from indai.v1 import conversation_pb2 as pb


@dataclass(slots=True)
class Channel:
    """The events of one turn since somebody began to follow it."""

    followers: int = 0
    events: list[pb.TurnEvent] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def after(self, seq: int, pause_s: float) -> AsyncIterator[pb.TurnEvent | None]:
        """Events with a higher number, up to the last one; None after each silence of `pause_s`."""
        at = 0
        while True:
            for event in self.events[at:]:
                at += 1
                if event.seq > seq:
                    yield event
                if event.HasField("finished"):
                    return
            try:
                async with asyncio.timeout(pause_s):
                    await self.changed.wait()
            except TimeoutError:
                yield None


class Hub:
    """Channels by turn; one lasts as long as it is followed."""

    def __init__(self) -> None:
        self._channels: dict[UUID, Channel] = {}

    def join(self, turn: UUID) -> Channel:
        """Follow from now on: what is published afterwards is not missed."""
        channel = self._channels.setdefault(turn, Channel())
        channel.followers += 1
        return channel

    def leave(self, turn: UUID) -> None:
        """Follow no more."""
        channel = self._channels[turn]
        channel.followers -= 1
        if not channel.followers:
            del self._channels[turn]

    def publish(self, turn: UUID, events: Sequence[pb.TurnEvent]) -> None:
        """Tell what is stored."""
        channel = self._channels.get(turn)
        if channel is not None:
            channel.events += events
            # Each silence has an event of its own: one follower can't clear it for another.
            channel.changed.set()
            channel.changed = asyncio.Event()
