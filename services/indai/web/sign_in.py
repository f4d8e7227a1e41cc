"""Signing in and out, and a visitor's choices of language and look.

A link with a code in it opens the form with the code filled in: signing in is always a POST of our own form,
so that nobody is signed in as somebody else by a link alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from aiohttp import web
from indai.protocol.errors import NotFound, Reason, Refused
from indai.protocol.handles import RESERVED_NAMES, Handle
from indai.web.accounts import Accounts
from indai.web.catalog import is_offered
from indai.web.guards import Limit
from indai.web.passkeys import Passkeys
from indai.web.sessions import MINUTE_MS
from indai.web.site import HOME, LANGUAGE, SIGN_IN, THEMES, Site
from indai.web.visit import Visit

Deliver = Callable[[str, Callable[[], Awaitable[str]]], Awaitable[None]]
"""Sends what the second makes to the owner of a handle, if they can be reached; makes nothing otherwise."""

CODES_SENT: Final = 3
"""To one handle in ten minutes, for one browser that its owner signed in with before, or for one address."""
CODES_TO_STRANGERS: Final = 12
"""To one handle in ten minutes, for all browsers that its owner never signed in with."""

_OWN: Final = re.compile(r"/([a-z0-9][a-z0-9.-]*)([/?][A-Za-z0-9._~/?=&%+-]*)?")
"""The desks, and the pages of handles: a path of one's own never begins with two slashes."""
_BROWSERS: Final = (("Edg", "Edge"), ("Firefox", "Firefox"), ("Chrom", "Chrome"), ("Safari", "Safari"))
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


class SignIn:
    """Pages and acts of signing in. `oidc`: whether an organisation's sign-in is set up."""

    def __init__(
        self, site: Site, passkeys: Passkeys, accounts: Accounts, deliver: Deliver, *, oidc: bool = False
    ) -> None:
        self._site, self._passkeys, self._accounts = site, passkeys, accounts
        self._deliver, self._oidc = deliver, oidc
        self._sent = Limit(CODES_SENT, 10 * MINUTE_MS)
        self._sent_to_strangers = Limit(CODES_TO_STRANGERS, 10 * MINUTE_MS)

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        return (
            self._site.get(SIGN_IN, self.form),
            self._site.post(SIGN_IN, self.sign_in),
            self._site.post("/desk/send-code", self.send_code),
            self._site.post("/desk/passkey/ask", self.ask_passkey),
            self._site.post("/desk/passkey/sign-in", self.passkey),
            self._site.post("/desk/sign-out", self.sign_out),
            self._site.post("/desk/look", self.look),
        )

    async def form(self, visit: Visit) -> web.StreamResponse:
        """Where the code is typed."""
        query = visit.request.query
        code, target = query.get("code", "")[:20], inside(query.get("next", ""))
        return visit.page("web/sign_in.html", code=code, next=target, oidc=self._oidc)

    async def sign_in(self, visit: Visit) -> web.StreamResponse:
        """A session for a code. The one that the browser had ends."""
        device = device_of(visit.request.headers.get("User-Agent", ""))
        token = await self._site.sessions.redeem(visit.said("code", most=40), device, _browser(visit))
        target = inside(visit.said("next"))
        return await self.welcome(visit, token, lambda home: visit.go(target or home))

    async def send_code(self, visit: Visit) -> web.StreamResponse:
        """A code to the owner's own messenger, for this browser alone. The answer is the same for a handle
        that nobody has here."""
        handle = str(Handle.parse(visit.said("handle")))
        self._check_sent(visit, handle)
        await self._deliver(handle, partial(self._words_of_code, visit, handle))
        return visit.go(SIGN_IN, "sent")

    def _check_sent(self, visit: Visit, handle: str) -> None:
        """Raises Refused for too many codes. A browser that the owner signed in with before has its own,
        which no stranger uses up."""
        now = self._site.clock()
        if visit.known.of == handle:
            self._sent.check((handle, visit.known.browser), now)
            return
        try:
            self._sent.check((handle, "from", visit.request.remote), now)
            self._sent_to_strangers.check(handle, now)
        except Refused:
            raise Refused(
                Reason.RATE_LIMITED,
                "Too many codes were asked for by browsers that never signed in with this handle.",
                hint="write `sign in` to your own agent on your messenger: it sends you one at any time; or"
                " use a passkey, `indai desk code`, or a browser that you signed in with before",
            ) from None

    async def _words_of_code(self, visit: Visit, handle: str) -> str:
        account = await self._accounts.of_owner(handle)
        code, _ = await self._site.sessions.code(account, _browser(visit))
        return visit.words("Your code to sign in: {code}. Tell it to nobody.", code=code)

    async def ask_passkey(self, visit: Visit) -> web.StreamResponse:
        """What a browser signs with a passkey."""
        return web.json_response(text=self._passkeys.ask(visit.csrf, self._site.place()))

    async def passkey(self, visit: Visit) -> web.StreamResponse:
        """A session for what the browser signed."""
        account = await self._passkeys.account_of(
            visit.csrf, self._site.place(), visit.said("value", most=20_000)
        )
        device = device_of(visit.request.headers.get("User-Agent", ""))
        token = await self._site.sessions.begin(account, "passkey", device)
        target = inside(visit.said("next"))
        return await self.welcome(visit, token, lambda home: web.json_response({"go": target or home}))

    async def welcome(
        self, visit: Visit, token: str, answer_of: Callable[[str], web.Response]
    ) -> web.Response:
        """End the browser's session before, write the new one down, and give the browser what it keeps.
        `answer_of`: the answer that leads to where somebody begins."""
        if visit.session is not None:
            await self._end(visit)
        found = await self._site.sessions.find_token(token)
        if found is None:
            return answer_of(HOME)
        await self._site.audit.record(found, "sign-in", f"{found.way}, {found.device}")
        answer = answer_of(self._site.homes.get(found.role, HOME))
        self._site.keep(answer, token)
        self._site.know(answer, found.scope)
        return answer

    async def sign_out(self, visit: Visit) -> web.StreamResponse:
        """End the session, also in the database."""
        if visit.session is not None:
            await self._end(visit)
        answer = visit.go(SIGN_IN, "signed-out")
        self._site.drop(answer)
        return answer

    async def look(self, visit: Visit) -> web.StreamResponse:
        """Language and theme of this browser."""
        answer = visit.go(inside(visit.said("back")) or HOME)
        language, theme = visit.said("language"), visit.said("theme")
        self._site.remember(answer, LANGUAGE, language if is_offered(language) else "")
        self._site.remember(answer, "theme", theme if theme in THEMES else "")
        return answer

    async def _end(self, visit: Visit) -> None:
        session = visit.signed_in
        try:
            await self._site.sessions.revoke(session.scope, session.id)
        except NotFound:
            return
        await self._site.audit.record(session, "sign-out")


def inside(path: str) -> str:
    """The path if it is one of our own pages, else nothing: a link leads to no other site."""
    own = _OWN.fullmatch(path)
    return path if own and (own[1] == HOME[1:] or own[1] not in RESERVED_NAMES) else ""


def _browser(visit: Visit) -> str:
    """What a code is bound to: the browser, by what only its own forms carry."""
    return hashlib.sha256(visit.csrf.encode()).hexdigest()


def device_of(user_agent: str) -> str:
    """Browser and system in words, as far as the browser tells."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return " · ".join(filter(None, (browser, system))) or "another program"
