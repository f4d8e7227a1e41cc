"""What strangers send in place of a cookie or a form's token."""

from __future__ import annotations

import pytest
from indai.protocol.errors import Reason, Refused
from indai.web.guards import check_form, is_visitor, visitor_cookie

SECRET = b"s" * 32


@pytest.mark.parametrize("shown", ["", ".", "a.b", "a.\udcff", "\udcff.a", "\udcff"])
def test_bytes_that_are_no_text_make_nobody_a_visitor(shown: str) -> None:
    assert is_visitor(SECRET, visitor_cookie(SECRET))
    assert not is_visitor(SECRET, shown)
    with pytest.raises(Refused) as raised:
        check_form(SECRET, visitor_cookie(SECRET), shown)
    assert raised.value.reason is Reason.PERMISSION_DENIED
