"""What answers where nobody has configured anything: the catalogue's personal agent and public page, stored
for the tenant `personal` like any other configuration, so that it can be seen, changed and restored."""

from __future__ import annotations

from typing import Final

from indai.runtime.bindings import TENANTS
from indai.runtime.conversations.doors import PERSONAL, PRIVATE_BINDING, PUBLIC_BINDING
from indai.runtime.tiers import Agent as AgentTier
from indai.runtime.tiers import Binding, Kind, Tenant, Tier, catalogue, dump, read_files
from indai.runtime.tierstore import Named, TierStore

AUTHOR: Final = "indai"
_NOTE: Final = "the program's own"


async def settle_defaults(store: TierStore) -> None:
    """Store what is missing, and what an earlier version of the program stored and nobody has changed."""
    tenant = Named(Kind.TENANT, PERSONAL, Tenant(name="Personal"))
    if not await store.newest(TENANTS, [(Kind.TENANT, PERSONAL)]):
        await store.put(TENANTS, [tenant], AUTHOR, _NOTE)
    wanted = defaults()
    known = await store.newest(PERSONAL, [(each.kind, each.slug) for each in wanted])
    stale = []
    for each in wanted:
        row = known.get((each.kind, each.slug))
        if row is None:
            stale.append(each)
        elif row.config != dump(each.tier):
            newest = await store.version(PERSONAL, each.kind, each.slug, row.version)
            if newest is not None and newest.created_by == AUTHOR:
                stale.append(each)
    if stale:
        await store.put(PERSONAL, stale, AUTHOR, _NOTE)


def defaults() -> list[Named]:
    """The two bindings with everything that they name."""
    tiers: dict[tuple[Kind, str], Tier] = {
        (kind, slug): tier for kind, slug, tier in read_files(catalogue(), "the catalogue")
    }
    wanted: dict[tuple[Kind, str], None] = {}
    for slug in (PRIVATE_BINDING, PUBLIC_BINDING):
        binding = tiers[Kind.BINDING, slug]
        assert isinstance(binding, Binding)  # noqa: S101 - the kind says so
        upper: str | None = binding.agent
        while upper:
            wanted[Kind.AGENT, upper] = None
            agent = tiers[Kind.AGENT, upper]
            assert isinstance(agent, AgentTier)  # noqa: S101 - the kind says so
            upper = agent.extends
        wanted |= {(Kind.HUMAN, binding.human): None, (Kind.TEAM, binding.team): None}
        wanted[Kind.BINDING, slug] = None
    return [Named(kind, slug, tiers[kind, slug]) for kind, slug in wanted]
