"""`indai group`: meetings of several, as their coordinator sees them."""

from __future__ import annotations

from typing import Any

import click
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import state, thread_json
from indai.v1 import group_pb2

SECTIONS = {"Meetings of several": {"show": "indai.cli.group:show"}}


@click.command("group", cls=Group, sections=SECTIONS)
def group() -> None:
    """Meetings of three or more that you have asked for."""


@command("show", "indai group show 0193f2ab4c", "indai group show 0193f2ab4c --json")
@click.argument("thread")
@as_option
def show(home: Home, acting: str, thread: str) -> None:
    """Show who signed, who is waited for, and what was disclosed to whom.

    Windows are free times, slots are times to vote on or to sign. A member is
    told yours and tells a few of its own, or one word for each slot.
    """
    found = run(_get(home, acting, thread))
    emit(_json(found), lambda page: _show(page, found))


async def _get(home: Home, acting: str, thread: str) -> group_pb2.GetGroupResponse:
    async with owner_session(home, acting) as owner:
        return await owner.groups.GetGroup(group_pb2.GetGroupRequest(thread_id=thread))


def _json(found: group_pb2.GetGroupResponse) -> dict[str, Any]:
    members = [
        {
            "handle": member.handle,
            "standing": _standing(member),
            "told": {"windows": member.told_windows, "slots": member.told_slots},
            "heard": {"windows": member.heard_windows, "ordinals": member.heard_ordinals},
            "exchanges": member.exchanges,
        }
        for member in found.members
    ]
    own = {"algorithm": found.algorithm, "rounds": found.rounds, "seed": found.seed}
    return {"thread": thread_json(found.thread), "members": members} | own


def _standing(member: group_pb2.GroupMember) -> str:
    if member.prevented:
        return "prevented it"
    if member.asking_owner:
        return "asks its owner"
    if member.awaited:
        return "is waited for"
    return "signed" if member.signed else ""


def _show(page: Page, found: group_pb2.GetGroupResponse) -> None:
    thread = found.thread
    page.line(f"{thread.title}: {state(thread.state)}. {thread.words}")
    page.line("What you told each of them, and what they told you:")
    rows = [
        (
            member.handle,
            _standing(member),
            f"{member.told_windows} + {member.told_slots}",
            f"{member.heard_windows} + {member.heard_ordinals}",
        )
        for member in found.members
    ]
    page.table(("member", "", "windows + slots", "windows + words"), rows)
    total = sum(member.exchanges for member in found.members)
    page.line(f"{total} exchanges, {found.rounds} rounds of questions, by {found.algorithm}.")
    page.next_step(f"indai threads {thread.thread_id[:12]}")
