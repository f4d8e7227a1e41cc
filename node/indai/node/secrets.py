"""Secrets by reference: what stands in configuration and rows is a `vault:` URI, never the value.

    vault:NAME            sealed in DATA/secrets/NAME, under the node key (`indai.node.keystore`)
    vault:sealed/NAME     the same
    vault:env/NAME        the environment variable NAME

A sealed secret is bound to its name: a file that is copied to another name does not open.
"""

from __future__ import annotations

import os
import re
import secrets as random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from indai.node.keystore import KeyStore
from indai.protocol.errors import InvalidInput, NotFound, Reason

FOLDER: Final = "secrets"
MAX_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SCHEME: Final = "vault:"


class Secrets:
    """The secrets of one data directory; shows only names."""

    def __init__(self, data: Path, keystore: KeyStore, environment: Mapping[str, str]) -> None:
        self._folder = data / FOLDER
        self._keystore = keystore
        self._environment = environment

    def __repr__(self) -> str:
        return f"Secrets({self._folder})"

    def get(self, reference: str) -> str:
        """The value behind a reference. Raises InvalidInput for none, NotFound, IndaiError(NODE_KEY)."""
        backend, _, name = reference.removeprefix(_SCHEME).rpartition("/")
        if not reference.startswith(_SCHEME) or backend not in ("", "sealed", "env"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A secret is named by a reference.",
                hint="write it like vault:anthropic, or vault:env/ANTHROPIC_API_KEY",
            )
        return self._from_environment(name) if backend == "env" else self._unsealed(name)

    def set(self, name: str, value: str) -> None:
        """Seal a value, in place of the one before. Raises InvalidInput for a bad name or an empty value."""
        raw = value.encode()
        if not raw or len(raw) > MAX_BYTES:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"A secret has 1 to {MAX_BYTES} bytes.")
        path = self._path(name)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{name}.{random.token_hex(4)}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(self._keystore.seal(raw, _context(name)))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def names(self) -> list[str]:
        """The names of the sealed secrets."""
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name))

    def remove(self, name: str) -> None:
        """Raises NotFound."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise _missing(name) from None

    def _unsealed(self, name: str) -> str:
        try:
            sealed = self._path(name).read_bytes()
        except FileNotFoundError:
            raise _missing(name) from None
        return self._keystore.unseal(sealed, _context(name)).decode()

    def _from_environment(self, name: str) -> str:
        if value := self._environment.get(name, ""):
            return value
        raise NotFound(
            Reason.NOT_FOUND,
            f"The environment variable {name} is not set, or empty.",
            hint="set it where the program is started",
        )

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A secret's name has up to 64 letters, digits, dots, dashes and underscores.",
            )
        return self._folder / name


def _context(name: str) -> str:
    return f"secret/{name}"


def _missing(name: str) -> NotFound:
    return NotFound(
        Reason.NOT_FOUND, f"There is no secret {name}.", hint=f"store one: indai secret set {name}"
    )
