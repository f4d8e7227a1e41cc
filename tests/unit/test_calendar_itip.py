"""Invitations, read by three parsers that are not ours, against the tables of RFC 5546."""

from __future__ import annotations

import email
import email.policy
from dataclasses import replace

import pytest
import vobject
from hypothesis import given, settings
from hypothesis import strategies as st
from ical.calendar_stream import IcsCalendarStream
from icalendar import Calendar
from indai.node.calendar import MeetingEvent
from indai.node.calendar.itip import Method, as_mail, invitation

NOON = 1_795_089_600_000
EVENT = MeetingEvent(
    uid="0123@ind.ai.bob",
    start_ms=NOON,
    end_ms=NOON + 1_800_000,
    summary="Lunch; with, punctuation",
    organizer="ind.ai/bob",
    attendees=("ind.ai/bob", "ind.ai/alice"),
    stamp_ms=NOON - 86_400_000,
    location="Café\nSecond floor",
)
# RFC 5546 section 3.2: how often a property stands in the VEVENT of a message.
ONCE = ("UID", "DTSTAMP", "ORGANIZER", "SEQUENCE", "DTSTART", "DTEND")
ATTENDEES = {Method.REQUEST: 2, Method.CANCEL: 2, Method.REPLY: 1}


@pytest.mark.parametrize("method", list(Method))
def test_a_message_has_what_the_standard_wants_and_three_programs_read_it(method: Method) -> None:
    text = invitation(EVENT, method, replier="ind.ai/alice")
    lines = text.decode().replace("\r\n ", "").split("\r\n")
    names = [line.partition(":")[0].partition(";")[0] for line in lines]
    assert all(names.count(name) == 1 for name in (*ONCE, "METHOD", "PRODID", "VERSION"))
    assert names.count("ATTENDEE") == ATTENDEES[method]
    assert f"METHOD:{method.value}" in lines
    assert all(len(line.encode()) <= 75 for line in text.decode().split("\r\n"))
    # What belongs to an owner's own calendar stays there.
    assert b"SCHEDULE-AGENT" not in text
    assert b"X-INDAI" not in text

    (first,) = Calendar.from_ical(text).events
    (second,) = IcsCalendarStream.calendar_from_ics(text.decode()).events
    third = vobject.readOne(text.decode())
    assert first.get("SUMMARY") == second.summary == third.vevent.summary.value == EVENT.summary
    assert first.get("LOCATION") == second.location == third.vevent.location.value == EVENT.location
    assert first.start == second.dtstart == third.vevent.dtstart.value
    assert str(second.organizer.uri if second.organizer else "") == "mailto:bob@ind.ai.invalid"
    assert third.method.value == method.value
    assert third.validate(raiseException=True)


def test_a_cancellation_and_every_later_version_count_up_under_one_uid() -> None:
    moved = replace(EVENT, start_ms=NOON + 3_600_000, end_ms=NOON + 5_400_000, sequence=1)
    versions = [
        Calendar.from_ical(invitation(event, method)).events[0]
        for event, method in ((EVENT, Method.REQUEST), (moved, Method.REQUEST), (moved, Method.CANCEL))
    ]
    assert [event.sequence for event in versions] == [0, 1, 2]
    assert {str(event["UID"]) for event in versions} == {EVENT.uid}
    assert [str(event["STATUS"]) for event in versions] == ["CONFIRMED", "CONFIRMED", "CANCELLED"]


def test_a_reply_is_of_the_one_who_answers() -> None:
    (event,) = Calendar.from_ical(invitation(EVENT, Method.REPLY, "ind.ai/alice")).events
    assert event["ATTENDEE"] == "mailto:alice@ind.ai.invalid"
    assert event["ATTENDEE"].params["PARTSTAT"] == "ACCEPTED"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=120), st.text(max_size=60))
def test_no_words_of_a_peer_add_a_line(summary: str, place: str) -> None:
    text = invitation(replace(EVENT, summary=summary, location=place), Method.REQUEST)
    (event,) = Calendar.from_ical(text).events
    assert event.sequence == 0
    assert text.count(b"BEGIN:VEVENT") == text.count(b"\r\nUID:") == text.count(b"\r\nMETHOD:") == 1


def test_a_mail_carries_words_and_the_message_under_the_same_method() -> None:
    data = as_mail(
        invitation(EVENT, Method.REQUEST), Method.REQUEST, "Lunch\r\nBcc: x@y", "See you.", "b@x.org"
    )
    mail = email.message_from_bytes(data, policy=email.policy.default)
    assert (mail["To"], mail["Bcc"]) == ("b@x.org", None)
    assert mail.get_content_type() == "multipart/alternative"
    words, calendar = mail.iter_parts()
    assert words.get_content() == "See you.\n"
    assert calendar.get_content_type() == "text/calendar"
    assert (calendar.get_param("method"), calendar.get_param("charset")) == ("REQUEST", "utf-8")
    payload = calendar.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert Calendar.from_ical(payload).events[0]["UID"] == EVENT.uid
