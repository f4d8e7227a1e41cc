"""Agreed meetings as iTIP messages (RFC 5546), and as mail (RFC 6047), for those who have no agent.

The offerer of the commitment is the ORGANIZER, both parties are attendees who have accepted. A later version
of a meeting has the same UID and a higher SEQUENCE, a REPLY names the one attendee who answers. What belongs
to an owner's own calendar (SCHEDULE-AGENT, which RFC 6638 section 7.1 keeps out of messages, and our mark)
is left out.
"""

from __future__ import annotations

from dataclasses import replace
from email.message import EmailMessage
from enum import Enum

from icalendar import Calendar as ICalendar
from indai.node.calendar.meeting import ATTENDS, PRODUCT, MeetingEvent, person


class Method(Enum):
    """RFC 5546 section 1.4."""

    REQUEST = "REQUEST"
    CANCEL = "CANCEL"
    REPLY = "REPLY"


def invitation(event: MeetingEvent, method: Method, replier: str = "") -> bytes:
    """One iTIP message about a meeting. `replier` is the handle that answers in a REPLY.

    A CANCEL of a meeting that still stands carries the next SEQUENCE.
    """
    if method is Method.CANCEL and not event.cancelled:
        event = replace(event, cancelled=True, sequence=event.sequence + 1)
    message = ICalendar()
    message.add("prodid", PRODUCT)
    message.add("version", "2.0")
    message.add("calscale", "GREGORIAN")
    message.add("method", method.value)
    component = event.component()
    component.add("organizer", person(event.organizer, {}))
    for handle in (replier,) if method is Method.REPLY else event.attendees:
        component.add("attendee", person(handle, ATTENDS))
    message.add_component(component)
    text: bytes = message.to_ical()
    return text


def as_mail(text: bytes, method: Method, subject: str, words: str, to: str = "") -> bytes:
    """An unsent mail that carries the message: words for a person, and the same for their program."""
    mail = EmailMessage()
    mail["Subject"] = " ".join(subject.split())
    if to:
        mail["To"] = to
    mail["X-Unsent"] = "1"  # programs open it as a draft
    mail.set_content(words)
    mail.add_alternative(text.decode(), subtype="calendar", params={"method": method.value}, cte="base64")
    return mail.as_bytes()
