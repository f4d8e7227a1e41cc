"""The site: every address of it is made here, and so every one has the same guards.

    get      a page for anybody
    post     an act of anybody: origin, form token and limits are checked first
    member   a page behind the sign-in, for some roles; others are sent to the sign-in, or refused
    act      an act behind the sign-in; it stands in the audit log, with what came of it

The roles that a page asks for are a courtesy. What somebody may see or do is decided by the node's services,
which the page calls with the visitor's own session.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import structlog
from aiohttp import web
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused
from indai.web import guards
from indai.web.audit import AuditLog
from indai.web.catalog import Words, wanted, words_in
from indai.web.failures import failure
from indai.web.render import STATIC, Assets, Pages
from indai.web.sessions import LIFE_MS, MINUTE_MS, Session, Sessions
from indai.web.visit import MAX_FIELD, MAX_FORM, Handler, Visit

THEMES: Final = ("light", "dark")
HOME: Final = "/desk"
SIGN_IN: Final = "/desk/sign-in"
ACTS_A_MINUTE: Final = 120
STRANGERS_ACTS_A_MINUTE: Final = 60
"""Of one address, behind which many people may be."""
CARRIED: Final = "X-Visitor"
"""The header in which a page inside another site's says who its visitor is: cookies don't reach it there, and
no other site can send it."""
LANGUAGE: Final = "language"
_VISITOR: Final = "visitor"
_SESSION: Final = "desk"
_KNOWN: Final = "known"

log = structlog.get_logger("indai.web")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the site is. `url` as people open it; `secure`: over TLS, or on loopback where nobody listens."""

    url: str
    secure: bool

    @property
    def tls(self) -> bool:
        """Whether browsers reach it over TLS."""
        return self.url.startswith("https://")

    @property
    def host(self) -> str:
        """`host[:port]` as it stands in the address."""
        return urlsplit(self.url).netloc.lower()

    @property
    def hosts(self) -> frozenset[str]:
        """All names it may be opened under: on loopback, both ways to say so."""
        host, _, port = self.host.rpartition(":")
        local = {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        return frozenset({self.host, *local} if host in ("localhost", "127.0.0.1", "[::1]") else {self.host})


@dataclass(frozen=True, slots=True)
class Made:
    """An address: its method, its path as the router has it, and whom it is for (None: for anybody)."""

    method: str
    path: str
    roles: tuple[str, ...] | None


class Site:
    """See the module. `place` is asked when a request comes: ports are known by then."""

    def __init__(
        self,
        sessions: Sessions,
        audit: AuditLog,
        secret: bytes,
        clock: Callable[[], int],
        place: Callable[[], Place],
        packages: Mapping[str, str],
    ) -> None:
        self.sessions, self.audit, self.clock, self.place = sessions, audit, clock, place
        self.homes: dict[str, str] = {}
        """Where somebody with a role begins, told by the desks."""
        self.branded: Callable[[str], Awaitable[bool]] = _unbranded
        """Whether a `host[:port]` that is not the place's leads to a page of ours, told by the pages."""
        self.made: list[Made] = []
        """Every address that was made here."""
        self._secret = secret
        self._assets = Assets("indai.web")
        self.pages = Pages({"web": "indai.web", **packages}, {"asset": self._assets.address})
        self._strangers = guards.Limit(STRANGERS_ACTS_A_MINUTE, MINUTE_MS)
        self._members = guards.Limit(ACTS_A_MINUTE, MINUTE_MS)

    def static(self) -> web.RouteDef:
        """The route of stylesheet and script."""
        return web.get(f"{STATIC}/{{hash:[0-9a-f]+}}/{{name}}", self._assets.serve)

    def get(self, path: str, handler: Handler) -> web.RouteDef:
        """A page for anybody, signed in or not."""
        self.made.append(Made("GET", path, None))
        return web.get(path, self._guarded(handler))

    def post(self, path: str, handler: Handler) -> web.RouteDef:
        """An act of anybody."""

        async def act(visit: Visit) -> web.StreamResponse:
            if visit.session is None:
                # Behind one address are many: who signed in here before is not kept out by the others.
                self._strangers.check(visit.known.browser or visit.request.remote, self.clock())
            else:
                self._members.check(visit.session.account, self.clock())
            await self._read_form(visit)
            return await handler(visit)

        self.made.append(Made("POST", path, None))
        return web.post(path, self._guarded(act))

    def member(self, path: str, roles: Collection[str], handler: Handler) -> web.RouteDef:
        """A page for people who are signed in and have one of these roles."""

        async def page(visit: Visit) -> web.StreamResponse:
            if visit.session is None:
                return visit.go(f"{SIGN_IN}?next={quote(_whole(visit.request), safe='')}")
            home = self.homes.get(visit.session.role, HOME)
            if visit.request.path == HOME != home:
                return visit.go(home)
            _check_role(visit.session, roles)
            return await handler(visit)

        self.made.append(Made("GET", path, tuple(roles)))
        return web.get(path, self._guarded(page))

    def act(self, path: str, roles: Collection[str], handler: Handler) -> web.RouteDef:
        """An act of people who are signed in and have one of these roles."""

        async def act(visit: Visit) -> web.StreamResponse:
            if visit.session is None:
                return visit.go(SIGN_IN)
            self._members.check(visit.session.account, self.clock())
            outcome = "done"
            try:
                await self._read_form(visit)
                _check_role(visit.session, roles)
                return await handler(visit)
            except IndaiError as error:
                outcome = error.reason.name
                raise
            except BaseException:
                outcome = Reason.INTERNAL.name
                raise
            finally:
                target = " ".join(visit.request.match_info.values())
                await self.audit.record(visit.session, path, target, outcome)

        self.made.append(Made("POST", path, tuple(roles)))
        return web.post(path, self._guarded(act))

    def keep(self, answer: web.StreamResponse, token: str) -> None:
        """Give the browser the session's token as its cookie."""
        self._cookie(answer, _SESSION, token, LIFE_MS // 1000)

    def know(self, answer: web.StreamResponse, scope: str) -> None:
        """Let the browser show from now on that somebody of this scope signed in with it."""
        self.remember(answer, _KNOWN, guards.known_cookie(self._secret, scope))

    def drop(self, answer: web.StreamResponse) -> None:
        """Take the session's cookie back."""
        self._cookie(answer, _SESSION, "", 0)

    def remember(
        self, answer: web.StreamResponse, name: str, value: str, max_age_s: int = 365 * 86_400
    ) -> None:
        """Keep something in the visitor's browser, such as their `language` or `theme`."""
        self._cookie(answer, name, value, max_age_s)

    def remembered(self, request: web.Request, name: str) -> str:
        """What was kept; nothing when it is gone."""
        return request.cookies.get(self._name(name), "")

    async def whose(self, request: web.Request) -> Session | None:
        """The session that a browser shows, if it is in force: for what is no page, such as a microphone."""
        token = request.cookies.get(self._name(_SESSION), "")
        return await self.sessions.find_token(token) if token else None

    def code(self, purpose: str, text: str) -> str:
        """Ours over a text: 64 hexadecimal digits that nobody else can make. One purpose's are no other's."""
        return guards.code(self._secret, f"{purpose}:".encode(), text)

    def origin(self, request: web.Request) -> str:
        """The site as this browser has opened it: scheme and host, without a path."""
        place = self.place()
        host = request.host.lower() if request.host.lower() in place.hosts else place.host
        return f"{'https' if place.tls else 'http'}://{host}"

    def visitor(self, request: web.Request) -> str:
        """Which browser it is that nobody has signed in with; empty for one without a cookie of ours."""
        carried = self._carried(request)
        return guards.visitor_name(self._secret, carried) if carried else ""

    def _guarded(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            visit, fresh, failure = await self._visit(request)
            try:
                if failure is not None:
                    raise failure
                if not self.place().secure:
                    raise _insecure()
                response = await handler(visit)
            except IndaiError as error:
                response = await self._sorry(visit, error)
            except web.HTTPException:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: a visitor gets words and an id
                response = await self._sorry(visit, _unforeseen(error))
            if not response.prepared:
                self.protect(response)
                if fresh:
                    self._cookie(response, _VISITOR, fresh, None)
            return response

        return answer

    def protect(self, response: web.StreamResponse) -> None:
        """Set the headers that every answer has; a stream calls this before it begins."""
        framed = "Content-Security-Policy" in response.headers
        for name, value in guards.HEADERS.items():
            if not (framed and name == "X-Frame-Options"):  # which knows no list of sites
                response.headers.setdefault(name, value)
        if self.place().tls:
            response.headers["Strict-Transport-Security"] = guards.HSTS

    async def streamed(
        self, visit: Visit, parts: AsyncIterator[bytes], name: str, media_type: str
    ) -> web.StreamResponse:
        """A download that is never whole in memory; `name` is ours. What fails before the first part becomes
        a page; what fails later breaks the connection, so that half a file is not taken for all of it."""
        first = await anext(parts, b"")
        disposition = f'attachment; filename="{name}"'
        response = web.StreamResponse(
            headers={"Content-Type": media_type, "Content-Disposition": disposition}
        )
        self.protect(response)
        await response.prepare(visit.request)
        try:
            await response.write(first)
            async for part in parts:
                await response.write(part)
            await response.write_eof()
        except (ConnectionError, IndaiError) as error:
            log.warning("a download broke off", name=name, error=type(error).__name__)
            if visit.request.transport is not None:
                visit.request.transport.abort()
        return response

    async def _visit(self, request: web.Request) -> tuple[Visit, str, IndaiError | None]:
        """The visit, the value of a visitor's cookie that is to be set, and what keeps us from knowing who it
        is."""
        token, session, failure = request.cookies.get(self._name(_SESSION), ""), None, None
        if CARRIED in request.headers:
            token = ""  # a page inside another site's is nobody but its visitor
        try:
            session = await self.sessions.find_token(token) if token else None
        except IndaiError as error:
            failure = error
        fresh, bound = "", token
        if session is None:
            bound = self._carried(request)
            if not bound:
                bound = fresh = guards.visitor_cookie(self._secret)
        theme = request.cookies.get(self._name("theme"), "")
        visit = Visit(
            request,
            self.pages,
            self._words(request, session),
            session,
            token if session else "",
            guards.form_token(self._secret, bound),
            guards.visitor_name(self._secret, bound) if session is None else "",
            theme if theme in THEMES else "",
            guards.known_by(self._secret, self.remembered(request, _KNOWN)),
        )
        return visit, fresh, failure

    def stranger(self) -> tuple[str, str]:
        """A new visitor who has no cookie, and what their forms carry: for a page inside another site's,
        which sends the first as `X-Visitor`."""
        made = guards.visitor_cookie(self._secret)
        return made, guards.form_token(self._secret, made)

    def _carried(self, request: web.Request) -> str:
        """The visitor's cookie, or what stands for it; empty unless we have made it."""
        found = request.headers.get(CARRIED) or request.cookies.get(self._name(_VISITOR), "")
        return found if guards.is_visitor(self._secret, found) else ""

    def chosen_language(self, request: web.Request, session: Session | None) -> str:
        """In this browser, else by who is signed in; empty where nobody chose one."""
        return self.remembered(request, LANGUAGE) or (session.language if session else "")

    def _words(self, request: web.Request, session: Session | None) -> Words:
        """As chosen in this browser, else by who is signed in, else as the browser wishes."""
        chosen = self.chosen_language(request, session)
        return words_in(chosen or wanted(request.headers.get("Accept-Language", "")))

    async def _read_form(self, visit: Visit) -> None:
        """The form's text fields, once its sender is known to be one of our pages."""
        request = visit.request
        hosts, host = self.place().hosts, request.host.lower()
        if host not in hosts and await self.branded(host):
            hosts |= {host}
        guards.check_origin(request.headers, hosts)
        if not 0 <= (-1 if request.content_length is None else request.content_length) <= MAX_FORM:
            raise InvalidInput(
                Reason.TOO_LARGE, "The form is too large.", hint=f"a form has at most {MAX_FORM} bytes"
            )
        form: dict[str, str] = {}
        for name, value in (await request.post()).items():
            if not isinstance(value, str) or len(value) > MAX_FIELD or "\x00" in value:
                raise InvalidInput(Reason.INVALID_ARGUMENT, f"The field {name[:40]} cannot be read.")
            form[name] = value
        bound = visit.token or self._carried(request)
        token = form.pop(guards.FIELD, "") or request.headers.get("X-CSRF-Token", "")
        guards.check_form(self._secret, bound, token)
        visit.form = form

    async def _sorry(self, visit: Visit, error: IndaiError) -> web.Response:
        """What went wrong, in words, with the status of its reason."""
        if error.reason is Reason.UNAUTHENTICATED and await self._has_ended(visit):
            answer = visit.go(SIGN_IN)
            self.drop(answer)
            return answer
        said = failure(error, visit.words)
        return visit.page("web/sorry.html", status=error.reason.status.http, failure=said)

    async def _has_ended(self, visit: Visit) -> bool:
        """Whether the session ended between the cookie and the call. Something else may have been what was
        not believed, such as a new passkey: that signs nobody out."""
        try:
            return visit.session is not None and await self.sessions.find_token(visit.token) is None
        except IndaiError:
            return False

    def _name(self, name: str) -> str:
        """Over TLS the prefix keeps other hosts and plain HTTP from setting it (RFC 6265bis, 4.1.3.2)."""
        return f"__Host-{name}" if self.place().tls else f"indai-{name}"

    def _cookie(self, answer: web.StreamResponse, name: str, value: str, max_age: int | None) -> None:
        answer.set_cookie(
            self._name(name),
            value,
            max_age=max_age,
            path="/",
            httponly=True,
            samesite="Lax",
            secure=self.place().tls,
        )


def _whole(request: web.Request) -> str:
    """Where somebody wanted to go, in letters that `next` may have."""
    query = urlencode([(name, value) for name, value in request.query.items() if name != "said"])
    return f"{request.path}?{query}" if query else request.path


def _check_role(session: Session, roles: Collection[str]) -> None:
    if session.role not in roles:
        raise Refused(
            Reason.PERMISSION_DENIED,
            f"This page is not for somebody who is {session.role}.",
            hint="sign in as somebody else",
        )


def _insecure() -> Refused:
    return Refused(
        Reason.INSECURE,
        "Pages behind a sign-in are not served over plain HTTP to other machines.",
        hint="give the node a certificate (--tls-cert, --tls-key), or its https address with --public-url",
    )


def _unforeseen(error: Exception) -> IndaiError:
    error_id = secrets.token_hex(4)
    log.error("page failed", error_id=error_id, exc_info=error)
    return IndaiError(
        Reason.INTERNAL,
        f"Something went wrong inside the program (error id {error_id}).",
        hint="try again; the log of the program has the details under this id",
    )


async def _unbranded(_: str) -> bool:
    return False
