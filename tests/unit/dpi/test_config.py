"""The file that says where public services are: strict, and without secrets."""

from __future__ import annotations

import pytest
from indai.dpi.config import parse_config
from indai.protocol.errors import InvalidInput

GOOD = "version: 1\ndigilocker: {client_id: A1, client_secret: 'vault:locker'}\n"


def test_what_is_not_there_is_not_set_up() -> None:
    assert parse_config("").digilocker is None
    found = parse_config(GOOD)
    assert found.digilocker is not None
    assert found.digilocker.base_url == "https://api.digitallocker.gov.in"
    assert (found.abdm, found.account_aggregator) == (None, None)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (GOOD.replace("vault:locker", "s3cr3t-value"), "digilocker.client_secret"),
        (GOOD.replace("client_id: A1", "client_id: A1, extra: 1"), "digilocker.extra"),
        (GOOD.replace("client_id: A1, ", ""), "digilocker.client_id"),
        (GOOD.replace("{", "{base_url: 'http://locker.example', "), "digilocker"),
        (GOOD.replace("{", "{base_url: 'https://user:pw@locker.example', "), "digilocker.base_url"),
        (GOOD.replace("version: 1", "version: 2"), "version"),
        (GOOD + GOOD.partition("\n")[2], "yaml"),
        (GOOD + "documents: {keep_days: 0}\n", "documents.keep_days"),
        ("[", "yaml"),
        ("version: 1\naccount_aggregator: {}", "account_aggregator.base_url"),
    ],
)
def test_what_is_wrong_is_named_and_not_shown(text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_config(text)
    assert field in refused.value.fields
    assert "s3cr3t-value" not in str(refused.value)
    assert "s3cr3t-value" not in str(refused.value.fields)
