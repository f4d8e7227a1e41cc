"""An agreed meeting as an iTIP-compatible VEVENT (RFC 5545, 5546), and the bytes that go into a calendar
file.

Parties are known by handles, and a handle is no mail address. `ORGANIZER` and `ATTENDEE` must be URIs (RFC
5545 section 3.3.3), and Outlook and Google drop or refuse people who are not `mailto:`, so a `urn:` would
open in some programs only. A bare `mailto:name@authority` could reach a stranger's inbox when the program
offers to "notify guests". So a handle becomes `mailto:name@authority.invalid`: every program accepts it,
and no mail system will ever deliver it (RFC 2606). The handle itself stands in CN, which is what programs
show. `SCHEDULE-AGENT=NONE` (RFC 6638) tells a CalDAV server that invitations are none of its business: the
two nodes have agreed already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from icalendar import Calendar as ICalendar
from icalendar import Event, vCalAddress
from indai.node.calendar.busy import CalendarEvent

ATTENDS = {"ROLE": "REQ-PARTICIPANT", "PARTSTAT": "ACCEPTED"}
UNSCHEDULED = {"SCHEDULE-AGENT": "NONE"}
PRODUCT = "-//ind.ai//node//EN"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# C0 controls but tab and newline, and DEL, may not stand in a calendar; a peer's words may hold anything.
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))


@dataclass(frozen=True, slots=True)
class MeetingEvent:
    """A meeting to write. Times in ms since the epoch (whole seconds are kept); people by handle.

    `uid` names it for ever; a change carries the same uid and a higher `sequence`.
    """

    uid: str
    start_ms: int
    end_ms: int
    summary: str
    organizer: str
    attendees: tuple[str, ...]
    stamp_ms: int
    description: str = ""
    location: str = ""
    sequence: int = 0
    cancelled: bool = False

    def occurrence(self) -> CalendarEvent:
        """What a reader of the file will see."""
        start, end = (instant // 1000 * 1000 for instant in (self.start_ms, self.end_ms))
        return CalendarEvent(
            start,
            end,
            self.uid,
            _clean(self.summary),
            all_day=False,
            busy=not self.cancelled,
            ours=True,
            place=_clean(self.location),
        )

    def to_ical(self) -> bytes:
        """The VEVENT as it stands in a calendar: escaped, folded at 75 octets, lines ended by CRLF."""
        event = self.component()
        for handle in self.attendees:
            event.add("attendee", person(handle, {**ATTENDS, **UNSCHEDULED}))
        event.add("organizer", person(self.organizer, UNSCHEDULED))
        event.add("x-indai-meeting", "1")
        text: bytes = event.to_ical()
        return text

    def component(self) -> Event:
        """The VEVENT without its people."""
        event = Event()
        event.add("uid", self.uid)
        event.add("dtstamp", _utc(self.stamp_ms))
        event.add("dtstart", _utc(self.start_ms))
        event.add("dtend", _utc(self.end_ms))
        event.add("sequence", self.sequence)
        event.add("status", "CANCELLED" if self.cancelled else "CONFIRMED")
        event.add("transp", "TRANSPARENT" if self.cancelled else "OPAQUE")
        for name, words in (
            ("summary", self.summary),
            ("description", self.description),
            ("location", self.location),
        ):
            if words:
                event.add(name, _clean(words))
        return event


def empty_calendar() -> bytes:
    """A valid calendar file without any event."""
    calendar = ICalendar()
    calendar.add("prodid", PRODUCT)
    calendar.add("version", "2.0")
    calendar.add("calscale", "GREGORIAN")
    text: bytes = calendar.to_ical()
    return text


def address_of(handle: str) -> str:
    """The URI that stands for a handle: `ind.ai/alice/work` is `mailto:alice.work@ind.ai.invalid`."""
    authority, _, name = handle.partition("/")
    return f"mailto:{name.replace('/', '.') or 'agent'}@{authority}.invalid"


def _clean(words: str) -> str:
    return words.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def person(handle: str, params: Mapping[str, str]) -> vCalAddress:
    """A party as ORGANIZER or ATTENDEE."""
    address = vCalAddress(address_of(handle))
    for name, value in {"CN": handle, **params}.items():
        address.params[name] = value
    return address


def _utc(instant_ms: int) -> datetime:
    return _EPOCH + timedelta(seconds=instant_ms // 1000)
