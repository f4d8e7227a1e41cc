"""The sealed transport of financial information: an X25519 exchange (RFC 7748) with fresh keys for each
request, HKDF-SHA256 (RFC 5869), AES-256-GCM.

As the ReBIT specification has it, each side sends a public key and 32 random bytes. Both xor the nonces: the
first 20 bytes of that are HKDF's salt, the last 12 the IV. So a key is used for one answer only.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from indai.protocol.errors import IndaiError, Reason

NONCE: Final = 32
_SALT, _IV = 20, 12


@dataclass(frozen=True, slots=True)
class Exchange:
    """Our half, for one request."""

    _key: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate, repr=False)
    _nonce: bytes = field(default_factory=lambda: secrets.token_bytes(NONCE), repr=False)

    def material(self, expiry: str) -> dict[str, Any]:
        """KeyMaterial for the other side; the key as SubjectPublicKeyInfo (RFC 8410)."""
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return {
            "cryptoAlg": "ECDH",
            "curve": "Curve25519",
            "params": "",
            "DHPublicKey": {
                "expiry": expiry,
                "Parameters": "",
                "KeyValue": base64.b64encode(public).decode(),
            },
            "Nonce": base64.b64encode(self._nonce).decode(),
        }

    def open(self, material: Any, sealed: Any) -> bytes:
        """What the other side sealed (base64) under its KeyMaterial. Raises IndaiError(BAD_SIGNATURE)."""
        try:
            cipher, iv = self._cipher(material)
            return cipher.decrypt(iv, base64.b64decode(sealed, validate=True), None)
        except (InvalidTag, ValueError, KeyError, TypeError, binascii.Error):
            raise IndaiError(
                Reason.BAD_SIGNATURE, "The financial information was not sealed for this request."
            ) from None

    def seal(self, material: Any, plain: bytes) -> str:
        """The other direction, which a provider of information takes."""
        cipher, iv = self._cipher(material)
        return base64.b64encode(cipher.encrypt(iv, plain, None)).decode()

    def _cipher(self, material: Any) -> tuple[AESGCM, bytes]:
        their_nonce = base64.b64decode(material["Nonce"], validate=True)
        if len(their_nonce) != NONCE or material.get("curve") != "Curve25519":
            raise ValueError("no key material")
        mixed = bytes(ours ^ theirs for ours, theirs in zip(self._nonce, their_nonce, strict=True))
        shared = self._key.exchange(_public(material["DHPublicKey"]["KeyValue"]))
        key = HKDF(SHA256(), 32, salt=mixed[:_SALT], info=b"").derive(shared)
        return AESGCM(key), mixed[-_IV:]


def _public(text: str) -> X25519PublicKey:
    raw = base64.b64decode(text, validate=True)
    if len(raw) == 32:
        return X25519PublicKey.from_public_bytes(raw)
    key = load_der_public_key(raw)
    if not isinstance(key, X25519PublicKey):
        raise ValueError("another curve")
    return key
