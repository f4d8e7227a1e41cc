"""A2A agent cards, verified against the registry: the card's own word on where its key is counts for nothing.

A card of this network names its handle in the extension `https://ind.ai/ext/intent/v1` and is signed by an
agent key of that handle: a JWS (RFC 7515, EdDSA of RFC 8037) over canonical JSON (RFC 8785). The key is taken
from the handle's verified record by its id; a `jku` is never followed.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import rfc8785
from indai.client.resolver import Resolver
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.keys import verify

EXTENSION = "https://ind.ai/ext/intent/v1"


@dataclass(frozen=True, slots=True)
class VerifiedCard:
    """Whose card it is, by which key."""

    handle: str
    subject_id: str
    key_id: str


def canonical(card: dict[str, Any]) -> bytes:
    """What is signed: the card without its signatures and without empty values (A2A 1.0, section 8.4)."""
    return rfc8785.dumps(_without_empty({key: value for key, value in card.items() if key != "signatures"}))


def signing_input(protected: str, card: dict[str, Any]) -> bytes:
    """The bytes under the signature (RFC 7515, section 5.1)."""
    return f"{protected}.{_b64(canonical(card))}".encode()


async def verify_card(card: dict[str, Any], resolver: Resolver, now_ms: int) -> VerifiedCard:
    """Raises ProtocolError (BAD_SIGNATURE) unless a key of the handle that it names has signed it, which its
    record shows as valid now."""
    handle = handle_of(card)
    resolved = await resolver.resolve(handle)
    keys = {key.key_id: key for key in resolved.state.agent_keys}
    for signature in card.get("signatures") or []:
        try:
            header = json.loads(_unb64(signature["protected"]))
            kid, raw = header["kid"], _unb64(signature["signature"])
            plain = header.get("alg") == "EdDSA" and "crit" not in header
        except (KeyError, TypeError, ValueError, binascii.Error):
            continue
        key = keys.get(kid)
        if not plain or key is None:
            continue
        if verify(key.public_key, signing_input(signature["protected"], card), raw):
            resolved.chain.key_valid_at(kid, now_ms)
            return VerifiedCard(handle, resolved.subject_id, kid)
    raise ProtocolError(
        Reason.BAD_SIGNATURE, f"The card says it is {handle}'s, and no key of that handle has signed it."
    )


def handle_of(card: dict[str, Any]) -> str:
    """The handle that the card names. Raises ProtocolError for a card that names none."""
    for extension in (card.get("capabilities") or {}).get("extensions") or []:
        if isinstance(extension, dict) and extension.get("uri") == EXTENSION:
            handle = (extension.get("params") or {}).get("handle")
            if isinstance(handle, str):
                return handle
    raise ProtocolError(Reason.BAD_SIGNATURE, "The card names no handle of this network.")


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, given in value.items() if (inner := _without_empty(given)) is not None}
        return kept or None
    if isinstance(value, list):
        return [inner for given in value if (inner := _without_empty(given)) is not None] or None
    return None if value == "" else value


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
