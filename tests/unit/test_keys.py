"""Keys: ids, signing, and secrets that stay out of sight."""

from __future__ import annotations

import base64
import copy
import hashlib
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput
from indai.protocol.keys import SigningKey, key_id, verify

SEED = hashlib.sha256(b"a seed for tests").digest()


def test_a_key_id_is_the_hash_of_domain_algorithm_and_key() -> None:
    key = SigningKey.from_seed(SEED)
    digest = hashlib.sha256(b"ind.ai/key/v1\n\x01" + key.public_key).digest()
    assert key.key_id == key_id(key.public_key)
    assert key.key_id == "ed25519:" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


@settings(max_examples=30)
@given(st.binary(max_size=300))
def test_a_signature_verifies_for_its_message_and_key_only(message: bytes) -> None:
    key, other = SigningKey.from_seed(SEED), SigningKey.generate()
    signature = key.sign(message)
    assert len(signature) == 64
    assert verify(key.public_key, message, signature)
    assert not verify(key.public_key, message + b"\x00", signature)
    assert not verify(other.public_key, message, signature)


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_a_public_key_of_the_wrong_length_verifies_nothing(length: int) -> None:
    assert not verify(bytes(length), b"", SigningKey.from_seed(SEED).sign(b""))


@pytest.mark.parametrize("length", [0, 1, 63, 65, 128])
def test_a_signature_of_the_wrong_length_does_not_verify(length: int) -> None:
    key = SigningKey.from_seed(SEED)
    assert not verify(key.public_key, b"", (key.sign(b"") * 2)[:length])


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=8), st.binary(min_size=64, max_size=64))
def test_verification_of_arbitrary_bytes_is_false_and_never_raises(
    key: bytes, message: bytes, sig: bytes
) -> None:
    assert verify(key, message, sig) is False


def test_the_secret_shows_in_no_text_and_is_not_pickled() -> None:
    key = SigningKey.from_seed(SEED)
    for text in (repr(key), str(key), f"{key}"):
        assert SEED.hex() not in text
        assert repr(SEED) not in text
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            attempt(key)


def test_the_seed_gives_the_same_key_again() -> None:
    key = SigningKey.generate()
    assert SigningKey.from_seed(key.seed).public_key == key.public_key
    assert SigningKey.generate().public_key != key.public_key


def test_a_seed_of_the_wrong_length_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidInput, match="32 bytes, not 5") as refused:
        SigningKey.from_seed(b"short")
    assert "short" not in str(refused.value)


def test_bytes_cannot_move_between_key_signature_and_message() -> None:
    key = SigningKey.from_seed(SEED)
    signature = key.sign(b"message")
    assert not verify(key.public_key, signature[63:] + b"message", signature[:63])
    assert not verify(key.public_key, b"essage", signature + b"m")
    assert not verify(key.public_key + b"\x00", b"message", signature)
