"""Composed bindings, cached in the process and dropped when any process applies a new version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import asyncpg
from indai.protocol.errors import NotFound, Reason
from indai.runtime.composed import MAX_BASES, Composed, compose, extended, version_for
from indai.runtime.tiers import Agent, Binding, Human, Kind, Team, Tenant, Tier, parse
from indai.runtime.tierstore import CHANNEL, TierStore
from indai.storage.hearing import Hearing, Listener

Found = TypeVar("Found", Binding, Human, Team, Agent)
TENANTS = "tenants"
"""Where the rows of tenants themselves lie."""
Pending = Mapping[tuple[Kind, str], Tier]
"""Tiers that are being applied and not stored yet."""


class Bindings:
    """Composes bindings. `async with` listens for changes; without it nothing is cached."""

    def __init__(self, pool: asyncpg.Pool, store: TierStore) -> None:
        self._pool, self._store = pool, store
        self._cached: dict[tuple[str, str, int | None], Composed] | None = None
        self._known: dict[tuple[str, str], Binding] = {}
        self._tenants: dict[str, Tenant | None] = {}
        self._heard = 0  # changes so far: what was read across one is not kept
        self.hearing = Hearing(pool)

    async def __aenter__(self) -> Bindings:
        await self.hearing.__aenter__()
        self._again()
        # While nothing is heard every turn reads its configuration.
        await self.hearing.add(Listener(CHANNEL, self._changed, self._deaf, self._again))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cached = None
        await self.hearing.__aexit__()

    async def at(self, routing_key: str, person: str) -> tuple[str, str, Composed] | None:
        """Tenant, binding and its parts that answer at a number or host."""
        found = await self._store.routed(routing_key)
        return (*found, await self.of(*found, person)) if found else None

    async def of(self, tenant: str, slug: str, person: str = "") -> Composed:
        """A binding's parts for a person. Raises NotFound."""
        binding = self._known.get((tenant, slug)) if self._cached is not None else None
        if binding is None:
            binding = await self._load(tenant, Kind.BINDING, slug, Binding, {})
        key = (tenant, slug, version_for(binding, person))
        if self._cached is not None and key in self._cached:
            return self._cached[key]
        heard = self._heard
        made = await self.composed(tenant, binding, {}, key[2])
        if self._cached is not None and heard == self._heard:
            self._known[tenant, slug], self._cached[key] = binding, made
        return made

    async def is_paused(self, tenant: str) -> bool:
        """Whether a tenant is paused or archived: none of its agents answers."""
        found = await self.tenant(tenant)
        return found is not None and found.status != "active"

    async def zone(self, tenant: str) -> str:
        """The time zone of a tenant's desk, by its IANA name."""
        return (await self.tenant(tenant) or Tenant(name=tenant)).time_zone

    async def answer_minutes(self, tenant: str) -> int:
        """Within which a person of the tenant ought to answer."""
        return (await self.tenant(tenant) or Tenant(name=tenant)).answer_minutes

    async def tenant(self, tenant: str) -> Tenant | None:
        """A tenant's own configuration; None when there is none."""
        heard = self._heard
        if tenant not in self._tenants:
            row = (await self._store.newest(TENANTS, [(Kind.TENANT, tenant)])).get((Kind.TENANT, tenant))
            tier = parse(Kind.TENANT, row.config, tenant) if row else None
            found = tier if isinstance(tier, Tenant) else None
            if self._cached is None or heard != self._heard:
                return found
            self._tenants[tenant] = found
        return self._tenants[tenant]

    async def composed(
        self, tenant: str, binding: Binding, pending: Pending, version: int | None = None
    ) -> Composed:
        """The parts of `binding`, with `pending` in the place of what is stored."""
        human = await self._load(tenant, Kind.HUMAN, binding.human, Human, pending)
        team = await self._load(tenant, Kind.TEAM, binding.team, Team, pending)
        agent = await self._load(tenant, Kind.AGENT, binding.agent, Agent, pending)
        if version is not None:
            agent = await self._older(tenant, binding.agent, version)
        return compose(binding, human, team, await self._whole(tenant, agent, pending))

    async def _whole(self, tenant: str, agent: Agent, pending: Pending) -> Agent:
        bases: list[Agent] = []
        upper = agent
        while upper.extends is not None and len(bases) <= MAX_BASES:
            upper = await self._load(tenant, Kind.AGENT, upper.extends, Agent, pending)
            bases.append(upper)
        return extended(agent, tuple(bases))

    async def _older(self, tenant: str, slug: str, version: int) -> Agent:
        row = await self._store.version(tenant, Kind.AGENT, slug, version)
        if row is None:
            raise _missing(Kind.AGENT, f"{slug} at version {version}", tenant)
        tier = parse(Kind.AGENT, row.config, slug)
        assert isinstance(tier, Agent)  # noqa: S101 - the kind says so
        return tier

    async def _load(self, tenant: str, kind: Kind, slug: str, model: type[Found], pending: Pending) -> Found:
        tier: Tier | None = pending.get((kind, slug))
        if tier is None:
            row = (await self._store.newest(tenant, [(kind, slug)])).get((kind, slug))
            tier = parse(kind, row.config, f"{kind.value} {slug}") if row else None
        if not isinstance(tier, model):
            raise _missing(kind, slug, tenant)
        return tier

    def _changed(self, payload: str) -> None:
        self.forget(payload.partition("/")[0])

    def forget(self, tenant: str) -> None:
        """What is kept of a tenant is old. Who has changed it says so here at once: what Postgres tells comes
        a moment after the COMMIT."""
        self._heard += 1
        self._tenants = {}
        self._known = {key: kept for key, kept in self._known.items() if key[0] != tenant}
        if self._cached is not None:
            self._cached = {key: kept for key, kept in self._cached.items() if key[0] != tenant}

    def _deaf(self) -> None:
        self._cached, self._tenants = None, {}
        self._heard += 1

    def _again(self) -> None:
        self._cached, self._known, self._tenants = {}, {}, {}
        self._heard += 1


def _missing(kind: Kind, slug: str, tenant: str) -> NotFound:
    name = "persona" if kind is Kind.HUMAN else kind.value
    return NotFound(
        Reason.NOT_FOUND, f"{tenant} has no {name} {slug}.", hint=f"see what there is: indai {name} list"
    )
