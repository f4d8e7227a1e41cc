"""Entries of the ledger, before they touch a database."""

from __future__ import annotations

import pytest
from indai.ledger.entries import MAX_ENVELOPE, columns, prepare, prepare_decision, prepare_policy
from indai.protocol.envelope import message_id, payload_type
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.v1 import envelope_pb2, policy_pb2

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
    assert columns([entry]).times[0].isoformat() == "2026-09-21T14:13:20.123000+00:00"
    assert columns([entry]).kinds == [1]


def test_an_envelope_too_large_for_an_export_is_refused() -> None:
    with pytest.raises(ProtocolError) as caught:
        prepare("ind.ai/a", b"\x01" * 32, LeafKind.COMMITMENT, b"x" * (MAX_ENVELOPE + 1), TIME)
    assert caught.value.reason is Reason.TOO_LARGE
