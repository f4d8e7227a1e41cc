"""A CalDAV account over HTTP: requests with their errors in our words, and the way to its calendars.

RFC 4918 (WebDAV), 4791 (CalDAV), 6764 and 5397 (discovery). Credentials go to the one origin that the owner
named, over TLS unless it is this very machine; a redirect elsewhere is an error, never followed.
"""

from __future__ import annotations

import base64
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from indai.node.calendar import davxml
from indai.node.calendar.davxml import CAL, DAV, Multistatus, Response
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused, Unavailable
from yarl import URL

MAX_ANSWER = 32 * 1024 * 1024
MAX_REDIRECTS = 4
CONNECT_S = 5.0
TOTAL_S = 10.0
_REDIRECTS = (301, 302, 307, 308)
_NOT_HERE = (Reason.NOT_FOUND, Reason.UNSUPPORTED, Reason.MALFORMED, Reason.PERMISSION_DENIED)
_BUSY = (429, 502, 503, 504)
_DISCOVERED = (
    davxml.RESOURCE_TYPE,
    davxml.NAME,
    davxml.COMPONENTS,
    davxml.REPORTS,
    davxml.PRIVILEGES,
    davxml.SYNC_TOKEN,
    davxml.CTAG,
)


@dataclass(frozen=True, slots=True)
class Login:
    """How an account is opened: a password with its user name, or a bearer token without one."""

    user: str
    secret: str = field(repr=False)

    def header(self) -> str:
        """The value of the Authorization header."""
        if self.user:
            pair = f"{self.user}:{self.secret}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return f"Bearer {self.secret}"


@dataclass(frozen=True, slots=True)
class Found:
    """A calendar of an account. `syncs`: the server tells changes by token; `only_busy`: it shows when,
    and not what."""

    path: str
    name: str
    writable: bool
    syncs: bool
    only_busy: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: status, the headers that matter, the body."""

    status: int
    data: bytes
    etag: str
    location: str


def open_session(*, public_only: bool) -> aiohttp.ClientSession:
    """The HTTP session of all accounts of a node. `public_only` keeps it from private addresses."""
    resolver = _PublicOnly() if public_only else None
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit_per_host=4, resolver=resolver, keepalive_timeout=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=TOTAL_S, connect=CONNECT_S),
        headers={"User-Agent": "ind.ai-node"},
        raise_for_status=False,
    )


class DavClient:
    """Requests of one account. Every method may raise Unavailable (UNREACHABLE), Refused (UNAUTHENTICATED,
    PERMISSION_DENIED, NOT_FOUND) and IndaiError (MALFORMED), naming the server and no secret."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, login: Login, *, public_only: bool = False
    ) -> None:
        self.url = checked_url(url, public_only=public_only)
        self._session = session
        self._login = login

    async def multistatus(self, method: str, path: str, body: bytes, depth: str = "0") -> Multistatus:
        """A PROPFIND or REPORT; redirects on the same origin are followed."""
        for _ in range(MAX_REDIRECTS):
            reply = await self.request(method, path, body, {"Depth": depth})
            if reply.status in _REDIRECTS:
                path = self._same_origin(path, reply.location)
                continue
            if reply.status != 207:
                raise self.error(reply, f"{method} {path}")
            return davxml.read_multistatus(reply.data)
        raise self._unreachable("it redirects in circles")

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request, whatever its status. A read that met a connection just closed is sent once more."""
        sent = {"Authorization": self._login.header(), **(headers or {})}
        if body and "Content-Type" not in sent:
            sent["Content-Type"] = "application/xml; charset=utf-8"
        url = self.url.join(URL(path, encoded=True))
        try:
            try:
                return await self._send(method, url, body, sent)
            except aiohttp.ServerDisconnectedError:
                if method not in ("PROPFIND", "REPORT", "GET"):
                    raise
                return await self._send(method, url, body, sent)
        except TimeoutError as error:
            raise self._unreachable("it does not answer in time") from error
        except ssl.SSLError as error:
            raise self._unreachable("its certificate does not verify") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise self._unreachable("its certificate does not verify") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(type(error).__name__) from error

    async def _send(self, method: str, url: URL, body: bytes, headers: Mapping[str, str]) -> Reply:
        async with self._session.request(
            method, url, data=body or None, headers=headers, allow_redirects=False
        ) as answer:
            data = bytearray()
            async for chunk in answer.content.iter_chunked(65_536):
                data += chunk
                if len(data) > MAX_ANSWER:
                    raise InvalidInput(
                        Reason.TOO_LARGE,
                        f"{self.name} answers with more than {MAX_ANSWER // 2**20} MiB.",
                        hint="Read fewer calendars of this account.",
                    )
            tag, location = answer.headers.get("ETag", ""), answer.headers.get("Location", "")
            return Reply(answer.status, bytes(data), tag, location)

    @property
    def name(self) -> str:
        """How this server is called in messages."""
        return f"The calendar server {self.url.host}"

    def error(self, reply: Reply, what: str) -> IndaiError:
        """What an unexpected status means."""
        if reply.status == 401:
            return Refused(
                Reason.UNAUTHENTICATED,
                f"{self.name} does not accept the user name or the password.",
                hint="give them again: indai calendar add",
            )
        if reply.status == 403:
            return Refused(Reason.PERMISSION_DENIED, f"{self.name} does not allow {what}.")
        if reply.status in (404, 410):
            return Refused(
                Reason.NOT_FOUND, f"{self.name} has nothing at {what}.", hint="indai calendar check"
            )
        if reply.status == 507:
            return Unavailable(Reason.STORAGE_FULL, f"{self.name} has no space left.")
        if reply.status in _BUSY or reply.status >= 500:
            return self._unreachable(f"it answers {reply.status}")
        return IndaiError(Reason.UNSUPPORTED, f"{self.name} answers {reply.status} to {what}.")

    def _unreachable(self, why: str) -> Unavailable:
        return Unavailable(
            Reason.UNREACHABLE,
            f"{self.name} can't be used: {why}.",
            hint="It is tried again; see indai calendar check.",
        )

    def _same_origin(self, path: str, location: str) -> str:
        target = self.url.join(URL(path, encoded=True)).join(URL(location))
        if target.origin() != self.url.origin():
            raise Refused(
                Reason.INSECURE,
                f"{self.name} sends us to {target.host}, where your password does not belong.",
                hint=f"if you trust it, give that address: {target.origin()}",
            )
        return davxml.path_of(target.raw_path)


def checked_url(text: str, *, public_only: bool) -> URL:
    """An account's address. Raises InvalidInput for one that would show the password to others."""
    try:
        url = URL(text)
        url.port  # noqa: B018 - a bad port raises here
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host or url.user or url.password:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "The address of a calendar server is like https://dav.example.org/ and names no user.",
        )
    address = _literal(url.host)
    loopback = url.host == "localhost" or (address is not None and address.is_loopback)
    if url.scheme == "http" and not loopback:
        raise InvalidInput(
            Reason.INSECURE,
            f"http://{url.host} would show your password to everybody on the way.",
            hint="use https",
        )
    if public_only and (loopback or (address is not None and not address.is_global)):
        raise InvalidInput(
            Reason.INSECURE, f"{url.host} is a private address, which this node may not reach."
        )
    return url.with_query(None).with_fragment(None)


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class _PublicOnly(AbstractResolver):
    """Names that resolve to private addresses do not resolve: owners name hosts, and this machine's network
    is not theirs."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        """See `AbstractResolver`."""
        found = await self._inner.resolve(host, port, family)  # type: ignore[arg-type]
        public = [each for each in found if ipaddress.ip_address(each["host"]).is_global]
        if not public:
            raise OSError(None, f"{host} has no public address")
        return public

    async def close(self) -> None:
        """See `AbstractResolver`."""
        await self._inner.close()


# Discovery


async def discover(client: DavClient) -> list[Found]:
    """The calendars of an account, in the server's order: from the address itself, its principal, or the
    well-known address (RFC 6764 section 6)."""
    start = davxml.path_of(client.url.raw_path or "/")
    tried: list[IndaiError] = []
    for path in dict.fromkeys((start, "/.well-known/caldav")):
        try:
            (own,) = (await _properties(client, path, "0", (davxml.PRINCIPAL, *_DISCOVERED)))[:1]
        except (ValueError, IndaiError) as error:
            if isinstance(error, IndaiError):
                if error.reason not in _NOT_HERE:
                    raise
                tried.append(error)
            continue
        if (calendar := _calendar(own)) is not None:
            return [calendar]
        if principal := own.href(davxml.PRINCIPAL):
            return await _of_principal(client, davxml.path_of(principal))
    if tried:
        raise tried[0]
    raise _no_calendars(client)


async def _of_principal(client: DavClient, principal: str) -> list[Found]:
    (own,) = (await _properties(client, principal, "0", (davxml.HOME_SET,)))[:1]
    home = own.href(davxml.HOME_SET)
    if not home:
        raise _no_calendars(client)
    inside = await _properties(client, davxml.path_of(home), "1", _DISCOVERED)
    found = [calendar for each in inside if (calendar := _calendar(each)) is not None]
    if not found:
        raise _no_calendars(client)
    return found


async def _properties(
    client: DavClient, path: str, depth: str, names: tuple[str, ...]
) -> tuple[Response, ...]:
    return (await client.multistatus("PROPFIND", path, davxml.propfind(names), depth)).responses


def _calendar(response: Response) -> Found | None:
    """The calendar that a resource is; None for other resources, and for calendars of tasks alone."""
    if not response.holds(davxml.RESOURCE_TYPE, f"{CAL}calendar"):
        return None
    components = response.props.get(davxml.COMPONENTS)
    if components is not None and not any(each.get("name") == "VEVENT" for each in components):
        return None
    told = davxml.PRIVILEGES in response.props
    granted = {grant.tag for each in response.props.get(davxml.PRIVILEGES, ()) for grant in each}
    reads = not told or bool(granted & {f"{DAV}read", f"{DAV}all"})
    writes = not told or bool(granted & {f"{DAV}write", f"{DAV}write-content", f"{DAV}bind", f"{DAV}all"})
    syncs = response.holds(davxml.REPORTS, f"{DAV}sync-collection")
    name = response.text(davxml.NAME) or response.path.rstrip("/").rsplit("/", 1)[-1]
    return Found(response.path, name, writes, syncs, not reads)


def _no_calendars(client: DavClient) -> Refused:
    return Refused(
        Reason.NOT_FOUND,
        f"{client.name} shows no calendar to this account.",
        hint="Give the address of the calendar itself, or of the account.",
    )
