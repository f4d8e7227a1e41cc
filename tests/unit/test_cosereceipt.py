"""COSE receipts: what is signed, what is refused, and that a receipt has one reading."""

from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.cosereceipt import CoseReceipt, sign_receipt
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import inclusion_proof, leaf_hash, root

LOG = "ind.ai/node-a/ledger/2026"
KEY = SigningKey.from_seed(b"\x07" * 32)
ENTRIES = [b"entry %d" % number for number in range(21)]
HASHES = [leaf_hash(entry) for entry in ENTRIES]


def receipt(index: int = 5, size: int = 21) -> CoseReceipt:
    path = tuple(inclusion_proof(HASHES[:size], index))
    return sign_receipt(LOG, KEY, size, root(HASHES[:size]), index, path)


@pytest.mark.rule("LOG-05")
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 21).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))))
def test_a_receipt_proves_its_entry_and_no_other(place: tuple[int, int]) -> None:
    size, index = place
    read = CoseReceipt.parse(receipt(index, size).encode())
    assert read.verify(ENTRIES[index], LOG, KEY.public_key) == root(HASHES[:size])
    with pytest.raises(ProtocolError):
        read.verify(b"another", LOG, KEY.public_key)


@pytest.mark.rule("LOG-05")
def test_another_log_or_key_is_refused() -> None:
    read = receipt()
    for log, key in (("ind.ai/other", KEY.public_key), (LOG, SigningKey.from_seed(b"\x08" * 32).public_key)):
        with pytest.raises(ProtocolError) as caught:
            read.verify(ENTRIES[5], log, key)
        assert caught.value.reason is Reason.BAD_SIGNATURE


@pytest.mark.rule("LOG-05")
def test_every_flipped_bit_is_found_but_in_a_size_with_the_same_path() -> None:
    right = receipt()
    raw = right.encode()
    for position in range(len(raw)):
        changed = raw[:position] + bytes([raw[position] ^ 1]) + raw[position + 1 :]
        try:
            read = CoseReceipt.parse(changed)
            read.verify(ENTRIES[5], LOG, KEY.public_key)
        except ProtocolError:
            continue
        assert replace(read, size=right.size) == right


@pytest.mark.rule("LOG-05")
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_malformed(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        CoseReceipt.parse(raw)


def test_a_receipt_with_something_more_in_it_is_malformed() -> None:
    right = receipt()
    proof = cbor2.dumps([right.size, right.index, list(right.hashes)])
    header = cbor2.loads(right.protected)

    def made(protected: bytes, unprotected: object, payload: object = None) -> bytes:
        parts = [protected, unprotected, payload, right.signature]
        return cbor2.dumps(cbor2.CBORTag(18, parts), canonical=True)

    assert made(right.protected, {396: {-1: [proof]}}) == right.encode()
    wrong = (
        made(right.protected, {396: {-1: [proof]}, 99: 1}),
        made(right.protected, {396: {-1: [proof], -2: []}}),
        made(right.protected, {396: {-1: [proof, proof]}}),
        made(right.protected, {396: {-1: [proof]}}, b"payload"),
        made(cbor2.dumps(dict(header) | {1: -7}), {396: {-1: [proof]}}),
        made(cbor2.dumps(dict(header) | {2: [99]}), {396: {-1: [proof]}}),
        made(right.protected, {396: {-1: [cbor2.dumps([21, 21, []])]}}),
        right.encode() + b"\x00",
        b"\x81" * 9000,
    )
    for raw in wrong:
        with pytest.raises(ProtocolError) as caught:
            CoseReceipt.parse(raw)
        assert caught.value.reason in (Reason.MALFORMED, Reason.TOO_LARGE)
