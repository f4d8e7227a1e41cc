"""`indai mandate`: standing permissions to pay somebody without being asked each time."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from zoneinfo import ZoneInfo

import click
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.money import money
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, owner_session
from indai.cli.words import iso, milliseconds, moment, stamp
from indai.node.kinds.money import spoken
from indai.protocol.handles import Handle
from indai.v1 import commerce_pb2

DAY_MS = 86_400_000
PERIODS = {
    "day": commerce_pb2.MANDATE_PERIOD_DAY,
    "week": commerce_pb2.MANDATE_PERIOD_WEEK,
    "month": commerce_pb2.MANDATE_PERIOD_MONTH,
}
SECTIONS = {
    "Mandates": {
        "add": "indai.cli.mandate:add",
        "list": "indai.cli.mandate:list_mandates",
        "revoke": "indai.cli.mandate:revoke",
    }
}


@click.command("mandate", cls=Group, sections=SECTIONS)
def mandate() -> None:
    """Standing permissions to pay somebody."""


@command("add", "indai mandate add ind.ai/milk 1500 --every month --days 365")
@click.argument("payee")
@click.argument("amount")
@click.option(
    "--every", type=click.Choice(list(PERIODS)), default="month", show_default=True, help="Its period."
)
@click.option(
    "--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="Days until it ends."
)
@as_option
def add(home: Home, acting: str, payee: str, amount: str, every: str, days: int) -> None:
    """Permit to pay PAYEE up to AMOUNT in each period.

    It is your yes where your policy would ask; it permits nothing that your
    policy refuses.
    """
    Handle.parse(payee)
    minor, currency = money(amount)
    wanted = commerce_pb2.Mandate(
        payee=payee,
        max_amount_minor=minor,
        currency=currency,
        period=PERIODS[every],
        expire_time=stamp(now_ms() + days * DAY_MS),
    )
    made, zone = run(_add(home, acting, wanted))
    emit(_json(made), lambda page: _show(page, [made], zone))


@command("list", "indai mandate list")
@as_option
def list_mandates(home: Home, acting: str) -> None:
    """List your mandates, and what of each is used in its period."""
    found, zone = run(_list(home, acting))
    emit({"mandates": [_json(each) for each in found]}, lambda page: _show(page, found, zone))


@command("revoke", "indai mandate revoke 0193f2ab")
@click.argument("mandate_id", metavar="ID")
@as_option
def revoke(home: Home, acting: str, mandate_id: str) -> None:
    """End a mandate. What was signed under it stands."""
    ended, zone = run(_revoke(home, acting, mandate_id))
    emit(_json(ended), lambda page: _show(page, [ended], zone))


async def _add(
    home: Home, acting: str, wanted: commerce_pb2.Mandate
) -> tuple[commerce_pb2.Mandate, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = commerce_pb2.AddMandateRequest(request_id=str(uuid.uuid4()), mandate=wanted)
        return (await owner.commerce.AddMandate(request)).mandate, await owner.zone()


async def _list(home: Home, acting: str) -> tuple[list[commerce_pb2.Mandate], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.commerce.ListMandates(commerce_pb2.ListMandatesRequest())
        return list(answer.mandates), await owner.zone()


async def _revoke(home: Home, acting: str, mandate_id: str) -> tuple[commerce_pb2.Mandate, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = commerce_pb2.RevokeMandateRequest(mandate_id=mandate_id)
        return (await owner.commerce.RevokeMandate(request)).mandate, await owner.zone()


def _show(page: Page, found: Sequence[commerce_pb2.Mandate], zone: ZoneInfo) -> None:
    if not found:
        page.line("There are no mandates.")
        page.next_step("indai mandate add ind.ai/milk 1500 --every month")
        return
    rows = [
        (
            each.mandate_id[:8],
            each.payee,
            f"{spoken(each.max_amount_minor, each.currency)} a {_period(each)}",
            spoken(each.used_minor, each.currency),
            "revoked" if each.HasField("revoke_time") else moment(milliseconds(each.expire_time), zone),
        )
        for each in found
    ]
    page.table(("id", "payee", "up to", "used", "until"), rows)


def _period(each: commerce_pb2.Mandate) -> str:
    return next(words for words, number in PERIODS.items() if number == each.period)


def _json(each: commerce_pb2.Mandate) -> dict[str, object]:
    return {
        "mandate_id": each.mandate_id,
        "payee": each.payee,
        "max_amount_minor": each.max_amount_minor,
        "currency": each.currency,
        "period": _period(each).upper(),
        "expire_time": iso(milliseconds(each.expire_time)),
        "revoke_time": iso(milliseconds(each.revoke_time)),
        "used_minor": each.used_minor,
    }
