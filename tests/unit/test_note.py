"""Signed notes and cosignatures: who signed, when, and what cannot pass for a note."""

from __future__ import annotations

import base64
import hashlib
from types import SimpleNamespace

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.note import (
    COSIGNATURE,
    COSIGNATURE_ML_DSA_44,
    ED25519,
    OpenedNote,
    Signer,
    Verifier,
    add_signatures,
    format_vkey,
    open_note,
    parse_note,
    parse_vkey,
    sign_note,
)

TEXT = "example.com/log\n7\nsome text\n\nand more\n"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(hashlib.sha256(name.encode()).digest())


LOG = Signer("example.com/log", key("log"))
WITNESS = Signer("witness.example/w", key("witness"), time=1_790_000_000)
NOTE = sign_note(TEXT, [LOG, WITNESS])


def refused(raw: bytes, *verifiers: Verifier) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        open_note(raw, verifiers or (LOG.verifier, WITNESS.verifier))
    assert caught.value.rule == "LOG-03"
    return caught.value


def test_a_note_opens_to_its_text_its_signers_and_the_time_of_cosigners() -> None:
    note = open_note(NOTE, [LOG.verifier, WITNESS.verifier])
    assert note.text == TEXT
    assert [(signed.name, signed.time) for signed in note.verified] == [
        ("example.com/log", None),
        ("witness.example/w", 1_790_000_000),
    ]
    assert note.unverified == ()


def test_a_signature_by_an_unknown_key_is_listed_apart() -> None:
    note = open_note(NOTE, [LOG.verifier])
    assert [signed.name for signed in note.verified] == ["example.com/log"]
    assert [signed.name for signed in note.unverified] == ["witness.example/w"]


@pytest.mark.rule("LOG-03")
def test_a_note_without_a_known_signer_is_refused() -> None:
    renamed = Verifier("example.com/other", ED25519, LOG.key.public_key)
    retyped = Verifier(LOG.name, COSIGNATURE, LOG.key.public_key)
    other = Verifier(LOG.name, ED25519, key("other").public_key)
    for verifier in (renamed, retyped, other):
        assert refused(NOTE, verifier).reason is Reason.BAD_SIGNATURE
    with pytest.raises(ProtocolError):
        open_note(NOTE, [])


@pytest.mark.rule("LOG-03")
def test_one_failing_signature_of_a_known_key_refuses_the_whole_note() -> None:
    forged = Signer(WITNESS.name, key("forger"), time=5)
    line = sign_note(TEXT, [forged]).splitlines()[-1]
    blob = base64.b64decode(line.split(b" ")[2])
    swapped = b" ".join((*line.split(b" ")[:2], base64.b64encode(WITNESS.verifier.key_hash + blob[4:])))
    raw = sign_note(TEXT, [LOG]) + swapped + b"\n"
    assert refused(raw).reason is Reason.BAD_SIGNATURE
    assert open_note(raw, [LOG.verifier]).text == TEXT


@pytest.mark.rule("LOG-03")
def test_a_cosignature_at_another_time_does_not_verify() -> None:
    line = sign_note(TEXT, [WITNESS]).splitlines()[-1].split(b" ")
    blob = bytearray(base64.b64decode(line[2]))
    blob[11] ^= 1
    raw = TEXT.encode() + b"\n" + b" ".join((*line[:2], base64.b64encode(bytes(blob)))) + b"\n"
    assert refused(raw).reason is Reason.BAD_SIGNATURE


@pytest.mark.rule("LOG-03")
def test_changed_text_does_not_verify() -> None:
    assert refused(NOTE.replace(b"some", b"more")).reason is Reason.BAD_SIGNATURE
    assert refused(NOTE.replace(b"\n7\n", b"\n8\n"), WITNESS.verifier).reason is Reason.BAD_SIGNATURE


def test_signatures_can_be_added_without_touching_what_is_there() -> None:
    more = add_signatures(sign_note(TEXT, [LOG]), [WITNESS])
    assert more == NOTE
    repeated = open_note(add_signatures(more, [LOG]), [LOG.verifier])
    assert len(repeated.verified) == 1


@pytest.mark.rule("LOG-03")
def test_every_cosignature_of_one_key_must_verify_and_the_latest_counts() -> None:
    times = [1_790_000_005, 1_790_000_009, 1_790_000_001]
    raw = sign_note(TEXT, [Signer(WITNESS.name, WITNESS.key, time) for time in times])
    assert [signed.time for signed in open_note(raw, [WITNESS.verifier]).verified] == [max(times)]
    forged = sign_note(TEXT, [Signer(WITNESS.name, WITNESS.key, times[0])]).splitlines()[-1]
    blob = base64.b64decode(forged.split(b" ")[2])[:-1] + b"\xff"
    line = b" ".join((*forged.split(b" ")[:2], base64.b64encode(blob)))
    assert refused(raw + line + b"\n").reason is Reason.BAD_SIGNATURE


LINE = NOTE.split(b"\n\n")[-1]


@pytest.mark.rule("LOG-03")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"text\n",
        b"text\n\n",
        TEXT.encode(),
        b"text\n" + LINE,
        b"text\n\n" + LINE[:-1],
        b"text\r\n\n" + LINE,
        b"text\x00\n\n" + LINE,
        b"\xff\n\n" + LINE,
        b"text\n\n" + LINE + b"more\n",
        b"text\n\n" + "— name AAAA\n".encode(),
        b"text\n\n" + "— na+me AAAAAAAA\n".encode(),
        b"text\n\n" + "— na\u2003me AAAAAAAA\n".encode(),
        b"text\n\n" + "— name AAAAAAB=\n".encode(),
        b"text\n\n" + "— name AAAA AAAA\n".encode(),
        b"text\n\n" + b"- name AAAAAAAA\n",
        b"text\n\n" + LINE * 51,
    ],
)
def test_what_is_no_note_is_refused(raw: bytes) -> None:
    assert refused(raw).reason is Reason.MALFORMED


def test_an_oversized_note_is_refused() -> None:
    assert refused(b"x" * 1_000_001).reason is Reason.TOO_LARGE


def test_a_text_that_cannot_be_a_note_is_not_signed() -> None:
    for text in ("", "no newline", "tab\there\n", "\udcff\n"):
        with pytest.raises(InvalidInput):
            sign_note(text, [LOG])
    for name in ("", "two words", "a+b", "a\u00a0b", "\udcff"):
        with pytest.raises(InvalidInput):
            sign_note("text\n", [Signer(name, LOG.key)])
    for time in (-1, 1 << 63):
        with pytest.raises(InvalidInput, match="seconds"):
            sign_note("text\n", [Signer("name", LOG.key, time)])


def test_a_verifier_key_reads_back() -> None:
    for verifier in (LOG.verifier, WITNESS.verifier):
        assert parse_vkey(verifier.vkey) == verifier
    assert LOG.verifier.vkey == format_vkey(LOG.name, LOG.key.public_key)


def test_the_example_note_of_gos_documentation_opens() -> None:
    vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    text = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
    )
    signature = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    line = f"\u2014 PeterNeumann {signature}\n"
    assert parse_vkey(vkey).vkey == vkey
    assert open_note(f"{text}\n{line}".encode(), [parse_vkey(vkey)]).text == text


@pytest.mark.parametrize(
    ("vkey", "why"),
    [
        ("", "name"),
        ("name+00000000", "name"),
        ("name+0000000+AAAA", "name"),
        ("na me+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "name"),
        ("PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "hash"),
        ("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TX", "hash"),
        ("PeterNeumann+c74f20a3+ARpc", "length"),
        ("PeterNeumann+c74f20a3+Ahpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "type 2"),
    ],
)
def test_a_broken_verifier_key_is_refused(vkey: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_vkey(vkey)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, len(NOTE)), st.integers(0, 6))
def test_damaged_notes_open_to_the_same_text_or_are_refused(junk: bytes, at: int, drop: int) -> None:
    for raw in (junk, NOTE[:at] + junk + NOTE[at + drop :]):
        note = open_or_refuse(raw)
        if note is not None:
            assert note.text == TEXT
            assert note.text.encode() == parse_note(raw)[0].encode()


def open_or_refuse(raw: bytes) -> OpenedNote | None:
    try:
        return open_note(raw, [LOG.verifier, WITNESS.verifier])
    except ProtocolError:
        return None


@pytest.mark.rule("LOG-03")
def test_an_ml_dsa_signature_is_unverified_where_openssl_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Verifier("w.example", COSIGNATURE_ML_DSA_44, bytes(1_312))
    blob = base64.b64encode(witness.key_hash + bytes(8 + 2_420)).decode()
    raw = sign_note(TEXT, [LOG]) + f"\u2014 w.example {blob}\n".encode()
    assert refused(raw, LOG.verifier, witness).reason is Reason.BAD_SIGNATURE

    def unsupported(data: bytes) -> None:
        raise UnsupportedAlgorithm("no ML-DSA here")

    monkeypatch.setattr(
        "indai.protocol.note.MLDSA44PublicKey", SimpleNamespace(from_public_bytes=unsupported)
    )
    note = open_note(raw, [LOG.verifier, witness])
    assert [signed.name for signed in note.unverified] == ["w.example"]
    with pytest.raises(ProtocolError):
        open_note(raw, [witness])
