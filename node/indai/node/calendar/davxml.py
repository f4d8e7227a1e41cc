"""The XML of WebDAV and CalDAV (RFC 4918, 4791, 6578): what is asked, and what is answered.

Answers are parsed by `defusedxml`: no entities, no external references, whatever a server sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote, urlsplit
from xml.etree.ElementTree import Element, ParseError, SubElement, tostring

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring
from indai.protocol.errors import IndaiError, Reason

DAV = "{DAV:}"
CAL = "{urn:ietf:params:xml:ns:caldav}"
CS = "{http://calendarserver.org/ns/}"

ETAG = f"{DAV}getetag"
SYNC_TOKEN = f"{DAV}sync-token"
CTAG = f"{CS}getctag"
DATA = f"{CAL}calendar-data"
PRINCIPAL = f"{DAV}current-user-principal"
HOME_SET = f"{CAL}calendar-home-set"
RESOURCE_TYPE = f"{DAV}resourcetype"
NAME = f"{DAV}displayname"
COMPONENTS = f"{CAL}supported-calendar-component-set"
REPORTS = f"{DAV}supported-report-set"
PRIVILEGES = f"{DAV}current-user-privilege-set"
_PLAIN = "!$&'()*+,;=:@"  # of a path segment (RFC 3986 section 3.3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Response:
    """What a server says of one resource: its path (see `path_of`), its status if it has one of its own, the
    properties it has."""

    path: str
    status: int
    props: dict[str, Element] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A property's text; empty when it is absent."""
        element = self.props.get(name)
        return (element.text or "").strip() if element is not None else ""

    def href(self, name: str) -> str:
        """The (first) href that a property holds."""
        element = self.props.get(name)
        found = element.find(f"{DAV}href") if element is not None else None
        return (found.text or "").strip() if found is not None else ""

    def holds(self, name: str, tag: str) -> bool:
        """Whether a property has an element of that name anywhere in it."""
        element = self.props.get(name)
        return element is not None and next(element.iter(tag), None) is not None


@dataclass(frozen=True, slots=True)
class Multistatus:
    """A 207 answer. `sync_token` is that of a sync-collection report."""

    responses: tuple[Response, ...]
    sync_token: str = ""


def read_multistatus(data: bytes) -> Multistatus:
    """Raises IndaiError(MALFORMED) for anything else."""
    root = _parse(data)
    if root.tag != f"{DAV}multistatus":
        raise _unreadable("the answer is no multistatus")
    token = root.findtext(f"{DAV}sync-token") or ""
    return Multistatus(tuple(_response(each) for each in root.findall(f"{DAV}response")), token.strip())


def precondition(data: bytes) -> str:
    """The tag of the precondition that an error body names; empty when it names none."""
    try:
        root = _parse(data)
    except IndaiError:
        return ""
    return root[0].tag if root.tag == f"{DAV}error" and len(root) else ""


def path_of(href: str) -> str:
    """The path of an href, which may be absolute or not, in the one form in which paths are compared here:
    percent signs only where they must be. Raises IndaiError(MALFORMED)."""
    try:
        path = urlsplit(href).path
    except ValueError as error:
        raise _unreadable(f"{href[:80]!r} is no address") from error
    return "/".join(quote(unquote(part), safe=_PLAIN) for part in path.split("/"))


def propfind(names: Iterable[str]) -> bytes:
    """The body of a PROPFIND."""
    return _wrapped(f"{DAV}propfind", names)


def sync_collection(token: str) -> bytes:
    """What changed since `token`; everything for an empty one (RFC 6578)."""
    root = Element(f"{DAV}sync-collection")
    SubElement(root, f"{DAV}sync-token").text = token
    SubElement(root, f"{DAV}sync-level").text = "1"
    SubElement(SubElement(root, f"{DAV}prop"), ETAG)
    return _text(root)


def calendar_query(since_ms: int) -> bytes:
    """The events that end after a moment, by their entity tags (RFC 4791 section 7.8)."""
    root = Element(f"{CAL}calendar-query")
    SubElement(SubElement(root, f"{DAV}prop"), ETAG)
    outer = SubElement(SubElement(root, f"{CAL}filter"), f"{CAL}comp-filter", name="VCALENDAR")
    inner = SubElement(outer, f"{CAL}comp-filter", name="VEVENT")
    SubElement(inner, f"{CAL}time-range", start=_stamp(since_ms))
    return _text(root)


def multiget(hrefs: Iterable[str]) -> bytes:
    """These resources, whole (RFC 4791 section 7.9)."""
    root = Element(f"{CAL}calendar-multiget")
    prop = SubElement(root, f"{DAV}prop")
    SubElement(prop, ETAG)
    SubElement(prop, DATA)
    for href in hrefs:
        SubElement(root, f"{DAV}href").text = href
    return _text(root)


def free_busy_query(start_ms: int, end_ms: int) -> bytes:
    """Busy time only (RFC 4791 section 7.10); the answer is iCalendar, not XML."""
    root = Element(f"{CAL}free-busy-query")
    SubElement(root, f"{CAL}time-range", start=_stamp(start_ms), end=_stamp(end_ms))
    return _text(root)


def _response(element: Element) -> Response:
    props: dict[str, Element] = {}
    for stat in element.findall(f"{DAV}propstat"):
        if _status(stat.findtext(f"{DAV}status")) == 200:
            props.update({child.tag: child for prop in stat.findall(f"{DAV}prop") for child in prop})
    status = _status(element.findtext(f"{DAV}status"))
    return Response(path_of((element.findtext(f"{DAV}href") or "").strip()), status, props)


def _status(line: str | None) -> int:
    words = (line or "").split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 200


def _parse(data: bytes) -> Element:
    try:
        root: Element = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise _unreadable("the answer is no well-formed XML") from error
    return root


def _unreadable(what: str) -> IndaiError:
    return IndaiError(
        Reason.MALFORMED,
        f"The calendar server can't be understood: {what}.",
        hint="Is the address that of a CalDAV server?",
    )


def _wrapped(tag: str, names: Iterable[str]) -> bytes:
    root = Element(tag)
    prop = SubElement(root, f"{DAV}prop")
    for name in names:
        SubElement(prop, name)
    return _text(root)


def _text(root: Element) -> bytes:
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _stamp(instant_ms: int) -> str:
    return f"{_EPOCH + timedelta(milliseconds=instant_ms):%Y%m%dT%H%M%SZ}"
