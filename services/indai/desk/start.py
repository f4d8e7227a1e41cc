"""An errand that another node's page has sent the owner on: ask its handle for a meeting, by the owner's own
agent, and tell that page who came.

What stands in the link is somebody else's: it fills in a form and does nothing. The owner's own POST asks,
under their rules, and the introduction is made only then, for the address that they have read.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from aiohttp import web
from indai.client.introduction import checked_page
from indai.desk.frame import ROLES, Frame
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.v1 import desk_pb2, tools_pb2
from indai.web.asking import DAYS, LENGTHS, PARTS, misfits
from indai.web.visit import Visit

PATH: Final = "/desk/start"
_BACK: Final = "/-/agent/back/"


class Start:
    """The page and the act of it."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._calls = frame, frame.calls

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return site.member(PATH, ROLES, self.form), site.act(PATH, ROLES, self.ask)

    async def form(self, visit: Visit) -> web.StreamResponse:
        """What somebody's page would have the owner's agent do."""
        query = visit.request.query
        return await self._page(visit, query.get("with", ""), query.get("back", ""))

    async def ask(self, visit: Visit) -> web.StreamResponse:
        """Ask, and show what became of it, with the way back."""
        peer, back = str(Handle.parse(visit.said("with", most=200))), visit.said("back", most=400)
        _host(back)  # before anything is done
        found, way = None, ""
        if visit.said("ask") == "yes":
            found = await self._asked(visit, peer)
        if back and visit.said("introduce") == "yes":
            request = desk_pb2.IntroduceRequest(page=back, to=peer, challenge=_challenge(back))
            made = await self._calls.steering.Introduce(request, metadata=visit.metadata)
            way = f"{back}?{urlencode({'introduction': made.introduction})}"
        return await self._page(visit, peer, back, found=found, way=way, asked=True)

    async def _asked(self, visit: Visit, peer: str) -> tools_pb2.CallToolResponse:
        minutes, when, time = visit.said("minutes"), visit.said("when"), visit.said("time")
        if wrong := misfits(minutes, when, time):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "The form is not complete.", hint="go back", fields=wrong
            )
        wish: dict[str, Any] = {"with": peer, "duration_minutes": int(minutes), "when": when, "time": time}
        wish |= {"title": title} if (title := visit.said("title", most=200)) else {}
        # The same form sent twice is one request.
        once = uuid.uuid5(uuid.NAMESPACE_URL, f"{visit.signed_in.id} {visit.said('id', most=64)}")
        request = tools_pb2.CallToolRequest(
            request_id=str(once), tool="meet", arguments_json=json.dumps(wish, ensure_ascii=False)
        )
        return await self._calls.toolbox.CallTool(request, metadata=visit.metadata)

    async def _page(
        self, visit: Visit, peer: str, back: str, *, found: Any = None, way: str = "", asked: bool = False
    ) -> web.Response:
        peer, host = str(Handle.parse(peer)), _host(back)
        return await self._frame.page(
            visit,
            "start.html",
            "/desk",
            peer=peer,
            back=back,
            host=host,
            found=found,
            words=_words(found),
            way=way,
            asked=asked,
            number=uuid.uuid4().hex,
            lengths=LENGTHS,
            days=DAYS,
            parts=PARTS,
        )


def _host(back: str) -> str:
    """Whose page it is, for people; empty without one. Raises InvalidInput for what is no way back."""
    if back and not _challenge(checked_page(back)):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "This is no way back to a page.", hint="begin again")
    return urlsplit(back).netloc


def _challenge(back: str) -> str:
    """What the page wants signed; empty for an address that is no way back."""
    path = urlsplit(back).path
    return path.rpartition("/")[2] if _BACK in path and not urlsplit(back).query else ""


def _words(found: tools_pb2.CallToolResponse | None) -> str:
    if found is None:
        return ""
    return found.words or "; ".join(each.text for each in found.fields)
