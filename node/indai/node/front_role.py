"""What owners and strangers meet in front of a node, started in order: A2A, voices, messengers, the desks of
organisations, the pages. Without a node there is A2A's conformance agent alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import asyncpg
from aiohttp import web
from indai.a2a.cards import Places
from indai.client.addresses import parse_address
from indai.desk.logs import Log
from indai.node.channels_role import ChannelsPlan, channels_role
from indai.node.clock import DatabaseClock
from indai.node.edge_role import EdgePlan, EdgeRole, check_loopback, edge_role
from indai.node.keystore import KeyStore
from indai.node.node_role import NodeRole
from indai.node.secrets import Secrets
from indai.node.service import Service
from indai.node.settings import Settings
from indai.node.tenant_role import tenant_services
from indai.node.voice_role import VoicePlan, voice_role
from indai.node.web_role import WebPlan, web_role
from indai.web.sessions import Session
from indai.web.site import Place, Site


@dataclass(frozen=True, slots=True)
class FrontPlan:
    """What the front is built from. `places` and `place` are asked when something is served: ports are known
    by then. `logs` are those that the auditor's page reads."""

    settings: Settings
    pool: asyncpg.Pool
    keystore: KeyStore
    places: Callable[[], Places]
    place: Callable[[], Place]
    logs: Sequence[Log]
    node: NodeRole | None


@dataclass(frozen=True, slots=True)
class FrontRole:
    """A running front: what it adds to the HTTP port, what A2A's gRPC port serves, and all that the owner's
    port does."""

    routes: tuple[web.RouteDef, ...]
    a2a: tuple[Service, ...]
    owner: tuple[Service, ...]


@contextlib.asynccontextmanager
async def front_role(plan: FrontPlan) -> AsyncIterator[FrontRole]:
    """Start it; stop it at the end of the block."""
    settings = plan.settings
    if settings.conformance:
        check_loopback(settings.bind("http"), settings.bind("a2a"))
    clock = await DatabaseClock.start(plan.pool)
    async with contextlib.AsyncExitStack() as stack:
        edge = await stack.enter_async_context(
            edge_role(
                EdgePlan(
                    plan.pool,
                    plan.keystore,
                    plan.places,
                    clock,
                    plan.node.desk if plan.node else None,
                    settings.conformance,
                    parse_address(settings.bind("http")).is_loopback,
                )
            )
        )
        if plan.node is None:
            yield FrontRole(edge.routes, edge.services, ())
        else:
            yield await _before(plan, plan.node, edge, clock, stack)


async def _before(
    plan: FrontPlan,
    node: NodeRole,
    edge: EdgeRole,
    clock: Callable[[], int],
    stack: contextlib.AsyncExitStack,
) -> FrontRole:
    """Before a node: all else. The pages come last, since they take every address that is left."""
    settings, pool, keystore, data = plan.settings, plan.pool, plan.keystore, plan.settings.data
    secrets, talks = Secrets(data, keystore, os.environ), node.conversations
    site: Site | None = None

    async def whose(request: web.Request) -> Session | None:
        return await site.whose(request) if site is not None else None

    def visitor(request: web.Request) -> str:
        return site.visitor(request) if site is not None else ""

    def url() -> str:
        return plan.place().url

    speech = VoicePlan(talks.stub, secrets, keystore, data, url, whose, visitor)
    voice = await stack.enter_async_context(voice_role(speech))
    messengers = ChannelsPlan(
        pool,
        talks.stub,
        secrets,
        keystore,
        clock,
        data,
        settings.node_handle.partition("/")[0],
        url,
        node.operators,
        voice.transcribe,
    )
    channels = await stack.enter_async_context(channels_role(messengers))
    desks = await stack.enter_async_context(tenant_services(node.tenants, channels.service))
    served = (*node.owner_services, *edge.owner_services, channels.service, *desks)
    web_plan = WebPlan(
        pool,
        keystore,
        data,
        clock,
        plan.place,
        served,
        talks.outbound,
        node.desk.handles,
        node.front,
        plan.logs,
    )
    pages = await stack.enter_async_context(web_role(web_plan))
    site = pages.site
    return FrontRole((*edge.routes, *channels.routes, *pages.routes, *voice.routes), edge.services, served)
