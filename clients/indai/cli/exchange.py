"""What the commands of sharing, asking and requests have in common: waiting, spans and consents."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import click
from indai.cli.meet import follow
from indai.cli.output import Page
from indai.cli.session import Owner, now_ms
from indai.cli.words import state
from indai.protocol.kinds.share import Consent, Fetch, Mode, Unit
from indai.v1 import owner_pb2

SLACK_MS = 120_000  # the peer's clock may be behind
WAIT_S = 60.0
UNITS = {"h": Unit.HOUR, "d": Unit.DAY, "m": Unit.MONTH, "y": Unit.YEAR}
_SPAN = re.compile(r"([1-9][0-9]{0,2})([hdmy])")
_OFTEN = re.compile(r"([1-9][0-9]{0,2})/(hour|day|month|year)")


async def rest(owner: Owner, thread: owner_pb2.Thread) -> owner_pb2.Thread:
    """The thread when it rests, or after a while."""
    return await follow(owner, thread, WAIT_S)


def consent_of(purpose: str, code: str, span: str, often: str, *, view: bool, life: str = "") -> Consent:
    """A consent from now on for `span` (30d, 6m, 1y, 12h), read once, or as often as `2/day` says."""
    number, unit = span_of(span)
    kept, kept_unit = span_of(life) if life else (number, unit)
    start_ms = now_ms() - SLACK_MS
    found = _OFTEN.fullmatch(often) if often else None
    if often and found is None:
        raise click.UsageError("--often is a number of reads in a span, as 2/day.")
    return Consent(
        code,
        purpose,
        Mode.VIEW if view else Mode.STORE,
        Fetch.PERIODIC if found else Fetch.ONETIME,
        kept_unit,
        kept,
        start_ms,
        now_ms() + number * unit.length_ms,
        Unit[found[2].upper()] if found else None,
        int(found[1]) if found else 0,
    )


def span_of(text: str) -> tuple[int, Unit]:
    """`30d` as (30, DAY); m is a month of 30 days."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise click.UsageError(f"{text!r} is no span of time: write 12h, 30d, 6m (months) or 1y.")
    return int(found[1]), UNITS[found[2]]


def show_thread(page: Page, thread: owner_pb2.Thread, zone: ZoneInfo, agreed: str) -> None:
    """What became of it, and what to do now."""
    match thread.state:
        case owner_pb2.THREAD_STATE_COMMITTED:
            page.line(agreed, "green")
        case owner_pb2.THREAD_STATE_ON_HOLD:
            page.line(f"{thread.peer}'s owner is being asked.", "yellow")
        case owner_pb2.THREAD_STATE_ASKING_OWNER:
            page.line("Your policy leaves this to you.", "yellow")
        case owner_pb2.THREAD_STATE_REJECTED | owner_pb2.THREAD_STATE_LAPSED:
            page.line(f"{thread.peer} and you did not agree.", "red")
        case _:
            page.line(f"The thread with {thread.peer} is {state(thread.state)}.")
    why = " ".join(filter(None, (thread.reason, thread.words)))
    page.fields([("about", thread.title), ("why", why), ("thread", thread.thread_id)])
    if thread.state == owner_pb2.THREAD_STATE_ASKING_OWNER:
        page.next_step("indai inbox")
