"""Header checks: form, network, audience and time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.header import (
    GRACE_MS,
    MAX_HOPS,
    MAX_SKEW_MS,
    check_audience,
    check_form,
    check_network,
    check_time,
    id_time_ms,
    network_id,
    new_id,
)
from indai.protocol.note import parse_vkey
from indai.v1.envelope_pb2 import Header

NOW = 1_790_000_000_000


def header(**changes: Any) -> Header:
    made = Header(
        id=new_id(NOW, bytes(10)),
        network="ind.ai/registry+00000000",
        sender="ind.ai/alice",
        sender_subject="ind:" + "a" * 32,
        recipient="ind.ai/bob",
        recipient_subject="ind:" + "b" * 32,
        key_id="ed25519:key",
        issued_at_ms=NOW,
        expires_at_ms=NOW + 60_000,
        nonce=bytes(16),
        thread=new_id(NOW, bytes(10)),
        registry_size=1,
        registry_root=bytes(32),
    )
    made.MergeFrom(Header(**{name: value for name, value in changes.items() if value}))
    for name in (name for name, value in changes.items() if not value):
        made.ClearField(name)  # type: ignore[arg-type]
    return made


def test_a_whole_header_has_its_form() -> None:
    check_form(header())
    check_form(header(in_reply_to=bytes(32)))
    check_form(header(registry_size=0, registry_root=b""))


@pytest.mark.rule("HDR-01")
@pytest.mark.parametrize(
    "changes",
    [
        {"id": b""},
        {"id": bytes(16)},
        {"thread": b"x" * 15},
        {"nonce": b"x" * 15},
        {"in_reply_to": b"x" * 31},
        {"registry_root": b""},
        {"registry_size": 0},
        {"issued_at_ms": 0},
        {"issued_at_ms": -1},
        {"expires_at_ms": NOW},
        {"expires_at_ms": 1 << 62},
        {"network": ""},
        {"key_id": ""},
        {"sender_subject": ""},
        {"recipient_subject": ""},
        {"sender": ""},
        {"sender": "Ind.ai/alice"},
        {"recipient": "ind.ai/bob/"},
    ],
)
def test_a_field_out_of_form_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_form(header(**changes))
    assert refused.value.reason is Reason.MALFORMED
    assert refused.value.rule == "HDR-01"


@pytest.mark.rule("HDR-07")
def test_what_two_agents_have_passed_on_is_the_end_and_only_a_first_message_counts() -> None:
    check_form(header(hops=MAX_HOPS))
    with pytest.raises(ProtocolError) as refused:
        check_form(header(hops=MAX_HOPS + 1))
    assert (refused.value.reason, refused.value.rule) == (Reason.TOO_MANY_HOPS, "HDR-07")
    with pytest.raises(ProtocolError) as refused:
        check_form(header(hops=1, in_reply_to=bytes(32)))
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.rule("HDR-02")
def test_a_message_for_another_network_is_refused() -> None:
    check_network("ind.ai/registry+00000000", "ind.ai/registry+00000000")
    with pytest.raises(ProtocolError) as refused:
        check_network("ind.ai/registry+00000001", "ind.ai/registry+00000000")
    assert refused.value.reason is Reason.WRONG_NETWORK


def test_a_network_is_named_by_its_logs_origin_and_key() -> None:
    log = parse_vkey("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    assert network_id(log) == "PeterNeumann+c74f20a3"


@pytest.mark.rule("HDR-03")
@pytest.mark.parametrize(("recipient", "subject"), [("ind.ai/eve", "ind:b"), ("ind.ai/bob", "ind:e")])
def test_a_message_for_another_handle_or_subject_is_refused(recipient: str, subject: str) -> None:
    check_audience("ind.ai/bob", "ind:b", "ind.ai/bob", "ind:b")
    with pytest.raises(ProtocolError) as refused:
        check_audience(recipient, subject, "ind.ai/bob", "ind:b")
    assert refused.value.reason is Reason.WRONG_AUDIENCE


@pytest.mark.rule("HDR-04")
def test_a_message_is_refused_when_issued_more_than_the_skew_ahead() -> None:
    check_time(NOW + MAX_SKEW_MS, NOW + 10 * MAX_SKEW_MS, NOW)
    with pytest.raises(ProtocolError, match="ahead") as refused:
        check_time(NOW + MAX_SKEW_MS + 1, NOW + 10 * MAX_SKEW_MS, NOW)
    assert refused.value.reason is Reason.FROM_FUTURE
    assert refused.value.hint


@pytest.mark.rule("HDR-05")
def test_a_message_is_refused_past_expiry_and_grace_however_old_it_is_until_then() -> None:
    check_time(1, NOW, NOW + GRACE_MS)
    with pytest.raises(ProtocolError, match="expired") as refused:
        check_time(1, NOW, NOW + GRACE_MS + 1)
    assert refused.value.reason is Reason.EXPIRED


@given(st.integers(0, (1 << 48) - 1), st.binary(min_size=10, max_size=10))
def test_an_id_is_a_uuid_of_version_7_that_sorts_by_time(now_ms: int, random: bytes) -> None:
    identifier = new_id(now_ms, random)
    assert id_time_ms(identifier) == now_ms
    assert len(identifier) == 16
    assert identifier[6] >> 4 == 7
    assert identifier[8] >> 6 == 0b10
    if now_ms:
        assert new_id(now_ms - 1, b"\xff" * 10) < identifier


def test_other_bytes_are_no_id() -> None:
    for identifier in (b"", bytes(16), b"\xff" * 16, bytes(15)):
        with pytest.raises(ProtocolError):
            id_time_ms(identifier)
    for now_ms, random in ((-1, bytes(10)), (1 << 48, bytes(10)), (0, bytes(9))):
        with pytest.raises(InvalidInput):
            new_id(now_ms, random)
