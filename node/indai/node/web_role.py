"""The pages of the edge role: the site, signing in, and the desks, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asyncpg
from aiohttp import web
from indai.client.addresses import parse_address
from indai.desk.auditor import Auditor, Log
from indai.desk.calls import Calls
from indai.desk.owner import OwnerDesk
from indai.node.inprocess import local_channel
from indai.node.service import Service, method_handlers
from indai.v1 import llm_pb2, memory_pb2
from indai.web.accounts import Accounts
from indai.web.audit import AuditLog
from indai.web.live import Live
from indai.web.passkeys import Passkeys
from indai.web.sessions import Sessions
from indai.web.sign_in import SignIn
from indai.web.site import Place, Site

FORMS = "desk-forms"
"""Whose forms are whose: the name under which the node key gives the secret for that."""


@dataclass(frozen=True, slots=True)
class WebPlan:
    """What the pages are built from. `services`: those of the owner's port, which decide who may do what."""

    pool: asyncpg.Pool
    secret: bytes
    clock: Callable[[], int]
    place: Callable[[], Place]
    services: Sequence[Service]
    logs: Sequence[Log] = ()


@dataclass(frozen=True, slots=True)
class WebRole:
    """The pages: the site, for those who add to it, and all routes."""

    site: Site
    routes: tuple[web.RouteDef, ...]


def web_role(plan: WebPlan) -> WebRole:
    """Put the pages together."""
    served = method_handlers(plan.services)
    calls = Calls.over(
        local_channel(plan.services),
        memory=memory_pb2.DESCRIPTOR.services_by_name["MemoryService"].full_name in served,
        llm=llm_pb2.DESCRIPTOR.services_by_name["LlmService"].full_name in served,
    )
    site = Site(
        Sessions(plan.pool, plan.clock),
        AuditLog(plan.pool, plan.clock),
        plan.secret,
        plan.clock,
        plan.place,
        {"desk": "indai.desk"},
    )
    accounts = Accounts(plan.pool, plan.clock)
    passkeys = Passkeys(plan.pool, accounts, plan.secret, plan.clock)
    desk = OwnerDesk(site, calls, Live(site), passkeys)
    auditor = Auditor(site, plan.logs)
    rooms = (*SignIn(site, passkeys).routes(), *auditor.routes(), *desk.routes())
    return WebRole(site, (site.static(), *rooms))


def place_at(public_url: str, address: str, *, tls: bool) -> Place:
    """Where the pages are: as the operator says, or where the port listens. On loopback it is called
    `localhost`, since a passkey belongs to a name and never to a number."""
    at = parse_address(address)
    if public_url:
        return Place(public_url, public_url.startswith("https://") or at.is_loopback)
    host = "localhost" if at.is_loopback else at.host
    return Place(f"{'https' if tls else 'http'}://{host}:{at.port}", tls or at.is_loopback)
