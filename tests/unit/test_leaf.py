"""The ledger's leaf: 42 bytes that open to one envelope only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.leaf import LEAF_SIZE, LeafKind, LedgerLeaf, blind

OPENING = bytes(range(32))


@pytest.mark.rule("LOG-07")
@given(st.sampled_from(LeafKind), st.integers(0, (1 << 63) - 1), st.binary(max_size=64))
def test_a_leaf_opens_to_its_envelope_only(kind: LeafKind, time_ms: int, envelope: bytes) -> None:
    leaf = LedgerLeaf(kind, time_ms, blind(OPENING, envelope))
    assert len(leaf.encode()) == LEAF_SIZE
    assert LedgerLeaf.parse(leaf.encode()) == leaf
    assert leaf.opens(OPENING, envelope)
    assert not leaf.opens(OPENING, envelope + b"\x00")
    assert not leaf.opens(bytes(32), envelope)


@pytest.mark.rule("LOG-07")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(41),
        bytes(42),
        b"\x02\x01" + bytes(40),
        b"\x01\x00" + bytes(40),
        b"\x01\x05" + bytes(40),
        b"\x01\x01\x80" + bytes(39),
        b"\x01\x01" + bytes(41),
    ],
)
def test_other_bytes_are_no_leaf(data: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        LedgerLeaf.parse(data)
    assert refused.value.reason is Reason.MALFORMED


def test_a_leaf_that_could_not_be_read_back_is_not_made() -> None:
    for time_ms, mac in ((-1, bytes(32)), (1 << 63, bytes(32)), (0, b"")):
        with pytest.raises(InvalidInput):
            LedgerLeaf(LeafKind.DECISION, time_ms, mac).encode()
    for opening in (b"", bytes(31), bytes(33)):
        with pytest.raises(InvalidInput):
            blind(opening, b"envelope")
