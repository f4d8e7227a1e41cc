"""`indai journal`: the owner's private log of decisions and of what was refused."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import iso, milliseconds, moment
from indai.v1 import owner_pb2


@command("journal", "indai journal --limit 20 --as ind.ai/bob")
@click.option("--thread", metavar="THREAD", default="", help="Only lines about this thread.")
@click.option("--limit", type=click.IntRange(1, 500), default=30, show_default=True, help="How many lines.")
@as_option
def journal(home: Home, acting: str, thread: str, limit: int) -> None:
    """Show why your agent did what it did; no peer ever sees this."""
    entries, zone = run(_journal(home, acting, thread, limit))
    emit({"entries": [entry_json(entry) for entry in entries]}, lambda page: _show(page, entries, zone))


async def _journal(
    home: Home, acting: str, thread: str, limit: int
) -> tuple[list[owner_pb2.JournalEntry], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.ListJournalRequest(thread_id=thread, page_size=limit)
        answer = await owner.stub.ListJournal(request)
        return list(answer.entries), await owner.zone()


def entry_json(entry: owner_pb2.JournalEntry) -> dict[str, str]:
    """A line for `--json`."""
    return {
        "time": iso(milliseconds(entry.time)),
        "thread": entry.thread_id,
        "mid": entry.mid,
        "peer": entry.peer,
        "event": entry.event,
        "reason": entry.reason,
        "words": entry.words,
    }


def _show(page: Page, entries: list[owner_pb2.JournalEntry], zone: ZoneInfo) -> None:
    if not entries:
        page.line("The journal is empty.")
        return
    for entry in entries:
        style = "red" if entry.event.startswith("refused") else "bold"
        when = moment(milliseconds(entry.time), zone)
        page.line("  ".join(filter(None, (when, entry.event, entry.reason, entry.peer))), style)
        page.line(entry.words, indent=2)
    page.line(f"Newest first; times in {zone.key}.", "dim")
