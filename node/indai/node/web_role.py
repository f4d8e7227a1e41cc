"""The pages of the edge role: the site, signing in, and the desks, put together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg
from aiohttp import web
from indai.client.addresses import parse_address
from indai.desk.auditor import Auditor
from indai.desk.calls import Calls
from indai.desk.logs import Log, PublicLogs
from indai.desk.owner import OwnerDesk
from indai.desk.people_in import PeopleIn
from indai.desk.tenant import TenantDesk
from indai.node.code_delivery import CodeDelivery
from indai.node.inprocess import local_channel
from indai.node.keystore import KeyStore
from indai.node.secrets import Secrets
from indai.node.service import Service, method_handlers
from indai.page.front import Front
from indai.page.room import Room
from indai.page.tickets import FORMS
from indai.runtime.conversations.outbound import Outbound
from indai.v1 import llm_pb2, memory_pb2
from indai.web.accounts import Accounts
from indai.web.audit import AuditLog
from indai.web.live import Live
from indai.web.oidc import Issuer, Oidc, read_issuer
from indai.web.passkeys import Passkeys
from indai.web.sessions import Sessions
from indai.web.sign_in import Deliver, SignIn
from indai.web.site import Place, Site

OIDC_FILE = "oidc.yaml"
OIDC_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class WebPlan:
    """What the pages are built from. `services`: those of the owner's port, which decide who may do what;
    `here`: handles that live on this node; `front`: what strangers meet."""

    pool: asyncpg.Pool
    keystore: KeyStore
    data: Path
    clock: Callable[[], int]
    place: Callable[[], Place]
    services: Sequence[Service]
    outbound: Outbound
    here: Callable[[], Iterable[str]]
    front: Front
    logs: Sequence[Log] = ()


@dataclass(frozen=True, slots=True)
class WebRole:
    """The pages: the site, for those who add to it, and all routes."""

    site: Site
    routes: tuple[web.RouteDef, ...]


@contextlib.asynccontextmanager
async def web_role(plan: WebPlan) -> AsyncIterator[WebRole]:
    """Put the pages together."""
    served, secret = method_handlers(plan.services), plan.keystore.derive(FORMS)
    calls = Calls.over(
        local_channel(plan.services),
        memory=memory_pb2.DESCRIPTOR.services_by_name["MemoryService"].full_name in served,
        llm=llm_pb2.DESCRIPTOR.services_by_name["LlmService"].full_name in served,
    )
    site = Site(
        Sessions(plan.pool, plan.clock),
        AuditLog(plan.pool, plan.clock),
        secret,
        plan.clock,
        plan.place,
        {"desk": "indai.desk", "page": "indai.page"},
    )
    accounts = Accounts(plan.pool, plan.clock)
    passkeys = Passkeys(plan.pool, accounts, secret, plan.clock)
    issuer = _issuer(plan)
    sign_in = SignIn(site, passkeys, accounts, _deliver(plan), oidc=issuer is not None)
    live = Live(site)
    desks = (
        OwnerDesk(site, calls, live, passkeys, accounts),
        TenantDesk(site, calls, live),
        PeopleIn(site, calls, passkeys),
    )
    routes = [
        site.static(),
        *sign_in.routes(),
        *Auditor(site).routes(),
        *PublicLogs(site, plan.logs).routes(),
    ]
    routes += [route for desk in desks for route in desk.routes()]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=OIDC_TIMEOUT_S)) as http:
        if issuer is not None:
            routes += Oidc(site, sign_in, accounts, issuer, secret, http).routes()
        # The public pages take every name that is left.
        routes += Room(site, plan.front, accounts).routes()
        yield WebRole(site, tuple(routes))


def _issuer(plan: WebPlan) -> Issuer | None:
    """The organisation's sign-in, where it is set up."""
    file = plan.data / OIDC_FILE
    if not file.exists():
        return None
    return read_issuer(file.read_text("utf-8"), Secrets(plan.data, plan.keystore, os.environ).get)


def _deliver(plan: WebPlan) -> Deliver:
    delivery = CodeDelivery(plan.pool, plan.outbound)

    async def deliver(handle: str, make: Callable[[], Awaitable[str]]) -> None:
        if handle in tuple(plan.here()) and await delivery.reaches(handle):
            await delivery.deliver(handle, await make(), plan.clock())

    return deliver


def place_at(public_url: str, address: str, *, tls: bool) -> Place:
    """Where the pages are: as the operator says, or where the port listens. On loopback it is called
    `localhost`, since a passkey belongs to a name and never to a number."""
    at = parse_address(address)
    if public_url:
        return Place(public_url, public_url.startswith("https://") or at.is_loopback)
    host = "localhost" if at.is_loopback else at.host
    return Place(f"{'https' if tls else 'http'}://{host}:{at.port}", tls or at.is_loopback)
