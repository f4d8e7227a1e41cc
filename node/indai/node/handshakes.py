"""Handshakes with peers: a HELLO rides beside the first message to each peer, its answer in the response.

So a handshake never costs a round trip, and a pair that knows each other sends none until its HELLO is half
over. What a peer showed is pinned in the database; a HELLO that goes back behind it is refused, and so are
the messages that came with it. The pin of a subject is kept in memory once read.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import asyncpg
import structlog
from indai.client.resolver import Resolver
from indai.node.agents import Agents
from indai.node.inbound import MAX_HEAD_AGE_MS, Gate
from indai.protocol import header as rules
from indai.protocol import hello
from indai.protocol.envelope import payload_type, seal
from indai.protocol.errors import IndaiError
from indai.protocol.hello import Card, Hello, Pin
from indai.storage.pool import transaction
from indai.v1 import envelope_pb2

Value = TypeVar("Value")

OWN = Card(versions=(1,), intents=("meet",))
MAX_REMEMBERED = 20_000

log = structlog.get_logger(__name__)


class Handshakes:
    """Says and takes HELLOs for the agents of this node, all with the same card. `clock`: ms since the
    epoch."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        resolver: Resolver,
        agents: Agents,
        gate: Gate,
        clock: Callable[[], int],
        card: Card = OWN,
    ) -> None:
        self._pool = pool
        self._resolver = resolver
        self._agents = agents
        self._gate = gate
        self._clock = clock
        self._card = card
        self._generations: dict[str, int] = {}
        self._pins: OrderedDict[tuple[str, str], Pin] = OrderedDict()
        self._said: OrderedDict[tuple[str, str], int] = OrderedDict()  # until when ours need not be repeated

    async def say(self, owner: str, peer: str) -> bytes | None:
        """The HELLO to send along to `peer`; None when it has one, or none can be made now."""
        now = self._clock()
        if self._said.get((owner, peer), 0) > now or owner not in self._agents:
            return None
        _remember(self._said, (owner, peer), now + hello.LIFETIME_MS // 2)
        try:
            return await self._written(owner, peer, now)
        except IndaiError as error:
            self.unsaid(owner, peer)
            log.info("no hello", owner=owner, peer=peer, reason=error.reason.name)
            return None

    def unsaid(self, owner: str, peer: str) -> None:
        """The HELLO did not arrive: the next delivery has another."""
        self._said.pop((owner, peer), None)

    async def take(self, said: Hello) -> None:
        """Pin what a HELLO shows that the gate has verified.

        Raises ProtocolError: ROLLBACK_DETECTED, UNSUPPORTED; Unavailable.
        """
        key = (said.header.recipient, said.header.sender_subject)
        before = await self._pin(*key)
        pin = hello.pinned(before, said)
        hello.agree(self._card, said.card)
        if pin != before:
            await self._keep(*key, pin)

    async def take_answer(self, raw: bytes) -> None:
        """A HELLO that came back for ours; raises as the gate and `take` do."""
        said, _ = await self._gate.check_hello(raw, None, self._clock())
        await self.take(said)

    async def _written(self, owner: str, peer: str, now: int) -> bytes:
        own = await self._resolver.resolve(owner, max_age_ms=MAX_HEAD_AGE_MS)
        other = await self._resolver.resolve(peer, max_age_ms=MAX_HEAD_AGE_MS)
        key = self._agents.get(owner).signing_key(own, now, "meet")
        header = envelope_pb2.Header(
            id=rules.new_id(now, os.urandom(rules.RANDOM_BYTES)),
            network=self._resolver.policy.network,
            sender=owner,
            sender_subject=own.subject_id,
            recipient=other.handle,
            recipient_subject=other.subject_id,
            key_id=key.key_id,
            issued_at_ms=now,
            expires_at_ms=now + hello.LIFETIME_MS,
            nonce=os.urandom(rules.NONCE_BYTES),
            thread=rules.new_id(now, os.urandom(rules.RANDOM_BYTES)),
            registry_size=own.head.size,
            registry_root=own.head.root if own.head.size else b"",
        )
        payload = hello.compose(header, await self._generation(owner), self._card)
        return seal(payload_type("hello"), payload, [key]).raw

    async def _generation(self, owner: str) -> int:
        """Of our card: one more than the last when it has changed since, in one statement."""
        if owner not in self._generations:
            async with transaction(self._pool) as connection:
                self._generations[owner] = await connection.fetchval(
                    "INSERT INTO node.cards AS c (owner, generation, digest) VALUES ($1, 1, $2)"
                    " ON CONFLICT (owner) DO UPDATE SET digest = $2,"
                    " generation = c.generation + (c.digest <> $2)::int RETURNING generation",
                    owner,
                    self._card.digest,
                )
        return self._generations[owner]

    async def _pin(self, owner: str, subject: str) -> Pin | None:
        known = self._pins.get((owner, subject))
        if known is not None:
            return known
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "SELECT generation, card_digest, expires_ms FROM node.pins"
                " WHERE owner = $1 AND subject_id = $2",
                owner,
                subject,
            )
        return Pin(*row) if row else None

    async def _keep(self, owner: str, subject: str, pin: Pin) -> None:
        """The table too only moves forward, whatever two deliveries at once do."""
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.pins AS p (owner, subject_id, generation, card_digest, expires_ms)"
                " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, subject_id) DO UPDATE SET"
                " generation = $3, card_digest = $4, expires_ms = $5 WHERE p.generation <= $3",
                owner,
                subject,
                pin.generation,
                pin.card_digest,
                pin.expires_at_ms,
            )
        known = self._pins.get((owner, subject))
        if known is None or known.generation <= pin.generation:
            _remember(self._pins, (owner, subject), pin)


def _remember(memory: OrderedDict[tuple[str, str], Value], key: tuple[str, str], value: Value) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
