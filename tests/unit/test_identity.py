"""Raw Aadhaar numbers are refused, in every script and form, and what merely looks like one is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import Reason, Refused
from indai.tools.identity import is_aadhaar, refuse_aadhaar
from stdnum import verhoeff

_DIGITS = {
    "deva": "०१२३४५६७८९",
    "taml": "௦௧௨௩௪௫௬௭௮௯",
    "beng": "০১২৩৪৫৬৭৮৯",
    "arab": "٠١٢٣٤٥٦٧٨٩",
    "wide": "０１２３４５６７８９",
}
_WORDS = ("Aadhaar", "aadhar no.", "आधार", "ஆதார்", "UIDAI", "uid")
_BETWEEN = ("", " ", "-", "\u00a0", "\u2013", "\u200b", ".")


def number(body: int) -> str:
    digits = f"{2 + body % 8}{body // 8 % 10**10:010d}"
    return digits + verhoeff.calc_check_digit(digits)


# Palindromes are never issued, and python-stdnum knows.
numbers = st.integers(0, 8 * 10**10 - 1).map(number).filter(lambda text: text != text[::-1])


@given(
    numbers,
    st.sampled_from(sorted(_DIGITS)),
    st.sampled_from(_WORDS),
    st.sampled_from(_BETWEEN),
    st.booleans(),
)
def test_a_number_beside_its_word_is_refused_and_never_repeated(
    digits: str, script: str, word: str, between: str, after: bool
) -> None:
    written = between.join((digits[:4], digits[4:8], digits[8:])).translate(
        str.maketrans("0123456789", _DIGITS[script])
    )
    text = f"{written} is my {word}" if after else f"{word} {written}"
    with pytest.raises(Refused) as refused:
        refuse_aadhaar({"note": [text]})
    assert refused.value.reason is Reason.POLICY_DENIED
    assert digits not in str(refused.value)
    assert written not in str(refused.value)
    assert is_aadhaar(written)


@given(numbers)
def test_the_name_of_a_field_or_the_field_beside_it_is_context(digits: str) -> None:
    shapes: tuple[Any, ...] = (
        {"aadhaar_number": digits},
        {"aadhaar": int(digits)},
        {"id": {"type": "aadhaar", "value": digits}},
        {"kyc": [{"uid": digits}]},
    )
    for shape in shapes:
        with pytest.raises(Refused):
            refuse_aadhaar(shape)


@given(numbers, st.integers(1, 9))
def test_another_check_digit_is_no_aadhaar_number(digits: str, more: int) -> None:
    other = digits[:-1] + str((int(digits[-1]) + more) % 10)
    refuse_aadhaar({"aadhaar": other})
    assert not is_aadhaar(other)


@given(numbers)
def test_without_context_it_is_an_order_number(digits: str) -> None:
    refuse_aadhaar({"order": digits, "amount": 5, "paid": True, "note": None})


@given(numbers)
def test_what_chance_put_into_an_id_is_none(digits: str) -> None:
    """A tool's `uid` is a word of context too: one calendar entry in some thousands was refused."""
    refuse_aadhaar({"uid": f"visit-ab{digits}cdef01@ind.ai.bob", "title": "Aadhaar help"})
    refuse_aadhaar({"uid": f"0123abcd-{digits[:4]}-{digits[4:8]}-{digits[8:]}-00ff00ff00ff"})
    with pytest.raises(Refused):
        refuse_aadhaar({"uid": f"a{digits}b"})


@pytest.mark.parametrize(
    "text", ["aadhaar", "+919876543210 aadhaar", "aadhaar card of 2024", "", "आधार कार्ड"]
)
def test_talking_about_it_is_allowed(text: str) -> None:
    refuse_aadhaar(text)
