"""Introductions: a short word by which an agent tells one page of another node whom it speaks for.

A page makes a challenge for the browser before it; the browser carries it to the home node of the handle that
its owner has named, and an introduction back. It is a JWS (RFC 7515, compact, EdDSA of RFC 8037) by an agent
key of the handle, for one page, one handle and that one challenge. The key is taken from the handle's
verified record by its id. The input of such a signature never begins as that of an envelope does
(`DSSEv1`), so neither can be taken for the other.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from indai.client.resolver import DEFAULT_MAX_AGE_MS, Resolver
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.header import MAX_SKEW_MS
from indai.protocol.keys import SigningKey, verify

TYPE: Final = "indai-introduction+jwt"
LIFE_MS: Final = 300_000
LONGEST: Final = 4_096
MAX_PAGE: Final = 400
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Occasion:
    """What an introduction is for: the page's address, the handle whose page it is, and the page's challenge
    for one browser."""

    page: str
    to: str
    challenge: str


@dataclass(frozen=True, slots=True)
class Introduced:
    """Whom the agent speaks for, by which key."""

    handle: str
    subject_id: str
    key_id: str


def checked_page(address: str) -> str:
    """The address if a browser may be sent there: https, or this machine, plain and short. Raises
    InvalidInput."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _HERE)
    plain = address.isprintable() and address.isascii() and not set(address) & set(" <>\"'\\`{}|^")
    if not (safe and plain and host and len(address) <= MAX_PAGE and "@" not in parts.netloc):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "This is no address of a page.", hint="https://node.example/bob"
        )
    return address


def introduce(key: SigningKey, handle: str, subject_id: str, occasion: Occasion, now_ms: int) -> str:
    """The introduction of `handle`, good for five minutes."""
    header = {"alg": "EdDSA", "typ": TYPE, "kid": key.key_id}
    claims = {
        "iss": handle,
        "sub": subject_id,
        "aud": occasion.page,
        "to": occasion.to,
        "nonce": occasion.challenge,
        "iat": now_ms // 1000,
        "exp": (now_ms + LIFE_MS) // 1000,
    }
    signed = f"{_written(header)}.{_written(claims)}"
    return f"{signed}.{_b64(key.sign(signed.encode()))}"


async def verify_introduction(
    text: str, occasion: Occasion, resolver: Resolver, now_ms: int, max_age_ms: int = DEFAULT_MAX_AGE_MS
) -> Introduced:
    """Who is introduced. Raises ProtocolError (BAD_SIGNATURE, EXPIRED) for what is forged, for another
    occasion, or too old, and what `Resolver.resolve` raises. `max_age_ms`: of the registry's head."""
    header, claims, signed, signature = _read(text)
    wanted = {"aud": occasion.page, "to": occasion.to, "nonce": occasion.challenge}
    if not occasion.challenge or any(claims.get(name) != value for name, value in wanted.items()):
        raise _bad("The introduction is for another page, or another browser.")
    issued, ends = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int) or not isinstance(ends, int) or ends * 1000 > issued * 1000 + LIFE_MS:
        raise _bad("The introduction says no time.")
    if not issued * 1000 - MAX_SKEW_MS <= now_ms <= ends * 1000 + MAX_SKEW_MS:
        raise ProtocolError(Reason.EXPIRED, "The introduction is too old.", hint="begin again")
    resolved = await resolver.resolve(_handle(claims), max_age_ms=max_age_ms)
    kid = header.get("kid")
    key = next((each for each in resolved.state.agent_keys if each.key_id == kid), None)
    if key is None or claims.get("sub") != resolved.subject_id:
        raise _bad(f"The introduction names no key of {resolved.handle}.")
    if not verify(key.public_key, signed, signature):
        raise _bad(f"No key of {resolved.handle} has signed the introduction.")
    resolved.chain.key_valid_at(key.key_id, now_ms)
    return Introduced(resolved.handle, resolved.subject_id, key.key_id)


def _read(text: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """Header, claims, what is signed, and the signature. Raises ProtocolError."""
    try:
        if len(text) > LONGEST:
            raise ValueError
        head, body, end = text.split(".")
        header, claims, signature = json.loads(_unb64(head)), json.loads(_unb64(body)), _unb64(end)
    except (ValueError, RecursionError, binascii.Error):
        raise _bad("This is no introduction.") from None
    plain = isinstance(header, dict) and isinstance(claims, dict) and "crit" not in header
    if not plain or (header.get("alg"), header.get("typ")) != ("EdDSA", TYPE):
        raise _bad("This is no introduction.")
    return header, claims, f"{head}.{body}".encode(), signature


def _handle(claims: dict[str, Any]) -> str:
    try:
        return str(Handle.parse(str(claims.get("iss", ""))))
    except IndaiError:
        raise _bad("The introduction names no handle.") from None


def _written(value: dict[str, Any]) -> str:
    return _b64(json.dumps(value, separators=(",", ":")).encode())


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _bad(message: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_SIGNATURE, message, hint="begin again on the page")
