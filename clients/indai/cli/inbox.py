"""`indai inbox`, `approve`, `decline`: what the policy leaves to its owner."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.meet import follow, show_outcome
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.tool import outcome_json, show_call
from indai.cli.words import iso, milliseconds, moment, thread_json
from indai.tools.approvals import is_code
from indai.v1 import owner_pb2, tools_pb2


@command("inbox", "indai inbox --as ind.ai/bob")
@as_option
def inbox(home: Home, acting: str) -> None:
    """Show what waits for your word.

    The terms of a negotiation are rendered from the very bytes that would be
    signed, those of your agent's tools from what would run.
    """
    approvals, asked, zone = run(_inbox(home, acting))
    emit(
        {
            "approvals": [
                {
                    "code": each.code,
                    "action_hash": each.action_hash,
                    "thread": each.thread_id,
                    "peer": each.peer,
                    "terms": each.terms,
                    "why": each.why,
                    "expires": iso(milliseconds(each.expire_time)),
                }
                for each in approvals
            ],
            "tools": [
                {
                    "code": each.code,
                    "action_hash": each.action_hash,
                    "tool": each.tool,
                    "person": each.person,
                    "door": each.door,
                    "terms": each.terms,
                    "why": each.why,
                    "expires": iso(milliseconds(each.expire_time)),
                }
                for each in asked
            ],
        },
        lambda page: _show(page, approvals, asked, zone),
    )


async def _inbox(
    home: Home, acting: str
) -> tuple[list[owner_pb2.Approval], list[tools_pb2.ToolApproval], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.stub.ListInbox(owner_pb2.ListInboxRequest())
        asked = await owner.approvals.ListApprovals(tools_pb2.ListApprovalsRequest(page_size=100))
        return list(answer.approvals), list(asked.approvals), await owner.zone()


def _show(
    page: Page,
    approvals: list[owner_pb2.Approval],
    asked: list[tools_pb2.ToolApproval],
    zone: ZoneInfo,
) -> None:
    if not approvals and not asked:
        page.line("Nothing waits for you.")
        return
    for each in approvals:
        page.line(f"{each.code}  until {moment(milliseconds(each.expire_time), zone)}", "bold")
        for line in each.terms.splitlines():
            page.line(line, indent=2)
        page.line(each.why, "dim", indent=2)
    for one in asked:
        page.line(f"{one.code}  until {moment(milliseconds(one.expire_time), zone)}", "bold")
        for line in one.terms.splitlines():
            page.line(line, indent=2)
        page.line(f"{one.why} Asked by {one.person or 'a visitor'}, {one.door} door.", "dim", indent=2)
    first = approvals[0].code if approvals else asked[0].code
    page.next_step(f"indai approve {first}", f"indai decline {first}")


@command("approve", "indai approve 3f9a1c02 --as ind.ai/bob")
@click.argument("code")
@as_option
def approve(home: Home, acting: str, code: str) -> None:
    """Say yes to what the inbox shows under CODE."""
    _answer(home, acting, code, yes=True)


@command("decline", "indai decline 3f9a1c02 --as ind.ai/bob")
@click.argument("code")
@as_option
def decline(home: Home, acting: str, code: str) -> None:
    """Say no to what the inbox shows under CODE.

    The peer learns that you declined, and no reason.
    """
    _answer(home, acting, code, yes=False)


def _answer(home: Home, acting: str, code: str, *, yes: bool) -> None:
    if is_code(code):
        outcome = run(_answer_tool(home, acting, code, yes=yes))
        emit(outcome_json(outcome), lambda page: show_call(page, outcome))
        return
    thread, zone = run(_send_answer(home, acting, code, yes=yes))
    emit(thread_json(thread), lambda page: show_outcome(page, thread, zone))


async def _send_answer(home: Home, acting: str, code: str, *, yes: bool) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.AnswerApprovalRequest(code=code, approve=yes)
        answer = await owner.stub.AnswerApproval(request)
        return await follow(owner, answer.thread, wait_s=15.0), await owner.zone()


async def _answer_tool(home: Home, acting: str, code: str, *, yes: bool) -> tools_pb2.CallToolResponse:
    """The owner's word on a question of their agent's tools, whose codes have no hexadecimal digit."""
    async with owner_session(home, acting) as owner:
        request = tools_pb2.AnswerToolApprovalRequest(code=code, approve=yes)
        return (await owner.approvals.AnswerToolApproval(request)).outcome
