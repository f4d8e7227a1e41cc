"""Asks a peer's node by QUERY, and checks the signed ANSWER: its signature, its sender, what it answers."""

from __future__ import annotations

import os

from indai.client.peers import PeerChannels
from indai.client.resolver import Resolver
from indai.node import compose
from indai.node.agents import Agents
from indai.node.clock import DatabaseClock
from indai.node.handshakes import Handshakes
from indai.node.inbound import Gate, Inbound
from indai.node.query_desk import letterhead
from indai.protocol import header
from indai.protocol.errors import ProtocolError, Reason, Refused, Unavailable
from indai.protocol.messages import Move
from indai.protocol.queries import About, AnswerBody, ContentAnswer, ContentQuery, QueryBody, Told, answers
from indai.protocol.quoting import quoted
from indai.v1 import peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

LIFE_MS = 60_000
TIMEOUT_S = 10.0
MAX_PARTS = 32


class Querier:
    """One query is one call: it is never stored, and never sent again by itself."""

    def __init__(
        self,
        resolver: Resolver,
        agents: Agents,
        channels: PeerChannels,
        handshakes: Handshakes,
        gate: Gate,
        clock: DatabaseClock,
    ) -> None:
        self._resolver = resolver
        self._agents = agents
        self._channels = channels
        self._handshakes = handshakes
        self._gate = gate
        self._clock = clock

    async def ask(self, owner: str, peer: str, about: About) -> Told:
        """What `peer` answers; a refusal is an answer too. Raises ProtocolError, Unavailable."""
        now_ms, thread = self._clock(), header.new_id(self._clock(), os.urandom(header.RANDOM_BYTES))
        paper = await letterhead(self._resolver, self._agents, owner, peer, now_ms)
        query = QueryBody(about)
        written = compose.write(paper, Move.QUERY, query, thread, b"", now_ms, now_ms + LIFE_MS)
        raw = await self._deliver(owner, paper.peer.handle, written.envelope.raw)
        inbound = await self._gate.check(raw, None, self._clock())
        return self._told(inbound, owner, paper.peer.handle, thread, written.envelope.mid, query)

    async def content(self, owner: str, peer: str, commitment: bytes) -> bytes:
        """All of a sealed content, part by part. Raises Refused with the peer's reason."""
        sealed = b""
        for _ in range(MAX_PARTS):
            told = await self.ask(owner, peer, ContentQuery(commitment, len(sealed)))
            if not isinstance(told, ContentAnswer):
                raise refused(peer, told)
            sealed += told.sealed
            if len(sealed) >= told.total_bytes:
                return sealed
        raise ProtocolError(Reason.MALFORMED, f"What {peer} shares never ends.", rule="QRY-01")

    def _told(
        self, inbound: Inbound, owner: str, peer: str, thread: bytes, mid: bytes, query: QueryBody
    ) -> Told:
        message, answer = inbound.message, inbound.message.body
        header.check_time(message.issued_at_ms, message.expires_at_ms, self._clock())
        ours = (inbound.owner, inbound.peer, message.thread, message.in_reply_to) == (
            owner,
            peer,
            thread,
            mid,
        )
        if not isinstance(answer, AnswerBody) or not ours or not answers(query, answer):
            raise ProtocolError(
                Reason.MALFORMED, f"{peer} answers something else than was asked.", rule="QRY-03"
            )
        return answer.told

    async def _deliver(self, owner: str, peer: str, raw: bytes) -> bytes:
        record = (await self._resolver.node_of(await self._resolver.resolve(peer))).state.node_record
        if record is None:
            raise Unavailable(Reason.UNREACHABLE, f"{peer} has no node.")
        stub = PeerServiceStub(await self._channels.get(record.address, record.tls_spki_sha256))
        greeting = await self._handshakes.say(owner, peer)
        request = peer_pb2.DeliverRequest(envelopes=[raw], hellos=[greeting] if greeting else [])
        try:
            response = await stub.Deliver(request, timeout=TIMEOUT_S)
        except Exception:
            self._handshakes.unsaid(owner, peer)
            raise
        for hello in response.hellos:
            for answer in hello.replies:
                await self._handshakes.take_answer(answer)
        result = response.results[0] if response.results else peer_pb2.DeliverResult()
        if len(result.replies) != 1:
            why = result.error.message or "it says nothing"
            raise Unavailable(Reason.UNREACHABLE, f"{peer} does not answer: {quoted(why)}.")
        return result.replies[0]


def refused(peer: str, told: Told) -> Refused:
    """The peer's refusal as an error of ours."""
    reason = getattr(told, "reason", "")
    sentence = getattr(told, "sentence", "")
    return Refused(Reason.POLICY_DENIED, f"{peer} refuses: {quoted(sentence or reason)} ({quoted(reason)}).")
