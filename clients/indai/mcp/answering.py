"""Tools that bind or release the owner: each asks the owner at the host, and acts on their yes alone."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any

from indai.mcp.following import Seconds, ThreadText, follow
from indai.mcp.people import Moment, between
from indai.mcp.presence import Asked, NobodyThere, TypedCode, code_of, question, require
from indai.mcp.session import Ctx, of, told
from indai.mcp.values import ThreadView, stamp, view
from indai.protocol.errors import NotFound, Reason, Refused
from indai.v1 import owner_pb2
from mcp.server.mcpserver import Elicit, ElicitationResult, Resolve
from pydantic import Field

CodeText = Annotated[str, Field(min_length=4, max_length=64, description="The code that inbox shows.")]
Say = Annotated[str, Field(max_length=300, description="One sentence that the other owner reads.")]
_SETTLE_S = 15.0
Answer = ElicitationResult[TypedCode]


@told
async def _waiting(code: CodeText, ctx: Ctx) -> owner_pb2.Approval:
    """The approval that `code` or hash names, as it stands now."""
    token = ""
    while True:
        page = await of(ctx).owner.ListInbox(owner_pb2.ListInboxRequest(page_size=500, page_token=token))
        for one in page.approvals:
            if code.lower() in (one.code, one.action_hash):
                return one
        token = page.next_page_token
        if not token:
            raise NotFound(Reason.NOT_FOUND, f"Nothing waits under the code {code}.", hint="see inbox")


def _asked(waiting: owner_pb2.Approval, ctx: Ctx, *, yes: bool) -> Asked:
    verb, handle = ("approve" if yes else "decline"), of(ctx).handle
    return Asked(
        what=f"{verb.capitalize()} this for {handle}? It is rendered from the bytes that would be signed.",
        terms=f"{waiting.terms}\nwith {waiting.peer}\n{waiting.why}",
        code=waiting.code,
        command=f"indai {verb} {waiting.code} --as {handle}",
    )


async def _ask_approve(
    waiting: Annotated[owner_pb2.Approval, Resolve(_waiting)], ctx: Ctx
) -> Elicit[TypedCode] | NobodyThere:
    return question(_asked(waiting, ctx, yes=True), ctx)


async def _ask_decline(
    waiting: Annotated[owner_pb2.Approval, Resolve(_waiting)], ctx: Ctx
) -> Elicit[TypedCode] | NobodyThere:
    return question(_asked(waiting, ctx, yes=False), ctx)


@told
async def approve(
    code: CodeText,
    waiting: Annotated[owner_pb2.Approval, Resolve(_waiting)],
    answer: Annotated[Answer, Resolve(_ask_approve)],
    ctx: Ctx,
) -> ThreadView:
    """Say yes to what inbox shows under the code. The owner is asked at this host, with the exact terms; the
    assistant can't answer for them."""
    require(answer, _asked(waiting, ctx, yes=True))
    return await _answer(waiting, ctx, yes=True)


@told
async def decline(
    code: CodeText,
    waiting: Annotated[owner_pb2.Approval, Resolve(_waiting)],
    answer: Annotated[Answer, Resolve(_ask_decline)],
    ctx: Ctx,
) -> ThreadView:
    """Say no to what inbox shows under the code, once the owner has confirmed that at this host."""
    require(answer, _asked(waiting, ctx, yes=False))
    return await _answer(waiting, ctx, yes=False)


async def _answer(waiting: owner_pb2.Approval, ctx: Ctx, *, yes: bool) -> ThreadView:
    # By the hash of the terms that were shown: other terms under the same code are another question.
    request = owner_pb2.AnswerApprovalRequest(code=waiting.action_hash, approve=yes)
    answered = await of(ctx).owner.AnswerApproval(request)
    return view(await follow(answered.thread, _SETTLE_S, ctx))


@told
async def _standing(thread: ThreadText, ctx: Ctx) -> owner_pb2.Thread:
    """The thread whose commitment stands."""
    found = (await of(ctx).owner.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))).thread
    if not found.commitment_state:
        raise Refused(
            Reason.INVALID_ARGUMENT,
            f"Nothing was agreed in the thread {found.thread_id}.",
            hint="use withdraw_thread for what is not agreed yet",
        )
    return found


def _terms(thread: owner_pb2.Thread) -> str:
    when = (
        f"{thread.start_time.ToJsonString()} to {thread.end_time.ToJsonString()}\n"
        if thread.start_time.seconds
        else ""
    )
    return f"{thread.kind} with {thread.peer}: {thread.title}\n{when}commitment {thread.commitment_mid}"


def _cancelling(thread: owner_pb2.Thread, say: str, ctx: Ctx) -> Asked:
    what = f"Call this off for {of(ctx).handle}?"
    terms = f"{_terms(thread)}\nTo be told to them: {say or 'nothing'}"
    command = f"indai cancel {thread.thread_id} --as {of(ctx).handle}"
    return Asked(what, terms, code_of(what, terms), command)


@told
async def _ask_cancel(
    standing: Annotated[owner_pb2.Thread, Resolve(_standing)], say: Say, ctx: Ctx
) -> Elicit[TypedCode] | NobodyThere:
    return question(_cancelling(standing, say, ctx), ctx)


@told
async def cancel_commitment(
    thread: ThreadText,
    standing: Annotated[owner_pb2.Thread, Resolve(_standing)],
    answer: Annotated[Answer, Resolve(_ask_cancel)],
    ctx: Ctx,
    say: Say = "",
) -> ThreadView:
    """Call off what was agreed in a thread, once the owner has confirmed it here. Their word is enough
    as long as the terms allow; later the other side is asked."""
    require(answer, _cancelling(standing, say, ctx))
    request = owner_pb2.CancelCommitmentRequest(thread_id=standing.thread_id, sentence=say)
    return view((await of(ctx).owner.CancelCommitment(request)).thread)


def _moving(thread: owner_pb2.Thread, wish: dict[str, Any], ctx: Ctx) -> Asked:
    what = f"Ask to move this for {of(ctx).handle}? A time that fits is agreed without asking you again."
    terms = (
        f"{_terms(thread)}\nTo lie between: {wish['start'].ToJsonString()}\nand: {wish['end'].ToJsonString()}"
    )
    command = f'indai reschedule {thread.thread_id} --when "next week" --as {of(ctx).handle}'
    return Asked(what, terms, code_of(what, terms), command)


@told
async def _wished(earliest: Moment, latest: Moment, ctx: Ctx) -> dict[str, Any]:
    start, end = await between(ctx, earliest, latest)
    return {"start": stamp(start), "end": stamp(end)}


@told
async def _ask_move(
    standing: Annotated[owner_pb2.Thread, Resolve(_standing)],
    wish: Annotated[dict[str, Any], Resolve(_wished)],
    ctx: Ctx,
) -> Elicit[TypedCode] | NobodyThere:
    return question(_moving(standing, wish, ctx), ctx)


@told
async def reschedule_commitment(
    thread: ThreadText,
    earliest: Annotated[datetime, Field(description="ISO 8601; the new earliest start.")],
    latest: Annotated[datetime, Field(description="ISO 8601; the new latest end.")],
    standing: Annotated[owner_pb2.Thread, Resolve(_standing)],
    wish: Annotated[dict[str, Any], Resolve(_wished)],
    answer: Annotated[Answer, Resolve(_ask_move)],
    ctx: Ctx,
    seconds: Seconds = 30.0,
) -> ThreadView:
    """Ask the other side to move a meeting, once the owner has confirmed it at this host. The old one stands
    until both sides have agreed on the new one."""
    require(answer, _moving(standing, wish, ctx))
    request = owner_pb2.RescheduleCommitmentRequest(
        request_id=str(uuid.uuid4()),
        thread_id=standing.thread_id,
        start_time=wish["start"],
        end_time=wish["end"],
    )
    moved = (await of(ctx).owner.RescheduleCommitment(request)).thread
    return view(await follow(moved, seconds, ctx))
