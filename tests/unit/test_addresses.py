"""Addresses, read strictly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.client.addresses import is_public, parse_address
from indai.protocol.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "target", "loopback"),
    [
        ("127.0.0.1:7400", "ipv4:127.0.0.1:7400", True),
        ("[::1]:7400", "ipv6:[::1]:7400", True),
        ("localhost:1", "dns:///localhost:1", True),
        ("0.0.0.0:0", "ipv4:0.0.0.0:0", False),
        ("[::]:0", "ipv6:[::]:0", False),
        ("node.example:443", "dns:///node.example:443", False),
        ("localhost.example:443", "dns:///localhost.example:443", False),
    ],
)
def test_an_address_becomes_a_target_of_our_scheme(text: str, target: str, loopback: bool) -> None:
    address = parse_address(text)
    assert (address.target, address.is_loopback, str(address)) == (target, loopback, text)


@pytest.mark.parametrize(
    "text",
    ["", "host", ":1", "host:", "host:x", "host:65536", "::1:1", "[::1]", "[zz::1]:1", "[1.2.3.4]x:1", "-a:1",
     "unix:/run/x", "unix:x:1", "dns:///h:1", "h:1/x", "h:1\n", "1.2.3:4", "999.1.1.1:4", "h\u00e9:1",
     "h:\u0661"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_address(text)


@settings(max_examples=100)
@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        address = parse_address(text)
    except InvalidInput:
        return
    assert str(address) == text or address.port == int(text.rpartition(":")[2])


@pytest.mark.parametrize("host", ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::"])
def test_a_global_address_is_public(host: str) -> None:
    assert is_public(host)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0",  # noqa: S104
     "224.0.0.1", "::1", "::", "fe80::1",
     "fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "not an address"],
)  # fmt: skip
def test_an_address_inside_a_network_is_not_public(host: str) -> None:
    assert not is_public(host)
