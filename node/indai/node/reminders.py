"""What an owner is reminded of and when: in the morning of the day, shortly before, and when it is due.

The moments follow from the terms, the owner's clock and what the owner likes; they are fixed when the deed is
done and kept with the thread, so that a restart loses none. The words are made when the moment has come, or
not at all where it came too late to be of use. A reminder is a line in the journal and an effect row in one
transaction; `Telling` hands the row on to the owner's conversation, which brings it to their channel.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import structlog
from indai.client.tasks import end_tasks
from indai.node.agents import Agents
from indai.node.draft import Draft, ThreadState
from indai.node.following import portions
from indai.node.kinds import words
from indai.node.store import Store
from indai.protocol.errors import IndaiError
from indai.protocol.kinds.table import kind_of
from indai.protocol.messages import MeetTerms, Terms
from indai.protocol.party_state import Side

if TYPE_CHECKING:
    from indai.node.desk import Desk

TELL_OWNER: Final = "tell-owner"
POLL_S: Final = 5.0
MAX_ROWS: Final = 200

TellOwner = Callable[[str, str, str], Awaitable[bool]]
"""As `indai.tools.toolbox.TellOwner`."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Likes:
    """How an owner wants to be reminded: `before_ms` of a start, 0 for not at all; at `morning_minute` of the
    local day, 0 for not in the morning."""

    before_ms: int
    morning_minute: int


def moments(terms: Terms, likes: Likes, zone: ZoneInfo, now_ms: int) -> tuple[int, ...]:
    """When to remind, ascending, ms; without the one before the first start, which the protocol has."""
    life = terms.life()
    if life.done or not likes.before_ms:
        return ()
    found: set[int] = set()
    for number, begins_ms in enumerate(_begins(terms)):
        before_ms = begins_ms - likes.before_ms
        morning_ms = _morning(begins_ms, likes.morning_minute, zone)
        if likes.morning_minute and morning_ms < before_ms:
            found.add(morning_ms)
        if number:
            found.add(before_ms)
    if not life.pending_minor:  # what is pending expires when it is due, and says so itself
        found.add(life.due_ms)
    return tuple(sorted(each for each in found if each > now_ms))


def said(
    peer: str,
    terms: Terms,
    at_ms: int,
    now_ms: int,
    likes: Likes,
    zone: ZoneInfo,
    omitted: Collection[int] = (),
) -> tuple[str, str] | None:
    """(reason, sentence) of the reminder for that moment; None where it is too late, said already, or of a
    time that was left out. `at_ms` 0 is the one before the first start."""
    life = terms.life()
    if at_ms and at_ms >= life.due_ms:
        kind = kind_of(terms)
        return "DUE", f"{terms.about()} with {peer} is due: say whether the {kind.noun} {kind.kept}."
    begins = _begins(terms)
    begins_ms = next((each for each in begins if each > at_ms), 0) if at_ms else begins[0]
    if now_ms >= begins_ms or begins_ms in omitted:
        return None
    what = words.reminder(peer, terms, zone, begins_ms)
    if at_ms in (0, begins_ms - likes.before_ms):
        return "SOON", what
    if now_ms >= begins_ms - likes.before_ms:
        return None
    return "TODAY", f"Today: {what}"


def planned(side: Side, likes: Likes, zone: ZoneInfo, now_ms: int) -> Side:
    """A side at its deed, with what its owner is to be reminded of."""
    known = moments(side.terms, likes, zone, now_ms) if isinstance(side.terms, Terms) else ()
    return replace(side, remind_before_ms=likes.before_ms, remind_at_ms=known)


def remind(draft: Draft, desk: Desk, terms: Terms, at_ms: int) -> None:
    """The journal's line, and the row that brings it to the owner."""
    life = draft.thread.side.life
    omitted = life.omitted if life else ()
    spoken = said(desk.peer, terms, at_ms, draft.now_ms, desk.likes, desk.agent.zone, omitted)
    if spoken is None:
        return
    reason, sentence = spoken
    draft.journal("reminder", reason, sentence)
    thread = draft.thread.side.thread_id
    draft.add(
        "effects",
        key=f"remind:{thread.hex()}:{at_ms}",
        kind=TELL_OWNER,
        thread=thread,
        created_ms=draft.now_ms,
        doc={"words": sentence},
    )


def _begins(terms: Terms) -> tuple[int, ...]:
    if isinstance(terms, MeetTerms):
        return tuple(each.start_ms for each in terms.times)
    begins_ms = terms.life().begins_ms
    return (begins_ms,) if begins_ms else ()


def _morning(begins_ms: int, minute: int, zone: ZoneInfo) -> int:
    day = datetime.fromtimestamp(begins_ms / 1000, zone).date()
    return round(datetime.combine(day, time(minute // 60, minute % 60), zone).timestamp() * 1000)


class Telling:
    """Hands on what waits, at least once; the conversation tells the same key once. An owner who has never
    talked to their agent has the journal. It follows the engine, and asks for the rows of owners alone of
    whom something agreed has changed."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._changed: dict[str, None] = dict.fromkeys(agents)

    def committed(self, states: Collection[ThreadState]) -> None:
        """See `Follower`."""
        agreed = (state for state in states if state.side.life is not None)
        self._changed.update(dict.fromkeys(state.columns["owner"] for state in agreed))

    def doubted(self, owners: Collection[str]) -> None:
        """See `Follower`."""
        self._changed.update(dict.fromkeys(owners))

    async def step(self, tell: TellOwner) -> None:
        """Hand on what waits now of those who have changed; what fails is tried again."""
        taken, self._changed = self._changed, {}
        for owners in portions(taken):
            try:
                if await self._hand_on(owners, tell) == MAX_ROWS:
                    self.doubted(owners)
            except IndaiError as error:
                log.warning("owners not told", reason=error.reason.name, error=error.message)
                self.doubted(owners)
            except Exception:  # whoever tells may fail in ways of its own
                log.exception("owners not told")
                self.doubted(owners)

    async def _hand_on(self, owners: Sequence[str], tell: TellOwner) -> int:
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT owner, key, doc FROM node.effects WHERE owner = ANY($1) AND NOT done AND kind = $2"
                " ORDER BY created_ms LIMIT $3",
                owners,
                TELL_OWNER,
                MAX_ROWS,
            )
        for row in rows:
            if sentence := json.loads(row["doc"]).get("words"):  # gone with a thread that was erased
                await tell(row["owner"], sentence, row["key"])
        if rows:
            await self._store.mark_done([(row["owner"], row["key"]) for row in rows])
        return len(rows)

    async def run(self, tell: TellOwner) -> None:
        """For as long as it is not cancelled."""
        while True:
            await self.step(tell)
            await asyncio.sleep(POLL_S)

    @asynccontextmanager
    async def to(self, tell: TellOwner) -> AsyncIterator[None]:
        """Running until the end of the block."""
        task = asyncio.create_task(self.run(tell))
        try:
            yield
        finally:
            await end_tasks(task)
