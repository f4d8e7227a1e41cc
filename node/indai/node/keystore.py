"""Keys at rest: agent, TLS and ledger keys are sealed by one node key, each bound to its place.

XChaCha20-Poly1305 (libsodium's AEAD, through PyNaCl) with a random 24-byte nonce. The *context* (whose key
this is and what for) is authenticated with it, so a sealed key moved to another row does not open. Sealed
form, in bytes: version (1), id of the node key (8), nonce (24), ciphertext with tag.

The node key is 32 bytes from the environment (`INDAI_NODE_KEY`, base64) or from a file that only its owner
can read. A key service would be another source for the same 32 bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from indai.protocol.errors import IndaiError, Reason
from nacl.exceptions import CryptoError
from nacl.secret import Aead

ENVIRONMENT: Final = "INDAI_NODE_KEY"
FILE_NAME: Final = "node.key"

_VERSION: Final = b"\x01"
_ID_SIZE: Final = 8
_HEAD_SIZE: Final = 1 + _ID_SIZE
_PREFIX: Final = b"ind.ai/sealed/v1\n"
_DERIVED: Final = b"ind.ai/derived/v1\n"
CONTENT_KEY: Final = "ledger-contents"
"""What the key that the ledger's contents are sealed with is derived for, by ledger and node alike."""
_GROUP_OR_WORLD: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyStore:
    """Seals and unseals under one node key; shows only the key's id."""

    __slots__ = ("_aead", "_node_key", "key_id")

    def __init__(self, node_key: bytes) -> None:
        if len(node_key) != Aead.KEY_SIZE:
            raise _error(f"A node key has {Aead.KEY_SIZE} bytes, not {len(node_key)}.", _MAKE_HINT)
        self._aead = Aead(node_key)
        self._node_key = node_key
        self.key_id = hashlib.sha256(b"ind.ai/node-key-id/v1\n" + node_key).digest()[:_ID_SIZE]

    def __repr__(self) -> str:
        return f"KeyStore({self.key_id.hex()})"

    def seal(self, plaintext: bytes, context: str) -> bytes:
        """`plaintext` sealed for `context` (such as `agent-key/ind.ai/alice/ed25519:…`), 49 bytes longer."""
        return _VERSION + self.key_id + bytes(self._aead.encrypt(plaintext, _aad(context)))

    def derive(self, purpose: str) -> bytes:
        """32 secret bytes for another use, which tell nothing about the node key or any other use."""
        return hashlib.blake2b(_DERIVED + purpose.encode(), key=self._node_key, digest_size=32).digest()

    def unseal(self, sealed: bytes, context: str) -> bytes:
        """The plaintext. Raises IndaiError(NODE_KEY) for another node key, context or content."""
        if sealed[:1] != _VERSION:
            raise _error(f"The sealed key of {context} has an unknown form.", "restore it from a backup")
        if sealed[1:_HEAD_SIZE] != self.key_id:
            raise _error(
                f"The sealed key of {context} belongs to node key {sealed[1:_HEAD_SIZE].hex()}, "
                f"but this node runs with {self.key_id.hex()}.",
                f"start with the node key that sealed it ({ENVIRONMENT} or the file {FILE_NAME})",
            )
        try:
            return self._aead.decrypt(sealed[_HEAD_SIZE:], _aad(context))
        except (CryptoError, ValueError):
            raise _error(
                f"The sealed key of {context} was changed or belongs elsewhere.", "restore it from a backup"
            ) from None


def open_keystore(data_dir: Path, environ: Mapping[str, str], *, create: bool = False) -> KeyStore:
    """The store under the node key from `environ`, else from `node.key` in `data_dir`; made there when
    `create`.

    Raises IndaiError(NODE_KEY) for no key or a bad one, IndaiError(INSECURE) for a file that others can read.
    """
    if text := environ.get(ENVIRONMENT, ""):
        return KeyStore(_decode(text, f"The environment variable {ENVIRONMENT}"))
    path = data_dir / FILE_NAME
    if create and not path.exists():
        _create(path)
    return KeyStore(_decode(_read_private(path), f"The file {path}"))


def _read_private(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            # The opened file is judged, not the name: it cannot be swapped in between.
            if os.fstat(file.fileno()).st_mode & _GROUP_OR_WORLD:
                raise IndaiError(
                    Reason.INSECURE, f"Others can read the node key in {path}.", hint=f"chmod 600 {path}"
                )
            return file.read(256)
    except FileNotFoundError:
        raise _error(f"There is no node key in {path}.", f"restore the file or set {ENVIRONMENT}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _error(f"The node key in {path} cannot be read: {why}.", "restore the file") from None


def _create(path: Path) -> None:
    """Writes a whole key under another name first: a crash leaves no half key, a race leaves one winner."""
    draft = path.with_name(f".{FILE_NAME}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(Aead.KEY_SIZE)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError as error:
        raise _error(
            f"The node key cannot be written to {path}: {error.strerror}.", "check the directory"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _decode(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise _error(f"{where} holds no base64 node key.", _MAKE_HINT) from None


_MAKE_HINT: Final = "a node key is 32 random bytes in base64: head -c 32 /dev/urandom | base64"


def _aad(context: str) -> bytes:
    return _PREFIX + context.encode()


def _error(message: str, hint: str) -> IndaiError:
    return IndaiError(Reason.NODE_KEY, message, hint=hint)
