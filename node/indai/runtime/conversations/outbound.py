"""What agents say of their own accord, kept until a channel has handed it on.

It goes to the channel on which the person wrote last. One that is not acknowledged comes again; one that is
told twice under the same key is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg
from indai.runtime.conversations.rows import every_owner, seeing
from indai.runtime.conversations.values import Clock, fresh, missing
from indai.v1 import conversation_pb2 as pb

LIFE_MS: Final = 86_400_000
AGAIN_MS: Final = 60_000
POLL_S: Final = 5.0
_MOST: Final = 100
_SHOWN: Final = 200

_PUT = """
    INSERT INTO runtime.outbound
        (id, owner, session, person, channel, account, reply, template, key, expires_at)
    SELECT $1, owner, id, person, channel, account, $3, $4, $5, to_timestamp($6 / 1000.0)
    FROM runtime.sessions WHERE id = $2
    ON CONFLICT (session, key) DO NOTHING RETURNING owner
"""
_MESSAGE = """
    INSERT INTO runtime.messages
        (id, owner, session, segment, outgoing, by_human, channel, text, body, request_id)
    SELECT $1, owner, id, segment, true, $3, channel, $4, $5, $6 FROM runtime.sessions WHERE id = $2
"""
_WAITING = """
    SELECT o.*, i.kind, i.value, i.verified, i.display_name
    FROM runtime.outbound o
    JOIN LATERAL (
        SELECT kind, value, verified, display_name FROM runtime.identities
        WHERE person = o.person AND channel = o.channel ORDER BY last_used_at DESC LIMIT 1
    ) i ON true
    WHERE o.state = 'waiting' AND o.channel = ANY ($1) AND o.expires_at > to_timestamp($2 / 1000.0)
      AND ($3::uuid IS NULL OR o.person = $3) AND NOT (o.id = ANY ($4))
    ORDER BY o.place LIMIT $5
"""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell in a session. `key` names it there; `by`: the human who writes it; `said`: it becomes
    part of the conversation, which models and memory read."""

    key: str
    reply: pb.Reply
    template: str = ""
    expires_at_ms: int = 0
    by: str = ""
    said: bool = True


class Outbound:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock
        self._changed = asyncio.Event()

    async def put(self, owner: str, session: UUID, notice: Notice) -> UUID | None:
        """Store it, with its message in the session; None when it was told already."""
        async with seeing(self._pool, [owner]) as connection:
            made = await self.put_in(connection, session, notice)
        self.poke()
        return made

    async def put_in(self, connection: asyncpg.Connection, session: UUID, notice: Notice) -> UUID | None:
        """The same within a transaction that sees the session; `poke` afterwards."""
        made, raw = fresh(self._clock), notice.reply.SerializeToString()
        expires_ms = notice.expires_at_ms or self._clock() + LIFE_MS
        owner = await connection.fetchval(_PUT, made, session, raw, notice.template, notice.key, expires_ms)
        if owner is None:
            return None
        if notice.said:
            await connection.execute(_MESSAGE, made, session, notice.by, notice.reply.text, raw, notice.key)
        return made

    def poke(self) -> None:
        """Something is to be sent: who watches looks at once."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(
        self, channels: Sequence[str], *, owners: Sequence[str] = (), person: UUID | None = None
    ) -> AsyncIterator[pb.OutboundMessage]:
        """What is to be sent on these channels: of `owners`, or of all; to `person`, or to everybody."""
        told: dict[UUID, int] = {}
        while True:
            changed, now_ms = self._changed, self._clock()
            told = {each: at for each, at in told.items() if at > now_ms - AGAIN_MS}
            seen = owners or await every_owner(self._pool)
            async with seeing(self._pool, seen) as connection:
                rows = await connection.fetch(_WAITING, list(channels), now_ms, person, list(told), _MOST)
            for row in rows:
                told[row["id"]] = now_ms
                yield _message(row)
            if len(rows) < _MOST:
                # The pause is for what another process put down, and for what was not acknowledged.
                try:
                    async with asyncio.timeout(POLL_S):
                        await changed.wait()
                except TimeoutError:
                    continue

    async def acknowledge(
        self, request: pb.AcknowledgeOutboundRequest, outbound: UUID, person: UUID | None = None
    ) -> tuple[str, str]:
        """It was sent, or can't be. Gives whose it is and the session's door. Raises NotFound; the same again
        changes nothing."""
        async with seeing(self._pool, await every_owner(self._pool)) as connection:
            found = await connection.fetchrow(
                "UPDATE runtime.outbound SET state = CASE WHEN state <> 'waiting' THEN state"
                " WHEN $2 = '' THEN 'sent' ELSE 'failed' END,"
                " provider_message_id = CASE WHEN provider_message_id = '' THEN $3"
                " ELSE provider_message_id END,"
                " failure = CASE WHEN state = 'waiting' THEN $2 ELSE failure END"
                " WHERE id = $1 AND ($4::uuid IS NULL OR person = $4) RETURNING owner,"
                " (SELECT door FROM runtime.sessions WHERE id = outbound.session) AS door",
                outbound,
                request.failure[:_SHOWN],
                request.provider_message_id,
                person,
            )
        if found is None:
            raise missing("message")
        return found["owner"], found["door"]


def _message(row: asyncpg.Record) -> pb.OutboundMessage:
    made = pb.OutboundMessage(
        outbound_id=row["id"].hex,
        recipient=pb.Identity(
            channel=row["channel"],
            kind=row["kind"],
            value=row["value"],
            verified=row["verified"],
            display_name=row["display_name"],
        ),
        account=row["account"],
        reply=pb.Reply.FromString(row["reply"]),
        template=row["template"],
    )
    made.expire_time.FromDatetime(row["expires_at"])
    return made
