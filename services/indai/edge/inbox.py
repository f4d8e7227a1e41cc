"""What people said, durable before the provider is answered, and handed on in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg
from indai.edge.channels.base import Account, Attachment, Incoming, Receipt, State
from indai.edge.outbox import Line, columns
from indai.edge.reserved import Reserved
from indai.storage.pool import one_trip, transaction
from indai.v1 import conversation_pb2 as pb

_TAKE: Final = "SELECT edge.take($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
_DONE: Final = "SELECT edge.done($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
# What became of a message only moves forward: late and repeated words on it change nothing.
_RECEIPTS: Final = """
    UPDATE edge.outbox AS sent
    SET state = told.state, reason = told.reason, settled_at = now(),
        address = CASE WHEN told.state = 'dead' THEN sent.address END,
        payload = CASE WHEN told.state = 'dead' THEN sent.payload END,
        template = CASE WHEN told.state = 'dead' THEN sent.template END
    FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[]) AS told(channel, key, state, reason)
    WHERE sent.channel = told.channel AND sent.sent_key = told.key
      AND (told.state = 'dead' AND sent.state = 'sent' AND sent.payload IS NOT NULL
           OR told.state = 'delivered' AND sent.state = 'sent'
           OR told.state = 'read' AND sent.state IN ('sent', 'delivered'))
"""
# The first of each person who isn't being served, found from the oldest on: a long queue costs no more.
_HEADS: Final = """
    SELECT head.*, peers.handle, peers.handle_at, peers.choices
    FROM edge.inbox AS head LEFT JOIN edge.peers USING (tenant, channel, peer)
    WHERE head.done_at IS NULL AND head.next_at <= now()
      AND NOT EXISTS (SELECT 1 FROM edge.inbox AS before
                      WHERE before.channel = head.channel AND before.peer = head.peer
                        AND before.done_at IS NULL AND before.id < head.id)
      AND NOT EXISTS (SELECT 1 FROM unnest($1::text[], $2::bytea[]) AS busy(channel, peer)
                      WHERE busy.channel = head.channel AND busy.peer = head.peer)
    ORDER BY head.id LIMIT $3
"""
_STATES: Final = {State.DELIVERED: "delivered", State.READ: "read", State.FAILED: "dead"}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message of a webhook, with the hashes of its sender and its id."""

    account: Account
    incoming: Incoming
    peer: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class ReceiptOf:
    """The provider's word on a message of a channel, by the hash of its id."""

    tenant: str
    channel: str
    key: bytes
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that nobody has handed on yet, and what is known of who wrote it."""

    id: int
    tenant: str
    channel: str
    peer: bytes
    message: pb.InboundMessage
    address: str
    attachments: tuple[Attachment, ...]
    unreadable: str
    attempts: int
    arrived_at: datetime
    handle: str
    handle_at: datetime | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is remembered of somebody when their message is done."""

    handle: str
    choices: tuple[str, ...]


class Inbox:
    """Rows of what came in."""

    def __init__(self, pool: asyncpg.Pool | Reserved) -> None:
        self._pool = pool

    async def store(self, arrivals: Sequence[Arrival], receipts: Sequence[ReceiptOf]) -> None:
        """All or none; what was stored before changes nothing."""
        told = [each for each in receipts if each.receipt.state in _STATES]
        taken = (
            ",".join(sorted({each.account.tenant for each in arrivals})),
            *_rows(arrivals),
            *_peers(arrivals),
        )
        if not told:
            if arrivals:
                await one_trip(self._pool, _TAKE, *taken)
            return
        async with transaction(self._pool, sorted({each.tenant for each in told})) as connection:
            await connection.execute(
                _RECEIPTS,
                [each.channel for each in told],
                [each.key for each in told],
                [_STATES[each.receipt.state] for each in told],
                [each.receipt.reason for each in told],
            )
            if arrivals:
                await connection.execute(_TAKE, *taken)

    async def heads(
        self, tenants: Sequence[str], busy: Iterable[tuple[str, bytes]], limit: int
    ) -> list[Waiting]:
        """The oldest message of each person who isn't being served; none before its time."""
        pairs = list(busy)
        async with transaction(self._pool, tenants) as connection:
            rows = await connection.fetch(
                _HEADS, [pair[0] for pair in pairs], [pair[1] for pair in pairs], limit
            )
        return list(map(_waiting, rows))

    async def done(self, waiting: Waiting, lines: Sequence[Line], standing: Standing | None) -> None:
        """Its answer is stored, and it is done: in one transaction, so that neither is without the other."""
        await one_trip(
            self._pool,
            _DONE,
            waiting.id,
            waiting.tenant,
            waiting.channel,
            waiting.peer,
            None if standing is None else standing.handle,
            [] if standing is None else list(standing.choices),
            *columns(lines),
        )

    async def again(self, waiting: Waiting, after: timedelta) -> None:
        """It could not be handed on: not before `after`, and nothing of the same person before it."""
        async with transaction(self._pool, (waiting.tenant,)) as connection:
            await connection.execute(
                "UPDATE edge.inbox SET attempts = attempts + 1, next_at = now() + $2 WHERE id = $1",
                waiting.id,
                after,
            )


def _rows(arrivals: Sequence[Arrival]) -> tuple[list[object], ...]:
    return (
        [each.account.tenant for each in arrivals],
        [each.account.name for each in arrivals],
        [each.peer for each in arrivals],
        [each.key for each in arrivals],
        [each.incoming.message.SerializeToString() for each in arrivals],
        [each.incoming.address for each in arrivals],
        [json.dumps([asdict(file) for file in each.incoming.attachments]) for each in arrivals],
        [each.incoming.unreadable for each in arrivals],
    )


def _peers(arrivals: Sequence[Arrival]) -> tuple[list[object], ...]:
    now = datetime.now(UTC)
    wrote: dict[tuple[str, str, bytes], datetime] = {}
    for each in arrivals:
        key = (each.account.tenant, each.account.name, each.peer)
        sent = each.incoming.message.sent_time
        at = min(now, sent.ToDatetime(UTC)) if sent.seconds else now
        wrote[key] = max(wrote.get(key, at), at)
    return (
        [tenant for tenant, _, _ in wrote],
        [channel for _, channel, _ in wrote],
        [peer for _, _, peer in wrote],
        list(wrote.values()),
    )


def _waiting(row: asyncpg.Record) -> Waiting:
    return Waiting(
        row["id"],
        row["tenant"],
        row["channel"],
        row["peer"],
        pb.InboundMessage.FromString(row["message"]),
        row["address"],
        tuple(Attachment(**file) for file in json.loads(row["attachments"])),
        row["unreadable"],
        row["attempts"],
        row["arrived_at"],
        row["handle"] or "",
        row["handle_at"],
        tuple(row["choices"] or ()),
    )
