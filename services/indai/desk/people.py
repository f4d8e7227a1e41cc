"""Who the agent deals with, in which circles they are, and what each was told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from aiohttp import web
from indai.desk.circles import with_member
from indai.desk.frame import ROLES, Frame
from indai.desk.rules import active
from indai.policy.language import parse
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.v1 import desk_pb2, owner_pb2, sharing_pb2
from indai.web.visit import Visit

PAGE: Final = 40
MAX_MEMBERS: Final = 60
"""Members that are shown, over all circles: the rules themselves name everybody."""
MAX_TOLD: Final = 100


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
        token = visit.request.query.get("page", "")
        request = desk_pb2.ListPeersRequest(page_size=PAGE, page_token=token)
        answer = await self._calls.steering.ListPeers(request, metadata=visit.metadata)
        now = await active(self._frame, visit)
        circles = parse(now.version.yaml).circles if now else {}
        return await self._frame.page(
            visit,
            "people.html",
            "/desk/people",
            contacts=answer.peers,
            more=answer.next_page_token,
            circles=circles,
            shown={} if token else _some(circles, MAX_MEMBERS),
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


def _some(circles: Mapping[str, Collection[str]], most: int) -> dict[str, list[str]]:
    """The circles with their first members, so many in all."""
    shown: dict[str, list[str]] = {}
    for circle, members in circles.items():
        shown[circle] = list(islice(members, most))
        most -= len(shown[circle])
    return shown
