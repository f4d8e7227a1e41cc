"""A CalDAV account (RFC 4791) as one of the owner's calendars.

The account's events are mirrored in memory. A first read lists the events from a month ago on
(calendar-query) and fetches them (calendar-multiget); from then on the server tells what changed
(sync-collection, RFC 6578), or, where it can't, its tags do. Queries never wait for the network: `refresh`
asks the server, and a query answers from the mirror while that is at most `STALE_MS` old, and refuses after.

A write is conditional (If-Match, If-None-Match): what the owner changed meanwhile is read again, and never
written over. Only our own event's bytes change (`edits`). A connection lost during a write leaves its outcome
open; the same write made again finds the event by its UID and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote
from zoneinfo import ZoneInfo

import structlog
from indai.client.tasks import end_tasks
from indai.node.calendar import davxml
from indai.node.calendar.busy import Calendar, CalendarEvent, read_calendar
from indai.node.calendar.dav import DavClient, Found, Reply
from indai.node.calendar.davxml import CAL
from indai.node.calendar.edits import line_end, removals, spliced, writes
from indai.node.calendar.meeting import MeetingEvent, empty_calendar
from indai.node.calendar.slots import Interval
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused, Unavailable

FRESH_MS = 1_000  # what was read within it is not read again
STALE_MS = 30_000  # nothing is signed by anything older
REST_MS = 5_000  # after a failure, so that a server that is down delays nobody
WAIT_S = 3.0  # that `refresh` makes its caller wait; the reading itself goes on
BATCH = 100  # resources in one request
MAX_RESOURCES = 20_000
MAX_TOTAL = 64 * 1024 * 1024  # of all that is mirrored, bytes
PAST_MS = 32 * 86_400_000
AHEAD_MS = 370 * 86_400_000
_TRIES = 4
_LIGHT = 1000  # single events that are searched in some 100 us
_ICAL = "text/calendar; charset=utf-8"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Resource:
    """One calendar object resource: its entity tag, and what it says or why it can't be read."""

    etag: str
    size: int
    calendar: Calendar | None
    error: InvalidInput | None = None


@dataclass(slots=True)
class Mirror:
    """A calendar of the account, and what is known of it. `token` is the server's word for that state."""

    found: Found
    token: str = ""
    listed: bool = False
    resources: dict[str, Resource] = field(default_factory=dict)


class CalDavCalendar:
    """See `Source`. `found` are the calendars that are read; `target` is the path of the one written, empty
    when none is. `clock` is ms since the epoch."""

    def __init__(
        self,
        name: str,
        client: DavClient,
        found: Sequence[Found],
        target: str,
        zone: ZoneInfo,
        clock: Callable[[], int],
    ) -> None:
        self._name = name
        self._client = client
        self._collections = [Mirror(each) for each in found]
        self._target = target
        self._zone = zone
        self._clock = clock
        self._read_ms = -1  # when the mirror was last known to be the server's state
        self._rest_ms = 0
        self._error: IndaiError | None = None
        self._reading: asyncio.Task[None] | None = None
        self._merged: Calendar | None = None
        self._where: dict[str, list[str]] | None = None
        self._version = 0

    @property
    def name(self) -> str:
        """See `Source`."""
        return self._name

    @property
    def version(self) -> object:
        """See `Source`."""
        return self._version

    def is_ours(self, old: object, new: object) -> bool:
        """See `Source`: a server's version does not say who wrote it."""
        return old == new

    @property
    def problem(self) -> IndaiError | None:
        """Why the last reading failed; None when it did not."""
        return self._error

    @property
    def is_stale(self) -> bool:
        """Whether what is known is too old to sign by."""
        return self._read_ms < 0 or self._clock() - self._read_ms > STALE_MS

    async def close(self) -> None:
        """End a reading under way."""
        await end_tasks(self._reading)

    def move_to(self, zone: ZoneInfo) -> None:
        """Read floating and all-day times in another zone: everything is read again."""
        if self._reading is not None:
            self._reading.cancel()
        self._zone = zone
        self._read_ms = -1
        for collection in self._collections:
            collection.listed, collection.token, collection.resources = False, "", {}
        self._changed()

    async def look(self) -> None:
        """Read now; raises what went wrong, also for an event that can't be read."""
        await self._read_now()
        self._known()

    async def refresh(self) -> None:
        """See `Source`. Waits at most `WAIT_S`; readings are never doubled."""
        now = self._clock()
        if now < self._rest_ms or (self._read_ms >= 0 and now - self._read_ms < FRESH_MS):
            return
        await asyncio.wait([self._start_reading()], timeout=WAIT_S)

    async def busy(self, start_ms: int, end_ms: int) -> list[Interval]:
        """See `Source`."""
        calendar = self._known()
        if _is_light(calendar):
            return calendar.busy(start_ms, end_ms)
        return await asyncio.to_thread(calendar.busy, start_ms, end_ms)

    async def events(self, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """See `Source`."""
        calendar = self._known()
        if _is_light(calendar):
            return calendar.events(start_ms, end_ms)
        return await asyncio.to_thread(calendar.events, start_ms, end_ms)

    async def standing(
        self, uids: Collection[str], start_ms: int, end_ms: int
    ) -> dict[str, list[CalendarEvent]]:
        """See `Source`."""
        self._known()
        return {
            uid: events
            for uid in uids
            if (events := [e for each in self._under(uid) for e in each.standing(uid, start_ms, end_ms)])
        }

    async def holding(self, uids: Collection[str]) -> set[str]:
        """See `Source`."""
        self._known()
        return set(uids) & self._index().keys()

    async def put_many(self, events: Sequence[MeetingEvent]) -> int:
        """See `Source`. Raises Refused(ALREADY_EXISTS) for the UID of an event that is not ours."""
        newest: dict[str, MeetingEvent] = {}
        for event in events:
            if event.uid not in newest or newest[event.uid].sequence <= event.sequence:
                newest[event.uid] = event
        await self._read_now()
        changed = [await self._put(event) for event in newest.values()]
        if any(changed):
            await self._read_now()
        return sum(changed)

    async def remove(self, uid: str) -> bool:
        """See `Source`."""
        await self._read_now()
        for _ in range(_TRIES):
            path = self._path_of(uid)
            if path is None:
                return False
            data, etag, calendar = await self._get(path)
            edits = removals(calendar, uid) if calendar is not None else []
            if not edits:
                return False
            others = any(other != uid for other in (calendar.spans if calendar else ()))
            if others:
                reply = await self._put_bytes(path, spliced(data, edits), {"If-Match": etag})
            else:
                reply = await self._client.request("DELETE", path, headers={"If-Match": etag})
            if reply.status != 412:
                self._check_written(reply, path)
                await self._read_now()
                return True
            await self._read_now()
        raise self._contested()

    # The mirror

    def _known(self) -> Calendar:
        """What is known, if it is new enough and whole."""
        if self.is_stale:
            why = self._error.message if self._error else "It has not been read yet."
            raise Unavailable(
                Reason.UNREACHABLE,
                f"The calendar {self._name} is not known well enough to sign by: {why}",
                hint="Nothing is agreed until it can be read: indai calendar check",
            )
        if self._merged is None:
            self._merged = self._merge()
        return self._merged

    def _merge(self) -> Calendar:
        merged = Calendar(self._zone)
        for collection in self._collections:
            for path, resource in collection.resources.items():
                if resource.error is not None or resource.calendar is None:
                    raise resource.error or InvalidInput(Reason.INVALID_CALENDAR, f"{path} can't be read.")
                for uid, single in resource.calendar.singles.items():
                    merged.singles[f"{uid}\n{path}"] = single
                for uid, members in resource.calendar.series.items():
                    merged.series[f"{uid}\n{path}"] = members
                merged.periods.extend(resource.calendar.periods)
        return merged

    def _start_reading(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read_now(self) -> None:
        """The server's state as it is now: a reading under way may have begun before what is looked for."""
        if self._reading is not None and not self._reading.done():
            await asyncio.wait([self._reading])
        await asyncio.wait([self._start_reading()])
        if self._error is not None:
            raise self._error

    async def _read(self) -> None:
        began = self._clock()
        try:
            for collection in self._collections:
                await self._read_collection(collection)
        except IndaiError as error:
            self._error, self._rest_ms = error, self._clock() + REST_MS
        except Exception as error:
            log.exception("calendar not read", calendar=self._name)
            self._error = IndaiError(Reason.INTERNAL, f"The node failed: {type(error).__name__}.")
            self._rest_ms = self._clock() + REST_MS
        else:
            self._error, self._read_ms = None, began

    async def _read_collection(self, collection: Mirror) -> None:
        if collection.found.only_busy:
            await self._read_free_busy(collection)
            return
        if collection.found.syncs and collection.listed and collection.token:
            changed = await self._changes(collection)
            if changed is not None:
                await self._take(collection, *changed)
                return
        tags = await self._client.multistatus(
            "PROPFIND", collection.found.path, davxml.propfind((davxml.SYNC_TOKEN, davxml.CTAG))
        )
        (own,) = tags.responses[:1] or (davxml.Response(collection.found.path, 404),)
        token = own.text(davxml.SYNC_TOKEN) if collection.found.syncs else own.text(davxml.CTAG)
        if collection.listed and not collection.found.syncs and token and token == collection.token:
            return
        listed = await self._list(collection)
        await self._take(collection, listed, collection.resources.keys() - listed.keys())
        collection.token, collection.listed = token, True

    async def _changes(self, collection: Mirror) -> tuple[dict[str, str], set[str]] | None:
        """(path -> entity tag of what is new, paths of what is gone); None when the token is known no
        more."""
        fresh: dict[str, str] = {}
        gone: set[str] = set()
        token = collection.token
        for _ in range(MAX_RESOURCES // BATCH):
            body = davxml.sync_collection(token)
            reply = await self._client.request("REPORT", collection.found.path, body, {"Depth": "0"})
            if reply.status in (400, 403, 409, 412, 507):
                return None  # an old token: servers say so with any of these
            if reply.status != 207:
                raise self._client.error(reply, collection.found.path)
            answer = davxml.read_multistatus(reply.data)
            partial = False
            for each in answer.responses:
                if each.path.rstrip("/") == collection.found.path.rstrip("/"):
                    partial = each.status == 507
                elif each.status == 404:
                    gone.add(each.path)
                    fresh.pop(each.path, None)
                elif not each.path.endswith("/"):
                    fresh[each.path] = each.text(davxml.ETAG)
                    gone.discard(each.path)
            token = answer.sync_token or token
            if not partial:
                collection.token = token
                return fresh, gone
        return None

    async def _list(self, collection: Mirror) -> dict[str, str]:
        body = davxml.calendar_query(self._clock() - PAST_MS)
        answer = await self._client.multistatus("REPORT", collection.found.path, body, "1")
        if len(answer.responses) > MAX_RESOURCES:
            raise InvalidInput(
                Reason.TOO_LARGE,
                f"The calendar {collection.found.name} has more than {MAX_RESOURCES} events.",
                hint="Choose the calendars to read: indai calendar add --read NAME",
            )
        return {each.path: each.text(davxml.ETAG) for each in answer.responses if each.status != 404}

    async def _take(self, collection: Mirror, fresh: dict[str, str], gone: Collection[str]) -> None:
        """Bring the mirror to what the server listed."""
        wanted = [
            path
            for path, etag in fresh.items()
            if not etag or (known := collection.resources.get(path)) is None or known.etag != etag
        ]
        found: dict[str, Resource] = {}
        vanished = set(gone)
        for index in range(0, len(wanted), BATCH):
            some = wanted[index : index + BATCH]
            answer = await self._client.multistatus("REPORT", collection.found.path, davxml.multiget(some))
            missing = {each.path for each in answer.responses if each.status in (404, 410)}
            found |= await asyncio.to_thread(self._parse, collection.found.name, answer)
            if left_out := set(some) - found.keys() - missing:
                # What was not shown may be what makes the owner busy.
                raise Unavailable(
                    Reason.UNREACHABLE,
                    f"{self._client.name} lists {min(left_out)} and does not show it.",
                    hint="It is tried again.",
                )
            vanished |= missing
        if found or vanished & collection.resources.keys():
            kept = {path: each for path, each in collection.resources.items() if path not in vanished}
            collection.resources = kept | found
            self._changed()
            self._check_size()

    def _parse(self, name: str, answer: davxml.Multistatus) -> dict[str, Resource]:
        found: dict[str, Resource] = {}
        for each in answer.responses:
            data = each.props.get(davxml.DATA)
            if data is not None:
                etag = each.text(davxml.ETAG)
                found[each.path] = self._resource(name, each.path, etag, (data.text or "").encode())
        return found

    def _resource(self, name: str, path: str, etag: str, data: bytes) -> Resource:
        try:
            return Resource(etag, len(data), read_calendar(data, self._zone))
        except InvalidInput as error:
            told = f"{name} ({path}): {error.message}"
            return Resource(etag, len(data), None, InvalidInput(error.reason, told, hint=error.hint))

    async def _read_free_busy(self, collection: Mirror) -> None:
        """A calendar that shows when and not what."""
        now = self._clock()
        body = davxml.free_busy_query(now - PAST_MS, now + AHEAD_MS)
        reply = await self._client.request("REPORT", collection.found.path, body, {"Depth": "1"})
        if reply.status != 200:
            raise self._client.error(reply, collection.found.path)
        resource = self._resource(collection.found.name, collection.found.path, "", reply.data)
        before = collection.resources.get(collection.found.path)
        if before is None or before.calendar != resource.calendar:
            collection.resources = {collection.found.path: resource}
            self._changed()

    def _check_size(self) -> None:
        total = sum(each.size for one in self._collections for each in one.resources.values())
        if total > MAX_TOTAL:
            raise InvalidInput(
                Reason.TOO_LARGE,
                f"The calendars of {self._name} hold more than {MAX_TOTAL // 2**20} MiB.",
                hint="Choose the calendars to read: indai calendar add --read NAME",
            )

    def _changed(self) -> None:
        self._merged = self._where = None
        self._version += 1

    # Writing

    async def _put(self, event: MeetingEvent) -> bool:
        for _ in range(_TRIES):
            path = self._path_of(event.uid)
            if path is None:
                if event.cancelled:
                    return False
                path, condition, data = self._new_path(event.uid), {"If-None-Match": "*"}, empty_calendar()
                calendar: Calendar | None = read_calendar(data, self._zone)
            else:
                data, etag, calendar = await self._get(path)
                condition = {"If-Match": etag}
            if calendar is not None:
                edits = writes(calendar, [event], line_end(data))
                if not edits:
                    return False
                reply = await self._put_bytes(path, spliced(data, edits), condition)
                if reply.status != 412 and davxml.precondition(reply.data) != f"{CAL}no-uid-conflict":
                    self._check_written(reply, path)
                    return True
            await self._read_now()
        raise self._contested()

    async def _get(self, path: str) -> tuple[bytes, str, Calendar | None]:
        """(bytes, entity tag, what they say); no calendar when it is gone."""
        reply = await self._client.request("GET", path)
        if reply.status in (404, 410):
            return b"", "", None
        if reply.status != 200:
            raise self._client.error(reply, path)
        if not reply.etag or reply.etag.startswith("W/"):
            raise Refused(
                Reason.UNSUPPORTED,
                f"{self._client.name} gives no strong entity tags, so a change could write over yours.",
                hint="Let the node write into another calendar.",
            )
        return reply.data, reply.etag, read_calendar(reply.data, self._zone)

    async def _put_bytes(self, path: str, data: bytes, condition: dict[str, str]) -> Reply:
        return await self._client.request("PUT", path, data, {"Content-Type": _ICAL, **condition})

    def _check_written(self, reply: Reply, path: str) -> None:
        if reply.status not in (200, 201, 204):
            raise self._client.error(reply, path)

    def _path_of(self, uid: str) -> str | None:
        """Where an event stands; in the calendar that is written, if there."""
        paths = self._index().get(uid, [])
        return min(paths, key=lambda path: not path.startswith(self._target or "\n"), default=None)

    def _under(self, uid: str) -> list[Calendar]:
        paths = self._index().get(uid, [])
        every = {path: each for one in self._collections for path, each in one.resources.items()}
        return [calendar for path in paths if (calendar := every[path].calendar) is not None]

    def _index(self) -> dict[str, list[str]]:
        """UID -> paths of the resources that hold it."""
        if self._where is None:
            self._where = {}
            for collection in self._collections:
                for path, resource in collection.resources.items():
                    for uid in resource.calendar.spans if resource.calendar else ():
                        self._where.setdefault(uid, []).append(path)
        return self._where

    def _new_path(self, uid: str) -> str:
        if not self._target:
            raise Refused(
                Reason.UNSUPPORTED,
                f"No calendar of {self._name} is there to be written.",
                hint="indai calendar add --write NAME",
            )
        return f"{self._target.rstrip('/')}/{quote(uid, safe='@.-_')}.ics"

    def _contested(self) -> Unavailable:
        return Unavailable(
            Reason.UNREACHABLE,
            f"The calendar {self._name} is being changed all the time by another program.",
            hint="It is tried again.",
        )


def _is_light(calendar: Calendar) -> bool:
    return not calendar.series and len(calendar.singles) <= _LIGHT
