"""`indai llm cost`, `limit`, `limits`: what language models cost, and how much they may."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import click
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option, data_option
from indai.cli.llm import llm_session
from indai.cli.llm_words import money, usage_json
from indai.cli.output import Page, emit
from indai.v1 import llm_pb2 as pb

PERIODS = {
    "day": pb.LIMIT_PERIOD_DAY,
    "month": pb.LIMIT_PERIOD_MONTH,
    "credit": pb.LIMIT_PERIOD_CREDIT,
}
KEYS = {pb.LIMIT_KEY_TENANT: "tenant", pb.LIMIT_KEY_BINDING: "binding", pb.LIMIT_KEY_OWNER: "owner"}
_PERIOD_NAMES = {number: name for name, number in PERIODS.items()}
_MILLION = 1_000_000
_PERSONAL = "personal"


@command("cost", "indai llm cost", "indai llm cost --tenant acme --since 2026-11-01")
@click.option("--tenant", default="", metavar="SLUG", help="As the operator: all of a tenant.")
@click.option("--binding", default="", metavar="SLUG", help="Only one binding.")
@click.option("--since", default="", metavar="DAY", help="Like 2026-11-01; default: 30 days ago.")
@as_option
def cost(home: Home, acting: str, tenant: str, binding: str, since: str) -> None:
    """Sum up calls and cost by binding and day."""
    found = run(_cost(home, acting, tenant, binding, since))
    value = [
        {
            "tenant": each.tenant,
            "binding": each.binding,
            "day": each.day,
            "calls": each.calls,
            "failed": each.failed,
            "usage": usage_json(each.usage),
            "cost_micros": each.cost_micros,
            "currency": each.currency,
        }
        for each in found
    ]
    emit({"costs": value}, lambda page: _show_cost(page, found))


async def _cost(home: Home, acting: str, tenant: str, binding: str, since: str) -> list[pb.DailyCost]:
    scope = pb.LlmScope(tenant=tenant, binding=binding)
    request = pb.ListCostsRequest(scope=scope, first_day=since, page_size=500)
    found: list[pb.DailyCost] = []
    async with llm_session(home, acting, operator=bool(tenant)) as stub:
        while True:
            answer = await stub.ListCosts(request)
            found += answer.costs
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token


def _show_cost(page: Page, found: list[pb.DailyCost]) -> None:
    if not found:
        page.line("No model was called in that time.")
        return
    rows = [
        (
            each.day,
            each.binding or "-",
            str(each.calls),
            str(each.failed),
            str(each.usage.input_tokens),
            str(each.usage.output_tokens),
            money(each.cost_micros, each.currency),
        )
        for each in found
    ]
    page.table(("day", "binding", "calls", "failed", "in", "out", "cost"), rows)
    total = sum(each.cost_micros for each in found)
    page.line(f"In all: {money(total, found[0].currency)}.", "bold")


@command(
    "limit",
    "indai llm limit 5.00 --owner ind.ai/alice --per day",
    "indai llm limit 2000 --tenant acme --binding desk --per month",
    "indai llm limit none --owner ind.ai/alice --per day",
)
@click.argument("amount")
@click.option("--per", type=click.Choice(tuple(PERIODS)), default="month", show_default=True)
@click.option("--tenant", default=_PERSONAL, metavar="SLUG", show_default=True)
@click.option("--binding", default="", metavar="SLUG", help="Limit one binding.")
@click.option("--owner", default="", metavar="HANDLE", help="Limit one owner.")
@data_option
def limit(home: Home, amount: str, per: str, tenant: str, binding: str, owner: str) -> None:
    """Limit what a tenant, a binding or an owner may spend to AMOUNT.

    In the configured currency; `none` removes the limit. A call must fit into
    all limits that concern it. `credit` counts until it is used up. Acts as the
    operator.
    """
    if binding and owner:
        raise wrong("A limit is for a binding or for an owner.", "give --binding or --owner")
    key = pb.LIMIT_KEY_BINDING if binding else pb.LIMIT_KEY_OWNER if owner else pb.LIMIT_KEY_TENANT
    wanted = pb.SpendingLimit(
        tenant=tenant,
        key=key,
        subject=binding or owner,
        period=PERIODS[per],
        limit_micros=_micros(amount),
    )
    run(_set(home, wanted))
    words = "removed" if wanted.limit_micros < 0 else "set"
    emit(
        {"limit": _json(wanted), "set": words == "set"},
        lambda page: page.line(f"The limit is {words}.", "green"),
    )


async def _set(home: Home, wanted: pb.SpendingLimit) -> None:
    async with llm_session(home, "", operator=True) as stub:
        await stub.SetSpendingLimit(pb.SetSpendingLimitRequest(limit=wanted))


@command("limits", "indai llm limits", "indai llm limits --tenant acme")
@click.option("--tenant", default="", metavar="SLUG", help="As the operator: all of a tenant.")
@as_option
def limits(home: Home, acting: str, tenant: str) -> None:
    """List limits, with what is spent and held."""
    found, currency = run(_limits(home, acting, tenant))

    def show(page: Page) -> None:
        if not found:
            page.line("There is no limit.")
            return
        rows = [
            (
                f"{KEYS[each.key]} {each.subject}".strip(),
                _PERIOD_NAMES[each.period],
                money(each.limit_micros, currency),
                money(each.spent_micros, currency) if each.spent_micros else "-",
                money(each.reserved_micros, currency) if each.reserved_micros else "-",
            )
            for each in found
        ]
        page.table(("limit on", "per", "limit", "spent", "held"), rows)

    emit({"limits": [_json(each) for each in found], "currency": currency}, show)


async def _limits(home: Home, acting: str, tenant: str) -> tuple[list[pb.SpendingLimit], str]:
    request = pb.ListSpendingLimitsRequest(scope=pb.LlmScope(tenant=tenant))
    async with llm_session(home, acting, operator=bool(tenant)) as stub:
        currency = (await stub.ListModels(pb.ListModelsRequest())).currency
        return list((await stub.ListSpendingLimits(request)).limits), currency


def _micros(amount: str) -> int:
    if amount == "none":
        return -1
    try:
        micros = Decimal(amount) * _MILLION
        if micros != micros.to_integral_value() or not 0 <= micros < 2**62:
            raise ValueError(amount)
    except (InvalidOperation, ValueError):
        raise wrong(f"{amount!r} is no amount.", "write it like 5.00, or none to remove the limit") from None
    return int(micros)


def _json(limit: pb.SpendingLimit) -> dict[str, Any]:
    return {
        "tenant": limit.tenant,
        "key": KEYS[limit.key],
        "subject": limit.subject,
        "period": _PERIOD_NAMES[limit.period],
        "limit_micros": limit.limit_micros,
        "spent_micros": limit.spent_micros,
        "reserved_micros": limit.reserved_micros,
    }
