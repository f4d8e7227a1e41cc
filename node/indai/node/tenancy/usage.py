"""What a tenant's models cost, and how large the parts of its prompts get, against what its agents allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from indai.node.tenancy.access import Post
from indai.node.tenancy.figures import USUAL_DAYS, checked_days
from indai.protocol.errors import IndaiError
from indai.runtime.bindings import Bindings
from indai.v1 import llm_pb2
from indai.v1 import tenant_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub

PAGE: Final = 500
MAX_ROWS: Final = 2_000


class Usage:
    """See the module. Without the gateway's role there is nothing to tell."""

    def __init__(self, llm: LlmServiceAsyncStub | None, bindings: Bindings, clock: Callable[[], int]) -> None:
        self._llm, self._bindings, self._clock = llm, bindings, clock

    async def of(self, post: Post, days: int) -> pb.ListTenantUsageResponse:
        """The gateway's sums by days of the tenant's zone, put side by side."""
        back = checked_days(days, USUAL_DAYS)
        zone = await self._bindings.zone(post.tenant)
        if self._llm is None:
            return pb.ListTenantUsageResponse(time_zone=zone)
        return await self._sums(self._llm, post, back, zone)

    async def count(self, tenant: str) -> None:
        """Count ahead what a page would count."""
        if self._llm is not None:
            scope, zone = llm_pb2.LlmScope(tenant=tenant), await self._bindings.zone(tenant)
            await self._llm.ListCosts(llm_pb2.ListCostsRequest(scope=scope, time_zone=zone, page_size=1))

    async def _sums(
        self, llm: LlmServiceAsyncStub, post: Post, back: int, zone: str
    ) -> pb.ListTenantUsageResponse:
        today = datetime.fromtimestamp(self._clock() / 1000, ZoneInfo(zone)).date()
        first = (today - timedelta(days=back - 1)).isoformat()
        scope = llm_pb2.LlmScope(tenant=post.tenant)
        costs: list[llm_pb2.DailyCost] = []
        token = ""
        while len(costs) < MAX_ROWS:
            page = await llm.ListCosts(
                llm_pb2.ListCostsRequest(
                    scope=scope, first_day=first, page_size=PAGE, page_token=token, time_zone=zone
                )
            )
            costs += page.costs
            token = page.next_page_token
            if not token:
                break
        tiers = await llm.ListTierTokens(
            llm_pb2.ListTierTokensRequest(scope=scope, first_day=first, time_zone=zone)
        )
        by_day: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for one in tiers.tokens:
            by_day[one.day, one.binding][one.tier] = one.tokens
        ceilings = await self._ceilings(post.tenant, {one.binding for one in tiers.sizes if one.binding})
        return pb.ListTenantUsageResponse(
            time_zone=zone,
            usage=[_usage(cost, by_day[cost.day, cost.binding]) for cost in costs[:MAX_ROWS]],
            sizes=[
                pb.TierSize(
                    binding=one.binding,
                    tier=one.tier,
                    calls=one.calls,
                    p95_tokens=one.p95_tokens,
                    max_tokens=one.max_tokens,
                    ceiling_tokens=ceilings.get((one.binding, one.tier.upper()), 0),
                )
                for one in tiers.sizes
            ],
        )

    async def _ceilings(self, tenant: str, bindings: set[str]) -> dict[tuple[str, str], int]:
        """What the agents' budgets allow. A binding that is gone by now, or broken, has none."""
        found: dict[tuple[str, str], int] = {}
        for binding in sorted(bindings):
            try:
                budgets = (await self._bindings.of(tenant, binding)).agent.budgets
            except IndaiError:
                continue
            found |= {
                (binding, "HUMAN"): budgets.human,
                (binding, "TEAM"): budgets.team,
                # The row counts what the agent's tier adds, static or not, as one.
                (binding, "AGENT"): budgets.agent + budgets.dynamic + budgets.envelope,
                (binding, "HISTORY"): budgets.dynamic,
            }
        return found


def _usage(cost: llm_pb2.DailyCost, tiers: dict[str, int]) -> pb.TenantUsage:
    return pb.TenantUsage(
        day=cost.day,
        binding=cost.binding,
        calls=cost.calls,
        failed=cost.failed,
        input_tokens=cost.usage.input_tokens,
        cache_hit_tokens=cost.usage.cache_hit_tokens,
        output_tokens=cost.usage.output_tokens,
        cost_micros=cost.cost_micros,
        currency=cost.currency,
        tokens_by_tier=tiers,
    )
