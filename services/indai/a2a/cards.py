"""Agent cards: what a handle's agent says of itself to A2A clients (A2A 1.0, sections 4.4 and 8).

A card is signed by a key of the handle's own: a JWS (RFC 7515, algorithm EdDSA of RFC 8037) over the card's
canonical JSON (RFC 8785). `kid` names the key as the registry does, so a reader takes it from there; a `jku`
is neither written nor followed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from indai.a2a.agents import Agent
from indai.a2a.calls import VERSION
from indai.client.agentcard import signing_input


class Signer(Protocol):
    """An agent key: its id in the registry, and what it signs."""

    @property
    def key_id(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


SignerOf = Callable[[str], Awaitable[Signer | None]]
"""The key that signs for a handle, or None."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the bindings are served: base URLs, and `host:port` for gRPC; empty ones are not offered."""

    http: str
    grpc: str = ""


class CardIssuer:
    """Completes an agent's card: interfaces, how to prove oneself, signature."""

    def __init__(
        self,
        places: Callable[[], Places],
        security: Callable[[Agent], dict[str, pb.SecurityScheme]],
        signer_of: SignerOf | None = None,
    ) -> None:
        self._places, self._security, self._signer_of = places, security, signer_of

    async def public(self, agent: Agent, tenant: str = "") -> pb.AgentCard:
        """The card for everybody."""
        return await self._issued(agent, agent.card, tenant)

    async def extended(self, agent: Agent) -> pb.AgentCard:
        """The card for callers who have proved who they are."""
        return await self._issued(agent, await agent.extended(), "")

    async def _issued(self, agent: Agent, said: pb.AgentCard, tenant: str) -> pb.AgentCard:
        card = pb.AgentCard()
        card.CopyFrom(said)
        places = self._places()
        for binding, url in (
            ("JSONRPC", f"{places.http}/a2a/jsonrpc"),
            ("HTTP+JSON", f"{places.http}/a2a"),
            ("GRPC", places.grpc),
        ):
            if url:
                card.supported_interfaces.add(
                    url=url, protocol_binding=binding, protocol_version=VERSION, tenant=tenant
                )
        for name, scheme in self._security(agent).items():
            card.security_schemes[name].CopyFrom(scheme)
        signer = await self._signer_of(agent.handle) if self._signer_of else None
        return signed(card, signer) if signer else card


def signed(card: pb.AgentCard, signer: Signer) -> pb.AgentCard:
    """The card with the signature added."""
    header = {"alg": "EdDSA", "kid": signer.key_id, "typ": "JOSE"}
    protected = _b64(json.dumps(header, separators=(",", ":")).encode())
    message = signing_input(protected, json_format.MessageToDict(card))
    card.signatures.add(protected=protected, signature=_b64(signer.sign(message)))
    return card


def card_json(card: pb.AgentCard) -> tuple[bytes, str]:
    """The card as it is served, and its entity tag."""
    body = json.dumps(json_format.MessageToDict(card), ensure_ascii=False, separators=(",", ":")).encode()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
