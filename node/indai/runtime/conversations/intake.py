"""Takes a message in: who it is from, whose agent it is for, and the rows that make it durable; one
transaction.

A message that came before is found again by what its provider calls it, whoever answered then. An Aadhaar
number in it is taken out before anything is stored, and the turn is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused
from indai.runtime.conversations.people import Raced, check_identity, met
from indai.runtime.conversations.rows import also_see, delivery_key, seeing
from indai.runtime.conversations.values import Clock, Person, Place, fresh
from indai.tools.identity import is_about_aadhaar, may_hold_aadhaar, without_aadhaar
from indai.v1 import conversation_pb2 as pb

MAX_TEXT: Final = 100_000
MAX_MEDIA: Final = 10
MAX_ACCOUNT: Final = 200
MAX_PROVIDER_ID: Final = 500
# A silence that begins a new segment, ms by channel, and the most messages of one.
SILENCE_MS: Final = {"voice": 300_000, "web": 1_800_000}
USUAL_SILENCE_MS: Final = 1_800_000
SEGMENT_MESSAGES: Final = 200
MAX_HANDOFFS: Final = 3
MAX_WAITING: Final = 20
"""Messages of one session that may wait for their answers."""
_SHOWN: Final = 200
_NOTHING: Final[Mapping[str, str]] = {}

Choose = Callable[[Person], Place]
"""Whose agent answers this person; raises NotFound."""

_ARRIVE = "SELECT * FROM runtime.arrive($1, $2, $3, $4, $5)"
_NEW_SESSION = """
    INSERT INTO runtime.sessions
        (id, owner, tenant, binding, handle, door, person, scope_person, channel, segment, state)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id
"""
_LAST_SAID = """
    SELECT string_agg(text, ' ') FROM (
        SELECT text FROM runtime.messages WHERE session = $1 ORDER BY place DESC LIMIT 3
    ) said
"""
# All that makes a message durable, in one round trip; each part names its own rows.
_STORE = """
    WITH touched AS (
        UPDATE runtime.sessions SET last_active_at = now(), channel = $5, account = $6,
            last_text = left($8, 200),
            segment = $4,
            segment_messages = CASE WHEN segment = $4 THEN segment_messages + 1 ELSE 1 END,
            time_zone = CASE WHEN $7 = '' THEN time_zone ELSE $7 END
        WHERE id = $1
    ), said AS (
        INSERT INTO runtime.messages (id, owner, session, segment, turn, outgoing, channel, text, body)
        VALUES ($2, $9, $1, $4, $3, false, $5, $8, $10)
    ), begun AS (
        INSERT INTO runtime.turns (id, owner, session, person, message, request, state, note)
        VALUES ($3, $9, $1, $11, $2, $10, 'queued', $12)
    ), used AS (
        UPDATE runtime.identities SET last_used_at = now() WHERE id = $13
    ), delivered AS (
        INSERT INTO runtime.deliveries (channel, account, provider_message_id, owner, turn, person)
        SELECT $5, $6, $14, $9, $3, $11 WHERE $14 <> ''
    )
    INSERT INTO runtime.turn_events (turn, seq, owner, event) VALUES ($3, 1, $9, $15)
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that is stored. `repeated`: it was before."""

    turn: UUID
    session: UUID
    owner: str
    repeated: bool
    accepted: pb.TurnEvent


def check_message(message: pb.InboundMessage) -> None:
    """Raises InvalidInput for a message that breaks the contract's limits."""
    check_identity(message.sender)
    if len(message.text) > MAX_TEXT:
        raise InvalidInput(
            Reason.TOO_LARGE,
            f"The message has {len(message.text):,} characters; {MAX_TEXT:,} are taken.",
            hint="send it in parts, or as a document",
        )
    wrong = {}
    if len(message.media) > MAX_MEDIA:
        wrong["message.media"] = f"must be at most {MAX_MEDIA}"
    if len(message.account) > MAX_ACCOUNT:
        wrong["message.account"] = f"must have at most {MAX_ACCOUNT} characters"
    if len(message.provider_message_id) > MAX_PROVIDER_ID:
        wrong["message.provider_message_id"] = f"must have at most {MAX_PROVIDER_ID} characters"
    if "\0" in message.text:
        wrong["message.text"] = "must not contain NUL characters"
    if wrong:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The message is wrong.", fields=wrong)


class Intake:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def take(
        self, message: pb.InboundMessage, choose: Choose, note: Mapping[str, str] = _NOTHING
    ) -> Taken:
        """Store a message, or find it stored. Durable on return. `note` is for the turn to read."""
        check_message(message)
        try:
            return await self._take(message, choose, note)
        except (Raced, asyncpg.UniqueViolationError):
            return await self._take(message, choose, note)

    async def _take(self, message: pb.InboundMessage, choose: Choose, note: Mapping[str, str]) -> Taken:
        key = delivery_key(message)
        async with seeing(self._pool, identity=message.sender, delivery=key) as connection:
            person = await met(connection, message.sender, self._clock)
            if key and (before := await self._before(connection, message, person)):
                return before
            place = choose(person)
            place, session, segment = await self._session(connection, place, person, message)
            message, note = await self._without_numbers(connection, session, message, note)
            return await self._store(connection, message, person, place, session, segment, note)

    async def _before(
        self, connection: asyncpg.Connection, message: pb.InboundMessage, person: Person
    ) -> Taken | None:
        row = await connection.fetchrow(
            "SELECT owner, turn, person FROM runtime.deliveries"
            " WHERE channel = $1 AND account = $2 AND provider_message_id = $3",
            message.sender.channel,
            message.account,
            message.provider_message_id,
        )
        if row is None:
            return None
        await also_see(connection, owner=row["owner"])
        turn = await connection.fetchrow(
            "SELECT t.session, t.person, e.event FROM runtime.turns t"
            " JOIN runtime.turn_events e ON e.turn = t.id AND e.seq = 1 WHERE t.id = $1",
            row["turn"],
        )
        if turn is None or turn["person"] != person.id:
            # Two people's messages under one id: whoever came second must not read the first one's answer.
            raise IndaiError(
                Reason.ID_REUSE,
                "Another message came under this provider_message_id.",
                hint="give each message an id of its own",
            )
        event = pb.TurnEvent.FromString(turn["event"])
        event.accepted.repeated = True
        return Taken(row["turn"], turn["session"], row["owner"], True, event)

    async def _session(
        self, connection: asyncpg.Connection, place: Place, person: Person, message: pb.InboundMessage
    ) -> tuple[Place, UUID, UUID]:
        """Where the message goes (a hand-off may lead elsewhere), its session and its segment."""
        row = await connection.fetchrow(
            _ARRIVE, place.owner, place.tenant, place.binding, person.id, MAX_HANDOFFS
        )
        place = replace(place, binding=row["binding"])
        channel = message.sender.channel
        if row["id"] is None:
            made, segment = fresh(self._clock), fresh(self._clock)
            await connection.execute(
                "INSERT INTO runtime.conversation_owners (owner) VALUES ($1) ON CONFLICT DO NOTHING",
                place.owner,
            )
            if not await connection.fetchval(
                _NEW_SESSION,
                made,
                place.owner,
                place.tenant,
                place.binding,
                place.handle,
                place.door,
                person.id,
                channel,
                segment,
                row["shared"],
            ):
                raise Raced
            await self._segment(connection, segment, place.owner, made, channel)
            return place, made, segment
        if row["waiting"] >= MAX_WAITING:
            raise Refused(
                Reason.RATE_LIMITED,
                f"{MAX_WAITING} messages of this conversation wait for an answer already.",
                hint="wait for one before you send another",
            )
        quiet = row["silent_ms"] > SILENCE_MS.get(channel, USUAL_SILENCE_MS)
        if not quiet and row["segment_messages"] < SEGMENT_MESSAGES:
            return place, row["id"], row["segment"]
        segment = fresh(self._clock)
        await connection.execute("UPDATE runtime.segments SET ended_at = now() WHERE id = $1", row["segment"])
        await self._segment(connection, segment, place.owner, row["id"], channel)
        return place, row["id"], segment

    async def _without_numbers(
        self,
        connection: asyncpg.Connection,
        session: UUID,
        message: pb.InboundMessage,
        note: Mapping[str, str],
    ) -> tuple[pb.InboundMessage, Mapping[str, str]]:
        """The message as it may be stored, and the note that says what was left out. A bare number is what
        was talked about just before it."""
        said = [message.text, *(text for each in message.media for text in (each.file_name, each.transcript))]
        if not any(map(may_hold_aadhaar, said)):
            return message, note
        before = await connection.fetchval(_LAST_SAID, session)
        asked = is_about_aadhaar(before or "")
        kept = pb.InboundMessage()
        kept.CopyFrom(message)
        kept.text = without_aadhaar(message.text, asked=asked)
        for each in kept.media:
            each.file_name = without_aadhaar(each.file_name, asked=asked)
            each.transcript = without_aadhaar(each.transcript, asked=asked)
        return (message, note) if kept == message else (kept, {**note, "left_out": "aadhaar"})

    async def _segment(
        self, connection: asyncpg.Connection, segment: UUID, owner: str, session: UUID, channel: str
    ) -> None:
        await connection.execute(
            "INSERT INTO runtime.segments (id, owner, session, channel) VALUES ($1, $2, $3, $4)",
            segment,
            owner,
            session,
            channel,
        )

    async def _store(
        self,
        connection: asyncpg.Connection,
        message: pb.InboundMessage,
        person: Person,
        place: Place,
        session: UUID,
        segment: UUID,
        note: Mapping[str, str],
    ) -> Taken:
        turn, row = fresh(self._clock), fresh(self._clock)
        event = pb.TurnEvent(turn_id=turn.hex, seq=1)
        event.accepted.CopyFrom(pb.TurnAccepted(session_id=session.hex, door=place.door, handle=place.handle))
        await connection.execute(
            _STORE,
            session,
            row,
            turn,
            segment,
            message.sender.channel,
            message.account,
            message.time_zone[:_SHOWN],
            message.text,
            place.owner,
            message.SerializeToString(),
            person.id,
            json.dumps(dict(note), ensure_ascii=False),
            person.identity,
            message.provider_message_id,
            event.SerializeToString(),
        )
        return Taken(turn, session, place.owner, False, event)
