"""Agreed meetings that their owner moved or deleted in a calendar program: noticed, kept, and told to the
peer.

The node looks at each calendar now and then: at a file's status, at a server's token. When one has changed,
every agreed meeting to come is compared with the event that stands under its UID. A difference counts once it
was seen twice in a row, since programs write in several steps. It becomes a row, so that it is handled once
whatever happens meanwhile, and the row goes when the calendar says again what was agreed.

What follows is the owner's setting: they are asked (`indai calendar changes`), the peer is told, or nothing.
A deleted meeting is cancelled. A moved one goes back to the agreed time, which holds until the peer has
agreed to another, and the peer is asked for that one. When most meetings to come have vanished at once, or
the file itself, the owner is asked whatever the setting: that is a lost calendar, not a wish. So they are
about what could not be told at once.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from indai.client.tasks import end_tasks
from indai.node.agents import Agents
from indai.node.calendar import MeetingEvent
from indai.node.calendar.busy import CalendarEvent
from indai.node.meet_settings import OnChange, Tastes
from indai.node.store import Store
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.protocol.kinds.meet import MAX_MINUTES
from indai.protocol.messages import EventKind, MeetWish, Window
from indai.protocol.party_state import OwnerActs

POLL_S = 5.0
SERVER_MS = 60_000  # how often a server is asked without a reason
DAY_MS = 86_400_000
MINUTE_MS = 60_000
YEAR_MS = AHEAD_MS = 366 * DAY_MS
MAX_MEETINGS = 1_000  # of one owner, the soonest
CHUNK = 64  # owners looked at at once
OWNERS_PER_S = 1000

Key = tuple[bytes, int]  # thread, and of a series the agreed start of one time

log = structlog.get_logger(__name__)

# $2 is now; the thread's own end is that of the first of several times, whose UIDs end in ~1, ~2, and so on.
_MEETINGS = """
SELECT t.thread, t.peer, t.title, t.mid, e.doc,
  CASE WHEN e.doc ->> 'uid' LIKE '%~%' THEN (e.doc ->> 'start_ms')::bigint ELSE 0 END AS at_ms
FROM node.threads t
JOIN (
  SELECT DISTINCT ON (thread, doc ->> 'uid') thread, doc, done FROM node.effects
  WHERE owner = $1 AND kind = 'calendar-put' AND (doc ->> 'end_ms')::bigint > $2
  ORDER BY thread, doc ->> 'uid', (doc ->> 'sequence')::int DESC, created_ms DESC
) AS e USING (thread)
WHERE t.owner = $1 AND t.phase = 'COMMITTED' AND t.erased_ms IS NULL AND t.end_ms > $2 - 31622400000
  AND e.done AND NOT coalesce((e.doc ->> 'cancelled')::boolean, false)
"""


@dataclass(frozen=True, slots=True)
class Meeting:
    """An agreed meeting as it was written into the calendar; of one that repeats the time that begins at
    `at_ms` (else 0)."""

    thread: bytes
    peer: str
    title: str
    mid: bytes
    event: MeetingEvent
    at_ms: int = 0

    @property
    def key(self) -> Key:
        """What is compared and told by itself."""
        return self.thread, self.at_ms

    @property
    def times(self) -> tuple[int, int]:
        """As they stand in a calendar, which counts seconds."""
        seen = self.event.occurrence()
        return seen.start_ms, seen.end_ms


@dataclass(frozen=True, slots=True)
class Change:
    """A meeting and where it stands now, ms; (0, 0) when it was deleted."""

    meeting: Meeting
    now: tuple[int, int]
    noticed_ms: int = 0

    @property
    def deleted(self) -> bool:
        """True when it is gone."""
        return self.now == GONE


GONE = (0, 0)
Act = Callable[[str, bytes, OwnerActs], Awaitable[None]]
# As `Engine.move`: owner, thread of what was agreed, wish, request id.
Reschedule = Callable[[str, bytes, MeetWish, str], Awaitable[object]]


class CalendarChanges:
    """Watches, remembers, and carries out the owner's word. `act` is `Engine.act`, `reschedule` is
    `Engine.move`."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        tastes: Tastes,
        act: Act,
        reschedule: Reschedule,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._agents = agents
        self._tastes = tastes
        self._act = act
        self._reschedule = reschedule
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._versions: dict[str, object] = {}
        self._again: set[str] = set()  # owners whose calendar is looked at whatever the look under way finds
        self._suspects: dict[str, dict[Key, tuple[int, int]]] = {}
        self._asked_ms: dict[str, int] = {}
        self._told: dict[str, str] = {}

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        while True:
            await self.look_at_all()
            await asyncio.sleep(POLL_S + len(self._agents) / OWNERS_PER_S)

    def forget(self, owner: str) -> None:
        """Compare again, changed or not: the owner's settings are others, or we have overruled them."""
        self._versions.pop(owner, None)
        self._again.add(owner)

    async def look_at_all(self) -> None:
        """One look at every owner's calendars; what fails is looked at again."""
        owners = list(self._agents)
        for index in range(0, len(owners), CHUNK):
            chunk = owners[index : index + CHUNK]
            try:
                await self._ask_servers(chunk)
                changed = await self._changed(chunk)
            except IndaiError as error:
                log.warning("calendars wait", reason=error.reason.name, error=error.message)
                continue
            await asyncio.gather(*(self._try(owner, version) for owner, version in changed.items()))

    async def _ask_servers(self, owners: Sequence[str]) -> None:
        now = self._clock()
        due = [
            owner
            for owner in owners
            if self._agents.get(owner).accounts and now - self._asked_ms.get(owner, 0) >= SERVER_MS
        ]
        self._asked_ms.update(dict.fromkeys(due, now))
        await asyncio.gather(*(self._agents.get(owner).calendar.refresh() for owner in due))
        for owner in due:
            accounts = self._agents.get(owner).accounts
            problems = [each.problem for each in accounts if each.is_stale and each.problem is not None]
            if problems:
                await self._complain(owner, problems[0])
            else:
                self._told.pop(owner, None)

    async def _changed(self, owners: Sequence[str]) -> dict[str, tuple[object, ...]]:
        """The versions of those calendars that somebody else has changed since the last look, of owners who
        have anything to come."""
        calendars = {owner: self._agents.get(owner).calendar for owner in owners}
        now = await asyncio.to_thread(lambda: {owner: each.version for owner, each in calendars.items()})
        changed: dict[str, tuple[object, ...]] = {}
        for owner, version in now.items():
            if owner in self._versions and calendars[owner].is_ours(self._versions[owner], version):
                self._versions[owner] = version  # what we have written since is what was agreed
            else:
                changed[owner] = version
        if not changed:
            return {}
        async with self._store.scope(*changed) as connection:
            rows = await connection.fetch(
                "SELECT DISTINCT owner FROM node.threads"
                " WHERE owner = ANY($1) AND phase = 'COMMITTED' AND end_ms > $2",
                list(changed),
                self._clock() - YEAR_MS,  # the end of the first of several times
            )
        busy = {row["owner"] for row in rows}
        # Who has nothing to come is looked at again when something changes, and what is agreed is a change.
        self._versions.update({owner: version for owner, version in changed.items() if owner not in busy})
        return {owner: changed[owner] for owner in busy}

    async def _try(self, owner: str, version: tuple[object, ...]) -> None:
        try:
            await self._compare(owner, version)
        except IndaiError as error:
            await self._complain(owner, error)
        except Exception:
            log.exception("calendar not compared", owner=owner)

    async def _compare(self, owner: str, version: tuple[object, ...]) -> None:
        self._again.discard(owner)
        meetings = await self._meetings(owner)
        standing = await self._standing(owner, meetings)
        found = {
            meeting.key: (meeting, now)
            for meeting in meetings
            if (now := _now(meeting, standing.get(meeting.event.uid, []))) != meeting.times
        }
        seen = {key: now for key, (_, now) in found.items()}
        settled = {key: now for key, now in seen.items() if self._suspects.get(owner, {}).get(key) == now}
        self._suspects[owner] = seen
        await self._drop(owner, seen)
        gone = sum(now == GONE for now in seen.values())
        lost = gone > 1 and 2 * gone > len(meetings)
        lost = lost or (None in version and self._agents.get(owner).target is None)
        for key, now in settled.items():
            await self._notice(owner, Change(found[key][0], now, self._clock()), ask=lost)
        if len(settled) == len(seen) and owner not in self._again:
            self._versions[owner] = version

    async def _standing(
        self, owner: str, meetings: Sequence[Meeting]
    ) -> Mapping[str, Sequence[CalendarEvent]]:
        uids = [meeting.event.uid for meeting in meetings]
        if not uids:
            return {}
        now = self._clock()
        return await self._agents.get(owner).calendar.standing(uids, now - DAY_MS, now + AHEAD_MS)

    async def _meetings(self, owner: str, thread: bytes | None = None) -> list[Meeting]:
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                f"{_MEETINGS} AND ($3::bytea IS NULL OR t.thread = $3) ORDER BY t.end_ms LIMIT $4",
                owner,
                self._clock(),
                thread,
                MAX_MEETINGS,
            )
        return [
            Meeting(
                row["thread"],
                row["peer"],
                row["title"],
                row["mid"],
                MeetingEvent(**json.loads(row["doc"])),
                row["at_ms"],
            )
            for row in rows
        ]

    # The rows

    async def _notice(self, owner: str, change: Change, *, ask: bool) -> None:
        wish = self._tastes.get(owner).on_change
        if wish is OnChange.IGNORE:
            return
        async with self._store.scope(owner) as connection:
            new = await connection.fetchval(
                "INSERT INTO node.calendar_changes"
                " (owner, thread, start_ms, end_ms, state, noticed_ms, at_ms)"
                " VALUES ($1, $2, $3, $4, 'open', $5, $6)"
                " ON CONFLICT (owner, thread, at_ms, start_ms, end_ms)"
                " DO UPDATE SET state = 'open', noticed_ms = excluded.noticed_ms"
                " WHERE node.calendar_changes.state = 'dropped' RETURNING true",
                owner,
                change.meeting.thread,
                *change.now,
                change.noticed_ms,
                change.meeting.at_ms,
            )
            if new:
                did = "deleted from" if change.deleted else "moved in"
                await connection.execute(
                    "INSERT INTO node.journal (owner, at_ms, thread, mid, peer, event, reason, words)"
                    " VALUES ($1, $2, $3, $4, $5, 'calendar', $6, $7)",
                    owner,
                    change.noticed_ms,
                    change.meeting.thread,
                    change.meeting.mid,
                    change.meeting.peer,
                    "DELETED" if change.deleted else "MOVED",
                    f"{change.meeting.title} with {change.meeting.peer} was {did} your calendar.",
                )
        if new and wish is OnChange.TELL and not ask:
            try:
                await self._tell(owner, change)
            except IndaiError as error:  # it waits for the owner's word
                log.warning("change not told", owner=owner, reason=error.reason.name, error=error.message)

    async def _drop(self, owner: str, seen: Mapping[Key, tuple[int, int]]) -> None:
        """Rows that say no longer what the calendar says."""
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "UPDATE node.calendar_changes c SET state = 'dropped'"
                " WHERE c.owner = $1 AND c.state IN ('open', 'kept') AND NOT EXISTS (SELECT FROM"
                " unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[])"
                " AS s (thread, at_ms, start_ms, end_ms) WHERE s.thread = c.thread"
                " AND s.at_ms = c.at_ms AND s.start_ms = c.start_ms AND s.end_ms = c.end_ms)",
                owner,
                [thread for thread, _ in seen],
                [at_ms for _, at_ms in seen],
                [start for start, _ in seen.values()],
                [end for _, end in seen.values()],
            )

    async def waiting(self, owner: str) -> list[Change]:
        """What waits for the owner's word, the oldest first."""
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT thread, at_ms, start_ms, end_ms, noticed_ms FROM node.calendar_changes"
                " WHERE owner = $1 AND state = 'open' ORDER BY noticed_ms, thread, at_ms",
                owner,
            )
        meetings = {meeting.key: meeting for meeting in await self._meetings(owner)} if rows else {}
        return [
            Change(meetings[row["thread"], row["at_ms"]], (row["start_ms"], row["end_ms"]), row["noticed_ms"])
            for row in rows
            if (row["thread"], row["at_ms"]) in meetings
        ]

    async def answer(self, owner: str, thread: bytes, *, tell: bool) -> str:
        """The owner's word on a change, or on those of all times of a series; a sentence about what was done.
        Raises NotFound without one."""
        found = [change for change in await self.waiting(owner) if change.meeting.thread == thread]
        if not found:
            raise NotFound(
                Reason.NOT_FOUND, "No change of this meeting waits for you.", hint="indai calendar changes"
            )
        if tell:
            return " ".join(dict.fromkeys([await self._tell(owner, change) for change in found]))
        for change in found:
            await self._put_back(owner, change.meeting)
            await self._close(owner, change.meeting.key, "kept")
        return "What was agreed stands, and is in your calendar again."

    async def _tell(self, owner: str, change: Change) -> str:
        """Cancel what was deleted, ask to move what was moved; the row is done when that is on its way."""
        meeting = change.meeting
        if change.deleted:
            await self.deleted(owner, meeting)
            what = "one time of the meeting" if meeting.at_ms else "the meeting"
            words = f"{meeting.peer} is told that {what} is cancelled."
        else:
            await self.moved(owner, meeting, *change.now)
            words = f"{meeting.peer} is asked for the new time; until they agree, the old one stands."
        await self._close(owner, meeting.key, "done")
        return words

    async def deleted(self, owner: str, meeting: Meeting) -> None:
        """The owner deleted an agreed meeting, or one time of it: call that off; with the last time, all."""
        said = OwnerActs(EventKind.CANCEL, "CALENDAR", "It was taken out of the calendar.")
        if meeting.at_ms:
            one = replace(said, kind=EventKind.OMIT, time_ms=meeting.at_ms)
            try:
                await self._act(owner, meeting.thread, one)
                return
            except Refused as error:
                left = await self._meetings(owner, meeting.thread)
                if error.reason is not Reason.ILLEGAL_MOVE or {each.at_ms for each in left} != {
                    meeting.at_ms
                }:
                    raise
        await self._act(owner, meeting.thread, said)

    async def moved(self, owner: str, meeting: Meeting, start_ms: int, end_ms: int) -> None:
        """The owner moved an agreed meeting to [start_ms, end_ms): ask the other side for that time."""
        minutes = (end_ms - start_ms) // MINUTE_MS
        if not 1 <= minutes <= MAX_MINUTES:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"In your calendar the meeting now lasts {minutes} minutes; 1 to {MAX_MINUTES} can be.",
                hint="correct it there, or keep what was agreed: indai calendar changes --keep",
            )
        window = Window(start_ms, start_ms + minutes * MINUTE_MS)
        wish = MeetWish(
            meeting.title, minutes, (window,), meeting.event.location, instead_of_ms=meeting.at_ms
        )
        await self._put_back(owner, meeting)
        which = f" {meeting.at_ms}" if meeting.at_ms else ""
        request = uuid.uuid5(uuid.UUID(bytes=meeting.thread), f"moved {start_ms} {end_ms}{which}")
        await self._reschedule(owner, meeting.thread, wish, str(request))

    async def _put_back(self, owner: str, meeting: Meeting) -> None:
        """What was agreed stands in the calendar again, over whatever its owner made of it."""
        kept = replace(meeting.event, sequence=max(1, meeting.event.sequence))
        await self._agents.get(owner).calendar.put_many([kept])
        self.forget(owner)  # a row that says otherwise goes when they are compared again

    async def _close(self, owner: str, key: Key, state: str) -> None:
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "UPDATE node.calendar_changes SET state = $4 WHERE owner = $1 AND thread = $2"
                " AND at_ms = $3 AND state = 'open'",
                owner,
                *key,
                state,
            )

    async def _complain(self, owner: str, error: IndaiError) -> None:
        """Once for each run of failures: the journal is no place for a line a minute."""
        if self._told.get(owner) == error.message:
            return
        self._told[owner] = error.message
        log.warning("calendar not read", owner=owner, reason=error.reason.name, error=error.message)
        words = f"Your calendar can't be read, so nothing is agreed for you: {error}"
        try:
            async with self._store.scope(owner) as connection:
                await connection.execute(
                    "INSERT INTO node.journal (owner, at_ms, peer, event, reason, words)"
                    " VALUES ($1, $2, '', 'calendar', $3, $4)",
                    owner,
                    self._clock(),
                    error.reason.name,
                    words,
                )
        except IndaiError as failed:
            log.warning("journal not written", reason=failed.reason.name, error=failed.message)


def _now(meeting: Meeting, standing: Sequence[CalendarEvent]) -> tuple[int, int]:
    """Where a meeting stands: as agreed if any event under its UID says so, elsewhere if there is just
    one."""
    times = [(event.start_ms, event.end_ms) for event in standing]
    if not times:
        return GONE
    return meeting.times if meeting.times in times or len(times) > 1 else times[0]
