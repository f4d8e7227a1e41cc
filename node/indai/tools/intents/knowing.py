"""What the owner's own node knows: people to find, the agenda, free time, how things stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from indai.mcp.free import Free, free_windows
from indai.mcp.values import stamp
from indai.tools.desk import Desks
from indai.tools.intents.common import MINUTES, STATES, WHEN, WITH, arguments, shown, zone_of
from indai.tools.people import People
from indai.tools.values import Caller, Effect, Progress, Spec, Touch
from indai.tools.when import Window, read_when
from indai.v1 import calendar_pb2, owner_pb2, registry_pb2

MINUTE_MS: Final = 60_000
MOST: Final = 20
_EVENT: Final = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "x-untrusted": True, "x-importance": 3},
        "start_ms": {"type": "integer", "x-format": "local_time", "x-label": "from", "x-importance": 3},
        "end_ms": {"type": "integer", "x-format": "local_time", "x-label": "to", "x-importance": 1},
        "all_day": {"type": "boolean", "x-label": "all day", "x-importance": 1},
        "agreed": {"type": "boolean", "x-label": "agreed by your agent", "x-importance": 1},
    },
}
_SLOT: Final = {
    "type": "object",
    "properties": {
        "start_ms": {"type": "integer", "x-format": "local_time", "x-label": "from", "x-importance": 3},
        "end_ms": {"type": "integer", "x-format": "local_time", "x-label": "to"},
    },
}
_THREAD: Final = {
    "type": "object",
    "properties": {
        "with": {"type": "string", "x-importance": 3},
        "kind": {"type": "string"},
        "about": {"type": "string", "x-untrusted": True},
        "state": {"type": "string", "x-format": "code", "x-names": STATES, "x-importance": 3},
        "when": {"type": "string", "x-importance": 3},
        "thread_id": {"type": "string", "x-hidden": True},
    },
}
_PERSON: Final = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "x-importance": 3},
        "intents": {"type": "string", "x-label": "answers"},
        "languages": {"type": "string", "x-untrusted": True, "x-importance": 1},
    },
}


def _listed(name: str, item: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    properties = {name: {"type": "array", "items": item}, "count": {"type": "integer"}, **more}
    return {"type": "object", "properties": properties, "required": [name, "count"]}


@dataclass(frozen=True, slots=True)
class FindPeople:
    """Looks for people who asked to be found, and for those the owner has dealt with."""

    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        name = {
            "type": "string",
            "maxLength": 100,
            "description": "Part of a name or handle.",
            "x-label": "Name",
        }
        does = {
            "type": "string",
            "maxLength": 32,
            "description": "What they must answer: meet, book, request.",
        }
        return Spec(
            "find-people",
            "Find people's and businesses' handles: those dealt with before, and those listed to be found.",
            arguments((), name=name, does=does),
            _listed("people", _PERSON),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, name = self.desks(caller.owner), arguments.get("name", "").lower().strip()
        request = registry_pb2.SearchHandlesRequest(intent=arguments.get("does", ""), page_size=100)
        listed = {each.handle: each for each in (await desk.registry.SearchHandles(request)).listings}
        known = set() if arguments.get("does") else await self.people.known(desk)
        found = sorted(each for each in {*listed, *known} if name in each and each != caller.owner)
        people = [
            {
                "handle": each,
                "intents": ", ".join(listed[each].intents) if each in listed else "",
                "languages": ", ".join(listed[each].languages) if each in listed else "",
            }
            for each in found[:MOST]
        ]
        return {"people": people, "count": len(found)}


@dataclass(frozen=True, slots=True)
class Agenda:
    """Reads the owner's calendars."""

    desks: Desks

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "my-agenda",
            "What stands in the owner's calendar on a day or in a week.",
            arguments((), when=WHEN),
            _listed("events", _EVENT, period={"type": "string"}),
            Effect.READ,
            frozenset({Touch.PRIVATE}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, words = self.desks(caller.owner), arguments.get("when") or "today"
        when = read_when(words, "", 1, caller.now_ms, zone_of(caller))
        request = owner_pb2.ListEventsRequest(
            start_time=stamp(when.whole.start_ms), end_time=stamp(when.whole.end_ms)
        )
        found = (await desk.owner.ListEvents(request)).events
        events = [
            {
                "title": each.summary,
                "start_ms": each.start_time.ToMilliseconds(),
                "end_ms": each.end_time.ToMilliseconds(),
                "all_day": each.all_day,
                "agreed": each.agreed,
            }
            for each in found[:MOST]
        ]
        return {"events": events, "count": len(found), "period": when.words}


@dataclass(frozen=True, slots=True)
class FreeTime:
    """Finds stretches in which nothing stands in the owner's calendars."""

    desks: Desks

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "free-time",
            "When the owner is free, within their meeting hours.",
            arguments((), when=WHEN, duration_minutes=MINUTES),
            _listed("slots", _SLOT, period={"type": "string"}),
            Effect.READ,
            frozenset({Touch.PRIVATE}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, minutes = self.desks(caller.owner), int(arguments.get("duration_minutes", 30))
        zone = zone_of(caller)
        when = read_when(arguments.get("when") or "this week", "", minutes, caller.now_ms, zone)
        settings = await desk.calendars.GetMeetSettings(calendar_pb2.GetMeetSettingsRequest())
        found: list[tuple[int, int]] = []
        for window in when.windows:
            busy = await _busy(self.desks, caller, window)
            free = Free(window.start_ms, window.end_ms, zone, settings.settings)
            found += free_windows(free, busy, minutes * MINUTE_MS)
        slots = [{"start_ms": start, "end_ms": end} for start, end in found[:MOST]]
        return {"slots": slots, "count": len(found), "period": when.words}


async def _busy(desks: Desks, caller: Caller, window: Window) -> list[tuple[int, int]]:
    request = owner_pb2.ListEventsRequest(start_time=stamp(window.start_ms), end_time=stamp(window.end_ms))
    events = (await desks(caller.owner).owner.ListEvents(request)).events
    return [(each.start_time.ToMilliseconds(), each.end_time.ToMilliseconds()) for each in events]


@dataclass(frozen=True, slots=True)
class Threads:
    """How the owner's matters stand."""

    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        waiting = {"type": "boolean", "description": "Only what waits for somebody."}
        return Spec(
            "threads",
            "How requests, meetings and payments with others stand, the newest first.",
            arguments((), **{"with": WITH}, waiting=waiting),
            _listed("threads", _THREAD),
            Effect.READ,
            frozenset({Touch.PRIVATE}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk = self.desks(caller.owner)
        peer = await self.people.one(caller, desk, arguments["with"]) if arguments.get("with") else ""
        listed = (await desk.owner.ListThreads(owner_pb2.ListThreadsRequest(page_size=200))).threads
        found = []
        for each in listed:
            if peer in ("", each.peer):
                one = await shown(caller, desk, each)
                if not arguments.get("waiting") or one["state"] in ("waiting", "needs_you"):
                    kept = ("with", "state", "when", "thread_id")
                    row = {name: one[name] for name in kept if name in one}
                    found.append({"kind": each.kind, "about": each.title} | row)
        return {"threads": found[:MOST], "count": len(found)}
