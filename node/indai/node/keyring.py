"""The keys of this process's own roles, sealed in files: logs' keys, the node's TLS key.

Agent keys are in the database (`indai.node.agents`); rotation keys are never here.
"""

from __future__ import annotations

import os
from pathlib import Path

from indai.client.tls import NodeIdentity, make_node_identity, spki_sha256
from indai.node.keystore import KeyStore
from indai.protocol.errors import NotFound, Reason
from indai.protocol.keys import SigningKey
from indai.tlog.signer import LogKeys


class Keyring:
    """Sealed files under one directory; a key is made when it is first asked for."""

    def __init__(self, directory: Path, store: KeyStore) -> None:
        self._directory = directory
        self._store = store
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def log_keys(self, origin: str, time_name: str) -> LogKeys:
        """The two keys of a log: its own, and the one that vouches for the time of its heads."""
        return LogKeys(
            origin, self.signing_key(f"log {origin}"), time_name, self.signing_key(f"time {origin}")
        )

    def has_log_keys(self, origin: str) -> bool:
        """Whether a log's first key was made here; asking makes none."""
        return self._path(f"log {origin}").exists()

    def later_log_keys(self, origin: str) -> list[SigningKey]:
        """The keys that a log has, or shall announce, after its first one, in their order."""
        keys: list[SigningKey] = []
        while (seed := self._read(f"log {origin} {len(keys) + 2}")) is not None:
            keys.append(SigningKey.from_seed(seed))
        return keys

    def prepared_log_key(self, origin: str) -> SigningKey | None:
        """A log's next key, if one was made and not released."""
        seed = self._read(f"next log {origin}")
        key = SigningKey.from_seed(seed) if seed is not None else None
        # A crash while it was released leaves its file: it is no next one any more.
        released = key is not None and key.key_id in {one.key_id for one in self.later_log_keys(origin)}
        return None if released else key

    def prepare_log_key(self, origin: str) -> SigningKey:
        """A log's next key, made but not yet to be announced or to sign."""
        if self.prepared_log_key(origin) is None:
            self._path(f"next log {origin}").unlink(missing_ok=True)
        return self.signing_key(f"next log {origin}")

    def release_log_key(self, origin: str) -> SigningKey:
        """Make the prepared key the log's: the registry announces it, a ledger signs with it; raises NotFound
        when there is none."""
        seed = self._read(f"next log {origin}")
        if seed is None:
            raise NotFound(
                Reason.NOT_FOUND,
                f"No next key of {origin} was prepared.",
                hint="prepare it first: indai registry rotate-log-key, or indai ledger rotate-key",
            )
        key, later = SigningKey.from_seed(seed), self.later_log_keys(origin)
        # A crash after the first line leaves both files: the key is released once all the same.
        if key.key_id not in {one.key_id for one in later}:
            self._write(f"log {origin} {len(later) + 2}", seed)
        self._path(f"next log {origin}").unlink()
        return key

    def tls_identity(self, common_name: str) -> NodeIdentity:
        """The node's TLS key and certificate."""
        name = f"tls {common_name}"
        sealed = self._read(name)
        if sealed is None:
            made = make_node_identity(common_name)
            self._write(name, made.key_pem + made.cert_pem)
            return made
        begin = sealed.index(b"-----BEGIN CERTIFICATE")
        return NodeIdentity(sealed[:begin], sealed[begin:], spki_sha256(sealed[begin:]))

    def signing_key(self, name: str) -> SigningKey:
        """The key kept under `name`, made at the first call."""
        seed = self._read(name)
        if seed is not None:
            return SigningKey.from_seed(seed)
        key = SigningKey.generate()
        self._write(name, key.seed)
        return key

    def _path(self, name: str) -> Path:
        return self._directory / (name.replace(" ", "-").replace("/", "_") + ".sealed")

    def _read(self, name: str) -> bytes | None:
        path = self._path(name)
        return self._store.unseal(path.read_bytes(), name) if path.exists() else None

    def _write(self, name: str, secret: bytes) -> None:
        """Durable before it is used: a key that is lost after its first signature is lost for good."""
        path = self._path(name)
        draft = path.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(self._store.seal(secret, name))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
