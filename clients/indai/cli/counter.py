"""`indai counter`: something else in the place of what the inbox asks, on the same conversation."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.meet import check_outcome, follow, show_outcome
from indai.cli.output import emit
from indai.cli.session import now_ms, owner_session
from indai.cli.words import length, stamp, thread_json
from indai.policy.money import parse_amount
from indai.policy.values import Problem
from indai.tools.when import fit
from indai.v1 import desk_pb2 as pb
from indai.v1 import owner_pb2

_USUAL_MINUTES = 30


@command(
    "counter",
    'indai counter 3f9a1c02 --when "next week" --as ind.ai/bob',
    "indai counter 3f9a1c02 --when tomorrow --for 45m",
    "indai counter 3f9a1c02 --amount 450.50",
)
@click.argument("code")
@click.option("--when", "words", metavar="WORDS", default="", help="Another time, as in indai meet.")
@click.option("--for", "duration", metavar="LENGTH", default="", help="Another length, like 45m.")
@click.option("--amount", metavar="AMOUNT", default="", help="Another amount, in the currency asked.")
@as_option
def counter(home: Home, acting: str, code: str, words: str, duration: str, amount: str) -> None:
    """Propose something else than what the inbox shows under CODE.

    Meetings take another time or length, payments another amount, bookings
    both. What the other side answers within it is agreed without asking you
    again; what your own rules refuse is not sent, and the question stays.

    Exit status 3 when nothing came of it; 0 while it is still open.
    """
    if not (words or duration or amount):
        raise click.UsageError("Say what you want instead: --when, --for or --amount.")
    thread, zone = run(_counter(home, acting, code, words, length(duration) if duration else 0, amount))
    emit(thread_json(thread), lambda page: show_outcome(page, thread, zone))
    check_outcome(thread)


async def _counter(
    home: Home, acting: str, code: str, words: str, minutes: int, amount: str
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        zone = await owner.zone()
        asked = await owner.steering.GetQuestion(pb.GetQuestionRequest(code=code))
        request = pb.CounterApprovalRequest(code=asked.approval.action_hash, duration_minutes=minutes)
        _check_fits(asked, timed=bool(words or minutes), priced=bool(amount))
        if words:
            period = fit(words, minutes or _length_of(asked), now_ms(), zone)
            request.start_time.CopyFrom(stamp(period.start_ms))
            request.end_time.CopyFrom(stamp(period.end_ms))
        if amount:
            request.amount_minor = _minor(amount, asked.currency)
        sent = await owner.steering.CounterApproval(request)
        found = await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=sent.thread_id))
        return await follow(owner, found.thread, wait_s=15.0), zone


def _check_fits(asked: pb.GetQuestionResponse, *, timed: bool, priced: bool) -> None:
    """Nothing that somebody said is left out of what is sent."""
    if timed and not asked.changes_time:
        raise wrong("The time of this cannot be changed.", "indai approve or indai decline")
    if priced and not asked.changes_amount:
        raise wrong("The amount of this cannot be changed.", "indai approve or indai decline")


def _length_of(asked: pb.GetQuestionResponse) -> int:
    span = asked.approval.end_time.seconds - asked.approval.start_time.seconds
    return max(1, span // 60) if asked.approval.start_time.seconds else _USUAL_MINUTES


def _minor(text: str, currency: str) -> int:
    """Minor units; an amount without a currency is in the one that was asked."""
    try:
        minor, found = parse_amount(text.replace("₹", "").strip(), currency)
    except Problem as problem:
        raise wrong(f"{problem}.", "a number, such as 450.50") from None
    if found != currency:
        raise wrong(f"The amount is in {currency}.", "write the number alone")
    return minor
