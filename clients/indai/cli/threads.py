"""`indai threads`: the list, or one thread with every message, decision and line of the journal."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.journal import entry_json
from indai.cli.meet import show_outcome
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import (
    OUTCOMES,
    STATE_STYLES,
    iso,
    life,
    milliseconds,
    moment,
    span,
    state,
    thread_json,
)
from indai.v1 import owner_pb2

Detail = tuple[owner_pb2.GetThreadResponse, list[owner_pb2.JournalEntry], ZoneInfo]


@command("threads", "indai threads", "indai threads --doubt", "indai threads 0193f2ab4c")
@click.argument("thread", required=False, default="")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many to list.")
@click.option("--doubt", is_flag=True, help="Only what the other side left in doubt.")
@as_option
def threads(home: Home, acting: str, thread: str, limit: int, doubt: bool) -> None:
    """List your threads, or show one with every message.

    THREAD is its id, or how it begins. In doubt is what you accepted and the
    other side has not confirmed in time: it keeps its slot until they say
    what became of it. `indai withdraw THREAD` asks them to end it.
    """
    if thread:
        detail = run(_detail(home, acting, thread))
        emit(_detail_json(detail), lambda page: _show_detail(page, detail))
    else:
        found, zone = run(_list(home, acting, limit, doubt))
        emit(
            {"threads": [thread_json(each) for each in found], "time_zone": zone.key},
            lambda page: _show_list(page, found, zone, doubt),
        )


@command("withdraw", "indai withdraw 0193f2ab4c")
@click.argument("thread")
@as_option
def withdraw(home: Home, acting: str, thread: str) -> None:
    """Take back what THREAD is about, as far as that is still possible.

    A proposal or an offer of yours ends at once. What you have accepted only
    the other side can end: it says that its offer had lapsed, or that the
    deal stands, and then your word counts as a request to cancel.
    """
    found, zone = run(_withdraw(home, acting, thread))
    emit(thread_json(found), lambda page: show_outcome(page, found, zone))


async def _withdraw(home: Home, acting: str, thread: str) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.WithdrawThreadRequest(thread_id=thread)
        return (await owner.stub.WithdrawThread(request)).thread, await owner.zone()


async def _list(home: Home, acting: str, limit: int, doubt: bool) -> tuple[list[owner_pb2.Thread], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=limit, in_doubt=doubt))
        return list(answer.threads), await owner.zone()


async def _detail(home: Home, acting: str, thread: str) -> Detail:
    async with owner_session(home, acting) as owner:
        found = await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))
        request = owner_pb2.ListJournalRequest(thread_id=found.thread.thread_id, page_size=200)
        journal = await owner.stub.ListJournal(request)
        return found, list(journal.entries)[::-1], await owner.zone()


def _show_list(page: Page, found: list[owner_pb2.Thread], zone: ZoneInfo, doubt: bool) -> None:
    if not found and doubt:
        page.line("Nothing is in doubt.")
        return
    if not found:
        page.line("No threads yet.")
        page.next_step('indai meet ind.ai/bob --for 30m --when "this week" --about "…"')
        return
    rows = [
        (
            each.thread_id[:14],
            ("-> " if each.outgoing else "<- ") + each.peer,
            state(each.state),
            span(milliseconds(each.start_time), milliseconds(each.end_time), zone),
            each.title,
        )
        for each in found
    ]
    page.table(("thread", "peer", "state", "when", "about"), rows, STATE_STYLES)
    page.line(f"Times in {zone.key}.", "dim")
    page.next_step(f"indai {'withdraw' if doubt else 'threads'} {found[0].thread_id[:14]}")


def _show_detail(page: Page, detail: Detail) -> None:
    answer, journal, zone = detail
    thread = answer.thread
    words = state(thread.state)
    page.line(f"{thread.title}: {words}", STATE_STYLES.get(words, "bold"))
    page.fields(
        [
            ("thread", thread.thread_id),
            ("with", f"{thread.peer} ({'you asked' if thread.outgoing else 'they asked'})"),
            ("when", span(milliseconds(thread.start_time), milliseconds(thread.end_time), zone)),
            ("why", " ".join(filter(None, (thread.reason, thread.words)))),
            ("commitment", thread.commitment_mid),
            ("became", life(thread)),
            ("our ledger", f"{thread.ours.log} #{thread.ours.index}" if thread.HasField("ours") else ""),
            (
                "receipt",
                f"{thread.receipt.log} #{thread.receipt.index}" if thread.HasField("receipt") else "",
            ),
        ]
    )
    page.line()
    for message in answer.messages:
        side = "we  ->" if message.outgoing else "they <-"
        page.line(f"{moment(milliseconds(message.time), zone)}  {side} {message.move}", "bold")
        page.line(message.words, indent=2)
        if message.HasField("decision"):
            outcome = OUTCOMES.get(message.decision.outcome, "?")
            page.line(f"policy: {outcome}. {message.decision.words}", "dim", indent=2)
    if journal:
        page.line()
        page.line("Journal", "bold")
        for entry in journal:
            page.line(f"{entry.event} {entry.reason}: {entry.words}", indent=2)
    page.line(f"Times in {zone.key}.", "dim")


def _detail_json(detail: Detail) -> dict[str, object]:
    answer, journal, zone = detail
    return {
        "thread": thread_json(answer.thread),
        "messages": [
            {
                "mid": message.mid,
                "move": message.move,
                "outgoing": message.outgoing,
                "words": message.words,
                "time": iso(milliseconds(message.time)),
                "envelope": message.envelope.hex(),
                "decision": (
                    {
                        "outcome": OUTCOMES.get(message.decision.outcome, ""),
                        "rules": list(message.decision.rules),
                        "words": message.decision.words,
                    }
                    if message.HasField("decision")
                    else None
                ),
            }
            for message in answer.messages
        ],
        "journal": [entry_json(entry) for entry in journal],
        "time_zone": zone.key,
    }
