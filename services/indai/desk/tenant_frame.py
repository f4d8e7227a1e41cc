"""What all pages of an organisation's desk have: which tenant, its places, times, who may do what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from aiohttp import web
from indai.desk.calls import Calls
from indai.desk.show import Show
from indai.protocol.errors import NotFound, Reason
from indai.v1 import tenant_pb2 as pb
from indai.web.accounts import EVERYWHERE
from indai.web.site import Site
from indai.web.visit import Visit

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
TENANT: Final = "{tenant:[a-z0-9][a-z0-9-]{0,62}}"
_FORMULA: Final = re.compile(r"^[=+\-@\t\r]")


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
        role = visit.signed_in.role
        request = pb.GetDeskTenantRequest(tenant=self.tenant(visit))
        known = await self.calls.tenant.GetDeskTenant(request, metadata=visit.metadata)
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
            counts=role in COUNTERS,
            show=Show(visit.words, ZoneInfo(known.time_zone), self.site.clock()),
            **values,
        )


def csv(header: str, rows: Iterable[Iterable[object]]) -> bytes:
    """A table as a file (RFC 4180). What a spreadsheet would run as a formula is kept from that."""
    lines = [header, *(",".join(_cell(str(value)) for value in row) for row in rows)]
    return ("\r\n".join(lines) + "\r\n").encode()


def _cell(text: str) -> str:
    safe = f"'{text}" if _FORMULA.match(text) and not text.lstrip("-").replace(".", "", 1).isdigit() else text
    return '"' + safe.replace('"', '""') + '"' if re.search(r'[",\r\n]', safe) else safe
