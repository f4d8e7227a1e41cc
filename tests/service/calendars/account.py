"""An account on the test's server, its requests seen, its clock in the test's hand."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from indai.node.calendar import MeetingEvent
from indai.node.calendar.caldav import CalDavCalendar
from indai.node.calendar.dav import DavClient, Found, Login, Reply, discover, open_session

from tests.service.calendars.radicale import PASSWORD, Radicale

NOON = 1_795_089_600_000  # 2026-11-19T12:00:00Z
HOUR = 3_600_000
BERLIN = ZoneInfo("Europe/Berlin")


class Seen(DavClient):
    """A client whose requests are noted; `before` and `after` may meddle with each."""

    requests: list[str]
    before: Callable[[str, str], Awaitable[None]] | None = None
    after: Callable[[str, Reply], Reply] | None = None

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        kind = body.split(b"<", 2)[2].split(b" ")[0].split(b":")[-1].decode() if body[:5] == b"<?xml" else ""
        self.requests.append(f"{method} {kind}".strip())
        if self.before is not None:
            await self.before(method, path)
        reply = await super().request(method, path, body, headers)
        return self.after(method, reply) if self.after is not None else reply


@dataclass
class Account:
    server: Radicale
    user: str
    client: Seen
    calendar: CalDavCalendar
    now: int = NOON - 24 * HOUR

    async def again(self) -> None:
        """Some time later the node looks again."""
        self.now += 10_000
        await self.calendar.refresh()

    async def save(self, name: str, *lines: str, into: str = "work") -> None:
        """The owner's program puts an event."""
        await self.server.save(self.user, f"/{self.user}/{into}/{name}.ics", ics(name, *lines))

    async def load(self, path: str) -> str:
        status, data = await self.server.request(self.user, "GET", path.lstrip("/"))
        return data.decode() if status == 200 else ""

    async def everything(self, into: str = "work") -> str:
        """The whole calendar as one text."""
        return await self.load(f"/{self.user}/{into}/")


def ics(uid: str, *lines: str) -> str:
    event = ("BEGIN:VEVENT", f"UID:{uid}", "DTSTAMP:20261101T000000Z", *lines, "END:VEVENT")
    body = "\r\n".join(("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", *event, "END:VCALENDAR"))
    return body + "\r\n"


def at_noon(hours: int = 1) -> tuple[str, str]:
    return "DTSTART:20261119T120000Z", f"DURATION:PT{hours}H"


def meeting(uid: str = "m1@ind.ai.alice", start: int = NOON, **more: object) -> MeetingEvent:
    made = MeetingEvent(
        uid=uid,
        start_ms=start,
        end_ms=start + HOUR,
        summary="Coffee",
        organizer="ind.ai/bob",
        attendees=("ind.ai/bob", "ind.ai/alice"),
        stamp_ms=NOON - 9 * HOUR,
    )
    return replace(made, **more)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def account(
    server: Radicale,
    user: str,
    *names: str,
    change: Callable[[Found], Found] = lambda found: found,
    password: str = PASSWORD,
) -> AsyncIterator[Account]:
    """An account with these calendars, the first of which is written; read once."""
    paths = [await server.make_calendar(user, name) for name in names or ("work",)]
    async with open_session(public_only=False) as session:
        client = Seen(session, server.url, Login(user, password))
        client.requests = []
        found = [change(each) for each in sorted(await discover(client), key=lambda f: paths.index(f.path))]
        calendar = CalDavCalendar("work", client, found, paths[0], BERLIN, lambda: made.now)
        made = Account(server, user, client, calendar)
        await calendar.refresh()
        client.requests.clear()
        yield made
        await calendar.close()
