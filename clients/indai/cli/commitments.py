"""`indai commitments`, `cancel`, `fulfil`, `dispute`: what was agreed, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import Owner, now_ms, owner_session
from indai.cli.words import LIFE_STYLES, life, milliseconds, moment, span, thread_json, time_on
from indai.v1 import owner_pb2

ENDED = (
    owner_pb2.COMMITMENT_STATE_FULFILLED,
    owner_pb2.COMMITMENT_STATE_CANCELLED,
    owner_pb2.COMMITMENT_STATE_SUPERSEDED,
    owner_pb2.COMMITMENT_STATE_EXPIRED,
    owner_pb2.COMMITMENT_STATE_POSTED,
    owner_pb2.COMMITMENT_STATE_VOIDED,
)
PAGE = 200


@command("commitments", "indai commitments", "indai commitments --all --as ind.ai/bob")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@as_option
def commitments(home: Home, acting: str, everything: bool) -> None:
    """List what you agreed to, with due dates; the latest first."""
    found, zone = run(_list(home, acting, everything=everything))
    emit(
        {"commitments": [thread_json(each) for each in found], "time_zone": zone.key},
        lambda page: _show_list(page, found, zone),
    )


async def _list(home: Home, acting: str, *, everything: bool) -> tuple[list[owner_pb2.Thread], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        found: list[owner_pb2.Thread] = []
        request = owner_pb2.ListCommitmentsRequest(page_size=PAGE)
        while True:
            answer = await owner.stub.ListCommitments(request)
            found += [each for each in answer.threads if everything or each.commitment_state not in ENDED]
            if not answer.next_page_token:
                return found, await owner.zone()
            request.page_token = answer.next_page_token


def _show_list(page: Page, found: Sequence[owner_pb2.Thread], zone: ZoneInfo) -> None:
    if not found:
        page.line("Nothing is agreed that has not ended.")
        page.next_step("indai commitments --all")
        return
    rows = [
        (
            each.thread_id[:14],
            each.peer,
            life(each),
            moment(milliseconds(each.due_time), zone),
            each.title,
        )
        for each in found
    ]
    page.table(("thread", "with", "state", "due", "about"), rows, LIFE_STYLES)
    page.line(f"Times in {zone.key}.", "dim")
    page.next_step(f"indai threads {found[0].thread_id[:14]}")


@command(
    "cancel",
    "indai cancel 0193f2ab4c",
    'indai cancel 0193f2ab4c --say "I am ill." --reason ILL',
    "indai cancel 0193f2ab4c --only 2026-12-08",
)
@click.argument("thread")
@click.option("--say", default="", metavar="SENTENCE", help="What the other owner reads.")
@click.option("--reason", default="", metavar="NAME", help="A reason for programs, in capitals.")
@click.option("--only", metavar="DAY", default="", help="Of one that repeats: the time on this day alone.")
@as_option
def cancel(home: Home, acting: str, thread: str, say: str, reason: str, only: str) -> None:
    """Call off what was agreed in THREAD.

    Before the meeting starts your word is enough, and both calendars are free
    again. Afterwards the other side is asked, and must cancel too.
    """
    request = owner_pb2.CancelCommitmentRequest(thread_id=thread, reason=reason, sentence=say)
    seen, zone = run(_cancel(home, acting, request, only))
    emit(thread_json(seen), lambda page: _show(page, seen, zone))


@command("fulfil", "indai fulfil 0193f2ab4c")
@click.argument("thread")
@click.option("--say", default="", metavar="SENTENCE", help="What the other owner reads.")
@as_option
def fulfil(home: Home, acting: str, thread: str, say: str) -> None:
    """Record that what was agreed in THREAD took place, once it is over."""
    request = owner_pb2.FulfilCommitmentRequest(thread_id=thread, sentence=say)
    seen, zone = run(_fulfil(home, acting, request))
    emit(thread_json(seen), lambda page: _show(page, seen, zone))


@command("dispute", 'indai dispute 0193f2ab4c --say "Nobody came."')
@click.argument("thread")
@click.option("--say", default="", metavar="SENTENCE", help="What the other owner and an auditor read.")
@as_option
def dispute(home: Home, acting: str, thread: str, say: str) -> None:
    """Object, in both ledgers, to what was agreed or said in THREAD.

    An objection changes nothing else. It is recorded even when the other side
    does not answer.
    """
    request = owner_pb2.DisputeCommitmentRequest(thread_id=thread, sentence=say)
    seen, zone = run(_dispute(home, acting, request))
    emit(thread_json(seen), lambda page: _show(page, seen, zone))


async def _cancel(
    home: Home, acting: str, request: owner_pb2.CancelCommitmentRequest, only: str
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        if only:
            asked = owner_pb2.GetThreadRequest(thread_id=request.thread_id)
            thread, zone = (await owner.stub.GetThread(asked)).thread, await owner.zone()
            request.only_time.CopyFrom(time_on(thread, only, now_ms(), zone))
        return await _with_zone(owner, (await owner.stub.CancelCommitment(request)).thread)


async def _fulfil(
    home: Home, acting: str, request: owner_pb2.FulfilCommitmentRequest
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        return await _with_zone(owner, (await owner.stub.FulfilCommitment(request)).thread)


async def _dispute(
    home: Home, acting: str, request: owner_pb2.DisputeCommitmentRequest
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        return await _with_zone(owner, (await owner.stub.DisputeCommitment(request)).thread)


async def _with_zone(owner: Owner, thread: owner_pb2.Thread) -> tuple[owner_pb2.Thread, ZoneInfo]:
    return thread, await owner.zone()


def _show(page: Page, thread: owner_pb2.Thread, zone: ZoneInfo) -> None:
    page.line(f"{thread.title}: {life(thread)}", LIFE_STYLES.get(life(thread), "bold"))
    page.fields(
        [
            ("with", thread.peer),
            ("when", span(milliseconds(thread.start_time), milliseconds(thread.end_time), zone)),
            ("now", thread.words),
            ("commitment", thread.commitment_mid[:16]),
        ]
    )
    page.next_step(f"indai threads {thread.thread_id[:14]}")
