"""The page of a handle and its chat. Without JavaScript a message is a form, and the page comes back with the
answer; with it the answer is streamed.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from aiohttp import web
from indai.page.front import Front, Proof
from indai.page.guests import GuestDesk
from indai.page.languages import autonym
from indai.page.meeting import MeetingDesk
from indai.page.names import PATH, address_of, handle_at, nobody
from indai.page.rendering import files, html
from indai.page.streaming import stream
from indai.page.visitors import CHANNEL, Pace, identity
from indai.page.widget import Widget
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Unavailable
from indai.v1 import conversation_pb2 as pb
from indai.web.accounts import Accounts
from indai.web.asking import DAYS, LENGTHS, PARTS
from indai.web.site import HOME, Site
from indai.web.visit import Visit

MOST: Final = 4_000
"""Characters of a message on a page."""
PATIENCE_S: Final = 25.0
"""For how long a form without JavaScript waits for its answer."""
TURN_S: Final = 300.0
SHOWN: Final = 60
_PAGE: Final = 500
_PAGES: Final = 4
_ID: Final = re.compile(r"[A-Za-z0-9-]{8,64}")
_ZONE: Final = re.compile(r"[A-Za-z0-9_+/-]{1,60}")
_PAGE_TEMPLATE: Final = "page/page.html"
_MICROPHONE: Final = "camera=(), geolocation=(), microphone=(self), payment=(), usb=()"
"""Who speaks with an agent does it here; the site's other pages open no microphone."""
_STREAM: Final = "text/event-stream"
_INTENTS: Final = ("meet", "ask", "share", "request", "pay", "book")


class Room:
    """Pages and acts of everybody's public pages."""

    def __init__(self, site: Site, front: Front, accounts: Accounts) -> None:
        self.site, self.authority = site, front.authority
        self._front, self._talks = front, front.conversations
        self._pace = Pace()
        self._meetings = MeetingDesk(self, front.meetings, front.tickets)
        self._widget = Widget(self, accounts)
        self._guests = GuestDesk(self, front.guests)
        site.branded = self._is_branded

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it; the last of all, since it takes every name that nothing else has."""
        site = self.site
        return (
            *self._meetings.routes(),
            *self._widget.routes(),
            *self._guests.routes(),
            site.post(f"{PATH}/-/say", self.say),
            site.post(f"{PATH}/-/stop", self.stop),
            site.post(f"{PATH}/-/link", self.link),
            site.get(f"{PATH}/-/turns/{{turn:[0-9a-f]{{32}}}}", self.watch),
            site.get("/", self.root),
            site.get(PATH, self.page),
        )

    def handle(self, visit: Visit) -> str:
        """Whose page it is. Raises NotFound."""
        return handle_at(visit.named("name"), self.authority)

    def who(self, visit: Visit) -> pb.Identity:
        """Who the visitor is: also whom another node's agent has introduced."""
        if guest := self._guests.handle_of(visit):
            return pb.Identity(channel=CHANNEL, kind="handle", value=guest, verified=True)
        return identity(visit)

    async def adopt(self, visit: Visit, handle: str, guest: str) -> None:
        """What this browser said here before is the guest's from now on; the browser stays nobody's."""
        me = pb.Identity(channel=CHANNEL, kind="handle", value=guest, verified=True)
        request = pb.AdoptSessionRequest(visitor=identity(visit), known=me, handle=handle)
        await self._talks.AdoptSession(request)

    async def root(self, visit: Visit) -> web.StreamResponse:
        """A host that leads to an agent opens its page, any other the desk."""
        host = visit.request.host.lower()
        if host not in self.site.place().hosts and await self._is_branded(host):
            return visit.go(f"/{_name(host)}")
        return visit.go(HOME)

    async def page(self, visit: Visit) -> web.StreamResponse:
        """The page."""
        handle = self.handle(visit)
        home = address_of(handle, self.authority)
        if visit.request.path != home:
            return visit.go(home)
        return await self.shown(visit, handle)

    async def shown(
        self, visit: Visit, handle: str, template: str = _PAGE_TEMPLATE, *, known: bool = True, **more: Any
    ) -> web.Response:
        """The page of a handle, with what an act had to say. `known`: what was said before is shown."""
        profile = await self._profile(visit, handle)
        said, proof, paused = await asyncio.gather(
            self.history(visit, handle, known=known),
            # Behind a host may be an agent that is no handle's: there is nothing to prove then, or to pause.
            self._proof(profile.handle) if profile.handle else _nothing(),
            self._front.paused(profile.handle) if profile.handle else _nothing(),
        )
        mine = visit.session is not None and visit.session.scope == handle
        values: dict[str, Any] = {
            "handle": handle,
            "title": handle.rsplit("/", 1)[-1] if profile.handle else profile.display_name,
            "home": address_of(handle, self.authority),
            "profile": profile,
            "intents": [each for each in _INTENTS if each in profile.intents],
            "said": said[-SHOWN:],
            "open_turn": said[-1].turn_id if said and not said[-1].outgoing else "",
            "proof": proof,
            "paused": paused,
            "mine": mine,
            "guest": self._guests.handle_of(visit),
            "sites": await self._widget.sites(handle) if mine else (),
            "address": self.site.place().url,
            "html": html,
            "files": lambda media: files(media, self._front.link),
            "autonym": autonym,
            "message_id": secrets.token_hex(12),
            "path": address_of(handle, self.authority),
            "link_code": "",
            "outcome": "",
            "lengths": LENGTHS,
            "days": DAYS,
            "parts": PARTS,
        }
        answer = visit.page(template, **values | more)
        if template == _PAGE_TEMPLATE:
            answer.headers["Permissions-Policy"] = _MICROPHONE
        return answer

    async def say(self, visit: Visit) -> web.StreamResponse:
        """A message: its answer as a stream for our script, else the page again."""
        handle, who = self.handle(visit), self.who(visit)
        streams = _STREAM in visit.request.headers.get("Accept", "")
        try:
            self._pace.message(who, self.site.clock())
            message = self._message(visit, handle, who)
            if not streams:
                await self._whole(message)
                return visit.go(f"{address_of(handle, self.authority)}#end")
            with self._pace.stream(who):
                async with self._sent(message) as events:
                    return await stream(self.site, visit, events, self._front.link)
        except IndaiError as error:
            if streams:
                return refused(error)
            raise

    async def watch(self, visit: Visit) -> web.StreamResponse:
        """The events of a turn after `Last-Event-ID`, those to come included."""
        who, last = self.who(visit), visit.request.headers.get("Last-Event-ID", "0")
        after = int(last) if last.isdecimal() and len(last) < 6 else 0
        request = pb.WatchTurnRequest(turn_id=visit.named("turn"), after_seq=after, sender=who)
        try:
            with self._pace.stream(who):
                responses: Any = self._talks.WatchTurn(request, timeout=TURN_S)
                async with aclosing(responses) as events:
                    return await stream(self.site, visit, events, self._front.link)
        except IndaiError as error:
            return refused(error)

    async def stop(self, visit: Visit) -> web.StreamResponse:
        """End a turn."""
        request = pb.StopTurnRequest(turn_id=visit.said("turn", most=32), sender=self.who(visit))
        answer = await self._talks.StopTurn(request)
        return web.json_response({"stopped": answer.stopped})

    async def link(self, visit: Visit) -> web.StreamResponse:
        """A code that makes a telephone or messenger known as the one who is signed in: only when they ask
        for it, having read what it does."""
        who = identity(visit)
        if not who.verified or visit.said("consent") != "yes":
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A telephone is joined to nobody without their word.",
                hint="sign in, tick the box, and ask for the code again",
            )
        made = await self._talks.CreateLinkCode(pb.CreateLinkCodeRequest(identity=who))
        return await self.shown(visit, self.handle(visit), link_code=made.code)

    async def history(self, visit: Visit, handle: str, *, known: bool) -> list[pb.SessionMessage]:
        """What was said between this visitor and the handle's agent, oldest first."""
        if not known:
            return []
        who = self.who(visit)
        try:
            listed = pb.ListSessionsRequest(page_size=1, person=who, handle=handle)
            sessions = (await self._talks.ListSessions(listed)).sessions
        except NotFound:
            return []  # they have never said a word
        found: list[pb.SessionMessage] = []
        token = ""
        for _ in range(_PAGES if sessions else 0):
            request = pb.ListSessionMessagesRequest(
                session_id=sessions[0].session_id, page_size=_PAGE, page_token=token, person=who
            )
            answer = await self._talks.ListSessionMessages(request)
            found = [*found, *answer.messages][-_PAGE:]
            token = answer.next_page_token
            if not token:
                break
        return found

    async def _profile(self, visit: Visit, handle: str) -> pb.GetPublicProfileResponse:
        request = pb.GetPublicProfileRequest(handle=handle, languages=[visit.words.language])
        try:
            return await self._talks.GetPublicProfile(request)
        except NotFound:
            raise nobody(visit.named("name")) from None

    async def _is_branded(self, host: str) -> bool:
        try:
            await self._talks.GetPublicProfile(pb.GetPublicProfileRequest(handle=_name(host)))
        except IndaiError:
            return False
        return "." in _name(host)

    async def _proof(self, handle: str) -> Proof | None:
        try:
            return await self._front.proof_of(handle)
        except IndaiError:
            return None  # the page says that it can't be checked now

    def _message(self, visit: Visit, handle: str, who: pb.Identity) -> pb.InboundMessage:
        text, number, zone = visit.said("text", most=MOST), visit.said("id"), visit.said("zone")
        choice = visit.said("choice", most=200)
        if not text and not choice:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "The message is empty.", hint="write something, and send it again"
            )
        number = number if _ID.fullmatch(number) else secrets.token_hex(12)
        return pb.InboundMessage(
            sender=who,
            account=self.site.place().host,
            handle=handle,
            provider_message_id=f"{who.value}:{number}",
            text=text,
            choice=choice,
            time_zone=zone if _ZONE.fullmatch(zone) else "",
        )

    async def _whole(self, message: pb.InboundMessage) -> None:
        """Wait for the end of the answer, for as long as a form may; it is stored in any case."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._sent(message) as events:
                async for _ in events:
                    pass
        except TimeoutError:
            return

    def _sent(self, message: pb.InboundMessage) -> Any:
        """The responses, to be closed by who iterates them."""
        responses: Any = self._talks.SendMessage(pb.SendMessageRequest(message=message), timeout=TURN_S)
        return aclosing(responses)


def _name(host: str) -> str:
    return host.rpartition(":")[0] or host if host.rpartition(":")[2].isdecimal() else host


async def _nothing() -> None:
    return None


def refused(error: IndaiError) -> web.Response:
    """Words for the script of the page."""
    said = {"reason": error.reason.name, "message": error.message, "hint": error.hint}
    answer = web.json_response(said, status=error.reason.status.http)
    if isinstance(error, Unavailable):
        answer.headers["Retry-After"] = "2"
    return answer
