"""What is to be said: one row for each message of the provider's, kept until it has arrived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg
from indai.edge.channels.base import Account, Adapter, Json
from indai.edge.channels.carried import as_payload, linked
from indai.protocol.errors import NotFound, Reason
from indai.storage.pool import transaction
from indai.v1 import conversation_pb2 as pb

KEEP: Final = timedelta(hours=24)
"""How long an answer is worth sending, unless something else was said."""
_WRITE: Final = """
    INSERT INTO edge.outbox (tenant, channel, peer, source, part, address, payload, template, expires_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::int[], $6::text[], $7::jsonb[],
                         $8::jsonb[], $9::timestamptz[])
    ON CONFLICT DO NOTHING
"""
_HEADS: Final = """
    SELECT head.*, peers.wrote_at
    FROM edge.outbox AS head LEFT JOIN edge.peers USING (tenant, channel, peer)
    WHERE head.channel = $1 AND head.state = 'waiting' AND head.next_at <= now()
      AND NOT (head.peer = ANY ($2))
      AND NOT EXISTS (SELECT 1 FROM edge.outbox AS before
                      WHERE before.channel = head.channel AND before.peer = head.peer
                        AND before.state = 'waiting' AND before.id < head.id)
    ORDER BY head.id LIMIT $3
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A message to be sent. `source` and `part` name it: the same is never stored twice."""

    tenant: str
    channel: str
    peer: bytes
    source: str
    part: int
    address: str
    payload: Json
    template: Json | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """A message whose turn it is; `wrote_at` is when its recipient last wrote, `told` what the provider has
    answered to the upload of its file."""

    id: int
    tenant: str
    peer: bytes
    source: str
    address: str
    payload: Json
    template: Json | None
    attempts: int
    expires_at: datetime
    wrote_at: datetime | None
    told: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Dead:
    """A message that could not be sent."""

    id: int
    channel: str
    reason: str
    attempts: int
    created_at: datetime
    settled_at: datetime
    payload: Json


@dataclass(frozen=True, slots=True)
class Counts:
    """How a channel stands."""

    waiting: int
    oldest: datetime | None
    dead: int
    unread: int
    last_in: datetime | None
    last_out: datetime | None


@dataclass(frozen=True, slots=True)
class Recipient:
    """Where something goes, and in whose name it is kept. `link` gives the address of a file that can't go
    there itself."""

    account: Account
    adapter: Adapter
    peer: bytes
    address: str
    link: Callable[[pb.Media], str] = lambda _: ""


def lines(
    to: Recipient,
    source: str,
    reply: pb.Reply,
    *,
    template: str = "",
    first_part: int = 0,
    expires_at: datetime | None = None,
) -> list[Line]:
    """A reply as the messages that carry it: words, then files. The first brings the template that may stand
    for all; the others bring an empty one."""
    takes = to.adapter.limits.files
    carried = [(kind, each) for each in reply.media if (kind := takes.kind(each))]
    payloads = to.adapter.render(_worded(to, reply, [each for each in reply.media if not takes.kind(each)]))
    payloads += [as_payload(kind, each) for kind, each in carried]
    # A template has words alone: what it stands for is fetched.
    other = to.adapter.template(template, _worded(to, reply, reply.media)) if template else None
    return [
        Line(
            to.account.tenant,
            to.account.name,
            to.peer,
            source,
            first_part + number,
            to.address,
            payload,
            other if number == 0 or other is None else {},
            expires_at or datetime.now(UTC) + KEEP,
        )
        for number, payload in enumerate(payloads)
    ]


def _worded(to: Recipient, reply: pb.Reply, files: Sequence[pb.Media]) -> pb.Reply:
    """A reply whose words name these files."""
    found = pb.Reply()
    found.CopyFrom(reply)
    found.text = linked(reply.text, [(each.file_name or each.media_type, to.link(each)) for each in files])
    return found


def columns(new: Sequence[Line]) -> tuple[list[object], ...]:
    """Lines as the arguments of the statement that stores them."""
    return (
        [line.tenant for line in new],
        [line.channel for line in new],
        [line.peer for line in new],
        [line.source for line in new],
        [line.part for line in new],
        [line.address for line in new],
        [json.dumps(line.payload) for line in new],
        [None if line.template is None else json.dumps(line.template) for line in new],
        [line.expires_at for line in new],
    )


class Outbox:
    """Rows of what goes out."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def put(self, tenant: str, new: Sequence[Line]) -> None:
        """Store lines of one tenant."""
        async with transaction(self._pool, (tenant,)) as connection:
            await connection.execute(_WRITE, *columns(new))

    async def heads(self, account: Account, busy: Iterable[bytes], limit: int) -> list[Due]:
        """The oldest message to each person, none before its time."""
        async with transaction(self._pool, (account.tenant,)) as connection:
            rows = await connection.fetch(_HEADS, account.name, list(busy), limit)
        return list(map(_due, rows))

    async def sent(self, due: Due, key: bytes | None, *, receipts: bool) -> None:
        """The provider has it. What it said is kept until it has arrived, if that will be told."""
        async with transaction(self._pool, (due.tenant,)) as connection:
            await connection.execute(
                "UPDATE edge.outbox SET state = 'sent', sent_key = $2, settled_at = now(), reason = '',"
                " attempts = attempts + 1, address = CASE WHEN $3 THEN address END,"
                " payload = CASE WHEN $3 THEN payload END, template = CASE WHEN $3 THEN template END,"
                " told = NULL"
                " WHERE id = $1 AND state = 'waiting'",
                due.id,
                key,
                receipts,
            )

    async def uploaded(self, due: Due, told: Sequence[Json]) -> None:
        """The provider has the file of a message, and has answered so."""
        async with transaction(self._pool, (due.tenant,)) as connection:
            await connection.execute(
                "UPDATE edge.outbox SET told = $2 WHERE id = $1 AND state = 'waiting'",
                due.id,
                json.dumps(told),
            )

    async def again(self, due: Due, after: timedelta, reason: str) -> None:
        """Not now."""
        async with transaction(self._pool, (due.tenant,)) as connection:
            await connection.execute(
                "UPDATE edge.outbox SET attempts = attempts + 1, next_at = now() + $2, reason = $3"
                " WHERE id = $1 AND state = 'waiting'",
                due.id,
                after,
                reason,
            )

    async def dead(self, due: Due, reason: str) -> None:
        """Never, unless a person says so."""
        async with transaction(self._pool, (due.tenant,)) as connection:
            await connection.execute(
                "UPDATE edge.outbox SET state = 'dead', reason = $2, settled_at = now(), told = NULL"
                " WHERE id = $1 AND state = 'waiting'",
                due.id,
                reason,
            )

    async def settled(self, tenant: str, source: str) -> tuple[bool, str]:
        """Whether nothing of a source waits any more, and why one of it could not be sent."""
        async with transaction(self._pool, (tenant,)) as connection:
            row = await connection.fetchrow(
                "SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) AS parts,"
                " coalesce(min(reason) FILTER (WHERE state = 'dead'), '') AS reason"
                " FROM edge.outbox WHERE tenant = $1 AND source = $2",
                tenant,
                source,
            )
        return row["parts"] > 0 and row["waiting"] == 0, row["reason"]

    async def dead_letters(self, tenant: str, channel: str, after: int, limit: int) -> list[Dead]:
        """Of a tenant, or of one channel, oldest first."""
        async with transaction(self._pool, (tenant,)) as connection:
            rows = await connection.fetch(
                "SELECT * FROM edge.outbox WHERE tenant = $1 AND ($2 = '' OR channel = $2) AND state = 'dead'"
                " AND id > $3 ORDER BY id LIMIT $4",
                tenant,
                channel,
                after,
                limit,
            )
        return [
            Dead(
                row["id"],
                row["channel"],
                row["reason"],
                row["attempts"],
                row["created_at"],
                row["settled_at"],
                json.loads(row["payload"]),
            )
            for row in rows
        ]

    async def replay(self, tenant: str, channel: str, letters: Sequence[int]) -> int:
        """Dead letters wait again, those that are named or all of the channel. Raises NotFound for none."""
        async with transaction(self._pool, (tenant,)) as connection:
            rows = await connection.fetch(
                "UPDATE edge.outbox SET state = 'waiting', attempts = 0, next_at = now(), reason = '',"
                " expires_at = now() + $4, settled_at = NULL, sent_key = NULL"
                " WHERE tenant = $1 AND channel = $2 AND state = 'dead' AND (cardinality($3::bigint[]) = 0 OR"
                " id = ANY ($3)) RETURNING id",
                tenant,
                channel,
                list(letters),
                KEEP,
            )
        if not rows:
            raise NotFound(Reason.NOT_FOUND, f"There is no such dead letter on {channel}.")
        return len(rows)

    async def counts(self, tenant: str, channel: str) -> Counts:
        """How a channel stands."""
        async with transaction(self._pool, (tenant,)) as connection:
            row = await connection.fetchrow(
                "SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting,"
                " min(created_at) FILTER (WHERE state = 'waiting') AS oldest,"
                " count(*) FILTER (WHERE state = 'dead') AS dead,"
                " max(settled_at) FILTER (WHERE state <> 'dead') AS last_out,"
                " (SELECT count(*) FROM edge.inbox"
                "  WHERE tenant = $1 AND channel = $2 AND done_at IS NULL) AS unread,"
                " (SELECT max(arrived_at) FROM edge.inbox WHERE tenant = $1 AND channel = $2) AS last_in"
                " FROM edge.outbox WHERE tenant = $1 AND channel = $2",
                tenant,
                channel,
            )
        return Counts(
            row["waiting"], row["oldest"], row["dead"], row["unread"], row["last_in"], row["last_out"]
        )

    async def wrote_at(self, tenant: str, channel: str, peer: bytes) -> datetime | None:
        """When somebody last wrote on a channel."""
        async with transaction(self._pool, (tenant,)) as connection:
            found: datetime | None = await connection.fetchval(
                "SELECT wrote_at FROM edge.peers WHERE tenant = $1 AND channel = $2 AND peer = $3",
                tenant,
                channel,
                peer,
            )
        return found

    async def sweep(self, tenants: Sequence[str]) -> None:
        """Erase what is no longer needed: words after two days, rows and dead letters after thirty."""
        async with transaction(self._pool, tenants) as connection:
            await connection.execute(
                "UPDATE edge.outbox SET address = NULL, payload = NULL, template = NULL"
                " WHERE state = 'sent' AND payload IS NOT NULL AND settled_at < now() - interval '2 days'"
            )
            await connection.execute(
                "DELETE FROM edge.outbox WHERE settled_at < now() - interval '30 days' AND state <> 'waiting'"
            )
            await connection.execute("DELETE FROM edge.inbox WHERE done_at < now() - interval '30 days'")


def _due(row: asyncpg.Record) -> Due:
    return Due(
        row["id"],
        row["tenant"],
        row["peer"],
        row["source"],
        row["address"],
        json.loads(row["payload"]),
        None if row["template"] is None else json.loads(row["template"]),
        row["attempts"],
        row["expires_at"],
        row["wrote_at"],
        tuple(json.loads(row["told"] or "[]")),
    )
