"""An organisation in numbers: volume, moods, costs, times, prompts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import web
from indai.desk.plots import Bar, amount, share, stacked
from indai.desk.show import Show
from indai.desk.tenant_frame import COUNTERS, HOME, ROLES, TENANT, TenantFrame
from indai.v1 import desk_pb2
from indai.v1 import tenant_pb2 as pb
from indai.web.accounts import EVERYWHERE
from indai.web.visit import Visit

DAYS: Final = 14
MICROS: Final = 1_000_000
ORDER: Final = ("human", "team", "agent", "history")
ACTS: Final = 100
WIDE: Final = 4
"""Regions beside each other, on a phone too."""
GROUPS: Final = (
    ("topics", "Topics"),
    ("regions", "Regions"),
    ("languages", "Languages"),
    ("channels", "Channels"),
    ("bindings", "Agents"),
    ("moods", "Moods"),
    ("endings", "How turns ended"),
)


class TenantNumbers:
    """Pages of numbers."""

    def __init__(self, frame: TenantFrame) -> None:
        self._frame, self._desk = frame, frame.calls.tenant

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, room, base = self._frame.site, self._frame.room, f"/tenant/{TENANT}"
        return (
            site.member(HOME, ROLES, self.home),
            site.member(base, ROLES, room(self.overview)),
            site.member(f"{base}/costs", COUNTERS, room(self.costs)),
            site.member(f"{base}/log", COUNTERS, room(self.log)),
        )

    async def home(self, visit: Visit) -> web.StreamResponse:
        """One's own tenant, or a choice for who works for the whole node."""
        scope = visit.signed_in.scope
        if scope != EVERYWHERE:
            return visit.go(f"{HOME}/{scope}")
        found = await self._desk.ListDeskTenants(pb.ListDeskTenantsRequest(), metadata=visit.metadata)
        return visit.page("desk/tenants.html", tenants=found.tenants)

    async def overview(self, visit: Visit) -> web.StreamResponse:
        """What is now, and what was in the last two weeks."""
        figures = await self._figures(visit)
        counts = {one.name: one.count for one in figures.days}
        turns = visit.words("Turns")
        bars = [
            Bar(_day(visit, day), {turns: counts.get(day, 0)})
            for day in self._days(ZoneInfo(figures.time_zone))
        ]
        return await self._frame.page(
            visit,
            "tenant_overview.html",
            "",
            figures=figures,
            turns=sum(counts.values()),
            plot=stacked(bars, [turns], visit.words("Messages by day")),
            groups=[(title, name, _ranked(getattr(figures, name))) for name, title in GROUPS],
            grid=_grid(figures.places),
            days=DAYS,
        )

    async def costs(self, visit: Visit) -> web.StreamResponse:
        """By binding and day, with the tier stack, the sizes of prompts and the times of stages."""
        found, times = await self._usage(visit), await self._times(visit)
        days, bindings = self._days(ZoneInfo(found.time_zone)), sorted({one.binding for one in found.usage})
        tiers = _tiers(found.usage)
        tokens = _by_day(found.usage, lambda one: dict(one.tokens_by_tier))
        totals: Counter[str] = Counter()
        for one in found.usage:
            totals[one.currency] += one.cost_micros
        currency = found.usage[0].currency if found.usage else ""
        # What was paid in another currency before is in the totals and the file, not in one bar with this.
        money = _by_day(
            found.usage,
            lambda one: {one.binding or "-": one.cost_micros / MICROS if one.currency == currency else 0},
        )
        return await self._frame.page(
            visit,
            "tenant_costs.html",
            "/costs",
            totals=[(micros, name) for name, micros in totals.items()] or [(0, "")],
            calls=sum(one.calls for one in found.usage),
            failed=sum(one.failed for one in found.usage),
            costs=stacked(
                [Bar(_day(visit, day), money[day]) for day in days],
                [name or "-" for name in bindings],
                visit.words("Cost by day"),
                currency,
            ),
            bindings=[name or "-" for name in bindings] if len(bindings) > 1 else [],
            tokens=stacked(
                [Bar(_day(visit, day), tokens[day]) for day in days],
                tiers,
                visit.words("Tokens of prompts by tier"),
            ),
            tiers=[tier.lower() for tier in tiers],
            sizes=[(one, share(one.p95_tokens, one.max_tokens, one.ceiling_tokens)) for one in found.sizes],
            stages=[
                (one, share(one.p95_ms, max((each.p95_ms for each in times.stages), default=0)))
                for one in times.stages
            ],
            amount=amount,
            days=DAYS,
        )

    async def log(self, visit: Visit) -> web.StreamResponse:
        """What people did here."""
        request = desk_pb2.ListActsRequest(
            scope=self._frame.tenant(visit),
            page_size=ACTS,
            page_token=visit.request.query.get("page", ""),
        )
        found = await self._frame.calls.desk.ListActs(request, metadata=visit.metadata)
        return await self._frame.page(
            visit, "tenant_log.html", "/log", acts=found.acts, more=found.next_page_token
        )

    async def _figures(self, visit: Visit) -> pb.GetTenantFiguresResponse:
        request = pb.GetTenantFiguresRequest(tenant=self._frame.tenant(visit), days=DAYS)
        return await self._desk.GetTenantFigures(request, metadata=visit.metadata)

    async def _usage(self, visit: Visit) -> pb.ListTenantUsageResponse:
        request = pb.ListTenantUsageRequest(tenant=self._frame.tenant(visit), days=DAYS)
        return await self._desk.ListTenantUsage(request, metadata=visit.metadata)

    async def _times(self, visit: Visit) -> pb.GetStageTimesResponse:
        request = pb.GetStageTimesRequest(tenant=self._frame.tenant(visit), days=DAYS)
        return await self._desk.GetStageTimes(request, metadata=visit.metadata)

    def _days(self, zone: tzinfo) -> list[str]:
        today: date = datetime.fromtimestamp(self._frame.site.clock() / 1000, zone).date()
        return [(today - timedelta(days=back)).isoformat() for back in reversed(range(DAYS))]


def _day(visit: Visit, day: str) -> str:
    """A day, `2026-11-22`, in the visitor's words."""
    return Show(visit.words, ZoneInfo("UTC"), 0).day(datetime.fromisoformat(day))


def _ranked(shares: Iterable[pb.Share]) -> list[tuple[pb.Share, object]]:
    found = list(shares)[:8]
    most = max((one.count for one in found), default=0)
    return [(one, share(one.count, most)) for one in found]


def _grid(places: Iterable[pb.TopicInRegion]) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """The regions with the most turns, and for each of the topics with the most its turns in them."""
    regions: Counter[str] = Counter()
    topics: Counter[str] = Counter()
    counts: dict[tuple[str, str], int] = {}
    for one in places:
        regions[one.region] += one.count
        topics[one.topic] += one.count
        counts[one.topic, one.region] = one.count
    shown = [name for name, _ in regions.most_common(WIDE)]
    return shown, [
        (topic, [counts.get((topic, region), 0) for region in shown]) for topic, _ in topics.most_common(8)
    ]


def _tiers(usage: Iterable[pb.TenantUsage]) -> list[str]:
    """Names of tiers, in the order in which they stand in a prompt."""
    names = {tier for one in usage for tier in one.tokens_by_tier}
    order = {name: at for at, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (order.get(name.lower(), len(order)), name))


def _by_day(
    usage: Iterable[pb.TenantUsage], parts: Callable[[pb.TenantUsage], Mapping[str, float]]
) -> defaultdict[str, dict[str, float]]:
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for one in usage:
        for name, value in parts(one).items():
            found[one.day][name] = found[one.day].get(name, 0.0) + value
    return found
