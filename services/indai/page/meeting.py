"""Asking for a meeting on a page: as somebody signed in, whose own agent then asks; or as a stranger, under
the owner's rules for strangers. What became of it stands at an address that only the visitor has.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web
from indai.page.names import PATH, address_of
from indai.page.tickets import Tickets, no_meeting
from indai.page.visitors import identity
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.values import Status
from indai.web.asking import misfits
from indai.web.guards import Limit
from indai.web.visit import Visit

if TYPE_CHECKING:
    from indai.page.room import Room
    from indai.tools.values import Outcome

ASKS_AN_HOUR: Final = 6
HOUR_MS: Final = 3_600_000
_MAIL: Final = re.compile(r"[^@\s\"<>]{1,64}@[^@\s\"<>]{1,180}\.[^@\s\"<>.]{2,24}")
_ONCE: Final = 10
"""Random bytes of an id."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a visitor asks for. `once`: 10 bytes that are the same when the same form comes again. `channel`:
    what they ask by, for the owner's rules."""

    name: str
    contact: str
    minutes: int
    when: str
    time: str
    title: str
    once: bytes
    channel: str = "web"


@dataclass(frozen=True, slots=True)
class Slot:
    """The meeting that was found; `when` in words of the owner's zone."""

    name: str
    contact: str
    title: str
    start_ms: int
    end_ms: int
    when: str
    uid: str
    asked_ms: int

    def plain(self) -> dict[str, Any]:
        """For a tool, or a ticket."""
        return asdict(self)


class Meetings(Protocol):
    """What the node does with it."""

    async def ask(self, owner: str, asked: Asked) -> tuple[str, Slot]:
        """A stranger asks: `booked`, or `asked` when the owner decides. Raises IndaiError for a no."""

    async def for_member(self, member: str, owner: str, asked: Asked) -> Outcome:
        """Somebody who lives here and is signed in asks: their agent negotiates with the owner's."""

    async def is_booked(self, owner: str, slot: Slot) -> bool:
        """Whether it stands in the owner's calendar."""

    def invitation(self, owner: str, slot: Slot) -> bytes:
        """For the visitor's own calendar (iTIP)."""


class MeetingDesk:
    """The form, and the page of what became of it."""

    def __init__(self, room: Room, meetings: Meetings, tickets: Tickets) -> None:
        self._room, self._meetings, self._tickets = room, meetings, tickets
        self._asks = Limit(ASKS_AN_HOUR, HOUR_MS)

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, ticket = self._room.site, "{ticket:[A-Za-z0-9_-]{20}}"
        return (
            site.post(f"{PATH}/-/meet", self.ask),
            site.get(f"{PATH}/-/meetings/{ticket}", self.page),
            site.get(f"{PATH}/-/meetings/{ticket}/meeting.ics", self.file),
        )

    async def ask(self, visit: Visit) -> web.StreamResponse:
        """Ask; the answer stands on the page."""
        handle, who = self._room.handle(visit), identity(visit)
        asked = _read(visit, signed_in=who.verified)
        self._asks.check(who.value, self._room.site.clock())
        if who.verified:
            return await self._as_member(visit, who.value, handle, asked)
        _, slot = await self._meetings.ask(handle, asked)
        return visit.go(await meeting_path(handle, self._room.authority, slot, self._tickets))

    async def _as_member(self, visit: Visit, member: str, handle: str, asked: Asked) -> web.Response:
        if member == handle:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "This is your own page.", hint="ask on another one")
        found = await self._meetings.for_member(member, handle, asked)
        failed = found.status is Status.FAILED
        words = found.words or "; ".join(each.text for each in found.fields)
        return await self._room.shown(visit, handle, outcome=words, outcome_failed=failed)

    async def page(self, visit: Visit) -> web.StreamResponse:
        """What became of it."""
        handle, slot = await self._read_ticket(visit)
        booked = await self._meetings.is_booked(handle, slot)
        return visit.page(
            "page/meeting.html",
            handle=handle,
            home=address_of(handle, self._room.authority),
            slot=slot,
            booked=booked,
            over=slot.start_ms < self._room.site.clock(),
        )

    async def file(self, visit: Visit) -> web.StreamResponse:
        """The invitation of one that is booked."""
        handle, slot = await self._read_ticket(visit)
        if not await self._meetings.is_booked(handle, slot):
            raise no_meeting()
        return visit.file(self._meetings.invitation(handle, slot), "meeting.ics", "text/calendar")

    async def _read_ticket(self, visit: Visit) -> tuple[str, Slot]:
        handle = self._room.handle(visit)
        return handle, Slot(**await self._tickets.read(handle, visit.named("ticket")))


async def meeting_path(handle: str, authority: str, slot: Slot, tickets: Tickets) -> str:
    """Where a visitor sees what became of their meeting, and takes its invitation."""
    ticket = await tickets.make(handle, slot.uid, slot.end_ms, slot.plain())
    return f"{address_of(handle, authority)}/-/meetings/{ticket}"


def _read(visit: Visit, *, signed_in: bool) -> Asked:
    """The form. Raises InvalidInput that names what is wrong."""
    name, contact = visit.said("name", most=100), visit.said("contact", most=200)
    minutes, when, time = visit.said("minutes"), visit.said("when"), visit.said("time")
    wrong = misfits(minutes, when, time)
    if not signed_in and not name:
        wrong["name"] = "say what you are called"
    if not signed_in and not _MAIL.fullmatch(contact):
        wrong["contact"] = "an e-mail address; with a handle, let your own agent ask"
    if wrong:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "The form is not complete.", hint="go back and fill it in", fields=wrong
        )
    once = hashlib.sha256(visit.said("id").encode() or secrets.token_bytes(16)).digest()[:_ONCE]
    return Asked(name, contact, int(minutes), when, time, visit.said("title", most=200), once)
