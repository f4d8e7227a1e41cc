"""`indai book`: something of a peer's stock, for good or for a time."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import click
from indai.cli.deals import begin, show_deal
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.meet import check_outcome
from indai.cli.money import money
from indai.cli.output import emit, note
from indai.cli.session import now_ms, owner_session
from indai.cli.words import length, thread_json
from indai.node.kinds.money import spoken
from indai.protocol.handles import Handle
from indai.tools.period import parse_period
from indai.v1 import intents_pb2, negotiation_pb2, owner_pb2, sharing_pb2


@command(
    "book",
    "indai book ind.ai/shop lamp-7 --quantity 2 --max 3000",
    'indai book ind.ai/cafe table/4 --for 2h --when tomorrow --max "INR 500"',
    "indai book ind.ai/shop lamp-7 --quantity 2 --price",
)
@click.argument("peer")
@click.argument("sku")
@click.option("--quantity", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many.")
@click.option("--max", "limit", metavar="AMOUNT", default="", help="The most you pay for all of it.")
@click.option("--for", "duration", metavar="LENGTH", default="", help="For a time: like 30m or 2h.")
@click.option(
    "--when", "words", metavar="WORDS", default="", help="For a time: tomorrow, a date, date..date."
)
@click.option("--about", "title", metavar="TEXT", default="", help="What it is, if the SKU does not say.")
@click.option("--price", "ask_only", is_flag=True, help="Only ask what it would cost now; nothing is held.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the thread until it rests.")
@as_option
def book(home: Home, acting: str, peer: str, sku: str, **said: Any) -> None:
    """Book SKU of PEER's stock.

    An article, or with --for and --when a resource for a time. Units are held
    for you while the offer stands. Without --max your policy judges whatever
    price is offered. A booked time stands in your calendar.

    Exit status 3 when nothing came of it; 0 while it is still open.
    """
    Handle.parse(peer)
    if bool(said["duration"]) != bool(said["words"]):
        raise wrong("A time needs its length and when it may be.", "give both --for 2h and --when tomorrow")
    what = f"{said['quantity']} of {sku}"
    if said["ask_only"]:
        told = run(_price(home, acting, peer, sku, said))
        cost = spoken(told.price_minor, told.currency) if told.price_minor else "nothing"
        emit(
            {
                "item": sku,
                "quantity": said["quantity"],
                "available": told.available,
                "price_minor": told.price_minor,
                "currency": told.currency,
            },
            lambda page: page.line(
                f"{what} would cost {cost} now." if told.available else f"{peer} has not {what}."
            ),
        )
        return
    thread, zone = run(_book(home, acting, peer, sku, said))
    value = thread_json(thread) | {"item": sku, "quantity": said["quantity"], "time_zone": zone.key}
    emit(
        value,
        lambda page: show_deal(page, thread, zone, f"Booked at {peer}: {what}.", f"No booking of {what}."),
    )
    check_outcome(thread)


def _wish(sku: str, said: dict[str, Any], zone: ZoneInfo) -> intents_pb2.BookWish:
    wish = intents_pb2.BookWish(item=sku, title=said["title"] or sku, quantity=said["quantity"])
    if said["limit"]:
        wish.max_price_minor, wish.currency = money(said["limit"])
    if said["duration"]:
        period = parse_period(said["words"], now_ms(), zone)
        wish.duration_minutes = length(said["duration"])
        wish.windows.add(start_ms=period.start_ms, end_ms=period.end_ms)
    return wish


async def _price(
    home: Home, acting: str, peer: str, sku: str, said: dict[str, Any]
) -> sharing_pb2.QueryPeerResponse:
    async with owner_session(home, acting) as owner:
        wish = _wish(sku, said, await owner.zone())
        return await owner.sharing.QueryPeer(sharing_pb2.QueryPeerRequest(peer=peer, price=wish))


async def _book(
    home: Home, acting: str, peer: str, sku: str, said: dict[str, Any]
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        zone = await owner.zone()
        wish = _wish(sku, said, zone)
        note(f"{owner.handle} asks {peer} for {said['quantity']} of {sku}")
        propose = negotiation_pb2.Propose(book=wish)
        return await begin(owner, peer, wait=said["wait"], wish=propose), zone
