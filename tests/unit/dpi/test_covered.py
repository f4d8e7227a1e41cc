"""What a consent covers of what a bank sends: other kinds of information are left out, known to us or not."""

from __future__ import annotations

import pytest
from indai.dpi.accounts import _covered
from indai.dpi.statements import Entry, Statement

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("kind", "covered"),
    [
        ("deposit", True),
        ("term-deposit", True),
        ("TERM_DEPOSIT", True),
        ("equities", False),
        ("INSURANCE_POLICIES", False),
        ("", False),
    ],
)
def test_only_kinds_that_were_consented_to_are_read(kind: str, covered: bool) -> None:
    entries = tuple(Entry(day, "DEBIT", 100, "") for day in ("1970-01-02", "1970-01-09"))
    found = _covered(
        Statement("bank", "XXXX1", kind, "INR", 1, entries), ["DEPOSIT", "TERM_DEPOSIT"], DAY_MS, 3 * DAY_MS
    )
    assert (found is not None) is covered
    if found is not None:
        assert [each.day for each in found.entries] == ["1970-01-02"]
