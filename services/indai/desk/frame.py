"""What all pages of the owner's desk have: the places on its side, what waits, times in the owner's zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from aiohttp import web
from indai.desk.calls import Calls
from indai.desk.show import Show
from indai.v1 import calendar_pb2, owner_pb2, tools_pb2
from indai.web.accounts import OWNER
from indai.web.site import Site
from indai.web.visit import Visit

ROLES: Final = (OWNER,)
PLACES: Final = (
    ("/desk", "Inbox"),
    ("/desk/threads", "Conversations"),
    ("/desk/commitments", "Agreements"),
    ("/desk/calendar", "Calendar"),
    ("/desk/rules", "Rules"),
    ("/desk/people", "People"),
    ("/desk/shared", "What was shared"),
    ("/desk/goals", "Goals"),
    ("/desk/memory", "Memory"),
    ("/desk/spend", "Spending"),
    ("/desk/access", "Keys and devices"),
    ("/desk/settings", "Settings"),
    ("/desk/pause", "Pause"),
)
TABS: Final = ("/desk", "/desk/commitments", "/desk/calendar", "/desk/more")
MAX_WAITING: Final = 99


@dataclass(frozen=True, slots=True)
class Frame:
    """Makes the desk's pages."""

    site: Site
    calls: Calls

    async def show(self, visit: Visit) -> Show:
        """What turns values into words for this visitor."""
        request = calendar_pb2.GetMeetSettingsRequest()
        settings = await self.calls.calendars.GetMeetSettings(request, metadata=visit.metadata)
        return Show(visit.words, ZoneInfo(settings.time_zone or "UTC"), self.site.clock())

    async def page(self, visit: Visit, template: str, place: str, **values: Any) -> web.Response:
        """A page of the desk; `place` is the one of PLACES that it belongs to."""
        if "show" not in values:
            values["show"] = await self.show(visit)
        waiting = values.pop("waiting", None)
        if waiting is None:
            waiting = await self.waiting(visit)
        names = {**dict(PLACES), "/desk/more": "More"}
        tab = place if place in TABS else "/desk/more"
        return visit.page(
            f"desk/{template}",
            places=PLACES,
            tabs=[(path, names[path]) for path in TABS],
            place=place,
            tab=tab,
            waiting=waiting,
            owner=visit.signed_in.scope,
            **values,
        )

    async def waiting(self, visit: Visit) -> int:
        """How many questions wait for the owner, up to 99."""
        request = owner_pb2.ListInboxRequest(page_size=MAX_WAITING)
        answer = await self.calls.owner.ListInbox(request, metadata=visit.metadata)
        tools = await self.calls.tools.ListApprovals(
            tools_pb2.ListApprovalsRequest(page_size=MAX_WAITING), metadata=visit.metadata
        )
        return min(MAX_WAITING, len(answer.approvals) + len(tools.approvals))
