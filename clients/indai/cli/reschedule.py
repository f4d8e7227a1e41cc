"""`indai reschedule`: another time for a meeting that stands."""

from __future__ import annotations

import uuid
from zoneinfo import ZoneInfo

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.meet import check_outcome, follow, show_outcome
from indai.cli.output import emit, note
from indai.cli.session import now_ms, owner_session
from indai.cli.words import length, milliseconds, stamp, thread_json, time_on
from indai.tools.when import MINUTE_MS, fit
from indai.v1 import owner_pb2


@command(
    "reschedule",
    'indai reschedule 0193f2ab4c --when "next week"',
    "indai reschedule 0193f2ab4c --when tomorrow --for 1h",
    "indai reschedule 0193f2ab4c --only 2026-12-08 --when 2026-12-09",
)
@click.argument("thread")
@click.option("--when", "words", metavar="WORDS", required=True, help="As of: indai meet.")
@click.option("--for", "duration", metavar="LENGTH", default="", help="Another length; default: the same.")
@click.option("--only", metavar="DAY", default="", help="Of one that repeats: the time on this day alone.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the thread until it rests.")
@as_option
def reschedule(
    home: Home, acting: str, thread: str, words: str, duration: str, only: str, wait: bool
) -> None:
    """Ask to move the meeting of THREAD to another time.

    The meeting stands until everybody has agreed on the new one, which then
    takes its place in all calendars at once; if they don't, nothing changes.
    The new time may overlap the old one.

    Exit status 3 when nothing came of it; 0 while it is still open.
    """
    minutes = length(duration) if duration else 0
    new, zone = run(_reschedule(home, acting, thread, words, minutes, only, wait=wait))
    emit(thread_json(new), lambda page: show_outcome(page, new, zone))
    check_outcome(new)


async def _reschedule(
    home: Home, acting: str, thread: str, words: str, minutes: int, only: str, *, wait: bool
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        zone = await owner.zone()
        old = (await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))).thread
        lasts = milliseconds(old.end_time) - milliseconds(old.start_time)
        period = fit(words, minutes or max(1, lasts // MINUTE_MS), now_ms(), zone)
        note(f"{owner.handle} asks {old.peer} to move {old.title!r} to {period.words}")
        request = owner_pb2.RescheduleCommitmentRequest(
            request_id=str(uuid.uuid4()),
            thread_id=old.thread_id,
            start_time=stamp(period.start_ms),
            end_time=stamp(period.end_ms),
            duration_minutes=minutes,
            only_time=time_on(old, only, now_ms(), zone) if only else None,
        )
        new = (await owner.stub.RescheduleCommitment(request)).thread
        return (await follow(owner, new) if wait else new), zone
