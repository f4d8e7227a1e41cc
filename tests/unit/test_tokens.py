"""Bearer tokens."""

from __future__ import annotations

import re

import pytest
from indai.node.auth import Caller, caller, new_token, operator, token_sha256
from indai.protocol.errors import Reason, Refused


class Call:
    """A context with metadata."""

    def __init__(self, *metadata: tuple[str, str | bytes]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self._metadata


def test_a_token_has_256_random_bits_and_only_its_hash_is_kept() -> None:
    token = new_token()
    assert re.fullmatch(r"indai_[A-Za-z0-9_-]{43}", token.text)
    assert token.sha256 == token_sha256(token.text)
    assert token.text not in repr(token)
    assert new_token().text != token.text


async def test_the_operators_token_admits_the_operator() -> None:
    token = new_token()
    admitted = await operator(token.sha256)(Call(("authorization", f"Bearer {token.text}")))
    assert admitted == Caller(operator=True)


@pytest.mark.parametrize("form", ["{}", "Basic {}", "Bearer  {}", "Bearer {}x", "Bearer {}\n", ""])
async def test_no_other_form_of_the_header_is_read(form: str) -> None:
    token = new_token()
    with pytest.raises(Refused) as caught:
        await operator(token.sha256)(Call(("authorization", form.format(token.text))))
    assert caught.value.reason is Reason.UNAUTHENTICATED


async def test_two_headers_are_refused() -> None:
    token = new_token()
    header = ("authorization", f"Bearer {token.text}")
    with pytest.raises(Refused):
        await operator(token.sha256)(Call(header, header))


def test_a_context_that_was_never_admitted_has_no_caller() -> None:
    with pytest.raises(Refused):
        caller(Call())
