"""Who the agent deals with, in which circles they are, and what each was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from indai.desk.circles import with_member
from indai.desk.frame import ROLES, Frame
from indai.desk.rules import active
from indai.policy.language import parse
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.v1 import owner_pb2, sharing_pb2
from indai.web.visit import Visit

RECENT: Final = 500
"""Threads that are looked at for contacts: the newest."""
PAGE: Final = 40
MAX_TOLD: Final = 100


@dataclass(slots=True)
class Contact:
    """A peer, from the newest threads."""

    handle: str
    threads: int = 0
    agreed: int = 0
    last: owner_pb2.Thread = field(default_factory=owner_pb2.Thread)
    circles: list[str] = field(default_factory=list)


class People:
    """Pages and acts of contacts, circles and disclosures."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._calls = frame, frame.calls

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/people", ROLES, self.people),
            site.act("/desk/people/circle", ROLES, self.circle),
            site.member("/desk/shared", ROLES, self.shared),
        )

    async def people(self, visit: Visit) -> web.StreamResponse:
        """Contacts and circles."""
        request = owner_pb2.ListThreadsRequest(page_size=RECENT)
        answer = await self._calls.owner.ListThreads(request, metadata=visit.metadata)
        contacts: dict[str, Contact] = {}
        for thread in answer.threads:
            one = contacts.setdefault(thread.peer, Contact(thread.peer, last=thread))
            one.threads += 1
            one.agreed += thread.state == owner_pb2.THREAD_STATE_COMMITTED
        now = await active(self._frame, visit)
        circles = parse(now.version.yaml).circles if now else {}
        for circle, members in circles.items():
            for member in members:
                if member in contacts or "*" not in member:
                    contacts.setdefault(member, Contact(member)).circles.append(circle)
        page = visit.request.query.get("page", "0")
        if not (page.isascii() and page.isdigit() and len(page) < 4):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "That is not a page of people.")
        first, everybody = int(page) * PAGE, list(contacts.values())
        return await self._frame.page(
            visit,
            "people.html",
            "/desk/people",
            contacts=everybody[first : first + PAGE],
            more=str(int(page) + 1) if len(everybody) > first + PAGE else "",
            circles=circles,
            partial=bool(answer.next_page_token),
        )

    async def circle(self, visit: Visit) -> web.StreamResponse:
        """A peer into a circle or out of it: shown as new rules, which the owner then saves."""
        handle, circle = str(Handle.parse(visit.said("handle"))), visit.said("circle", most=60)
        now = await active(self._frame, visit)
        if now is None:
            raise NotFound(Reason.NOT_FOUND, "You have no rules yet.", hint="begin with a template")
        if circle not in parse(now.version.yaml).circles:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"There is no circle {circle}.")
        text = with_member(now.version.yaml, circle, handle, inside=visit.said("way") != "out")
        request = owner_pb2.ActivatePolicyRequest(yaml=text)
        await self._calls.owner.ActivatePolicy(request, metadata=visit.metadata)
        return visit.go("/desk/people", "saved")

    async def shared(self, visit: Visit) -> web.StreamResponse:
        """What was disclosed to whom, how often, and the consents."""
        peer = visit.request.query.get("peer", "")
        told = await self._calls.sharing.ListDisclosures(
            sharing_pb2.ListDisclosuresRequest(peer=str(Handle.parse(peer)) if peer else ""),
            metadata=visit.metadata,
        )
        consents = await self._calls.sharing.ListConsents(
            sharing_pb2.ListConsentsRequest(page_size=100, page_token=visit.request.query.get("page", "")),
            metadata=visit.metadata,
        )
        return await self._frame.page(
            visit,
            "shared.html",
            "/desk/shared",
            peer=peer,
            disclosures=told.disclosures[:MAX_TOLD],
            consents=consents.consents,
            more=consents.next_page_token,
            active=sharing_pb2.CONSENT_STATUS_ACTIVE,
            revoked=sharing_pb2.CONSENT_STATUS_REVOKED,
        )
