"""Receipts: an entry, its path and a checkpoint, checked offline."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol import merkle
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer
from indai.protocol.tlogproof import TlogProof

LOG = Signer("ind.ai/bob-node/ledger/2026", SigningKey.from_seed(hashlib.sha256(b"log").digest()))
ENTRIES = [b"entry %d" % index for index in range(11)]
LEAVES = [merkle.leaf_hash(entry) for entry in ENTRIES]
HEAD = Checkpoint(LOG.name, len(LEAVES), merkle.root(LEAVES))
PROOF = TlogProof(6, tuple(merkle.inclusion_proof(LEAVES, 6)), sign_checkpoint(HEAD, [LOG]), b"opening")


def test_a_receipt_verifies_for_its_entry() -> None:
    head, cosignatures = TlogProof.parse(PROOF.encode()).verify(ENTRIES[6], LOG.verifier.vkey)
    assert head == HEAD
    assert cosignatures == ()


@pytest.mark.rule("LOG-01")
def test_a_receipt_does_not_verify_for_another_entry_or_index() -> None:
    moved = TlogProof(7, PROOF.hashes, PROOF.checkpoint)
    for proof, entry in ((PROOF, ENTRIES[7]), (moved, ENTRIES[6])):
        with pytest.raises(ProtocolError) as refused:
            proof.verify(entry, LOG.verifier)
        assert refused.value.reason is Reason.BAD_PROOF


@given(
    st.integers(0, (1 << 62)),
    st.lists(st.binary(min_size=32, max_size=32), max_size=63),
    st.none() | st.binary(),
)
def test_a_receipt_reads_back(index: int, hashes: list[bytes], extra: bytes | None) -> None:
    proof = TlogProof(index, tuple(hashes), PROOF.checkpoint, extra)
    assert TlogProof.parse(proof.encode()) == proof


@pytest.mark.rule("LOG-05")
@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b"@v1", b"@v2"),
        (b"index 6", b"index 06"),
        (b"index 6", b"index -6"),
        (b"index 6\n", b""),
        (b"extra ", b"Extra "),
        (b"extra ", b"extra\t"),
        (b"extra ", b"extra !"),
        (b"index 6\n", b"index 6\nAAAA\n"),
        (b"index 6\n", b"index 6\nindex 6\n"),
        (b"\n\n", b"\n"),
        (PROOF.checkpoint, b""),
    ],
)
def test_a_receipt_with_another_shape_is_refused(find: bytes, put: bytes) -> None:
    assert find in PROOF.encode()
    with pytest.raises(ProtocolError) as refused:
        TlogProof.parse(PROOF.encode().replace(find, put))
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.rule("LOG-05")
def test_an_oversized_receipt_is_refused() -> None:
    with pytest.raises(ProtocolError) as refused:
        TlogProof.parse(bytes(2_000_000))
    assert refused.value.reason is Reason.TOO_LARGE


@settings(max_examples=150)
@given(st.binary(max_size=20), st.integers(0, 700), st.integers(0, 6))
def test_a_damaged_receipt_is_refused_or_proves_the_same_entry(junk: bytes, at: int, drop: int) -> None:
    whole = PROOF.encode()
    head = verify_or_refuse(whole[:at] + junk + whole[at + drop :])
    assert head in (None, HEAD)


def verify_or_refuse(raw: bytes) -> Checkpoint | None:
    try:
        return TlogProof.parse(raw).verify(ENTRIES[6], LOG.verifier)[0]
    except ProtocolError:
        return None
