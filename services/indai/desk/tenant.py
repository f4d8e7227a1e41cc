"""An organisation's desk: all its rooms."""

from __future__ import annotations

from aiohttp import web
from indai.desk.calls import Calls
from indai.desk.tenant_board import TenantBoard
from indai.desk.tenant_files import TenantFiles
from indai.desk.tenant_frame import HOME, ROLES, TenantFrame
from indai.desk.tenant_numbers import TenantNumbers
from indai.desk.tenant_talks import TenantTalks
from indai.desk.tenant_work import TenantWork
from indai.web.live import Live
from indai.web.site import Site


class TenantDesk:
    """Pages and acts for people of an organisation, and for the operator of the node."""

    def __init__(self, site: Site, calls: Calls, live: Live) -> None:
        site.homes |= dict.fromkeys(ROLES, HOME)
        frame = TenantFrame(site, calls)
        rooms = (TenantNumbers(frame), TenantTalks(frame, live), TenantBoard(frame), TenantWork(frame))
        self._rooms = (*rooms, TenantFiles(frame))

    def routes(self) -> tuple[web.RouteDef, ...]:
        """What the site serves of it."""
        return tuple(route for room in self._rooms for route in room.routes())
