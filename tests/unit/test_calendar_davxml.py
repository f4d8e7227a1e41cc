"""What calendar servers send, well-formed and not."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.node.calendar import davxml
from indai.protocol.errors import IndaiError, Reason

ANSWER = b"""<?xml version="1.0"?>
<D:multistatus xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
 <D:response><D:href>https://dav.example.org/a%40b/caf%c3%a9%2F1.ics</D:href><D:propstat>
  <D:prop><D:getetag>"1"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat>
  <D:prop><D:displayname/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>
 <D:response><D:href>/a@b/gone.ics</D:href><D:status>HTTP/1.1 404 Not Found</D:status></D:response>
 <D:sync-token>t2</D:sync-token>
</D:multistatus>"""
BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<D:multistatus xmlns:D="DAV:"><D:sync-token>&b;</D:sync-token></D:multistatus>"""


def test_an_answer_has_paths_in_one_form_and_only_the_properties_that_are_there() -> None:
    answer = davxml.read_multistatus(ANSWER)
    here, gone = answer.responses
    assert here.path == "/a@b/caf%C3%A9%2F1.ics"  # a slash inside a name is no slash
    assert (here.status, here.text(davxml.ETAG), davxml.NAME in here.props) == (200, '"1"', False)
    assert (gone.path, gone.status) == ("/a@b/gone.ics", 404)
    assert answer.sync_token == "t2"


@pytest.mark.parametrize("data", [b"", b"<html></html>", b"<a", BOMB, b"\xff\xfe", b"<D:multistatus/>"])
def test_anything_else_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(IndaiError) as caught:
        davxml.read_multistatus(data)
    assert caught.value.reason is Reason.MALFORMED
    assert davxml.precondition(data) == ""


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(IndaiError):
        davxml.read_multistatus(ANSWER.replace(b"https://dav.example.org", b"https://[x"))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_damaged_answer_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ANSWER) - 1))
    damaged = ANSWER[:at] + data.draw(st.binary(max_size=4)) + ANSWER[at + data.draw(st.integers(0, 9)) :]
    with contextlib.suppress(IndaiError):
        davxml.read_multistatus(damaged)


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_the_form_of_a_path_is_its_own_form(name: str) -> None:
    path = davxml.path_of("/home/" + name.replace("?", "").replace("#", ""))
    assert davxml.path_of(path) == path
