"""What the node asks of an owner's calendar, be it a file, an account, or all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from indai.node.calendar.busy import CalendarEvent
from indai.node.calendar.meeting import MeetingEvent
from indai.node.calendar.slots import Interval, merge


class Source(Protocol):
    """One calendar. Times are ms since the epoch.

    Queries answer at once, from what is known; `refresh` brings that up to date first. A source whose
    knowledge is too old to sign by raises Unavailable(UNREACHABLE). Any method may raise InvalidInput
    (INVALID_CALENDAR, TOO_LARGE) for contents that can't be read.
    """

    @property
    def name(self) -> str:
        """How its owner knows it."""

    @property
    def version(self) -> object:
        """Something that differs whenever what is known here may have changed."""

    def is_ours(self, old: object, new: object) -> bool:
        """Whether all that lies between these two of its versions is known to have been written by `put_many`
        and `remove` here."""

    async def refresh(self) -> None:
        """Look whether it was changed elsewhere. Never raises: what follows from old knowledge, queries
        say."""

    async def busy(self, start_ms: int, end_ms: int) -> list[Interval]:
        """Busy time within `[start_ms, end_ms)`, merged, sorted and cut to it."""

    async def events(self, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """Occurrences that touch `[start_ms, end_ms)`, in order of time, free ones too."""

    async def standing(
        self, uids: Collection[str], start_ms: int, end_ms: int
    ) -> dict[str, list[CalendarEvent]]:
        """What stands under each of these UIDs: the event wherever it is, or the occurrences of a series
        that touch `[start_ms, end_ms)`."""

    async def holding(self, uids: Collection[str]) -> set[str]:
        """Those of these UIDs under which anything stands here."""

    async def put_many(self, events: Sequence[MeetingEvent]) -> int:
        """Write meetings; how many changed anything. Idempotent by UID and SEQUENCE; durable on return."""

    async def remove(self, uid: str) -> bool:
        """Take a meeting of ours out; False when it was not there."""


class Together:
    """All of one owner's calendars as one: busy is what any of them says, and `target` is the one in which
    new meetings are written. A meeting that stands in another is changed and called off where it stands."""

    def __init__(self, sources: Sequence[Source], target: Source) -> None:
        self.sources = tuple(sources)
        self.target = target

    @property
    def name(self) -> str:
        """See `Source`."""
        return self.target.name

    @property
    def version(self) -> tuple[object, ...]:
        """See `Source`."""
        return tuple(source.version for source in self.sources)

    def is_ours(self, old: object, new: object) -> bool:
        """See `Source`."""
        if not isinstance(old, tuple) or not isinstance(new, tuple) or len(old) != len(new):
            return False  # calendars came or went
        pairs = zip(self.sources, old, new, strict=False)
        return len(new) == len(self.sources) and all(source.is_ours(*pair) for source, *pair in pairs)

    async def refresh(self) -> None:
        """See `Source`."""
        if len(self.sources) == 1:
            await self.target.refresh()
        else:
            await asyncio.gather(*(source.refresh() for source in self.sources))

    async def busy(self, start_ms: int, end_ms: int) -> list[Interval]:
        """See `Source`."""
        if len(self.sources) == 1:
            return await self.target.busy(start_ms, end_ms)
        found = [await source.busy(start_ms, end_ms) for source in self.sources]
        return merge(interval for each in found for interval in each)

    async def events(self, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """See `Source`."""
        found = [await source.events(start_ms, end_ms) for source in self.sources]
        return sorted(
            (event for each in found for event in each), key=lambda e: (e.start_ms, e.end_ms, e.uid)
        )

    async def standing(
        self, uids: Collection[str], start_ms: int, end_ms: int
    ) -> dict[str, list[CalendarEvent]]:
        """See `Source`."""
        together: dict[str, list[CalendarEvent]] = {}
        for source in self.sources:
            for uid, events in (await source.standing(uids, start_ms, end_ms)).items():
                together.setdefault(uid, []).extend(events)
        return together

    async def holding(self, uids: Collection[str]) -> set[str]:
        """See `Source`."""
        return {uid for source in self.sources for uid in await source.holding(uids)}

    async def put_many(self, events: Sequence[MeetingEvent]) -> int:
        """See `Source`."""
        if len(self.sources) == 1:
            return await self.target.put_many(events)
        # A new meeting can't stand anywhere yet, and need not wait for calendars that are out of reach.
        left = {event.uid for event in events if event.sequence or event.cancelled}
        here: dict[Source, list[MeetingEvent]] = {self.target: []}
        for source in self.sources:
            held = await source.holding(left) if left and source is not self.target else set()
            here.setdefault(source, []).extend(event for event in events if event.uid in held)
            left -= held
        elsewhere = {event.uid for each in here.values() for event in each}
        here[self.target].extend(event for event in events if event.uid not in elsewhere)
        return sum([await source.put_many(some) for source, some in here.items() if some])

    async def put(self, event: MeetingEvent) -> bool:
        """Write one meeting."""
        return await self.put_many([event]) == 1

    async def remove(self, uid: str) -> bool:
        """See `Source`."""
        return any([await source.remove(uid) for source in self.sources])
