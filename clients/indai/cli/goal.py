"""`indai goal`: what an owner wants kept up over time, and how far their agent may go by itself."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.cli.words import iso, length, milliseconds
from indai.v1 import goals_pb2 as pb
from indai.v1.goals_pb2_grpc import GoalServiceStub

if TYPE_CHECKING:
    from indai.v1.goals_pb2_grpc import GoalServiceAsyncStub

_HERE = "indai.cli.goal:"
SECTIONS = {
    "Goals": {
        "add": _HERE + "add",
        "list": _HERE + "listing",
        "pause": _HERE + "pause",
        "resume": _HERE + "resume",
        "remove": _HERE + "remove",
    },
    "What is done for them": {"acts": _HERE + "acts", "gates": _HERE + "gates"},
}
_SPAN = re.compile(r"(\d{0,4})\s*(h|hours?|d|days?|w|weeks?)", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 168}
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_KINDS = {pb.GOAL_KIND_MEET: "meet", pb.GOAL_KIND_FOLLOW_UP: "follow-up", pb.GOAL_KIND_REMIND: "remind"}


@click.command("goal", cls=Group, sections=SECTIONS)
def goal() -> None:
    """What you want kept up: meet somebody so often, hear of what waits.

    Your agent looks at your goals by itself. It tells you in your
    conversation; only with --act it asks for a meeting, within your policy.
    Gates hold it back: quiet hours, so many times a day, your consent.
    """


@command(
    "add",
    "indai goal add --meet ind.ai/ravi --every week --act",
    "indai goal add --follow-up --every 2d",
    'indai goal add --remind "Look at the budget" --every 30d',
)
@click.option("--meet", "person", metavar="HANDLE", default="", help="To meet somebody so often.")
@click.option("--remind", "words", metavar="TEXT", default="", help="To be told this so often.")
@click.option("--follow-up", is_flag=True, help="To hear of what has waited so long for an answer.")
@click.option("--every", metavar="SPAN", required=True, help="6h, day, 2d, week or 2w.")
@click.option("--for", "duration", metavar="LENGTH", default="30m", show_default=True, help="Of a meeting.")
@click.option("--about", metavar="TEXT", default="", help="What a meeting is about; the peer reads it.")
@click.option("--act", is_flag=True, help="Ask for the meeting by itself, within your policy.")
@as_option
def add(
    home: Home,
    acting: str,
    person: str,
    words: str,
    follow_up: bool,
    every: str,
    duration: str,
    about: str,
    act: bool,
) -> None:
    """Add a goal: one of --meet, --remind and --follow-up."""
    if sum(map(bool, (person, words, follow_up))) != 1:
        raise wrong("A goal is one of --meet, --remind and --follow-up.", "indai goal add --help")
    kind = pb.GOAL_KIND_MEET if person else pb.GOAL_KIND_REMIND if words else pb.GOAL_KIND_FOLLOW_UP
    wish = pb.Goal(
        kind=kind,
        person=person,
        words=words or about,
        every_hours=hours(every),
        minutes=length(duration),
        may_act=act,
    )
    made = _json(run(_add(home, acting, wish)))
    emit(made, lambda page: page.line(f"Goal {made['goal']}: {_says(made)}.", "green"))


async def _add(home: Home, acting: str, wish: pb.Goal) -> pb.Goal:
    async with _session(home, acting) as stub:
        request = pb.CreateGoalRequest(request_id=str(uuid.uuid4()), goal=wish)
        return (await stub.CreateGoal(request)).goal


@command("list", "indai goal list")
@as_option
def listing(home: Home, acting: str) -> None:
    """List your goals, oldest first."""
    value = [_json(each) for each in run(_goals(home, acting))]
    rows = [[each["goal"], _says(each), each["next"] or "paused"] for each in value]
    emit({"goals": value}, lambda page: page.table(["goal", "what", "looked at next"], rows))


async def _goals(home: Home, acting: str) -> list[pb.Goal]:
    async with _session(home, acting) as stub:
        return list((await stub.ListGoals(pb.ListGoalsRequest(page_size=200))).goals)


@command("pause", "indai goal pause 5f6d2c1e-7d7c-5a3e-9c55-7b8f5d2c1e00")
@click.argument("goal_id", metavar="GOAL")
@as_option
def pause(home: Home, acting: str, goal_id: str) -> None:
    """Do nothing for GOAL until it is resumed."""
    made = _json(run(_change(home, acting, pb.UpdateGoalRequest(goal_id=goal_id, paused=True))))
    emit(made, lambda page: page.line("It is paused.", "green"))


@command("resume", "indai goal resume 5f6d2c1e-7d7c-5a3e-9c55-7b8f5d2c1e00")
@click.argument("goal_id", metavar="GOAL")
@click.option("--act/--tell", "act", default=None, help="Let it act by itself, or only tell you.")
@as_option
def resume(home: Home, acting: str, goal_id: str, act: bool | None) -> None:
    """Let GOAL go on."""
    request = pb.UpdateGoalRequest(goal_id=goal_id, paused=False, may_act=act)
    made = _json(run(_change(home, acting, request)))
    emit(made, lambda page: page.line(f"It goes on: {_says(made)}.", "green"))


async def _change(home: Home, acting: str, request: pb.UpdateGoalRequest) -> pb.Goal:
    async with _session(home, acting) as stub:
        return (await stub.UpdateGoal(request)).goal


@command("remove", "indai goal remove 5f6d2c1e-7d7c-5a3e-9c55-7b8f5d2c1e00")
@click.argument("goal_id", metavar="GOAL")
@as_option
def remove(home: Home, acting: str, goal_id: str) -> None:
    """Remove GOAL with the list of what was done for it."""
    run(_remove(home, acting, goal_id))
    emit({"goal": goal_id, "removed": True}, lambda page: page.line("It is removed.", "green"))


async def _remove(home: Home, acting: str, goal_id: str) -> None:
    async with _session(home, acting) as stub:
        await stub.DeleteGoal(pb.DeleteGoalRequest(goal_id=goal_id))


@command("acts", "indai goal acts", "indai goal acts 5f6d2c1e-7d7c-5a3e-9c55-7b8f5d2c1e00")
@click.argument("goal_id", metavar="[GOAL]", default="", required=False)
@as_option
def acts(home: Home, acting: str, goal_id: str) -> None:
    """Show what was done for your goals, or held back and why."""
    found = run(_acts(home, acting, goal_id))
    value = [
        {
            "goal": each.goal_id,
            "time": iso(milliseconds(each.time)),
            "did": each.did,
            "words": each.words,
            "thread": each.thread_id or None,
        }
        for each in found
    ]
    rows = [[str(each["time"]), str(each["did"]), str(each["words"])] for each in value]
    emit({"acts": value}, lambda page: page.table(["time", "did", "what"], rows))


async def _acts(home: Home, acting: str, goal_id: str) -> list[pb.GoalAct]:
    async with _session(home, acting) as stub:
        return list((await stub.ListGoalActs(pb.ListGoalActsRequest(goal_id=goal_id))).acts)


@command(
    "gates", "indai goal gates", "indai goal gates --quiet 22:00-07:00 --most 2", "indai goal gates --off"
)
@click.option("--on/--off", "allowed", default=None, help="Your consent to anything unasked.")
@click.option("--quiet", metavar="FROM-UNTIL", default="", help="Quiet hours of your day, like 21:00-08:00.")
@click.option("--most", metavar="N", type=click.IntRange(1, 50), help="At most so many times a day.")
@as_option
def gates(home: Home, acting: str, allowed: bool | None, quiet: str, most: int | None) -> None:
    """Show what holds your agent back, or change it."""
    found = run(_gates(home, acting, allowed, _quiet(quiet) if quiet else None, most))
    spoken = f"{_clock(found.quiet_from_minute)}-{_clock(found.quiet_until_minute)}"
    value = {"allowed": found.allowed, "quiet": spoken, "most_per_day": found.most_per_day}

    def show(page: Page) -> None:
        page.fields(
            [
                ("unasked", "allowed" if found.allowed else "nothing"),
                ("quiet hours", spoken),
                ("at most a day", str(found.most_per_day)),
            ]
        )

    emit(value, show)


async def _gates(
    home: Home, acting: str, allowed: bool | None, quiet: tuple[int, int] | None, most: int | None
) -> pb.GoalGates:
    async with _session(home, acting) as stub:
        known = (await stub.GetGoalGates(pb.GetGoalGatesRequest())).gates
        if allowed is None and quiet is None and most is None:
            return known
        known.allowed = known.allowed if allowed is None else allowed
        known.most_per_day = most or known.most_per_day
        if quiet is not None:
            known.quiet_from_minute, known.quiet_until_minute = quiet
        return (await stub.SetGoalGates(pb.SetGoalGatesRequest(gates=known))).gates


def hours(text: str) -> int:
    """Hours from `6h`, `day`, `2d`, `week` or `2w`."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise wrong(f"{text!r} is no span of time.", "write it like 6h, day, 2d, week or 2w")
    return int(match[1] or 1) * _HOURS[match[2][0].lower()]


def _quiet(text: str) -> tuple[int, int]:
    parts = [_CLOCK.fullmatch(part.strip()) for part in text.split("-")]
    if len(parts) != 2 or None in parts:
        raise wrong(f"{text!r} are no quiet hours.", "write them like 21:00-08:00")
    start, end = (int(each[1]) * 60 + int(each[2]) for each in parts if each)
    return start, end


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _json(each: pb.Goal) -> dict[str, Any]:
    return {
        "goal": each.goal_id,
        "kind": _KINDS[each.kind],
        "person": each.person or None,
        "words": each.words or None,
        "every_hours": each.every_hours,
        "minutes": each.minutes if each.kind == pb.GOAL_KIND_MEET else None,
        "acts": each.may_act,
        "paused": each.paused,
        "next": None if each.paused else iso(milliseconds(each.next_time)),
    }


def _says(each: dict[str, Any]) -> str:
    often = f"{each['every_hours'] // 24} d" if each["every_hours"] % 24 == 0 else f"{each['every_hours']} h"
    if each["kind"] == "meet":
        how = "asks by itself" if each["acts"] else "tells you"
        return f"meet {each['person']} every {often}; {how}"
    if each["kind"] == "remind":
        return f"every {often}: {each['words']}"
    return f"what has waited {often} for an answer"


@contextlib.asynccontextmanager
async def _session(home: Home, acting: str) -> AsyncIterator[GoalServiceAsyncStub]:
    run_, handle = home.running(), home.owner(acting)
    async with await owner_channel(run_, home.owner_token(handle)) as channel:
        yield GoalServiceStub(channel)
