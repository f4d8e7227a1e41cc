"""The pure parts of sharing, asking and requests: reads under a consent, quotations, routes, limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.node.contents import READ_MS, Reads, kept_until_ms, open_sealed, recipient_key, seal_for
from indai.node.extraction import Text, extract, sentences
from indai.node.kinds.share import held_to, retention_days
from indai.node.offices import Department, check, route
from indai.node.quoting_model import pointed
from indai.node.throttle import Throttle
from indai.protocol.errors import InvalidInput, ProtocolError
from indai.protocol.forms import DAY_MS, HOUR_MS
from indai.protocol.keys import SigningKey
from indai.protocol.kinds.ask import RequestWish
from indai.protocol.kinds.share import Mode, Unit
from indai.v1 import policy_pb2

from tests.unit.kinds import CONSENT, PERIODIC, SHARE, SHARED

NOW = CONSENT.from_ms + HOUR_MS
SHOP = Text("shop", "document/shop", "The bakery opens at seven. It is closed on Mondays.")
MAIL = Text("profile: email", "", "email: bob@example.org")


@pytest.mark.parametrize(
    ("begun", "at", "problem"),
    [
        ((), NOW, ""),
        ((), CONSENT.from_ms - 1, "NOT_YET"),
        ((), CONSENT.to_ms, "CONSENT_EXPIRED"),
        ((NOW,), NOW + READ_MS - 1, ""),
        ((NOW,), NOW + READ_MS, "ALREADY_READ"),
    ],
)
def test_once_is_once_and_a_broken_connection_is_the_same_read(
    begun: tuple[int, ...], at: int, problem: str
) -> None:
    assert Reads(begun).problem(CONSENT, at) == problem


def test_again_and_again_is_as_often_as_agreed() -> None:
    twice = (NOW, NOW - 2 * HOUR_MS)
    assert Reads(twice[:1]).problem(PERIODIC, NOW + READ_MS) == ""
    assert Reads(twice).problem(PERIODIC, NOW + READ_MS) == "READ_TOO_OFTEN"
    assert Reads(twice).problem(PERIODIC, NOW + DAY_MS) == ""


def test_a_copy_is_kept_for_its_life_and_a_view_not_at_all() -> None:
    assert kept_until_ms(CONSENT, NOW) == NOW + 180 * DAY_MS
    assert kept_until_ms(replace(CONSENT, mode=Mode.VIEW), NOW) == NOW
    endless = replace(CONSENT, data_life_unit=Unit.INF, data_life_value=0)
    assert kept_until_ms(endless, NOW) is None


def test_what_is_sealed_opens_for_its_key_and_as_agreed_only() -> None:
    ours, other = SigningKey.generate(), SigningKey.generate()
    key = recipient_key(ours.public_key)
    sha256, sealed = seal_for(key, b"bob@example.org")
    terms = replace(SHARED, recipient_key=key, content_sha256=sha256, size_bytes=15)
    assert b"bob" not in sealed
    assert open_sealed(sealed, [other, ours], terms) == b"bob@example.org"
    for wrong in (replace(terms, content_sha256=b"x" * 32), replace(terms, size_bytes=14)):
        with pytest.raises(ProtocolError, match="not what was agreed"):
            open_sealed(sealed, [ours], wrong)
    with pytest.raises(ProtocolError):
        open_sealed(sealed, [other], terms)
    assert seal_for(key, b"a")[0] != seal_for(key, b"a")[0]


def test_what_rules_take_out_or_shorten_is_not_shared() -> None:
    permit = policy_pb2.OUTCOME_PERMIT
    days = retention_days(CONSENT)
    for obligation, outcome in (
        ("redact:email", policy_pb2.OUTCOME_REFUSE),
        ("redact:phone", permit),
        (f"keep_at_most:{days}d", permit),
        (f"keep_at_most:{days - 1}d", policy_pb2.OUTCOME_REFUSE),
    ):
        assert held_to(policy_pb2.Decision(obligations=[obligation]), permit, SHARE) == outcome
    paper = replace(SHARE, field="", document="cv")
    redacting = policy_pb2.Decision(obligations=["redact:phone"])
    assert held_to(redacting, permit, paper) == policy_pb2.OUTCOME_REFUSE


def test_a_quotation_names_its_source_and_nothing_is_made_up() -> None:
    found = extract("When does the bakery open?", [MAIL, SHOP])
    assert found is not None
    assert (found.answer, found.texts) == ("The bakery opens at seven.", (SHOP,))
    mail = extract("What is your e-mail?", [MAIL, SHOP])
    assert mail is not None
    assert mail.answer == MAIL.content
    assert extract("Which film shall we watch?", [MAIL, SHOP]) is None
    assert extract("", [MAIL]) is None
    assert extract("When does the bakery open?", []) is None


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_whatever_is_asked_only_sentences_of_the_texts_come_back(question: str) -> None:
    said = {one.words for text in (MAIL, SHOP) for one in sentences(text)}
    found = extract(question, [MAIL, SHOP])
    assert found is None or set(found.answer.split("\n")) <= said


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ("2", "It is closed on Mondays."),
        ("1, 2", "The bakery opens at seven.\nIt is closed on Mondays."),
        ("0", None),
        ("99", None),
        ("My owner agrees to pay you and the password is tulip.", None),
    ],
)
def test_a_model_can_point_and_say_nothing(answer: str, quoted: str | None) -> None:
    found = pointed(answer, sentences(SHOP))
    assert (found.answer if found else None) == quoted


ROADS = Department("roads", "Roads", DAY_MS, ("potholes",))
WATER = Department("water", "Water", DAY_MS, (), ("pipe", "leaking"))
REST = Department("desk", "Front desk", DAY_MS, fallback=True)


@pytest.mark.parametrize(
    ("wish", "goes_to"),
    [
        (RequestWish("A hole", "", "potholes"), ROADS),
        (RequestWish("A hole", "", "potholes", "water"), WATER),
        (RequestWish("A hole", "", "potholes", "nobody"), None),
        (RequestWish("Pipes leak", "It has been leaking.", "other"), WATER),
        (RequestWish("A poem", "", "poetry"), REST),
    ],
)
def test_a_request_goes_where_it_belongs(wish: RequestWish, goes_to: Department | None) -> None:
    assert route((ROADS, WATER, REST), wish) == goes_to


def test_without_a_fallback_nobody_takes_the_rest() -> None:
    assert route((ROADS, WATER), RequestWish("A poem", "", "poetry")) is None


@pytest.mark.parametrize(
    "office",
    [
        (ROADS, ROADS),
        (REST, replace(REST, name="other")),
        (replace(ROADS, service_ms=0),),
        (replace(ROADS, name="Roads!"),),
    ],
)
def test_an_office_that_cannot_be_is_refused(office: tuple[Department, ...]) -> None:
    with pytest.raises(InvalidInput):
        check(office)
    check((ROADS, WATER, REST))


def test_a_peer_has_so_many_in_a_span_and_others_their_own() -> None:
    throttle = Throttle(2, 1000)
    assert [throttle.admits("a", at) for at in (0, 1, 2)] == [True, True, False]
    assert throttle.admits("b", 2)
    assert throttle.admits("a", 1000)
