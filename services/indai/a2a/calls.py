"""What a binding knows of a call apart from its request: who makes it, in which version, with which
extensions.

Service parameters travel in HTTP headers and in gRPC metadata alike (A2A 1.0, section 3.2.6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from a2a.utils.errors import InvalidParamsError, VersionNotSupportedError

VERSION = "1.0"
VERSION_HEADER = "a2a-version"
EXTENSIONS_HEADER = "a2a-extensions"
IDEMPOTENCY_HEADER = "idempotency-key"
MAX_KEY = 200
_MAJOR_MINOR = re.compile(r"(\d{1,3}\.\d{1,3})(?:\.\d{1,6})?")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `caller` names who may see what comes of it; empty for somebody unknown, who sees only what
    they know the id of. `spki`: hash of the key with which mutual TLS was proved. `extensions`: those the
    client speaks.
    """

    caller: str
    spki: bytes = b""
    extensions: frozenset[str] = frozenset()
    idempotency_key: str = ""


def check_version(headers: Mapping[str, str]) -> None:
    """Raises VersionNotSupportedError unless the client speaks 1.0; a client that says nothing speaks 0.3."""
    text = headers.get(VERSION_HEADER, "").strip() or "0.3"
    match = _MAJOR_MINOR.fullmatch(text)
    if match is None or match[1] != VERSION:
        raise VersionNotSupportedError(f"A2A {text[:20]!r} is not spoken here; speak {VERSION}.")


def extensions_of(headers: Mapping[str, str]) -> frozenset[str]:
    """The URIs in `A2A-Extensions`."""
    return frozenset(uri.strip() for uri in headers.get(EXTENSIONS_HEADER, "").split(",") if uri.strip())


def idempotency_key_of(headers: Mapping[str, str]) -> str:
    """The client's key for this request, or nothing. A message's id is none: clients use it again."""
    key = headers.get(IDEMPOTENCY_HEADER, "").strip()
    if key and not _KEY.fullmatch(key):
        raise InvalidParamsError(f"An Idempotency-Key has 1 to {MAX_KEY} visible ASCII characters.")
    return key
