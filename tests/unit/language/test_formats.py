"""Money, numbers and times as people write them."""

from __future__ import annotations

import pytest
from indai.language import moment, money, number
from indai.language.scripts import SCRIPT_OF, dominant

NOON = 1_764_052_200_000  # 2025-11-25 06:30 UTC, noon in India


def test_rupees_are_grouped_by_lakh_and_crore_in_every_language() -> None:
    for language in SCRIPT_OF:
        assert money(1_20_000_00, "INR", language) == "₹1,20,000"
        assert money(12_34_56_789_05, "INR", language) == "₹12,34,56,789.05"


def test_large_amounts_can_be_said_in_words_of_the_language() -> None:
    assert money(1_20_000_00, "INR", "hi", short=True) == "₹1.2 लाख"
    assert money(-3_00_00_000_00, "INR", "en", short=True) == "-₹3 crore"
    assert money(99_999_00, "INR", "en", short=True) == "₹99,999"


def test_other_currencies_keep_their_own_minor_units() -> None:
    assert money(123_456_50, "USD", "en") == "$123,456.50"
    assert money(1200, "JPY", "en").endswith("1,200")


def test_numbers_are_grouped() -> None:
    assert number(12_34_567) == "12,34,567"


@pytest.mark.parametrize("language", [*SCRIPT_OF, "hi-Latn", "und"])
def test_a_moment_is_told_on_the_clock_of_the_reader(language: str) -> None:
    told = moment(NOON, "Asia/Kolkata", language)
    assert "25" in told
    assert "12" in told
    assert told != moment(NOON, "Europe/London", language)


def test_days_and_months_are_in_the_script_of_the_language() -> None:
    for language, script in SCRIPT_OF.items():
        if language == "mni":
            continue  # CLDR has no names of days in Meetei Mayek
        assert dominant(moment(NOON, "Asia/Kolkata", language).split(",")[0]) == script, language


def test_an_unknown_zone_is_read_as_indias() -> None:
    for zone in ("", "Mars/Olympus", "../../etc/passwd"):
        assert moment(NOON, zone, "en") == moment(NOON, "Asia/Kolkata", "en")
