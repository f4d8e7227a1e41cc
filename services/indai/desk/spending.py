"""What the agent's models cost, against which limits, and which mandates let it pay again and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import web
from indai.desk.frame import ROLES, Frame
from indai.v1 import commerce_pb2, llm_pb2
from indai.web.visit import Visit

DAYS: Final = 30
WHOSE: Final = {
    llm_pb2.LIMIT_KEY_TENANT: "Everybody here",
    llm_pb2.LIMIT_KEY_BINDING: "Agent",
    llm_pb2.LIMIT_KEY_OWNER: "You",
}
PERIODS: Final = {
    llm_pb2.LIMIT_PERIOD_DAY: "a day",
    llm_pb2.LIMIT_PERIOD_MONTH: "a month",
    llm_pb2.LIMIT_PERIOD_CREDIT: "credit",
}
"""How long a limit counts; a credit until it is used up."""
RHYTHMS: Final = {
    commerce_pb2.MANDATE_PERIOD_DAY: "a day",
    commerce_pb2.MANDATE_PERIOD_WEEK: "a week",
    commerce_pb2.MANDATE_PERIOD_MONTH: "a month",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One day of the plot; `height` in percent of the highest."""

    day: str
    micros: int
    height: float


class Spending:
    """Pages and acts of spending."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._calls = frame, frame.calls

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/spend", ROLES, self.spend),
            site.member("/desk/spend.csv", ROLES, self.table),
            site.act("/desk/mandates/{mandate:[0-9a-f-]{36}}/revoke", ROLES, self.revoke),
        )

    async def spend(self, visit: Visit) -> web.StreamResponse:
        """The last 30 days."""
        mandates = await self._calls.commerce.ListMandates(
            commerce_pb2.ListMandatesRequest(), metadata=visit.metadata
        )
        show = await self._frame.show(visit)
        costs, limits, notices = await self._costs(visit, show.zone), [], []
        if self._calls.has_llm:
            limits = list(
                (
                    await self._calls.llm.ListSpendingLimits(
                        llm_pb2.ListSpendingLimitsRequest(), metadata=visit.metadata
                    )
                ).limits
            )
            notices = list(
                (
                    await self._calls.llm.ListNotices(
                        llm_pb2.ListNoticesRequest(page_size=20), metadata=visit.metadata
                    )
                ).notices
            )
        return await self._frame.page(
            visit,
            "spend.html",
            "/desk/spend",
            show=show,
            bars=bars(costs, self._today(show.zone)),
            totals=(sums := totals(costs)),
            currency=sums[0][1],
            calls=sum(cost.calls for cost in costs),
            failed=sum(cost.failed for cost in costs),
            limits=limits,
            notices=notices,
            mandates=mandates.mandates,
            whose=WHOSE,
            rhythms=RHYTHMS,
            periods=PERIODS,
        )

    async def table(self, visit: Visit) -> web.StreamResponse:
        """The same numbers as a file."""
        lines = ["day,binding,calls,failed,cost_micros,currency"]
        lines += [
            f"{one.day},{one.binding},{one.calls},{one.failed},{one.cost_micros},{one.currency}"
            for one in await self._costs(visit, (await self._frame.show(visit)).zone)
        ]
        return visit.file(("\n".join(lines) + "\n").encode(), "spending.csv", "text/csv")

    async def revoke(self, visit: Visit) -> web.StreamResponse:
        """End a mandate."""
        request = commerce_pb2.RevokeMandateRequest(mandate_id=visit.named("mandate"))
        await self._calls.commerce.RevokeMandate(request, metadata=visit.metadata)
        return visit.go("/desk/spend", "removed")

    async def _costs(self, visit: Visit, zone: ZoneInfo) -> list[llm_pb2.DailyCost]:
        """By days of the owner's zone."""
        if not self._calls.has_llm:
            return []
        first = (self._today(zone) - timedelta(days=DAYS - 1)).isoformat()
        request = llm_pb2.ListCostsRequest(first_day=first, page_size=500, time_zone=zone.key)
        return list((await self._calls.llm.ListCosts(request, metadata=visit.metadata)).costs)

    def _today(self, zone: ZoneInfo) -> date:
        return datetime.fromtimestamp(self._frame.site.clock() / 1000, zone).date()


def totals(costs: Sequence[llm_pb2.DailyCost]) -> list[tuple[int, str]]:
    """(millionths, currency) of each currency, the newest first: a configuration may have had another."""
    sums: defaultdict[str, int] = defaultdict(int)
    for cost in costs:
        sums[cost.currency] += cost.cost_micros
    return [(micros, currency) for currency, micros in sums.items()] or [(0, "")]


def bars(costs: Sequence[llm_pb2.DailyCost], today: date) -> list[Bar]:
    """One for each of the last 30 days, in the newest currency; the totals and the file have the others."""
    by_day: defaultdict[str, int] = defaultdict(int)
    for cost in costs:
        if cost.currency == costs[0].currency:
            by_day[cost.day] += cost.cost_micros
    highest = max(by_day.values(), default=0) or 1
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(DAYS))]
    return [Bar(day, by_day[day], round(100 * by_day[day] / highest, 1)) for day in days]
