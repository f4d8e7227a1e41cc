"""Effects outside the database that follow from committed state: today, events in owners' calendar files.

The row is written in the transaction that commits the deal; this worker carries it out and marks it done. Put
is idempotent by UID, so a crash between the file and the mark repeats a write that changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from indai.client.tasks import end_tasks
from indai.node import faults
from indai.node.agents import Agents
from indai.node.calendar import MeetingEvent
from indai.node.recall import Recall
from indai.node.store import Key, Store
from indai.protocol.errors import IndaiError, Refused

CALENDAR_PUT = "calendar-put"
RETRY_S = 5.0
# A file rests this long after a write, for each file that is busy: under load, deals are written together.
REST_S = 0.05
WRITERS = 2  # files written at once; more threads only get in the event loop's way
MAX_KNOWN = 20_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CalendarWrite:
    """One stored row that waits: write this event into the owner's calendar."""

    owner: str
    thread: bytes
    key: str
    doc: dict[str, Any]

    @property
    def uid(self) -> str:
        """The event's."""
        return str(self.doc["uid"])

    @property
    def calls_off(self) -> bool:
        """Whether the event stands as cancelled once this is written."""
        return bool(self.doc.get("cancelled"))


class Effects:
    """One writer for each owner with something to do, whose waiting events go in one file write, so that a
    slow file delays nobody else; one marker, whose one statement marks all that were written meanwhile.
    """

    def __init__(
        self, store: Store, agents: Agents, clock: Callable[[], int], done: Callable[[str, bytes], None]
    ) -> None:
        self._store = store
        self._agents = agents
        self._clock = clock
        self._done = done
        self._ready: dict[str, list[CalendarWrite]] = {}
        self._writing: set[str] = set()
        self._writers = asyncio.Semaphore(WRITERS)
        self._written: list[CalendarWrite] = []
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        # Whether a thread's effect is done, as far as this process knows; the least recent go first.
        self._known: OrderedDict[Key, bool] = OrderedDict()
        self._recall = Recall(self._read)

    def start(self) -> None:
        """Begin to mark what was carried out."""
        self._spawn(self._mark())

    async def load(self, owners: Sequence[str]) -> None:
        """Take up what an earlier run left."""
        await self._read(owners)

    def recall(self, owners: Iterable[str]) -> None:
        """Take up what is stored for these owners, again. Returns at once."""
        self._recall.ask(owners)

    async def _read(self, owners: Sequence[str]) -> None:
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT owner, thread, key, doc FROM node.effects WHERE owner = ANY($1) AND NOT done"
                " AND kind = 'calendar-put'"
                " ORDER BY created_ms",
                owners,
            )
        self.add(
            CalendarWrite(row["owner"], row["thread"], row["key"], json.loads(row["doc"])) for row in rows
        )

    def add(self, effects: Iterable[CalendarWrite]) -> None:
        """Carry out what was committed. Returns at once."""
        for effect in effects:
            self._ready.setdefault(effect.owner, []).append(effect)
            self._remember(effect, False)
            if effect.calls_off and effect.owner in self._agents:
                self._agents.get(effect.owner).called_off.add(effect.uid)
            if effect.owner not in self._writing:
                self._writing.add(effect.owner)
                self._spawn(self._write(effect.owner))

    def is_done(self, owner: str, thread: bytes) -> bool | None:
        """Whether the thread's effect is done; None if it is not known here."""
        return self._known.get((owner, thread))

    async def close(self) -> None:
        """Stop; what is not done stays stored."""
        await self._recall.close()
        await end_tasks(*self._tasks)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, owner: str) -> None:
        try:
            while (effects := self._ready.pop(owner, None)) and owner in self._agents:
                faults.reach("before-calendar")
                failed = await self._put(owner, effects)
                faults.reach("after-calendar")
                if done := [effect for effect in effects if effect not in failed]:
                    self._agents.get(owner).called_off -= {each.uid for each in done if each.calls_off}
                    self._written.extend(done)
                    self._news.set()
                if failed:
                    self._ready[owner] = failed + self._ready.get(owner, [])
                await asyncio.sleep(RETRY_S if failed else REST_S * len(self._writing))
        finally:
            self._writing.discard(owner)

    async def _put(self, owner: str, effects: list[CalendarWrite]) -> list[CalendarWrite]:
        """Those that could not be written. One event that the file refuses keeps no other out of it."""
        agent = self._agents.get(owner)
        # A server that is slow must not keep other owners' files waiting.
        gate = self._writers if agent.target is None else contextlib.nullcontext()
        try:
            async with gate:
                await agent.calendar.put_many([MeetingEvent(**one.doc) for one in effects])
        except Refused as error:
            if len(effects) > 1:
                return [failed for one in effects for failed in await self._put(owner, [one])]
            await self._tell(owner, error)
        except IndaiError as error:
            await self._tell(owner, error)
        except Exception:
            log.exception("calendar not written", owner=owner)
        else:
            return []
        return effects

    async def _mark(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            done, self._written = self._written, []
            try:
                await self._store.mark_done([(effect.owner, effect.key) for effect in done])
            except IndaiError as error:
                log.warning("calendar not marked", reason=error.reason.name, error=error.message)
                self._written = done + self._written
                await asyncio.sleep(RETRY_S)
                self._news.set()
                continue
            for effect in done:
                self._remember(effect, True)
                self._done(effect.owner, effect.thread)

    def _remember(self, effect: CalendarWrite, done: bool) -> None:
        self._known[effect.owner, effect.thread] = done
        self._known.move_to_end((effect.owner, effect.thread))
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    async def _tell(self, owner: str, error: IndaiError) -> None:
        """Once for each run of failures: the last line of the journal says so already."""
        log.warning("calendar not written", owner=owner, reason=error.reason.name, error=error.message)
        with contextlib.suppress(IndaiError):  # the log above has it
            async with self._store.scope(owner) as connection:
                await connection.execute(
                    "INSERT INTO node.journal (owner, at_ms, peer, event, reason, words)"
                    " SELECT $1, $2, '', 'effect', $3, $4 WHERE NOT EXISTS"
                    " (SELECT FROM (SELECT words FROM node.journal WHERE owner = $1 AND event = 'effect'"
                    " ORDER BY id DESC LIMIT 1) AS last WHERE last.words = $4)",
                    owner,
                    self._clock(),
                    error.reason.name,
                    f"The agreed meetings could not be written into your calendar: {error}",
                )
