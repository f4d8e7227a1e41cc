"""Signing in and out, and a visitor's choices of language and look.

A link with a code in it opens the form with the code filled in: signing in is always a POST of our own form,
so that nobody is signed in as somebody else by a link alone.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from aiohttp import web
from indai.protocol.errors import NotFound
from indai.protocol.handles import RESERVED_NAMES, Handle
from indai.web.accounts import Accounts
from indai.web.catalog import NAMES
from indai.web.guards import Limit
from indai.web.passkeys import Passkeys
from indai.web.sessions import MINUTE_MS
from indai.web.site import HOME, SIGN_IN, THEMES, Site
from indai.web.visit import Visit

Deliver = Callable[[str, Callable[[], Awaitable[str]]], Awaitable[None]]
"""Sends what the second makes to the owner of a handle, if they can be reached; makes nothing otherwise."""

CODES_SENT: Final = 3
"""To one handle in ten minutes."""
TRIES_IN_ALL: Final = 300
"""Codes that may be tried in a minute, by everybody together: a code has 49 bits and lives ten minutes."""

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
        self._tries = Limit(TRIES_IN_ALL, MINUTE_MS)
        self._sent = Limit(CODES_SENT, 10 * MINUTE_MS)

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
        self._tries.check("", self._site.clock())
        device = device_of(visit.request.headers.get("User-Agent", ""))
        token = await self._site.sessions.redeem(visit.said("code", most=40), device)
        answer = visit.go(inside(visit.said("next")) or await self.welcome(visit, token))
        self._site.keep(answer, token)
        return answer

    async def send_code(self, visit: Visit) -> web.StreamResponse:
        """A code to the owner's own messenger. The answer is the same for a handle that nobody has here."""
        handle = str(Handle.parse(visit.said("handle")))
        self._sent.check(handle, self._site.clock())
        await self._deliver(handle, partial(self._words_of_code, visit, handle))
        return visit.go(SIGN_IN, "sent")

    async def _words_of_code(self, visit: Visit, handle: str) -> str:
        code, _ = await self._site.sessions.code(await self._accounts.of_owner(handle))
        return visit.words("Your code to sign in: {code}. Tell it to nobody.", code=code)

    async def ask_passkey(self, visit: Visit) -> web.StreamResponse:
        """What a browser signs with a passkey."""
        return web.json_response(text=self._passkeys.ask(visit.csrf, self._site.place()))

    async def passkey(self, visit: Visit) -> web.StreamResponse:
        """A session for what the browser signed."""
        self._tries.check("", self._site.clock())
        account = await self._passkeys.account_of(
            visit.csrf, self._site.place(), visit.said("value", most=20_000)
        )
        device = device_of(visit.request.headers.get("User-Agent", ""))
        token = await self._site.sessions.begin(account, "passkey", device)
        answer = web.json_response({"go": await self.welcome(visit, token)})
        self._site.keep(answer, token)
        return answer

    async def welcome(self, visit: Visit, token: str) -> str:
        """End the browser's session before, write the new one down; where its owner begins."""
        if visit.session is not None:
            await self._end(visit)
        found = await self._site.sessions.find_token(token)
        if found is None:
            return HOME
        await self._site.audit.record(found, "sign-in", f"{found.way}, {found.device}")
        return self._site.homes.get(found.role, HOME)

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
        self._site.remember(answer, "language", language if language in NAMES else "")
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


def device_of(user_agent: str) -> str:
    """Browser and system in words, as far as the browser tells."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return " · ".join(filter(None, (browser, system))) or "another program"
