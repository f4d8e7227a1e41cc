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
from indai.node.kinds.served import INTENTS
from indai.protocol import header as rules
from indai.protocol import hello
from indai.protocol.envelope import payload_type, seal
from indai.protocol.errors import IndaiError
from indai.protocol.hello import Card, Hello, Pin
from indai.storage.pool import transaction
from indai.v1 import envelope_pb2

Value = TypeVar("Value")

OWN = Card(versions=(1,), intents=INTENTS)
MAX_REMEMBERED = 20_000

log = structlog.get_logger(__name__)


class Handshakes:
    """Says and takes HELLOs for the agents of this node, each with the card of its record: `card` is what
    this program can do. `clock`: ms since the epoch."""

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
        self._cards: dict[str, tuple[bytes, Card]] = {}  # by owner, with the operation it was drawn from
        self._generations: dict[str, tuple[bytes, int]] = {}  # by owner, with the digest of the card
        self._pins: OrderedDict[tuple[str, str], Pin] = OrderedDict()
        # Until when ours need not be repeated, and with which card it was said.
        self._said: OrderedDict[tuple[str, str], tuple[int, bytes]] = OrderedDict()

    async def say(self, owner: str, peer: str) -> bytes | None:
        """The HELLO to send along to `peer`; None when it has one, or none can be made now."""
        now = self._clock()
        if owner not in self._agents:
            return None
        try:
            card = await self.card(owner)
            until, digest = self._said.get((owner, peer), (0, b""))
            if until > now and digest == card.digest:
                return None
            _remember(self._said, (owner, peer), (now + hello.LIFETIME_MS // 2, card.digest))
            return await self._written(owner, peer, card, now)
        except IndaiError as error:
            self.unsaid(owner, peer)
            log.info("no hello", owner=owner, peer=peer, reason=error.reason.name)
            return None

    async def card(self, owner: str) -> Card:
        """The card that the owner's record makes; raises as `Resolver.resolve` and `hello.card_of`."""
        chain = (await self._resolver.resolve(owner, max_age_ms=MAX_HEAD_AGE_MS)).chain
        known = self._cards.get(owner)
        if known is None or known[0] != chain.last_mid:
            known = self._cards[owner] = (chain.last_mid, hello.card_of(chain.state, self._card))
        return known[1]

    def unsaid(self, owner: str, peer: str) -> None:
        """The HELLO did not arrive: the next delivery has another."""
        self._said.pop((owner, peer), None)

    async def take(self, said: Hello) -> None:
        """Pin what a HELLO shows that the gate has verified.

        Raises ProtocolError: ROLLBACK_DETECTED, UNSUPPORTED; Unavailable.
        """
        await self._gate.check_card(said, self._clock())
        key = (said.header.recipient, said.header.sender_subject)
        before = await self._pin(*key)
        pin = hello.pinned(before, said)
        hello.agree(await self.card(said.header.recipient), said.card)
        if pin != before:
            await self._keep(*key, pin)

    async def take_answer(self, raw: bytes) -> None:
        """A HELLO that came back for ours; raises as the gate and `take` do."""
        said, _ = await self._gate.check_hello(raw, None, self._clock())
        await self.take(said)

    async def _written(self, owner: str, peer: str, card: Card, now: int) -> bytes:
        own = await self._resolver.resolve(owner, max_age_ms=MAX_HEAD_AGE_MS)
        other = await self._resolver.resolve(peer, max_age_ms=MAX_HEAD_AGE_MS)
        key = self._agents.get(owner).signing_key(own, now, "")
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
        payload = hello.compose(header, await self._generation(owner, card), card)
        return seal(payload_type("hello"), payload, [key]).raw

    async def _generation(self, owner: str, card: Card) -> int:
        """Of our card: one more than the last when it has changed since, in one statement."""
        known = self._generations.get(owner)
        if known is None or known[0] != card.digest:
            async with transaction(self._pool) as connection:
                generation = await connection.fetchval(
                    "INSERT INTO node.cards AS c (owner, generation, digest) VALUES ($1, 1, $2)"
                    " ON CONFLICT (owner) DO UPDATE SET digest = $2,"
                    " generation = c.generation + (c.digest <> $2)::int RETURNING generation",
                    owner,
                    card.digest,
                )
            known = self._generations[owner] = (card.digest, generation)
        return known[1]

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
