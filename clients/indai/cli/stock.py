"""`indai stock`: what you have to give, and what of it is promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.money import money
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import length
from indai.node.kinds.money import spoken
from indai.v1 import commerce_pb2

SECTIONS = {
    "Stock": {
        "set": "indai.cli.stock:set_item",
        "list": "indai.cli.stock:list_items",
        "remove": "indai.cli.stock:remove",
    }
}


@click.command("stock", cls=Group, sections=SECTIONS)
def stock() -> None:
    """What peers can book of you: articles, and resources for a time."""


@command(
    "set",
    'indai stock set lamp-7 5 --title "Brass lamp" --price 1250',
    "indai stock set table/4 1 --price 200 --per 1h --cancel 2h --free 24h --fee 50",
)
@click.argument("sku")
@click.argument("units", type=click.IntRange(0, 1_000_000_000))
@click.option("--title", metavar="TEXT", default="", help="What it is, for people.")
@click.option("--price", metavar="AMOUNT", default="", help="Of one; none is free of charge.")
@click.option("--per", metavar="LENGTH", default="", help="A resource: the length that the price is for.")
@click.option("--cancel", metavar="LENGTH", default="", help="Cancelled alone until so long before.")
@click.option("--free", metavar="LENGTH", default="", help="Without a fee until so long before.")
@click.option("--fee", type=click.IntRange(0, 100), default=0, help="Percent of the price after that.")
@click.option("--days", type=click.IntRange(0, 365), default=0, help="An article: days until it is due.")
@as_option
def set_item(home: Home, acting: str, sku: str, units: int, **said: Any) -> None:
    """Offer UNITS of SKU from now on.

    With --per it is a resource: so many at any one time, booked in steps of
    that length. Whom it is offered to, your policy says.
    """
    price, currency = money(said["price"]) if said["price"] else (0, "")
    item = commerce_pb2.StockItem(
        item=sku,
        title=said["title"] or sku,
        units=units,
        price_minor=price,
        currency=currency,
        per_minutes=length(said["per"]) if said["per"] else 0,
        cancel_before_minutes=_before(said["cancel"]),
        free_before_minutes=_before(said["free"]),
        fee_percent=said["fee"],
        due_minutes=said["days"] * 1440,
    )
    kept = run(_set(home, acting, item))
    emit(_item_json(kept), lambda page: _show(page, [kept]))


@command("list", "indai stock list")
@as_option
def list_items(home: Home, acting: str) -> None:
    """List your stock, and what of it is promised or given."""
    found = run(_list(home, acting))
    emit({"items": [_item_json(each) for each in found]}, lambda page: _show(page, found))


@command("remove", "indai stock remove lamp-7")
@click.argument("sku")
@as_option
def remove(home: Home, acting: str, sku: str) -> None:
    """Offer SKU no more. What was promised stands."""
    run(_remove(home, acting, sku))
    emit({"removed": sku}, lambda page: page.line(f"{sku} is offered no more."))


async def _set(home: Home, acting: str, item: commerce_pb2.StockItem) -> commerce_pb2.StockItem:
    async with owner_session(home, acting) as owner:
        return (await owner.commerce.SetStockItem(commerce_pb2.SetStockItemRequest(item=item))).item


async def _list(home: Home, acting: str) -> list[commerce_pb2.StockItem]:
    async with owner_session(home, acting) as owner:
        return list((await owner.commerce.ListStockItems(commerce_pb2.ListStockItemsRequest())).items)


async def _remove(home: Home, acting: str, sku: str) -> None:
    async with owner_session(home, acting) as owner:
        await owner.commerce.RemoveStockItem(commerce_pb2.RemoveStockItemRequest(item=sku))


def _before(text: str) -> int:
    """Minutes; days too, since a table is cancelled a day ahead."""
    if text.endswith("d") and text[:-1].isdecimal():
        days = int(text[:4].rstrip("d"))
        if not 1 <= days <= 366:
            raise wrong(f"{text!r} is not a length of time.", "write it like 2h or 3d")
        return days * 1440
    return length(text) if text else 0


def _show(page: Page, items: Sequence[commerce_pb2.StockItem]) -> None:
    if not items:
        page.line("Your stock is empty.")
        page.next_step('indai stock set lamp-7 5 --title "Brass lamp" --price 1250')
        return
    rows = [
        (each.item, f"{each.units - each.held} of {each.units}", _price(each), each.title) for each in items
    ]
    page.table(("sku", "left", "price", "title"), rows)


def _price(item: commerce_pb2.StockItem) -> str:
    if not item.price_minor:
        return "free"
    per = f" per {item.per_minutes} min" if item.per_minutes else ""
    return spoken(item.price_minor, item.currency) + per


def _item_json(item: commerce_pb2.StockItem) -> dict[str, object]:
    return {field.name: getattr(item, field.name) for field in commerce_pb2.StockItem.DESCRIPTOR.fields}
