"""`indai calendar show`: what stands in the owner's calendar, as the node sees it or straight from a file."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.localzone import local_zone
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, owner_session
from indai.cli.words import iso, milliseconds, stamp
from indai.node.calendar.file import CalendarFile
from indai.v1 import owner_pb2

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, wherever it was read."""

    start_ms: int
    end_ms: int
    uid: str
    summary: str
    all_day: bool
    agreed: bool


SECTIONS = {
    "Calendars": {
        "show": "indai.cli.calendar:show",
        "add": "indai.cli.calendar_accounts:add",
        "remove": "indai.cli.calendar_accounts:remove",
        "check": "indai.cli.calendar_accounts:check",
    },
    "Meetings": {
        "prefer": "indai.cli.calendar_prefer:prefer",
        "changes": "indai.cli.calendar_meetings:changes",
        "invite": "indai.cli.calendar_meetings:invite",
    },
}


@click.command("calendar", cls=Group, sections=SECTIONS)
def calendar() -> None:
    """An owner's calendars, and how they like to meet."""


@command(
    "show", "indai calendar show --days 7", "indai calendar show --file work.ics --timezone Europe/Berlin"
)
@click.option("--days", type=click.IntRange(1, 366), default=7, show_default=True, help="How far to look.")
@click.option("--file", metavar="FILE", default="", help="Read this .ics file instead; no node is needed.")
@click.option("--timezone", metavar="ZONE", default="", help="Show (and read) times in this zone.")
@as_option
def show(home: Home, acting: str, days: int, file: str, timezone: str) -> None:
    """Show the events of the next days.

    Meetings that the agent agreed are marked with a star.
    """
    zone = _zone(timezone) if timezone else None
    start = now_ms()
    if file:
        zone = zone or local_zone()
        events = run(_from_file(file, zone, start, start + days * DAY_MS))
    else:
        events, owners = run(_from_node(home, acting, start, start + days * DAY_MS))
        zone = zone or owners
    emit(
        {
            "time_zone": zone.key,
            "events": [
                {
                    "uid": event.uid,
                    "summary": event.summary,
                    "start": iso(event.start_ms),
                    "end": iso(event.end_ms),
                    "all_day": event.all_day,
                    "agreed": event.agreed,
                }
                for event in events
            ],
        },
        lambda page: _show(page, events, zone, days),
    )


async def _from_file(file: str, zone: ZoneInfo, start_ms: int, end_ms: int) -> list[Entry]:
    path = Path(file)
    if not await asyncio.to_thread(path.is_file):
        raise wrong(f"There is no calendar file {file}.", "check the path")
    found = await CalendarFile(path, zone).events(start_ms, end_ms)
    return [Entry(e.start_ms, e.end_ms, e.uid, e.summary, e.all_day, e.ours) for e in found]


async def _from_node(home: Home, acting: str, start_ms: int, end_ms: int) -> tuple[list[Entry], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.ListEventsRequest(start_time=stamp(start_ms), end_time=stamp(end_ms))
        answer = await owner.stub.ListEvents(request)
    events = [
        Entry(
            milliseconds(event.start_time),
            milliseconds(event.end_time),
            event.uid,
            event.summary,
            event.all_day,
            event.agreed,
        )
        for event in answer.events
    ]
    return events, ZoneInfo(answer.time_zone or "UTC")


def _show(page: Page, events: list[Entry], zone: ZoneInfo, days: int) -> None:
    if not events:
        page.line(f"Nothing in the next {days} days.")
    rows, day = [], ""
    for event in events:
        start, end = (datetime.fromtimestamp(at / 1000, zone) for at in (event.start_ms, event.end_ms))
        today = f"{start:%a} {start.day:>2} {start:%b}"
        times = "all day" if event.all_day else f"{start:%H:%M}-{end:%H:%M}"
        rows.append((today if today != day else "", times, "*" if event.agreed else "", event.summary))
        day = today
    if rows:
        page.table(("day", "time", "", "event"), rows, {"*": "green"})
    page.line(f"Times in {zone.key}.", "dim")


def _zone(name: str) -> ZoneInfo:
    if name not in available_timezones():
        raise wrong(f"{name!r} is no time zone.", "use a name such as Europe/Berlin")
    return ZoneInfo(name)
