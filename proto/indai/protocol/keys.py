"""Ed25519 keys (RFC 8032), signed and verified by libsodium through PyNaCl.

Verifiers disagree on edge cases (small-order points, non-canonical encodings), so exactly one rule is
normative here: libsodium's. No other module may verify an agent's or a log's Ed25519 signature.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from indai.protocol.errors import InvalidInput, Reason
from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import CryptoError
from nacl.utils import random as random_bytes

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64

_KEY_ID_DOMAIN = b"ind.ai/key/v1\n"
_ED25519 = b"\x01"


@lru_cache(maxsize=4096)  # the same few keys are named for every message
def key_id(public_key: bytes) -> str:
    """`ed25519:` and unpadded base64url of SHA-256(domain || algorithm byte || public key)."""
    digest = hashlib.sha256(_KEY_ID_DOMAIN + _ED25519 + public_key).digest()
    return "ed25519:" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


class SigningKey:
    """An Ed25519 key pair. The seed is the secret; no text form of this object ever contains it."""

    __slots__ = ("_secret", "key_id", "public_key")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            message = f"An Ed25519 seed has {SEED_BYTES} bytes, not {len(seed)}."
            raise InvalidInput(Reason.INVALID_ARGUMENT, message)
        self.public_key: bytes
        self.public_key, self._secret = crypto_sign_seed_keypair(seed)
        self.key_id = key_id(self.public_key)

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """The key pair of a 32-byte seed."""
        return cls(seed)

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key pair from libsodium's random source."""
        return cls(random_bytes(SEED_BYTES))

    @property
    def seed(self) -> bytes:
        """The 32-byte secret, for sealing at rest only."""
        return self._secret[:SEED_BYTES]

    def sign(self, message: bytes) -> bytes:
        """The detached 64-byte signature over `message`."""
        return crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id})"

    def __reduce__(self) -> str:
        raise TypeError("a SigningKey is not pickled: seal its seed instead")


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` over `message` is by `public_key`, by libsodium's rule; False for bad lengths."""
    # libsodium reads 32 and 64 bytes whatever it is handed, so the lengths are checked before it is called.
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + message, public_key)
    except CryptoError:
        return False
    return True
