"""`indai meet`: ask a peer's agent for a meeting, and follow the thread."""

from __future__ import annotations

import asyncio
import re
import uuid
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import click
from indai.cli.errors import CheckFailed
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit, note
from indai.cli.session import Owner, now_ms, owner_session
from indai.cli.words import length, milliseconds, span, stamp, state, thread_json
from indai.protocol.errors import Reason
from indai.protocol.group.algorithms import ALGORITHMS, DEFAULT
from indai.protocol.handles import Handle
from indai.protocol.kinds.meet import MAX_EVERY_DAYS
from indai.tools.period import Period
from indai.tools.when import fit
from indai.v1 import group_pb2, intents_pb2, negotiation_pb2, owner_pb2

WAIT_S = 60.0
RESTING = (owner_pb2.THREAD_STATE_ASKING_OWNER, owner_pb2.THREAD_STATE_ON_HOLD)
NOTHING = (
    owner_pb2.THREAD_STATE_REJECTED,
    owner_pb2.THREAD_STATE_WITHDRAWN,
    owner_pb2.THREAD_STATE_LAPSED,
)


@command(
    "meet",
    'indai meet ind.ai/bob --for 30m --when "this week" --about "Lunch" --as ind.ai/alice',
    "indai meet ind.ai/bob ind.ai/carol ind.ai/dev --for 30m --about Plan",
    "indai meet ind.ai/bob --for 30m --about Review --every week --times 6",
)
@click.argument("peers", metavar="PEER...", nargs=-1, required=True)
@click.option("--for", "duration", metavar="LENGTH", required=True, help="Like 30m or 1h30m.")
@click.option(
    "--when",
    "words",
    metavar="WORDS",
    default="this week",
    show_default=True,
    help="today, tomorrow, this week, next week, within 3 days, a date, or date..date.",
)
@click.option("--about", "title", metavar="TEXT", required=True, help="What it is about; the peer reads it.")
@click.option("--place", metavar="TEXT", default="", help="A place or a link.")
@click.option(
    "--by",
    "algorithm",
    type=click.Choice([*ALGORITHMS]),
    default=DEFAULT,
    show_default=True,
    help="With several: how the slot is found.",
)
@click.option("--every", metavar="SPAN", default="", help="Repeat it: day, week, 2w or 10d. With one peer.")
@click.option("--times", metavar="N", type=click.IntRange(2, 52), help="How often, with --every.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the thread until it rests.")
@as_option
def meet(
    home: Home,
    acting: str,
    peers: tuple[str, ...],
    duration: str,
    words: str,
    title: str,
    place: str,
    algorithm: str,
    every: str,
    times: int | None,
    wait: bool,
) -> None:
    """Ask PEER's agent, or those of several, for a meeting.

    Your policy and calendar decide what is offered, theirs what is answered;
    the agreed meeting is written into every calendar. With several it stands
    when all have signed: see `indai group show`.

    Exit status 3 when nothing came of it; 0 while it is still open.
    """
    for peer in peers:
        Handle.parse(peer)
    if (times is None) == bool(every) or (every and len(peers) > 1):
        raise click.UsageError("--every and --times go together, with one peer.")
    wanted = Wanted(
        peers, length(duration), words, title, place, algorithm, days(every) if every else 0, times or 1
    )
    thread, zone, period = run(_meet(home, acting, wanted, wait=wait))
    value = thread_json(thread) | {"period": period.words, "time_zone": zone.key}
    emit(value, lambda page: show_outcome(page, thread, zone))
    check_outcome(thread)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    peers: tuple[str, ...]
    minutes: int
    words: str
    title: str
    place: str
    algorithm: str
    every_days: int = 0
    times: int = 1


async def _meet(
    home: Home, acting: str, wanted: Wanted, *, wait: bool
) -> tuple[owner_pb2.Thread, ZoneInfo, Period]:
    async with owner_session(home, acting) as owner:
        zone = await owner.zone()
        words, minutes = wanted.words, wanted.minutes
        period = fit(words, minutes, now_ms(), zone)
        moved = "" if period.words == " ".join(words.lower().split()) else f" ({words!r} has no room left)"
        asked = ", ".join(wanted.peers)
        often = f", {wanted.times} times," if wanted.every_days else ""
        note(f"{owner.handle} asks {asked} for {minutes} min{often} {period.words}{moved}")
        thread = await _start(owner, wanted, period, zone)
        if wait:
            thread = await follow(owner, thread)
        return thread, zone, period


async def _start(owner: Owner, wanted: Wanted, period: Period, zone: ZoneInfo) -> owner_pb2.Thread:
    """With one peer a thread of two, with several a meeting of several."""
    request_id, start, end = str(uuid.uuid4()), stamp(period.start_ms), stamp(period.end_ms)
    if wanted.every_days:
        wish = intents_pb2.MeetWish(
            title=wanted.title,
            duration_minutes=wanted.minutes,
            windows=[intents_pb2.Window(start_ms=period.start_ms, end_ms=period.end_ms)],
            place=wanted.place,
            repeats=intents_pb2.Repeats(every_days=wanted.every_days, count=wanted.times, time_zone=zone.key),
        )
        repeated = owner_pb2.StartIntentRequest(
            request_id=request_id, peer=wanted.peers[0], wish=negotiation_pb2.Propose(meet=wish)
        )
        return (await owner.stub.StartIntent(repeated)).thread
    if len(wanted.peers) == 1:
        request = owner_pb2.StartMeetRequest(
            request_id=request_id,
            peer=wanted.peers[0],
            title=wanted.title,
            duration_minutes=wanted.minutes,
            start_time=start,
            end_time=end,
            place=wanted.place,
        )
        return (await owner.stub.StartMeet(request)).thread
    several = group_pb2.StartGroupRequest(
        request_id=request_id,
        peers=wanted.peers,
        title=wanted.title,
        duration_minutes=wanted.minutes,
        start_time=start,
        end_time=end,
        place=wanted.place,
        algorithm=wanted.algorithm,
    )
    return (await owner.groups.StartGroup(several)).thread


def days(words: str) -> int:
    """`day`, `week`, `2w` or `10d` as days."""
    found = re.fullmatch(r"(\d{0,2}) ?(d|w|days?|weeks?)", words.strip().lower())
    number = int(found[1] or 1) if found else 0
    if found is None or not 1 <= (each := number * (7 if found[2].startswith("w") else 1)) <= MAX_EVERY_DAYS:
        raise click.BadParameter(f"{words!r} is no span of 1 to {MAX_EVERY_DAYS} days, like week or 2w.")
    return each


async def follow(owner: Owner, thread: owner_pb2.Thread, wait_s: float = WAIT_S) -> owner_pb2.Thread:
    """The thread when it has ended or waits for a person, or as it is after `wait_s`."""
    seen, told = thread, ""
    try:
        async with asyncio.timeout(wait_s):
            request = owner_pb2.WatchThreadRequest(thread_id=thread.thread_id)
            async for update in owner.stub.WatchThread(request):
                seen = update.thread
                if state(seen.state) != told:
                    told = state(seen.state)
                    note(f"  {told}")
                if seen.state in RESTING:
                    break
    except TimeoutError:
        note("  still going on; look later")
    return seen


def check_outcome(thread: owner_pb2.Thread) -> None:
    """The status for a script, which goes on with `&&` when it was agreed, or is still open."""
    if thread.state in NOTHING:
        raise CheckFailed(Reason.POLICY_DENIED.status.exit)


def show_outcome(page: Page, thread: owner_pb2.Thread, zone: ZoneInfo) -> None:
    """What became of a thread, and what to do now."""
    when = span(milliseconds(thread.start_time), milliseconds(thread.end_time), zone)
    match thread.state:
        case owner_pb2.THREAD_STATE_COMMITTED:
            page.line(f"Agreed with {thread.peer}: {when} ({zone.key}).", "green")
        case owner_pb2.THREAD_STATE_ON_HOLD:
            page.line(f"{thread.peer}'s owner is being asked.", "yellow")
        case owner_pb2.THREAD_STATE_ASKING_OWNER:
            page.line("Your policy leaves this to you.", "yellow")
        case owner_pb2.THREAD_STATE_REJECTED | owner_pb2.THREAD_STATE_LAPSED:
            page.line(f"No meeting with {thread.peer}.", "red")
        case _:
            page.line(f"The thread with {thread.peer} is {state(thread.state)}.")
    page.fields(
        [
            ("about", thread.title),
            ("why", " ".join(filter(None, (thread.reason, thread.words)))),
            ("thread", thread.thread_id),
            ("commitment", thread.commitment_mid[:16]),
            ("ledger", f"{thread.ours.log} #{thread.ours.index}" if thread.HasField("ours") else ""),
            ("calendar", "the event is in your calendar file" if thread.in_calendar else ""),
        ]
    )
    short = thread.thread_id[:12] if len(thread.thread_id) > 12 else thread.thread_id
    page.next_step(
        "indai inbox" if thread.state == owner_pb2.THREAD_STATE_ASKING_OWNER else f"indai threads {short}"
    )
