"""Ed25519: the vectors of RFC 8032, and edge cases on which implementations disagree.

The twelve edge cases, with libsodium's answers, are those of "Taming the many EdDSAs" (Chalkias, Garillot,
Nikolaenko; SSR 2020).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from indai.protocol.keys import SigningKey, verify

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "vectors" / "ed25519-speccheck.json").read_text("utf-8")
)
PARTS = ("public_key", "message", "signature")
ORDER = (1 << 252) + 27742317777372353535851937790883648493

# RFC 8032 section 7.1, tests 1 to 3: seed, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]

# Every encoding of a point of small order, with those whose y is not below the field's prime.
SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


@pytest.mark.parametrize(("seed", "public_key", "message", "signature"), RFC_8032)
def test_the_vectors_of_rfc_8032(seed: str, public_key: str, message: str, signature: str) -> None:
    key = SigningKey.from_seed(bytes.fromhex(seed))
    assert key.public_key.hex() == public_key
    assert key.sign(bytes.fromhex(message)).hex() == signature
    assert verify(key.public_key, bytes.fromhex(message), bytes.fromhex(signature))


@pytest.mark.rule("ENV-04")
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_each_edge_case_gets_libsodiums_answer(case: dict[str, Any]) -> None:
    public_key, message, signature = map(bytes.fromhex, (case[name] for name in PARTS))
    assert verify(public_key, message, signature) is case["accepted"]


@pytest.mark.rule("ENV-04")
@pytest.mark.parametrize("public_key", SMALL_ORDER)
def test_a_key_of_small_order_signs_nothing(public_key: str) -> None:
    key = bytes.fromhex(public_key)
    for first in SMALL_ORDER:
        for message in (b"", b"a", b"b", b"c"):
            assert not verify(key, message, bytes.fromhex(first) + bytes(32))


@pytest.mark.rule("ENV-04")
@pytest.mark.parametrize("times", [1, 2, 7, 14])
def test_a_signature_cannot_be_altered_by_adding_the_group_order(times: int) -> None:
    key = SigningKey.from_seed(bytes(32))
    signature = key.sign(b"message")
    scalar = int.from_bytes(signature[32:], "little") + times * ORDER
    assert verify(key.public_key, b"message", signature)
    assert not verify(key.public_key, b"message", signature[:32] + scalar.to_bytes(32, "little"))


def test_another_library_gives_other_answers_which_is_why_only_one_is_normative() -> None:
    answers = [openssl_accepts(case) for case in CASES]
    assert answers != [case["accepted"] for case in CASES]


def openssl_accepts(case: dict[str, Any]) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(case["public_key"]))
        key.verify(bytes.fromhex(case["signature"]), bytes.fromhex(case["message"]))
    except InvalidSignature:
        return False
    return True
