"""The chat inside other sites' pages: a frame of its own, only in sites that the handle's owner has named.

The frame has no cookies, as browsers keep them from it: it carries a visitor of its own in a header, and is
never signed in, so nobody's rights are clicked away by the page around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from aiohttp import web
from indai.page.names import PATH, address_of
from indai.protocol.errors import Reason, Refused
from indai.web.accounts import OWNER, Accounts
from indai.web.chat_sites import ChatSites
from indai.web.guards import framed_by
from indai.web.site import CARRIED
from indai.web.visit import Visit

if TYPE_CHECKING:
    from indai.page.room import Room

SCRIPT: Final = "/widget.js"
_HOUR: Final = "public, max-age=3600"


class Widget:
    """The frame, the script that opens it, and where it may be."""

    def __init__(self, room: Room, accounts: Accounts) -> None:
        self._room, self._sites = room, ChatSites(accounts)
        self._script = files("indai.web").joinpath("static", "widget.js").read_bytes()

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._room.site
        return (
            web.get(SCRIPT, self.script),
            site.get(f"{PATH}/-/widget", self.page),
            site.act(f"{PATH}/-/sites", (OWNER,), self.allow),
        )

    async def script(self, _: web.Request) -> web.Response:
        """For any site: what it opens decides for itself where it may be."""
        answer = web.Response(body=self._script, content_type="text/javascript", charset="utf-8")
        answer.headers["Cache-Control"] = _HOUR
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        answer.enable_compression()
        return answer

    async def page(self, visit: Visit) -> web.StreamResponse:
        """The frame's page."""
        handle, carried = self._room.handle(visit), CARRIED in visit.request.headers
        visitor = ""
        if not carried:
            visitor, visit.csrf = self._room.site.stranger()
        answer = await self._room.shown(
            visit, handle, template="page/widget.html", visitor=visitor, known=carried
        )
        answer.headers["Content-Security-Policy"] = framed_by(await self.sites(handle))
        return answer

    async def sites(self, handle: str) -> list[str]:
        """Where the handle's chat may be."""
        return await self._sites.of(handle)

    async def allow(self, visit: Visit) -> web.StreamResponse:
        """The owner names the sites, one in a line."""
        handle = self._room.handle(visit)
        if visit.signed_in.scope != handle:
            raise Refused(Reason.PERMISSION_DENIED, "Only its owner says where this chat may be.")
        await self._sites.choose(handle, visit.said("sites", most=6_000).split())
        return visit.go(address_of(handle, self._room.authority), "saved")
