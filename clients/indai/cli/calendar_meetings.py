"""`indai calendar changes|invite`: agreed meetings that their owner moved; agreed meetings as invitations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import click
from indai.cli.errors import file_error, wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, owner_session
from indai.cli.words import iso, milliseconds, span, time_on
from indai.node.calendar.itip import Method, as_mail
from indai.v1 import calendar_pb2, owner_pb2

METHODS = {
    "request": calendar_pb2.INVITATION_METHOD_REQUEST,
    "cancel": calendar_pb2.INVITATION_METHOD_CANCEL,
    "reply": calendar_pb2.INVITATION_METHOD_REPLY,
}


@command(
    "changes",
    "indai calendar changes",
    "indai calendar changes --tell 0193f2ab4c",
    "indai calendar changes --keep 0193f2ab4c",
)
@click.option("--tell", metavar="THREAD", default="", help="Tell the other side: cancel or move it.")
@click.option("--keep", metavar="THREAD", default="", help="Keep what was agreed; put it back.")
@as_option
def changes(home: Home, acting: str, tell: str, keep: str) -> None:
    """List agreed meetings that you moved or deleted in your calendar.

    The other side hears nothing of it until you say so, unless you have said
    `indai calendar prefer --on-change tell`.
    """
    if tell and keep:
        raise wrong("Either the other side is told, or it is kept.", "give --tell or --keep")
    if tell or keep:
        words = run(_answer(home, acting, tell or keep, tell=bool(tell)))
        emit({"done": words}, lambda page: page.line(words, "green"))
        return
    found, zone = run(_changes(home, acting))
    emit(
        {"changes": [_json(each) for each in found], "time_zone": zone.key},
        lambda page: _show(page, found, zone),
    )


async def _answer(home: Home, acting: str, thread: str, *, tell: bool) -> str:
    async with owner_session(home, acting) as owner:
        request = calendar_pb2.AnswerCalendarChangeRequest(thread_id=thread, tell=tell)
        return (await owner.calendars.AnswerCalendarChange(request)).words


async def _changes(home: Home, acting: str) -> tuple[Sequence[calendar_pb2.CalendarChange], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        found = (await owner.calendars.ListCalendarChanges(calendar_pb2.ListCalendarChangesRequest())).changes
        return found, await owner.zone()


def _json(change: calendar_pb2.CalendarChange) -> dict[str, object]:
    here = change.HasField("start_time")
    return {
        "thread": change.thread_id,
        "peer": change.peer,
        "title": change.title,
        "agreed_start": iso(milliseconds(change.agreed_start_time)),
        "agreed_end": iso(milliseconds(change.agreed_end_time)),
        "start": iso(milliseconds(change.start_time)) if here else None,
        "end": iso(milliseconds(change.end_time)) if here else None,
    }


def _show(page: Page, found: Sequence[calendar_pb2.CalendarChange], zone: ZoneInfo) -> None:
    if not found:
        page.line("Your calendar has every meeting as it was agreed.")
        return
    for each in found:
        page.item("*", f"{each.title} with {each.peer}", "bold")
        agreed = span(milliseconds(each.agreed_start_time), milliseconds(each.agreed_end_time), zone)
        now = "deleted"
        if each.HasField("start_time"):
            now = span(milliseconds(each.start_time), milliseconds(each.end_time), zone)
        page.fields(
            [("agreed", agreed), ("in your calendar", now), ("thread", each.thread_id[:14])], indent=2
        )
    short = found[0].thread_id[:14]
    page.next_step(f"indai calendar changes --tell {short}", f"indai calendar changes --keep {short}")


@command(
    "invite",
    "indai calendar invite 0193f2ab4c --output meeting.ics",
    "indai calendar invite 0193f2ab4c --mail bob@example.org --output invitation.eml",
)
@click.argument("mid")
@click.option("--method", type=click.Choice(sorted(METHODS)), default=None, help="Else what fits.")
@click.option("--only", metavar="DAY", default="", help="Of one that repeats: the time on this day.")
@click.option("--mail", metavar="ADDRESS", default="", help="A mail to this address instead.")
@click.option("--output", metavar="FILE", default="", help="Write it here; else it is printed.")
@as_option
def invite(home: Home, acting: str, mid: str, method: str | None, only: str, mail: str, output: str) -> None:
    """Write the meeting MID as an invitation for any calendar program.

    MID is a commitment or its thread. It is an iTIP message (RFC 5546): a
    REQUEST, or a CANCEL for a meeting that was called off. Of one that repeats
    it is about the next time, or the one that you name (MID is its thread then).
    """
    answer = run(_invite(home, acting, mid, method, only))
    kind, data = next(name for name, number in METHODS.items() if number == answer.method), answer.ics
    if mail:
        if any(char.isspace() for char in mail) or "@" not in mail:
            raise wrong(f"{mail!r} is no mail address.", "write it like bob@example.org")
        words = "The meeting is attached for your calendar program.\n"
        data = as_mail(answer.ics, Method[kind.upper()], f"Meeting: {kind}", words, mail)
    if output:
        try:
            Path(output).write_bytes(data)
        except OSError as error:
            raise file_error(error) from None
    text = data.decode()
    emit(
        {"method": kind, "file": output, "message": "" if output else text},
        lambda page: page.line(f"{output}: {kind}", "green") if output else page.raw(text.rstrip()),
    )


async def _invite(
    home: Home, acting: str, mid: str, method: str | None, only: str
) -> calendar_pb2.GetInvitationResponse:
    async with owner_session(home, acting) as owner:
        number = METHODS[method] if method else calendar_pb2.INVITATION_METHOD_UNSPECIFIED
        request = calendar_pb2.GetInvitationRequest(id=mid, method=number)
        if only:
            thread = (await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=mid))).thread
            request.only_time.CopyFrom(time_on(thread, only, now_ms(), await owner.zone()))
        return await owner.calendars.GetInvitation(request)
