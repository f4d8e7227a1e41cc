"""What is found as personal data, in which scripts, and what is left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.llm.pii import Pii, Restorer, Scrubber
from indai.tools.identity import fold_digits
from stdnum.in_ import aadhaar

# Valid by check digit, and nobody's: the first digit of issued numbers is 2 or more.
AADHAAR = "2999 2849 6545"
DEVANAGARI = str.maketrans("0123456789", "०१२३४५६७८९")


def valid_aadhaar() -> str:
    assert aadhaar.is_valid(AADHAAR)
    return AADHAAR


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        (f"my aadhaar is {AADHAAR}", "my aadhaar is [AADHAAR_1]"),
        (f"Aadhar no. {AADHAAR.replace(' ', '')} ok", "Aadhar no. [AADHAAR_1] ok"),
        (f"आधार {AADHAAR.translate(DEVANAGARI)} है", "आधार [AADHAAR_1] है"),
        (f"{AADHAAR} (that's my UID)", "[AADHAAR_1] (that's my UID)"),
        ("PAN: ABCPK1234L", "PAN: [PAN_1]"),
        ("pan abcpk1234l.", "pan [PAN_1]."),
        ("call 98765 43210", "call [PHONE_1]"),
        ("call +91-9876543210 now", "call [PHONE_1] now"),
        ("कॉल ९८७६५४३२१० करो", "कॉल [PHONE_1] करो"),
        ("+1 (415) 555-2671", "[PHONE_1]"),
        ("pay asha@okicici or 9876543210@ybl", "pay [UPI_1] or [UPI_2]"),
        ("mail asha.k+x@mail.example.co.in!", "mail [EMAIL_1]!"),
        ("asha@example.com ASHA@example.com", "[EMAIL_1] [EMAIL_1]"),
    ],
)
def test_personal_data_is_replaced(text: str, scrubbed: str) -> None:
    assert Scrubber().scrub(text) == scrubbed


@pytest.mark.parametrize(
    "text",
    [
        f"order number {AADHAAR} shipped",  # one number in ten passes the check: without context it is none
        "aadhaar 2999 2849 6549",  # the check digit is wrong
        "meet on 2026-11-22 at 10:30 for 30 minutes",
        "₹12,34,567.00 and 1,00,000 units",
        "ABCDE12345 is a part number",
        "version 1.2.3.4, room 4021, flight 6E 2045",
        "see @alice or alice@home",
        "",
    ],
)
def test_what_is_none_is_left_alone(text: str) -> None:
    assert Scrubber().scrub(text) == text


def test_the_same_value_is_the_same_word_however_it_is_written() -> None:
    scrubber = Scrubber()
    assert scrubber.scrub("98765 43210") == scrubber.scrub("९८७६५ ४३२१०") == "[PHONE_1]"
    assert scrubber.scrub("98765 43211") == "[PHONE_2]"
    assert scrubber.replaced == {"phone": 2}


def test_numbers_of_identity_are_never_put_back() -> None:
    scrubber = Scrubber()
    scrubbed = scrubber.scrub(f"aadhaar {AADHAAR}, PAN ABCPK1234L, 98765 43210")
    assert scrubbed == "aadhaar [AADHAAR_1], PAN [PAN_1], [PHONE_1]"
    assert scrubber.restore(scrubbed) == "aadhaar [AADHAAR_1], PAN [PAN_1], 98765 43210"


def test_what_is_allowed_stays() -> None:
    text = "98765 43210 asha@example.com"
    assert Scrubber(frozenset({Pii.PHONE})).scrub(text) == "98765 43210 [EMAIL_1]"
    assert Scrubber(frozenset(Pii)).scrub(text) == text


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_an_answer_is_restored_however_its_stream_is_cut(data: st.DataObject) -> None:
    scrubber = Scrubber()
    scrubber.scrub("98765 43210 and asha@example.com")
    text = "Call [PHONE_1], mail [EMAIL_1] [maybe] [PHONE_2] [ [["
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    restorer = Restorer(scrubber)
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    released = "".join(restorer.take(piece) for piece in pieces) + restorer.rest()
    assert released == "Call 98765 43210, mail asha@example.com [maybe] [PHONE_2] [ [["


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_scrubbing_twice_changes_nothing_more_and_folding_keeps_length(text: str) -> None:
    once = Scrubber().scrub(text)
    assert Scrubber().scrub(once) == once
    assert len(fold_digits(text)) == len(text)


def test_what_is_remembered_of_a_static_part_is_as_if_it_were_read_anew() -> None:
    static = "Call +91 98765 43210 or asha@example.com."
    for _ in range(2):
        fresh, cached = Scrubber(), Scrubber()
        assert cached.scrub_first(static) == fresh.scrub(static)
        said = "I am ravi@example.com; is it +919876543210 or 98765 43211?"
        assert cached.scrub(said) == fresh.scrub(said)
        assert cached.replaced == fresh.replaced == {"phone": 2, "email": 2}
        assert cached.restore("[PHONE_1] [PHONE_2]") == fresh.restore("[PHONE_1] [PHONE_2]")
    # Nothing of one request is in another, nor of one rule in another.
    assert Scrubber().restore("[EMAIL_2] [PHONE_1]") == "[EMAIL_2] [PHONE_1]"
    assert Scrubber(frozenset({Pii.EMAIL})).scrub_first(static) == "Call [PHONE_1] or asha@example.com."
    late = Scrubber()
    late.scrub("first.one@example.com")
    assert late.scrub_first(static) == "Call [PHONE_1] or [EMAIL_2]."


def test_a_static_part_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def spans(kind: Pii, text: str) -> Iterator[tuple[int, int]]:
        searched.append(text)
        return iter(())

    monkeypatch.setattr("indai.llm.pii._spans", spans)
    for _ in range(3):
        Scrubber().scrub_first("A static part that no other test has.")
    assert len(searched) == len(Pii)
