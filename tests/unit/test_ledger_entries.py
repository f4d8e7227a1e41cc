"""Entries of the ledger, before they touch a database."""

from __future__ import annotations

import pytest
from indai.ledger.entries import MAX_ENVELOPE, columns, prepare, prepare_decision, prepare_policy, seal
from indai.ledger.vault import Sealed, Vault, entry_name
from indai.protocol.envelope import message_id, payload_type
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.v1 import envelope_pb2, policy_pb2

VAULT = Vault(b"\x05" * 32)
TIME = 1_790_000_000_123


def test_an_entry_opens_its_leaf() -> None:
    entry = prepare("ind.ai/alice", b"\x01" * 32, LeafKind.COMMITMENT, b"signed", TIME)
    leaf = LedgerLeaf.parse(entry.leaf)
    assert (leaf.kind, leaf.time_ms) == (LeafKind.COMMITMENT, TIME)
    assert leaf.opens(entry.opening, b"signed")
    assert not leaf.opens(entry.opening, b"signee")


def test_two_entries_of_one_envelope_look_unrelated() -> None:
    first, second = (prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"x", TIME) for _ in range(2))
    assert first.opening != second.opening
    assert first.leaf != second.leaf


def test_the_secrets_of_an_entry_stay_out_of_its_text() -> None:
    entry = prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"secret", TIME, b"o" * 32)
    assert "secret" not in repr(entry)
    assert "oooo" not in repr(entry)


def test_a_decision_is_named_by_the_message_it_is_about() -> None:
    record = policy_pb2.DecisionRecord(owner="ind.ai/alice", mid=b"\x07" * 32, decided_at_ms=TIME)
    entry = prepare_decision(record, TIME)
    stored = envelope_pb2.Envelope.FromString(entry.envelope)
    assert (entry.owner, entry.mid, entry.kind) == ("ind.ai/alice", b"\x07" * 32, LeafKind.DECISION)
    assert stored.payload_type == payload_type("decision")
    assert policy_pb2.DecisionRecord.FromString(stored.payload) == record
    assert not stored.signatures


def test_a_policy_version_is_named_by_its_own_envelope() -> None:
    activation = policy_pb2.PolicyActivation(
        owner="ind.ai/alice", version=policy_pb2.PolicyVersion(yaml="rules: []")
    )
    entry = prepare_policy(activation, TIME)
    stored = envelope_pb2.Envelope.FromString(entry.envelope)
    assert entry.mid == message_id(stored.payload_type, stored.payload)
    assert entry.kind == LeafKind.POLICY_VERSION


def test_columns_keep_the_time_to_the_millisecond() -> None:
    entry = prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"x", TIME)
    assert columns([entry], VAULT).times[0].isoformat() == "2026-09-21T14:13:20.123000+00:00"
    assert columns([entry], VAULT).kinds == [1]


def test_an_envelope_too_large_for_an_export_is_refused() -> None:
    with pytest.raises(ProtocolError) as caught:
        prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"x" * (MAX_ENVELOPE + 1), TIME)
    assert caught.value.reason is Reason.TOO_LARGE


def test_a_sealed_content_opens_under_its_own_name_and_key_only() -> None:
    entry = prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"the terms", TIME)
    name, sealed = entry_name(entry.owner, entry.mid, entry.kind), seal(VAULT, entry)
    assert VAULT.open(name, sealed) == (b"the terms", entry.opening)
    assert b"the terms" not in sealed.content + sealed.key
    assert entry.opening not in sealed.content + sealed.key
    others = (
        (VAULT, entry_name("ind.ai/b", entry.mid, entry.kind), sealed),
        (VAULT, entry_name(entry.owner, entry.mid, LeafKind.DECISION), sealed),
        (VAULT, name, Sealed(_bent(sealed.content), sealed.key)),
        (VAULT, name, Sealed(sealed.content, _bent(sealed.key))),
        (VAULT, name, Sealed(sealed.content, seal(VAULT, entry).key)),
        (Vault(b"\x06" * 32), name, sealed),
    )
    for vault, other, changed in others:
        with pytest.raises(IndaiError) as caught:
            vault.open(other, changed)
        assert caught.value.reason is Reason.NODE_KEY


def _bent(sealed: bytes) -> bytes:
    """Another last byte, whichever it was."""
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


def test_one_envelope_has_one_fingerprint_and_never_the_same_seal() -> None:
    first, second = (
        seal(VAULT, prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"x", TIME)) for _ in range(2)
    )
    other = seal(VAULT, prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"y", TIME))
    assert first.content[:33] == second.content[:33] != other.content[:33]
    assert first.content[33:] != second.content[33:]
    assert first.key != second.key
    assert "05" not in repr(VAULT).replace(VAULT.key_id.hex(), "")
