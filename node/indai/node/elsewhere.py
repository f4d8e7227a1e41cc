"""Visitors of a public page whose agent lives on another node: whether their handle is what it says, where
their node's pages are, and whether an introduction of theirs is good. See `indai.client.introduction`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from indai.client.introduction import Introduced, Occasion, checked_page, verify_introduction
from indai.client.peers import PeerChannels
from indai.client.resolver import Resolver
from indai.node.agents import Agents
from indai.node.inbound import MAX_HEAD_AGE_MS
from indai.page.front import Elsewhere
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.protocol.handlestate import NodeRecord
from indai.v1 import peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

ASK_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Guests:
    """`indai.page.front.Guests` of this node."""

    resolver: Resolver
    channels: PeerChannels
    agents: Agents
    clock: Callable[[], int]

    def lives_here(self, handle: str) -> bool:
        """See the protocol."""
        return handle in self.agents

    async def find(self, handle: str) -> Elsewhere:
        """See the protocol. The address is the word of the node that the record names: the connection is
        pinned to that node's key."""
        found = await self.resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
        if found.chain.ended_at_ms or not found.state.node:
            raise NotFound(Reason.NOT_FOUND, f"No agent speaks for {found.handle}.", hint="check the handle")
        node = await self.resolver.node_of(found)
        url = await self._web(node.state.node_record)
        return Elsewhere(found.handle, found.subject_id, node.handle, found.head.size, url)

    async def _web(self, record: NodeRecord | None) -> str:
        """Empty when the node has no pages, or can't be asked now."""
        if record is None:
            return ""
        try:
            stub = PeerServiceStub(await self.channels.get(record.address, record.tls_spki_sha256))
            answer = await stub.GetWebAddress(peer_pb2.GetWebAddressRequest(), timeout=ASK_TIMEOUT_S)
            return checked_page(answer.url).rstrip("/")
        except IndaiError:
            return ""

    async def introduced(self, text: str, occasion: Occasion) -> Introduced:
        """See the protocol."""
        found = await verify_introduction(
            text, occasion, self.resolver, self.clock(), max_age_ms=MAX_HEAD_AGE_MS
        )
        if self.lives_here(found.handle):  # they sign in: nothing else opens their own door
            raise NotFound(Reason.NOT_FOUND, f"{found.handle} lives here.", hint="sign in instead")
        return found
