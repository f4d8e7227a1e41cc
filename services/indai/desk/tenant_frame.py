"""What all pages of an organisation's desk have: which tenant, its places, times, who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from aiohttp import web
from indai.desk.calls import Calls
from indai.desk.names import Names
from indai.desk.show import Show
from indai.protocol.errors import NotFound, Reason
from indai.v1 import tenant_pb2 as pb
from indai.web.accounts import EVERYWHERE
from indai.web.catalog import words_in
from indai.web.site import Site
from indai.web.visit import Handler, Visit

HOME: Final = "/tenant"
ROLES: Final = ("admin", "staff", "operator", "auditor")
WORKERS: Final = ("admin", "staff", "operator")
RUNNERS: Final = ("admin", "operator")
COUNTERS: Final = ("admin", "operator", "auditor")
PLACES: Final = (
    ("", "Overview", ROLES),
    ("/talks", "Conversations", ROLES),
    ("/board", "Requests", ROLES),
    ("/guardrails", "Guardrails", ROLES),
    ("/costs", "Costs and times", COUNTERS),
    ("/work", "Jobs and channels", COUNTERS),
    ("/log", "Audit log", COUNTERS),
)
_KNOWN: Final = "tenant"
UTC: Final = ZoneInfo("UTC")
LET_IN: Final = "/desk/let-in"
TENANT: Final = "{tenant:[a-z0-9][a-z0-9-]{0,62}}"


@dataclass(frozen=True, slots=True)
class TenantFrame:
    """Makes the pages. The rights that it shows are a courtesy: the service decides."""

    site: Site
    calls: Calls

    def tenant(self, visit: Visit) -> str:
        """The one in the address; raises NotFound where the visitor is somebody of another's."""
        tenant, scope = visit.named("tenant"), visit.signed_in.scope
        if scope not in (EVERYWHERE, tenant):
            raise NotFound(Reason.NOT_FOUND, "There is no such page.", hint="open your own desk")
        return tenant

    def at(self, visit: Visit, place: str = "") -> str:
        """The address of a place of the same tenant."""
        return f"{HOME}/{self.tenant(visit)}{place}"

    async def page(self, visit: Visit, template: str, place: str, **values: Any) -> web.Response:
        """A page; `place` is the one of PLACES that it belongs to."""
        role, known = visit.signed_in.role, await self._known(visit, self.tenant(visit))
        return visit.page(
            f"desk/{template}",
            tenant=known.tenant,
            organisation=known.name,
            zone=known.time_zone,
            base=self.at(visit),
            places=[(path, name) for path, name, roles in PLACES if role in roles],
            place=place,
            works=role in WORKERS,
            runs=role in RUNNERS,
            let_in=LET_IN,
            counts=role in COUNTERS,
            show=Show(visit.words, ZoneInfo(known.time_zone), self.site.clock()),
            names=Names(visit.words),
            **values,
        )

    def room(self, handler: Handler) -> Handler:
        """A page in the organisation's language, for who has chosen none."""

        async def shown(visit: Visit) -> web.StreamResponse:
            await self._speak(visit, self.tenant(visit))
            return await handler(visit)

        return shown

    async def hall(self, visit: Visit) -> ZoneInfo:
        """For a page that is not of one tenant: the zone of the visitor's own, whose language it then speaks;
        UTC, and as their browser wishes, for who is of none, or of one without a configuration."""
        scope = visit.signed_in.scope
        if scope == EVERYWHERE:
            return UTC
        try:
            return ZoneInfo((await self._speak(visit, scope)).time_zone)
        except NotFound:
            return UTC

    async def _speak(self, visit: Visit, tenant: str) -> pb.GetDeskTenantResponse:
        """In the organisation's language from now on, unless the visitor has chosen one."""
        known = await self._known(visit, tenant)
        if known.language and not self.site.chosen_language(visit.request, visit.session):
            visit.words = words_in(known.language)
        return known

    async def _known(self, visit: Visit, tenant: str) -> pb.GetDeskTenantResponse:
        """What the organisation says of itself, asked for once in a visit."""
        found: pb.GetDeskTenantResponse | None = visit.found.get(_KNOWN)
        if found is None:
            request = pb.GetDeskTenantRequest(tenant=tenant)
            found = await self.calls.tenant.GetDeskTenant(request, metadata=visit.metadata)
            visit.found[_KNOWN] = found
        return found
