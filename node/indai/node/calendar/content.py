"""iCalendar content lines (RFC 5545 section 3.1) read with their place in the file.

A calendar is a person's own file, so two things matter that general parsers give up: an error names the
line it is on, and every component keeps its exact byte span, so that one event can be replaced without
touching any other byte. Lines may end in CRLF, LF or CR, may be folded with a space or a tab (also inside a
UTF-8 character), and blank lines are passed over. Anything else that is not a content line is an error: a
line that cannot be read may have been the end of a meeting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from indai.protocol.errors import InvalidInput, Reason

MAX_BYTES = 10 * 1024 * 1024
MAX_DEPTH = 16
# Properties that say when a meeting is, and whose; all others are checked for form and passed over.
_KEPT = frozenset(
    b"UID SUMMARY LOCATION DTSTART DTEND DURATION RRULE RDATE EXDATE RECURRENCE-ID STATUS TRANSP SEQUENCE "
    b"FREEBUSY TZID TZOFFSETFROM TZOFFSETTO X-LIC-LOCATION X-MICROSOFT-CDO-BUSYSTATUS X-INDAI-MEETING".split()
)
_NAME = re.compile(rb"[A-Za-z0-9-]+$")
_PARAM = re.compile(r';([A-Za-z0-9-]+)=((?:"[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*)')


@dataclass(frozen=True, slots=True)
class Property:
    """One content line: upper-case name and parameters, the value as it stands (still escaped), its line
    number."""

    name: str
    params: dict[str, str]
    value: str
    line: int


@dataclass(slots=True)
class Component:
    """A component with the properties this package reads, its byte span `[start, end)`, and where its END
    stands."""

    name: str
    line: int
    start: int
    closing: int = 0
    end: int = 0
    properties: dict[str, list[Property]] = field(default_factory=dict)
    children: list[Component] = field(default_factory=list)

    def all(self, name: str) -> list[Property]:
        """Every property of that name, in the order of the file."""
        return self.properties.get(name, [])

    def one(self, name: str) -> Property | None:
        """The property of that name, or None. Raises when it stands twice: which of the two is meant?"""
        found = self.all(name)
        if len(found) > 1:
            raise invalid(
                f"{name} stands twice in one {self.name}", found[1].line, "Keep one of the two lines."
            )
        return found[0] if found else None


def invalid(what: str, line: int, hint: str = "") -> InvalidInput:
    """The one error of this package: what is wrong, on which line, and what to do."""
    return InvalidInput(
        Reason.INVALID_CALENDAR,
        f"Calendar line {line}: {what}.",
        hint=hint or "Export the calendar again, or correct that line.",
        fields={f"line[{line}]": what},
    )


def read_components(data: bytes) -> list[Component]:
    """The top-level VCALENDAR components of a file.

    Raises InvalidInput (INVALID_CALENDAR) for anything that is not wholly well-formed, (TOO_LARGE) past
    `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        limit = f"{MAX_BYTES // 2**20} MiB"
        raise InvalidInput(
            Reason.TOO_LARGE,
            f"The calendar is {len(data) / 2**20:.1f} MiB; at most {limit} are read.",
            hint="Export fewer years, or without attachments.",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise invalid("the file is UTF-16, and iCalendar is UTF-8", 1, "Save it as UTF-8.")
    calendars: list[Component] = []
    stack: list[Component] = []
    for line, offset, end, text in _logical_lines(data):
        head = text[:6].upper()
        if head == b"BEGIN:":
            _open(stack, text[6:], line, offset)
        elif head[:4] == b"END:":
            _close(stack, calendars, text[4:], line, (offset, end))
        elif not stack:
            raise invalid(
                "this stands outside any calendar", line, "An iCalendar file begins with BEGIN:VCALENDAR."
            )
        else:
            _keep(stack[-1], text, line)
    if stack:
        raise invalid(
            f"the {stack[-1].name} that begins here never ends",
            stack[-1].line,
            "The file was cut off; export it again.",
        )
    if not calendars:
        raise invalid("there is no VCALENDAR in the file", 1, "Is it an iCalendar (.ics) file?")
    return calendars


def _logical_lines(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Unfolded lines as (line number, byte offset, byte offset after it, content without the line end)."""
    offset = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    parts: list[bytes] = []
    started = (1, offset)
    for number, raw in enumerate(data[offset:].splitlines(keepends=True), start=1):
        folded = raw[:1] in (b" ", b"\t")
        if parts and not folded:
            yield *started, offset, b"".join(parts)
            parts = []
        content = raw.rstrip(b"\r\n")
        if not parts and not content.strip():
            offset += len(raw)
            continue
        if folded and not parts:
            raise invalid("a folded line follows no line", number)
        if not parts:
            started = (number, offset)
        parts.append(content[1:] if folded else content)
        offset += len(raw)
    if parts:
        yield *started, offset, b"".join(parts)


def _open(stack: list[Component], raw_name: bytes, line: int, offset: int) -> None:
    name = raw_name.strip().upper()
    if not _NAME.match(name):
        raise invalid("BEGIN names no component", line)
    if bool(stack) == (name == b"VCALENDAR"):
        raise invalid(f"BEGIN:{name.decode()} in the wrong place", line, "Is an END line missing above it?")
    if len(stack) >= MAX_DEPTH:
        raise invalid(f"components are nested more than {MAX_DEPTH} deep", line)
    stack.append(Component(name.decode(), line, offset))


def _close(
    stack: list[Component], calendars: list[Component], raw_name: bytes, line: int, span: tuple[int, int]
) -> None:
    name = raw_name.strip().upper().decode("ascii", "replace")
    if not stack or stack[-1].name != name:
        where = f"the {stack[-1].name} of line {stack[-1].line} is still open" if stack else "nothing is open"
        raise invalid(f"END:{name[:40]}, but {where}", line)
    component = stack.pop()
    component.closing, component.end = span
    (stack[-1].children if stack else calendars).append(component)


def _keep(component: Component, text: bytes, line: int) -> None:
    colon, semicolon = text.find(b":"), text.find(b";")
    cut = semicolon if -1 < semicolon < colon else colon
    if colon < 0 or not _NAME.match(text[:cut].strip()):
        raise invalid(
            f"this is no property of the {component.name} that begins on line {component.line}", line
        )
    name = text[:cut].strip().upper()
    if name in _KEPT:
        prop = _property(name.decode(), text[cut:].decode("utf-8", "replace"), line)
        component.properties.setdefault(prop.name, []).append(prop)


def _property(name: str, rest: str, line: int) -> Property:
    params: dict[str, str] = {}
    position = 0
    # By position, never by cutting the rest off: a line of a million parameters must cost a million steps.
    while rest.startswith(";", position):
        match = _PARAM.match(rest, position)
        if match is None:
            raise invalid(f"the parameters of {name} cannot be read", line)
        params[match[1].upper()] = match[2].strip('"')
        position = match.end()
    if not rest.startswith(":", position):
        raise invalid(f"the parameters of {name} cannot be read", line)
    return Property(name, params, rest[position + 1 :].strip(), line)


_ESCAPE = re.compile(r"\\(.)")


def unescape(value: str) -> str:
    """A TEXT value (section 3.3.11) in clear."""
    return _ESCAPE.sub(lambda match: "\n" if match[1] in "nN" else match[1], value)
