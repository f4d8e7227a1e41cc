"""Keys at rest."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from indai.node.keystore import ENVIRONMENT, FILE_NAME, KeyStore, open_keystore
from indai.protocol.errors import IndaiError, Reason

KEY = bytes(range(32))
STORE = KeyStore(KEY)
PLACE = "agent-key/ind.ai/alice/ed25519:abc"


def reason_of(error: pytest.ExceptionInfo[IndaiError]) -> Reason:
    assert error.value.hint
    return error.value.reason


def test_what_was_sealed_opens_at_its_place() -> None:
    assert STORE.unseal(STORE.seal(b"seed", PLACE), PLACE) == b"seed"
    assert STORE.seal(b"seed", PLACE) != STORE.seal(b"seed", PLACE)


def test_a_sealed_key_does_not_open_in_another_row() -> None:
    with pytest.raises(IndaiError, match="belongs elsewhere") as caught:
        STORE.unseal(STORE.seal(b"seed", PLACE), "agent-key/ind.ai/bob/ed25519:abc")
    assert reason_of(caught) is Reason.NODE_KEY


def test_no_changed_byte_and_no_shorter_form_opens() -> None:
    sealed = STORE.seal(b"seed", PLACE)
    for i in range(len(sealed)):
        changed = bytearray(sealed)
        changed[i] ^= 1
        with pytest.raises(IndaiError):
            STORE.unseal(bytes(changed), PLACE)
        with pytest.raises(IndaiError):
            STORE.unseal(sealed[:i], PLACE)


def test_another_node_key_is_named_with_the_next_step() -> None:
    other = KeyStore(bytes(32))
    with pytest.raises(IndaiError) as caught:
        other.unseal(STORE.seal(b"seed", PLACE), PLACE)
    assert STORE.key_id.hex() in caught.value.message
    assert ENVIRONMENT in caught.value.hint


def test_the_store_never_shows_its_key() -> None:
    for text in (repr(STORE), str(STORE)):
        assert KEY.hex() not in text
        assert repr(KEY) not in text


def test_a_node_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = open_keystore(data, {}, create=True)
    assert (data / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert open_keystore(data, {}, create=True).key_id == made.key_id
    assert os.listdir(data) == [FILE_NAME]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    open_keystore(tmp_path, {}, create=True)
    (tmp_path / FILE_NAME).chmod(mode)
    with pytest.raises(IndaiError) as caught:
        open_keystore(tmp_path, {})
    assert reason_of(caught) is Reason.INSECURE
    assert caught.value.hint == f"chmod 600 {tmp_path / FILE_NAME}"


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    open_keystore(tmp_path, {}, create=True)
    given = open_keystore(tmp_path, {ENVIRONMENT: base64.b64encode(KEY).decode()})
    assert given.key_id == STORE.key_id


@pytest.mark.parametrize("text", ["%%%", "c2hvcnQ=", "\u00e9"])
def test_a_bad_key_in_the_environment_is_named_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(IndaiError) as caught:
        open_keystore(tmp_path, {ENVIRONMENT: text})
    assert reason_of(caught) is Reason.NODE_KEY
    assert text not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"hello"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IndaiError) as caught:
        open_keystore(tmp_path, {})
    assert reason_of(caught) is Reason.NODE_KEY


def test_a_missing_key_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(IndaiError, match="There is no node key") as caught:
        open_keystore(tmp_path, {})
    assert reason_of(caught) is Reason.NODE_KEY
    assert os.listdir(tmp_path) == []
