"""JSON Web Signatures as Account Aggregators use them: detached over a body's bytes (RFC 7515 appendix F, RFC
7797 with `b64: false`) in the header `x-jws-signature`, and compact in consent artefacts. RS256 alone.

The key is chosen by `kid` among those that the operator named; nothing in a header is followed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from indai.protocol.errors import IndaiError, InvalidInput, Reason

HEADER: Final = "x-jws-signature"
MIN_BITS: Final = 2048


class Verifier:
    """The other side's public keys, by `kid`."""

    def __init__(self, pems: Mapping[str, str]) -> None:
        self._keys = {kid: _public(pem) for kid, pem in pems.items()}

    def detached(self, signature: str, body: bytes) -> None:
        """Raises IndaiError(BAD_SIGNATURE) unless exactly these bytes were signed."""
        head, middle, mac = _parts(signature)
        if middle:
            raise _bad()
        header = _header(head)
        payload = body if header.get("b64") is False else _b64(body)
        self._check(header, head.encode() + b"." + payload, mac)

    def compact(self, text: str) -> dict[str, Any]:
        """The signed JSON object. Raises IndaiError(BAD_SIGNATURE)."""
        head, middle, mac = _parts(text)
        header = _header(head)
        if header.get("b64") is False:
            raise _bad()
        self._check(header, f"{head}.{middle}".encode(), mac)
        return _object(middle)

    def _check(self, header: Mapping[str, Any], signed: bytes, mac: str) -> None:
        kid = header.get("kid")
        key = self._keys.get(kid) if isinstance(kid, str) else None
        # What is marked critical must be understood; `b64` is all that is.
        if key is None or header.get("alg") != "RS256" or header.get("crit", ["b64"]) != ["b64"]:
            raise _bad()
        try:
            key.verify(_unb64(mac), signed, padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            raise _bad() from None


class Signer:
    """This node's key; its PEM comes from the vault."""

    def __init__(self, pem: str, kid: str) -> None:
        try:
            key = load_pem_private_key(pem.encode(), password=None)
        except (ValueError, TypeError):
            raise _no_key() from None
        if not isinstance(key, RSAPrivateKey) or key.key_size < MIN_BITS:
            raise _no_key()
        self._key, self._kid = key, kid

    def detached(self, body: bytes) -> str:
        """The value of the header for these bytes."""
        head = _b64(json.dumps({"alg": "RS256", "kid": self._kid, "b64": False, "crit": ["b64"]}).encode())
        mac = self._key.sign(head + b"." + body, padding.PKCS1v15(), SHA256())
        return f"{head.decode()}..{_b64(mac).decode()}"


def signature_of(compact: str) -> str:
    """The third part alone, which a request for data names the consent by."""
    return compact.rpartition(".")[2]


def _public(pem: str) -> RSAPublicKey:
    try:
        raw = pem.strip().encode()
        certified = raw.startswith(b"-----BEGIN CERTIFICATE")
        key = x509.load_pem_x509_certificate(raw).public_key() if certified else load_pem_public_key(raw)
    except ValueError:
        raise _no_key() from None
    if not isinstance(key, RSAPublicKey) or key.key_size < MIN_BITS:
        raise _no_key()
    return key


def _parts(text: str) -> tuple[str, str, str]:
    parts = text.split(".")
    if len(parts) != 3 or not text.isascii():
        raise _bad()
    return parts[0], parts[1], parts[2]


def _header(head: str) -> dict[str, Any]:
    return _object(head)


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_unb64(part))
    except (ValueError, RecursionError):
        raise _bad() from None
    if not isinstance(found, dict):
        raise _bad()
    return found


def _b64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _unb64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad() from None


def _bad() -> IndaiError:
    return IndaiError(Reason.BAD_SIGNATURE, "The Account Aggregator's signature does not verify.")


def _no_key() -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        "A key for the Account Aggregator is no RSA key of 2048 bits or more.",
        hint="write it in PEM: docs/services/dpi.md",
    )
