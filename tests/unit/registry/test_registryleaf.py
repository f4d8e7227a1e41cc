"""The registry's log leaf."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import ProtocolError
from indai.protocol.registryleaf import RegistryLeaf, encode_registry_leaf, parse_registry_leaf

LEAVES = st.builds(
    RegistryLeaf,
    st.integers(0, 2**64 - 1),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=1, max_size=80),
)


@given(LEAVES)
def test_a_leaf_reads_back_as_it_was_written(leaf: RegistryLeaf) -> None:
    data = encode_registry_leaf(leaf)
    assert data[:2] == b"\x01\x02"
    assert parse_registry_leaf(data) == leaf


@pytest.mark.rule("REG-11")
@pytest.mark.parametrize(
    "data", [b"", b"\x01\x02" + b"\x00" * 40, b"\x01\x01" + b"\x00" * 50, b"\x02\x02" + b"\x00" * 50]
)
def test_other_bytes_are_no_leaf(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_registry_leaf(data)
