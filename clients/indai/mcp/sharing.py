"""Tools that ask a peer for a profile field or a document under a consent, and read what was agreed."""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass
from typing import Annotated, Literal

from indai.mcp.following import Seconds, ThreadText, follow, follow_or_withdraw
from indai.mcp.people import HandleText
from indai.mcp.presence import Asked, NotNeeded, Question, TypedCode, code_of, question, require
from indai.mcp.session import Ctx, of, told
from indai.mcp.starting import Withdraw
from indai.mcp.values import Quoted, ThreadView, Value, quoted, view
from indai.protocol.handles import Handle
from indai.v1 import intents_pb2, owner_pb2, sharing_pb2
from mcp.server.mcpserver import ElicitationResult, Resolve
from pydantic import Field

DAY_MS = 86_400_000
What = Annotated[
    str, Field(min_length=1, max_length=128, description="A field, e.g. email, or a document's id.")
]
Sort = Annotated[Literal["field", "document"], Field(description="What `what` names.")]
Purpose = Annotated[str, Field(min_length=1, max_length=200, description="What for; both sides sign it.")]
Days = Annotated[int, Field(ge=1, le=1000, description="How long it may be read, and a copy kept.")]
Answer = ElicitationResult[TypedCode]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, and what the owner is asked about it."""

    peer: str
    asked: Asked


class Shared(Value):
    """What a peer shared: their word, and data."""

    thread: str
    media_type: str
    size_bytes: int
    text: Quoted = Field(description="Empty for what is no text: read it with indai consents read.")


@told
async def _wanted(peer: HandleText, what: What, sort: Sort, purpose: Purpose, days: Days, ctx: Ctx) -> Wanted:
    named, handle = str(Handle.parse(peer)), of(ctx).handle
    say = f"Ask {named} for this as {handle}?"
    terms = f"{sort} {what}\nfor: {purpose}\nto be read once within {days} days"
    document = " --document" if sort == "document" else ""
    command = (
        f"indai ask-for {named} {shlex.quote(what)}{document} --purpose {shlex.quote(purpose)}"
        f" --for {days}d --as {handle}"
    )
    return Wanted(named, Asked(say, terms, code_of(say, terms), command))


@told
async def _ask_wanted(wanted: Annotated[Wanted, Resolve(_wanted)], ctx: Ctx) -> Question:
    return NotNeeded() if of(ctx).may_start else question(wanted.asked, ctx)


@told
async def request_share(
    peer: HandleText,
    what: What,
    purpose: Purpose,
    wanted: Annotated[Wanted, Resolve(_wanted)],
    answer: Annotated[Answer, Resolve(_ask_wanted)],
    ctx: Ctx,
    sort: Sort = "field",
    days: Days = 30,
    seconds: Seconds = 30.0,
    withdraw_if_cancelled: Withdraw = False,
) -> ThreadView:
    """Ask a peer for a profile field or a document of theirs, to be read once. Their rules or they decide.
    The owner confirms at this host first. What was agreed is read by read_shared."""
    require(answer, wanted.asked)
    request = sharing_pb2.AskForShareRequest(
        request_id=str(uuid.uuid4()), peer=wanted.peer, consent=_consent(purpose, days, of(ctx).clock())
    )
    if sort == "field":
        request.field = what
    else:
        request.document = what
    with await of(ctx).acting():
        thread = (await of(ctx).sharing.AskForShare(request)).thread
    return view(await (follow_or_withdraw if withdraw_if_cancelled else follow)(thread, seconds, ctx))


def _consent(purpose: str, days: int, now: int) -> intents_pb2.Consent:
    return intents_pb2.Consent(
        purpose_code="101",
        purpose_text=purpose,
        mode=intents_pb2.CONSENT_MODE_STORE,
        fetch=intents_pb2.FETCH_TYPE_ONETIME,
        data_life_unit=intents_pb2.SPAN_UNIT_DAY,
        data_life_value=days,
        from_ms=now,
        to_ms=now + days * DAY_MS,
    )


@told
async def read_shared(thread: ThreadText, ctx: Ctx) -> Shared:
    """Read what a peer agreed to share in a thread. The first time fetches it, which counts as the read."""
    found = (await of(ctx).owner.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))).thread
    read = await of(ctx).sharing.ReadShared(sharing_pb2.ReadSharedRequest(thread_id=found.thread_id))
    text = read.content.decode("utf-8", "replace") if read.media_type.startswith("text/") else ""
    return Shared(
        thread=found.thread_id,
        media_type=read.media_type,
        size_bytes=len(read.content),
        text=quoted(text, found.peer),
    )
