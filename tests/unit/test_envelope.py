"""The signed envelope: one reading, exact bytes, ids that signatures cannot change."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from indai.protocol.envelope import (
    KINDS,
    MAX_SIGNATURES,
    Envelope,
    cosign,
    kind_of,
    message_id,
    pae,
    parse_envelope,
    payload_type,
    seal,
    verify_signature,
)
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.v1 import envelope_pb2

ALICE = SigningKey.from_seed(hashlib.sha256(b"alice").digest())
BOB = SigningKey.from_seed(hashlib.sha256(b"bob").digest())
MOVE = payload_type("move")
SEALED = seal(MOVE, b"some payload", [ALICE])


def as_protobuf(envelope: Envelope) -> envelope_pb2.Envelope:
    return envelope_pb2.Envelope.FromString(envelope.raw)


@pytest.mark.rule("ENV-04")
def test_the_pae_counts_bytes_not_characters() -> None:
    assert pae("té", b"a b") == b"DSSEv1 3 t\xc3\xa9 3 a b"


@pytest.mark.rule("ENV-05")
def test_cosigning_keeps_the_payload_and_the_id_and_the_first_signature() -> None:
    both = cosign(SEALED, BOB)
    assert both.mid == SEALED.mid == message_id(MOVE, b"some payload")
    assert both.mid == hashlib.sha256(SEALED.pae).digest()
    assert both.payload == SEALED.payload
    assert both.signatures[0] == SEALED.signatures[0]
    assert both.raw != SEALED.raw
    verify_signature(both, 0, ALICE.public_key)
    verify_signature(both, 1, BOB.public_key)


@pytest.mark.rule("ENV-05")
def test_kind_and_payload_both_change_the_id() -> None:
    ids = {message_id(payload_type(kind), body) for kind in KINDS for body in (b"a", b"b")}
    assert len(ids) == 2 * len(KINDS)
    assert SEALED.kind == "move"


@pytest.mark.rule("ENV-04")
def test_a_signature_does_not_verify_under_another_key_payload_or_type() -> None:
    forged = [
        (SEALED, BOB.public_key),
        (Envelope(b"", b"another payload", MOVE, SEALED.signatures), ALICE.public_key),
        (Envelope(b"", SEALED.payload, payload_type("receipt"), SEALED.signatures), ALICE.public_key),
    ]
    for envelope, key in forged:
        with pytest.raises(ProtocolError) as refused:
            verify_signature(envelope, 0, key)
        assert refused.value.reason is Reason.BAD_SIGNATURE
        assert refused.value.rule == "ENV-04"


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_a_missing_signature_does_not_verify(index: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        verify_signature(SEALED, index, ALICE.public_key)
    assert refused.value.reason is Reason.BAD_SIGNATURE


@pytest.mark.rule("ENV-03")
@pytest.mark.parametrize(
    "named", ["", "application/json", "application/vnd.ind.move.v2+protobuf", MOVE.upper()]
)
def test_an_unknown_payload_type_has_no_kind(named: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        kind_of(named)
    assert refused.value.reason is Reason.UNKNOWN_TYPE
    with pytest.raises(ProtocolError):
        payload_type("gossip")


def test_every_kind_names_its_type_and_back() -> None:
    assert [kind_of(payload_type(kind)) for kind in KINDS] == list(KINDS)
    assert SEALED.kind == "move"


@pytest.mark.rule("ENV-06")
def test_the_bytes_received_are_kept_even_in_an_order_we_would_not_write() -> None:
    body = as_protobuf(SEALED)
    parts = [
        envelope_pb2.Envelope(signatures=body.signatures).SerializeToString(),
        envelope_pb2.Envelope(payload_type=body.payload_type).SerializeToString(),
        envelope_pb2.Envelope(payload=body.payload).SerializeToString(),
    ]
    raw = b"".join(parts)
    parsed = parse_envelope(raw)
    assert parsed.raw == raw
    assert raw != SEALED.raw
    assert parsed.mid == SEALED.mid
    verify_signature(parsed, 0, ALICE.public_key)


@pytest.mark.rule("ENV-01")
def test_an_envelope_over_the_limit_is_refused_and_one_at_the_limit_is_read() -> None:
    envelope = seal(MOVE, b"x" * 65_000, [ALICE])
    assert parse_envelope(envelope.raw) == envelope
    assert parse_envelope(envelope.raw, limit=len(envelope.raw)) == envelope
    with pytest.raises(ProtocolError) as refused:
        parse_envelope(envelope.raw, limit=len(envelope.raw) - 1)
    assert refused.value.reason is Reason.TOO_LARGE


def field(number: int, value: bytes, wire_type: int = 2) -> bytes:
    return bytes((number << 3 | wire_type, len(value))) + value


SIGNATURE = field(1, b"s" * 64) + field(2, b"k")
WHOLE = field(1, b"p") + field(2, b"t") + field(3, SIGNATURE)


def test_the_hand_made_envelope_of_these_tests_is_read() -> None:
    assert parse_envelope(WHOLE).payload == b"p"


@pytest.mark.rule("ENV-02")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        WHOLE + field(4, b"x"),
        WHOLE + field(1, b"q"),
        WHOLE + field(2, b"t"),
        WHOLE + b"\x00",
        WHOLE + b"\x00\x00",
        WHOLE + b"\x0a",
        WHOLE + b"\x0a\x05abc",
        WHOLE[:-1],
        field(1, b"p") + field(2, b"t"),
        field(1, b"") + field(2, b"t") + field(3, SIGNATURE),
        field(1, b"p") + field(3, SIGNATURE),
        field(1, b"p") + field(2, b"") + field(3, SIGNATURE),
        field(1, b"p") + field(2, b"\xff") + field(3, SIGNATURE),
        field(1, b"p") + field(2, b"a\nb") + field(3, SIGNATURE),
        field(1, b"p") + field(2, b"t" * 127 + b"tt") + field(3, SIGNATURE),
        field(1, b"p") + field(2, b"t") + field(3, b""),
        field(1, b"p") + field(2, b"t") + field(3, field(2, b"k")),
        field(1, b"p") + field(2, b"t") + field(3, SIGNATURE + field(2, b"l")),
        field(1, b"p") + field(2, b"t") + field(3, SIGNATURE + field(3, b"x")),
        field(1, b"p") + field(2, b"t") + field(3, SIGNATURE + b"\x00\x01x"),
        b"\x8a\x00\x01p" + field(2, b"t") + field(3, SIGNATURE),
        b"\x0a\x81\x00p" + field(2, b"t") + field(3, SIGNATURE),
        b"\x08\x01" + WHOLE,
        b"\x0b\x0c" + WHOLE,
    ],
)
def test_bytes_with_no_single_reading_are_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        parse_envelope(raw)
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.rule("ENV-02")
def test_too_many_signatures_are_refused() -> None:
    head = field(1, b"p") + field(2, b"t")
    assert len(parse_envelope(head + field(3, SIGNATURE) * MAX_SIGNATURES).signatures) == MAX_SIGNATURES
    with pytest.raises(ProtocolError):
        parse_envelope(head + field(3, SIGNATURE) * (MAX_SIGNATURES + 1))


def test_sealing_nothing_or_for_nobody_is_refused() -> None:
    for payload, keys in ((b"", [ALICE]), (b"x", [])):
        with pytest.raises(InvalidInput):
            seal(MOVE, payload, keys)


@settings(max_examples=50)
@given(st.binary(min_size=1, max_size=400), st.sampled_from(KINDS), st.integers(1, 3))
def test_what_is_sealed_is_canonical_protobuf_and_reads_back(payload: bytes, kind: str, signers: int) -> None:
    sealed = seal(payload_type(kind), payload, [ALICE, BOB, ALICE][:signers])
    assert parse_envelope(sealed.raw) == sealed
    assert as_protobuf(sealed).SerializeToString() == sealed.raw


@settings(max_examples=150)
@given(st.binary(max_size=120), st.integers(0, len(WHOLE)), st.integers(0, 8))
@example(b"", 0, 0)
def test_arbitrary_and_damaged_bytes_are_refused_or_read_as_protobuf_reads_them(
    junk: bytes, at: int, drop: int
) -> None:
    for raw in (junk, WHOLE[:at] + junk + WHOLE[at + drop :]):
        parsed = read_or_refuse(raw)
        if parsed is not None:
            lenient = envelope_pb2.Envelope.FromString(raw)
            assert (lenient.payload, lenient.payload_type) == (parsed.payload, parsed.payload_type)
            signatures = [(signature.sig, signature.keyid) for signature in lenient.signatures]
            assert signatures == [(signature.sig, signature.keyid) for signature in parsed.signatures]


def read_or_refuse(raw: bytes) -> Envelope | None:
    try:
        return parse_envelope(raw)
    except ProtocolError:
        return None
