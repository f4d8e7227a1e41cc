"""Contents at rest: each entry is sealed by a key of its own, and that key by the ledger's content key.

    content   version (1) || fingerprint (32) || nonce (24) || AEAD(entry key, opening (32) || envelope)
    key       version (1) || id of the content key (8) || nonce (24) || AEAD(content key, entry key)

Both XChaCha20-Poly1305 (libsodium, through PyNaCl), with owner, mid and kind authenticated, so that neither
opens in another row. The content key is derived from the node's key and is in no table: a copy of the
database, its log or a backup shows nothing. The key stands in a table of its own, so that backups of the
contents can be kept longer than backups of the keys. The fingerprint, an HMAC under the content key, tells
one envelope from another without opening either.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final, NamedTuple

from indai.protocol.errors import IndaiError, Reason
from indai.protocol.leaf import OPENING_SIZE
from nacl.exceptions import CryptoError
from nacl.secret import Aead

_VERSION: Final = b"\x01"
_ID_SIZE: Final = 8
_DIGEST_SIZE: Final = hashlib.sha256().digest_size
# Sealing and fingerprints must not share a key.
_KEY_ID, _SEALING, _FINGERPRINT = (
    b"ind.ai/content-key-id/v1",
    b"ind.ai/content-seal/v1",
    b"ind.ai/content-print/v1",
)


class Sealed(NamedTuple):
    """An entry at rest."""

    content: bytes
    key: bytes


class Vault:
    """Seals and opens contents under one content key (32 secret bytes); shows only the key's id."""

    __slots__ = ("_aead", "_fingerprint_key", "key_id")

    def __init__(self, content_key: bytes) -> None:
        self._aead = Aead(_derive(content_key, _SEALING))
        self._fingerprint_key = _derive(content_key, _FINGERPRINT)
        self.key_id = _derive(content_key, _KEY_ID)[:_ID_SIZE]

    def __repr__(self) -> str:
        return f"Vault({self.key_id.hex()})"

    def seal(self, name: bytes, envelope: bytes, opening: bytes) -> Sealed:
        """Seal the entry `name` (see `entry_name`) under a fresh key."""
        entry_key = secrets.token_bytes(Aead.KEY_SIZE)
        content = bytes(Aead(entry_key).encrypt(opening + envelope, name))
        fingerprint = hmac.digest(self._fingerprint_key, envelope, "sha256")
        key = bytes(self._aead.encrypt(entry_key, name))
        return Sealed(_VERSION + fingerprint + content, _VERSION + self.key_id + key)

    def open(self, name: bytes, sealed: Sealed) -> tuple[bytes, bytes]:
        """(envelope, opening). Raises IndaiError(NODE_KEY) for another content key, entry or content."""
        if sealed.key[1 : 1 + _ID_SIZE] != self.key_id:
            raise IndaiError(
                Reason.NODE_KEY,
                f"A content of the ledger was sealed under the node key {sealed.key[1 : 1 + _ID_SIZE].hex()},"
                f" and this process has {self.key_id.hex()}.",
                hint="give every process of the node the node key that it was first started with",
            )
        try:
            entry_key = self._aead.decrypt(sealed.key[1 + _ID_SIZE :], name)
            plain = Aead(entry_key).decrypt(sealed.content[1 + _DIGEST_SIZE :], name)
        except (CryptoError, ValueError):
            message = "A content of the ledger was changed, or belongs to another entry."
            raise IndaiError(Reason.NODE_KEY, message, hint="see `indai ledger fsck`") from None
        return plain[OPENING_SIZE:], plain[:OPENING_SIZE]


def entry_name(owner: str, mid: bytes, kind: int) -> bytes:
    """What binds a sealed content to its entry."""
    return b"\n".join((b"ind.ai/content/v1", owner.encode(), mid.hex().encode(), b"%d" % kind))


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, purpose, "sha256")
