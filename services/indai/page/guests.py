"""A visitor's own agent takes over: the handle that they name is verified, its node's own page asks for the
meeting in their name, and what they bring back from there proves to this page who they are.

    POST /alice/-/agent                 the handle: what the registry proves of it, and the way to its node
    GET  /alice/-/agent/back/CHALLENGE  back from there, with an introduction signed by the handle's agent

The challenge is of one browser, one page and half an hour, so nobody is introduced by a link that somebody
else has sent them. Who is introduced talks as their handle at the public door, where what they said in this
browser before goes on; whose handle lives here signs in instead.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from aiohttp import web
from indai.client.introduction import Occasion
from indai.page.front import Guests
from indai.page.names import PATH, address_of
from indai.protocol.errors import Reason, Refused
from indai.protocol.handles import Handle
from indai.web.guards import Limit
from indai.web.sessions import MINUTE_MS
from indai.web.site import SIGN_IN
from indai.web.visit import Visit

if TYPE_CHECKING:
    from indai.page.room import Room

START: Final = "/desk/start"
"""Where the node of a guest takes the errand; see `indai.desk.start`."""
CHALLENGE_MS: Final = 30 * MINUTE_MS
LIFE_MS: Final = 60 * MINUTE_MS
ASKED_A_MINUTE, ASKED_IN_ALL = 6, 60
"""Each asks the registry, and another node."""
_COOKIE: Final = "guest"


class GuestDesk:
    """The pages of it, and who is a guest."""

    def __init__(self, room: Room, guests: Guests) -> None:
        self._room, self._site, self._guests = room, room.site, guests
        self._asked = Limit(ASKED_A_MINUTE, MINUTE_MS)
        self._in_all = Limit(ASKED_IN_ALL, MINUTE_MS)

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._site
        return (
            site.post(f"{PATH}/-/agent", self.ask),
            site.get(f"{PATH}/-/agent/back/{{challenge:[0-9]+-[0-9a-f]{{64}}}}", self.back),
        )

    def handle_of(self, visit: Visit) -> str:
        """The handle by which this browser was introduced; empty for everybody else."""
        body, _, code = self._site.remembered(visit.request, _COOKIE).rpartition(".")
        if visit.session is not None or not body:
            return ""
        if not hmac.compare_digest(
            self._code("guest", visit, body).encode(), code.encode("utf-8", "replace")
        ):
            return ""
        known = json.loads(base64.urlsafe_b64decode(body))
        return str(known["handle"]) if known["ends_ms"] > self._site.clock() else ""

    async def ask(self, visit: Visit) -> web.StreamResponse:
        """Verify the handle, and show the way."""
        handle, named = self._room.handle(visit), str(Handle.parse(visit.said("handle", most=200)))
        home = address_of(handle, self._room.authority)
        if self._guests.lives_here(named):
            return visit.go(f"{SIGN_IN}?{urlencode({'next': home})}")
        self._asked.check(visit.visitor or visit.csrf, self._site.clock())
        self._in_all.check("", self._site.clock())
        found = await self._guests.find(named)
        back = self._page_of(visit, handle, self._challenge(visit, handle, self._site.clock()))
        way = f"{found.url}{START}?{urlencode({'with': handle, 'back': back})}" if found.url else ""
        return visit.page("page/agent.html", handle=handle, home=home, found=found, way=way)

    async def back(self, visit: Visit) -> web.StreamResponse:
        """Take the introduction: from now on this browser is who it says."""
        handle, challenge = self._room.handle(visit), visit.named("challenge")
        made_ms, now_ms = int(challenge.partition("-")[0]), self._site.clock()
        known = hmac.compare_digest(challenge, self._challenge(visit, handle, made_ms))
        if not known or now_ms > made_ms + CHALLENGE_MS or not visit.visitor:
            raise Refused(
                Reason.PERMISSION_DENIED,
                "This way back is of another browser, or of too long ago.",
                hint="begin again on the page, in this browser",
            )
        page = self._page_of(visit, handle, challenge)
        text = visit.request.query.get("introduction", "")
        found = await self._guests.introduced(text, Occasion(page, handle, challenge))
        await self._room.adopt(visit, handle, found.handle)
        known_as = {"handle": found.handle, "ends_ms": now_ms + LIFE_MS}
        body = base64.urlsafe_b64encode(json.dumps(known_as).encode()).decode()
        answer = visit.go(address_of(handle, self._room.authority), "introduced")
        value = f"{body}.{self._code('guest', visit, body)}"
        self._site.remember(answer, _COOKIE, value, LIFE_MS // 1000)
        return answer

    def _challenge(self, visit: Visit, handle: str, made_ms: int) -> str:
        return f"{made_ms}-{self._code('introduction', visit, f'{handle} {made_ms}')}"

    def _code(self, purpose: str, visit: Visit, text: str) -> str:
        """Ours over a text, for this browser alone."""
        return self._site.code(purpose, f"{visit.visitor}\0{text}")

    def _page_of(self, visit: Visit, handle: str, challenge: str) -> str:
        """The way back as this browser has opened us, so that its cookies are there."""
        path = f"{address_of(handle, self._room.authority)}/-/agent/back/{challenge}"
        return f"{self._site.origin(visit.request)}{path}"
