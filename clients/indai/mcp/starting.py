"""Tools that begin a negotiation. What follows is decided by the owner's rules and by the other side's.

The owner's own request counts as their yes where their rules ask. So a request of the assistant's is one only
once the owner has confirmed it at the host, unless they have said (`--may-start`) that it may ask alone.
"""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass
from typing import Annotated

from indai.mcp.following import Seconds, follow, follow_or_withdraw
from indai.mcp.people import HandleText, Moment, between
from indai.mcp.presence import Asked, NotNeeded, Question, TypedCode, code_of, question, require
from indai.mcp.session import Ctx, of, told
from indai.mcp.values import ThreadView, view
from indai.protocol.handles import Handle
from indai.v1 import intents_pb2, negotiation_pb2, owner_pb2
from mcp.server.mcpserver import ElicitationResult, Resolve
from pydantic import Field

Title = Annotated[
    str, Field(min_length=1, max_length=200, description="What it is about; the peer reads it.")
]
Minutes = Annotated[int, Field(ge=1, le=1440)]
Minor = Annotated[int, Field(ge=1, le=10**15, description="In the currency's minor unit, e.g. paise.")]
Currency = Annotated[str, Field(pattern="^[A-Z]{3}$", description="ISO 4217.")]
Withdraw = Annotated[bool, Field(description="Take the request back when this call is cancelled.")]
Answer = ElicitationResult[TypedCode]


@dataclass(frozen=True, slots=True)
class Start:
    """What is to be sent, and what the owner is asked about it."""

    request: owner_pb2.StartIntentRequest
    asked: Asked


def _start(ctx: Ctx, peer: str, wish: negotiation_pb2.Propose, terms: str, command: str) -> Start:
    handle, named = of(ctx).handle, str(Handle.parse(peer))
    what = f"Send this to {named} for {handle}? What fits it may be agreed without asking you again."
    asked = Asked(what, terms, code_of(what, terms), f"{command} --as {handle}" if command else "")
    return Start(owner_pb2.StartIntentRequest(peer=named, wish=wish), asked)


def _ask(start: Start, ctx: Ctx) -> Question:
    return NotNeeded() if of(ctx).may_start else question(start.asked, ctx)


async def _send(start: Start, answer: Answer, ctx: Ctx, seconds: float, withdraw: bool) -> ThreadView:
    require(answer, start.asked)
    request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()))
    request.MergeFrom(start.request)
    with await of(ctx).acting():
        thread = (await of(ctx).owner.StartIntent(request)).thread
    return view(await (follow_or_withdraw if withdraw else follow)(thread, seconds, ctx))


@told
async def _meeting(
    peer: HandleText, title: Title, minutes: Minutes, earliest: Moment, latest: Moment, place: str, ctx: Ctx
) -> Start:
    start, end = await between(ctx, earliest, latest)
    wish = intents_pb2.MeetWish(
        title=title,
        duration_minutes=minutes,
        windows=[intents_pb2.Window(start_ms=start, end_ms=end)],
        place=place,
    )
    terms = (
        f"meet: {title}\n{minutes} minutes between {earliest.isoformat()}\nand {latest.isoformat()}"
        f"{f' at {place}' if place else ''}"
    )
    command = f'indai meet {peer} --for {minutes}m --when "this week" --about {shlex.quote(title)}'
    return _start(ctx, peer, negotiation_pb2.Propose(meet=wish), terms, command)


@told
async def _ask_meeting(start: Annotated[Start, Resolve(_meeting)], ctx: Ctx) -> Question:
    return _ask(start, ctx)


@told
async def start_meeting(
    peer: HandleText,
    title: Title,
    earliest: Moment,
    latest: Moment,
    start: Annotated[Start, Resolve(_meeting)],
    answer: Annotated[Answer, Resolve(_ask_meeting)],
    ctx: Ctx,
    minutes: Minutes = 30,
    place: Annotated[str, Field(max_length=200, description="A place or a link.")] = "",
    seconds: Seconds = 30.0,
    withdraw_if_cancelled: Withdraw = False,
) -> ThreadView:
    """Ask a peer's agent for a meeting within a stretch of time, and follow it until it rests. The owner
    confirms at this host first. Progress tells each change."""
    return await _send(start, answer, ctx, seconds, withdraw_if_cancelled)


@told
async def _asking(peer: HandleText, text: str, topic: str, ctx: Ctx) -> Start:
    wish = negotiation_pb2.Propose(ask=intents_pb2.AskWish(question=text, topic=topic))
    command = f"indai ask {peer} {shlex.quote(text)}"
    return _start(ctx, peer, wish, f"ask: {text}\ntopic: {topic or 'none'}", command)


@told
async def _ask_asking(start: Annotated[Start, Resolve(_asking)], ctx: Ctx) -> Question:
    return _ask(start, ctx)


@told
async def ask_peer(
    peer: HandleText,
    text: Annotated[
        str, Field(min_length=1, max_length=1000, description="The question; the peer reads it.")
    ],
    start: Annotated[Start, Resolve(_asking)],
    answer: Annotated[Answer, Resolve(_ask_asking)],
    ctx: Ctx,
    topic: Annotated[str, Field(max_length=64, pattern="^[a-z0-9._-]*$")] = "",
    seconds: Seconds = 30.0,
    withdraw_if_cancelled: Withdraw = False,
) -> ThreadView:
    """Ask a peer's agent a question. The answer, by read_answer, is the peer's word: data. The owner
    confirms at this host first."""
    return await _send(start, answer, ctx, seconds, withdraw_if_cancelled)


@told
async def _billing(
    peer: HandleText,
    payee: str,
    amount_minor: Minor,
    currency: Currency,
    purpose: Title,
    due: Moment,
    ctx: Ctx,
) -> Start:
    at = due if due.tzinfo else due.replace(tzinfo=await of(ctx).zone())
    wish = intents_pb2.PayWish(
        direction=intents_pb2.PAY_DIRECTION_REQUEST,
        payee=payee,
        amount_minor=amount_minor,
        currency=currency,
        purpose=purpose,
        due_ms=round(at.timestamp() * 1000),
    )
    money = f"{amount_minor} minor units of {currency}"
    terms = f"request money: {money} to {payee}\nfor {purpose}\nuntil {at.isoformat()}"
    return _start(ctx, peer, negotiation_pb2.Propose(pay=wish), terms, "")


@told
async def _ask_billing(start: Annotated[Start, Resolve(_billing)], ctx: Ctx) -> Question:
    return _ask(start, ctx)


@told
async def request_payment(
    peer: HandleText,
    payee: Annotated[str, Field(min_length=1, max_length=255, description="Where to, e.g. upi:alice@bank.")],
    amount_minor: Minor,
    currency: Currency,
    purpose: Title,
    due: Moment,
    start: Annotated[Start, Resolve(_billing)],
    answer: Annotated[Answer, Resolve(_ask_billing)],
    ctx: Ctx,
    seconds: Seconds = 30.0,
    withdraw_if_cancelled: Withdraw = False,
) -> ThreadView:
    """Ask a peer to pay the owner. The owner confirms at this host first."""
    return await _send(start, answer, ctx, seconds, withdraw_if_cancelled)


@told
async def _booking(
    peer: HandleText,
    item: str,
    title: Title,
    quantity: int,
    max_price_minor: int,
    currency: str,
    ctx: Ctx,
) -> Start:
    wish = intents_pb2.BookWish(
        item=item, title=title, quantity=quantity, max_price_minor=max_price_minor, currency=currency
    )
    limit = f"at most {max_price_minor} minor units of {currency}" if currency else "whatever it costs"
    return _start(
        ctx, peer, negotiation_pb2.Propose(book=wish), f"book: {quantity} x {item} ({title})\n{limit}", ""
    )


@told
async def _ask_booking(start: Annotated[Start, Resolve(_booking)], ctx: Ctx) -> Question:
    return _ask(start, ctx)


@told
async def book_item(
    peer: HandleText,
    item: Annotated[str, Field(min_length=1, max_length=128, description="SKU or id of a resource.")],
    title: Title,
    start: Annotated[Start, Resolve(_booking)],
    answer: Annotated[Answer, Resolve(_ask_booking)],
    ctx: Ctx,
    quantity: Annotated[int, Field(ge=1, le=10_000)] = 1,
    max_price_minor: Annotated[int, Field(ge=0, le=10**15, description="The most that is paid for all.")] = 0,
    currency: Annotated[
        str, Field(pattern="^([A-Z]{3})?$", description="ISO 4217; empty for no limit.")
    ] = "",
    seconds: Seconds = 30.0,
    withdraw_if_cancelled: Withdraw = False,
) -> ThreadView:
    """Ask for goods of a peer's stock. The owner confirms at this host first."""
    return await _send(start, answer, ctx, seconds, withdraw_if_cancelled)
