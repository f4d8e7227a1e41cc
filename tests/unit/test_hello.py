"""HELLO: its one form, what is pinned, what two agents agree on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.envelope import payload_type, seal
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.header import new_id
from indai.protocol.hello import LIFETIME_MS, Card, Hello, Pin, agree, compose, pinned, read
from indai.protocol.keys import SigningKey
from indai.v1 import envelope_pb2, peer_pb2

NOW = 1_790_000_000_000
KEY = SigningKey.from_seed(bytes(32))
CARD = Card((1,), ("meet",), ("cose-receipts", "vouchers"), ("vouchers",), ("en", "hi"))


def header(**changes: object) -> envelope_pb2.Header:
    made = envelope_pb2.Header(
        id=new_id(NOW, bytes(10)),
        network="ind.ai/registry+00000000",
        sender="ind.ai/alice",
        sender_subject="ind:a",
        recipient="ind.ai/bob",
        recipient_subject="ind:b",
        key_id=KEY.key_id,
        issued_at_ms=NOW,
        expires_at_ms=NOW + LIFETIME_MS,
        nonce=bytes(16),
        thread=new_id(NOW, bytes(10)),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def hello(generation: int = 1, card: Card = CARD, **changes: object) -> Hello:
    return read(seal(payload_type("hello"), compose(header(**changes), generation, card), [KEY]))


def words() -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(["a", "b", "c-d", "e1"])).map(lambda some: tuple(sorted(some)))


@pytest.mark.rule("HEL-01")
@settings(max_examples=40)
@given(st.sets(st.integers(1, 9), min_size=1, max_size=8), words(), words(), words(), st.integers(1, 1 << 30))
def test_a_hello_reads_back(
    versions: set[int],
    intents: tuple[str, ...],
    features: tuple[str, ...],
    languages: tuple[str, ...],
    most: int,
) -> None:
    card = Card(tuple(sorted(versions)), intents, features, features[:1], languages, most)
    assert hello(7, card).card == card
    assert hello(7, card).generation == 7


@pytest.mark.rule("HEL-01")
@pytest.mark.parametrize(
    "change",
    [
        {"card_digest": bytes(32)},
        {"generation": 0},
        {"card": peer_pb2.Card(versions=[2, 1], limits=peer_pb2.Limits(envelope_bytes=1, batch=1, moves=1))},
        {"card": peer_pb2.Card(versions=[1])},
    ],
)
def test_a_hello_has_one_form(change: dict[str, object]) -> None:
    message = peer_pb2.Hello.FromString(compose(header(), 1, CARD))
    for name, value in change.items():
        if isinstance(value, peer_pb2.Card):
            message.card.CopyFrom(value)
        else:
            setattr(message, name, value)
    with pytest.raises(ProtocolError) as refused:
        read(seal(payload_type("hello"), message.SerializeToString(), [KEY]))
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.rule("HEL-01")
def test_a_hello_lives_a_day_and_is_nothing_else() -> None:
    with pytest.raises(ProtocolError):
        hello(expires_at_ms=NOW + LIFETIME_MS + 1)
    with pytest.raises(ProtocolError) as refused:
        read(seal(payload_type("move"), compose(header(), 1, CARD), [KEY]))
    assert refused.value.reason is Reason.UNKNOWN_TYPE


@pytest.mark.parametrize(
    "wrong", [{"versions": ()}, {"versions": (2, 1)}, {"intents": ("b", "a")}, {"batch": 0}]
)
def test_a_card_that_could_be_written_in_two_ways_is_none(wrong: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(InvalidInput):
        replace(CARD, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        replace(CARD, required=("unknown",))


@pytest.mark.rule("HEL-02")
@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_a_card_only_moves_forward(before: int, now: int, same: bool) -> None:
    pin = Pin(before, CARD.digest, NOW)
    card = CARD if same else replace(CARD, intents=("meet", "pay"))
    if now > before or (now == before and same):
        assert pinned(pin, hello(now, card)) == Pin(now, card.digest, NOW + LIFETIME_MS)
        return
    with pytest.raises(ProtocolError) as refused:
        pinned(pin, hello(now, card))
    assert refused.value.reason is Reason.ROLLBACK_DETECTED


def test_the_first_card_seen_is_pinned() -> None:
    assert pinned(None, hello(3)) == Pin(3, CARD.digest, NOW + LIFETIME_MS)


@pytest.mark.rule("HEL-03")
def test_the_highest_common_version_is_spoken() -> None:
    assert agree(replace(CARD, versions=(1, 2, 3)), replace(CARD, versions=(2, 3, 4))).version == 3
    with pytest.raises(ProtocolError) as refused:
        agree(CARD, replace(CARD, versions=(2,)))
    assert refused.value.reason is Reason.UNSUPPORTED


@pytest.mark.rule("HEL-04")
@pytest.mark.parametrize("ours", [True, False])
def test_a_required_feature_that_is_missing_is_named_whoever_requires_it(ours: bool) -> None:
    bare = replace(CARD, features=("cose-receipts",), required=())
    with pytest.raises(ProtocolError, match="vouchers") as refused:
        agree(CARD, bare) if ours else agree(bare, CARD)
    assert refused.value.reason is Reason.UNSUPPORTED
    optional = replace(CARD, required=())
    assert agree(optional, bare).features == ("cose-receipts",)
