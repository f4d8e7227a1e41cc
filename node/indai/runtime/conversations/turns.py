"""Turns in Postgres: one runs at a time for a session, and none is lost with the process that ran it.

A turn is queued when its message is stored, claimed by the node of the highest epoch, and finished in the
transaction that stores the answer. What a killed node left running has a lower epoch than the one that starts
next, which takes it over. Every write of a running turn names its epoch, so a node that was replaced can't
finish one any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import Reason, Unavailable
from indai.runtime.conversations.people import check_identity, never_here
from indai.runtime.conversations.rows import seeing
from indai.runtime.conversations.values import Breach, Clock, Place, Session, Thought, Turn, fresh, missing
from indai.storage.pool import one_trip
from indai.v1 import conversation_pb2 as pb

STOPS: Final = "indai_turn_stops"
"""Where processes that run turns hear which are to end."""
MOST_EVENTS: Final = (1 << 31) - 1
_CLAIM = "SELECT * FROM runtime.claim($1, $2, $3)"
_FOLLOW = "SELECT * FROM runtime.follow($1, $2, $3, $4, $5, $6)"
_TELL = "SELECT runtime.tell($1, $2, $3, $4, $5)"
_LAST_EVENT = "INSERT INTO runtime.turn_events (turn, seq, owner, event) VALUES ($1, $2, $3, $4)"
_FINISH = f"SELECT runtime.finish({', '.join(f'${number}' for number in range(1, 20))})"
# Whoever is handed to answers now, also if they had handed on before.
_HAND_ON = """
    UPDATE runtime.sessions SET handed_to = CASE WHEN id = $1 THEN $5 ELSE '' END
    WHERE id = $1 OR (owner = $2 AND tenant = $3 AND person = $4 AND binding = $5)
"""
_BREACH = """
    INSERT INTO runtime.guardrail_violations
        (id, owner, session, turn, tenant, binding, tier, rule_id, severity, blocked, sentence)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
"""


def session_of(row: asyncpg.Record) -> Session:
    """A session from its row."""
    place = Place(row["owner"], row["tenant"], row["binding"], row["handle"], row["door"])
    return Session(
        row["id"],
        place,
        row["person"],
        row["scope_person"],
        row["segment"],
        row["status"],
        row["channel"],
        row["language"],
        row["time_zone"],
        json.loads(row["state"]),
    )


class TurnStore:
    """`epoch`: of the node that works here; turns of lower ones are taken over."""

    def __init__(self, pool: asyncpg.Pool, clock: Clock, epoch: int) -> None:
        self._pool, self._clock, self._epoch = pool, clock, epoch

    async def claim(self, owner: str, session: UUID) -> Turn | None:
        """The next turn of a session, now running here; None when none waits or one runs."""
        rows = await one_trip(self._pool, _CLAIM, owner, session, self._epoch)
        if not rows:
            return None
        (row,) = rows
        before = await self._told(owner, row["turn"]) if row["attempts"] > 1 else []
        events = [pb.TurnEvent.FromString(each["event"]) for each in before]
        return Turn(
            row["turn"],
            session_of(row),
            row["message"],
            pb.InboundMessage.FromString(row["request"]),
            row["attempts"],
            tuple(row["handles"]),
            tuple(each.sentence.text for each in events if each.HasField("sentence")),
            (before[-1]["seq"] if before else 1) + 1,
            json.loads(row["note"]),
        )

    async def _told(self, owner: str, turn: UUID) -> list[asyncpg.Record]:
        async with seeing(self._pool, [owner]) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT seq, event FROM runtime.turn_events WHERE turn = $1 ORDER BY seq", turn
            )
        return rows

    async def tell(self, turn: Turn, events: Sequence[pb.TurnEvent]) -> None:
        """Store events of a running turn. They survive this process; a power cut may take the last half
        second."""
        seqs, raw = [each.seq for each in events], [each.SerializeToString() for each in events]
        (told,) = await one_trip(self._pool, _TELL, turn.owner, turn.id, self._epoch, seqs, raw)
        if told[0] != len(events):
            raise _taken_over()

    async def finish(self, turn: Turn, thought: Thought, events: Sequence[pb.TurnEvent]) -> None:
        """Store the answer, the working memory and the last events, at once."""
        seqs, raw = [each.seq for each in events], [each.SerializeToString() for each in events]
        reply, session, owner = thought.reply, turn.session, turn.owner
        state = None if thought.state is None else json.dumps(thought.state, ensure_ascii=False)
        ending = (
            owner,
            turn.id,
            self._epoch,
            thought.ending,
            thought.reason,
            json.dumps(dict(thought.stage_ms)),
            json.dumps(dict(thought.trace), ensure_ascii=False),
            thought.cost_micros,
            fresh(self._clock),
            session.id,
            turn.request.sender.channel,
            reply.text,
            reply.SerializeToString(),
            bool(reply.text or reply.media or reply.choices),
            thought.language,
            state,
            thought.hand_over,
            seqs,
            raw,
        )
        if not thought.hand_to and not thought.breaches:
            (ended,) = await one_trip(self._pool, _FINISH, *ending)
            if not ended[0]:
                raise _taken_over()
            return
        async with seeing(self._pool, [owner]) as connection:
            if not await connection.fetchval(_FINISH, *ending):
                raise _taken_over()
            if thought.hand_to:
                place = session.place
                await connection.execute(
                    _HAND_ON, session.id, owner, place.tenant, session.person, thought.hand_to
                )
            for breach in thought.breaches:
                await self._keep_breach(connection, turn, breach)

    async def _keep_breach(self, connection: asyncpg.Connection, turn: Turn, breach: Breach) -> None:
        place = turn.session.place
        await connection.execute(
            _BREACH,
            fresh(self._clock),
            place.owner,
            turn.session.id,
            turn.id,
            place.tenant,
            place.binding,
            breach.tier,
            breach.rule,
            breach.severity,
            breach.blocked,
            breach.sentence[:2_000],
        )

    async def left_over(self, owners: Sequence[str]) -> list[tuple[str, UUID]]:
        """Sessions with turns to run: those that an earlier node was running are queued again."""
        async with seeing(self._pool, owners) as connection:
            await connection.execute(
                "UPDATE runtime.turns SET state = 'queued' WHERE state = 'running' AND worker < $1",
                self._epoch,
            )
            stopped = await connection.fetch(
                "SELECT id, owner FROM runtime.turns WHERE state = 'queued' AND stop_asked"
            )
        for row in stopped:
            await self.drop_queued(row["owner"], row["id"])
        async with seeing(self._pool, owners) as connection:
            rows = await connection.fetch(
                "SELECT DISTINCT owner, session FROM runtime.turns WHERE state = 'queued'"
            )
        return [(row["owner"], row["session"]) for row in rows]

    async def follow(self, who: pb.Identity, turn: UUID, after: int) -> tuple[str, list[pb.TurnEvent]]:
        """State and stored events of a turn of this person's. Raises NotFound."""
        check_identity(who)
        given = who.kind, who.value, who.verified, who.channel, turn, min(after, MOST_EVENTS)
        rows = await one_trip(self._pool, _FOLLOW, *given)
        if not rows:
            raise never_here()
        if rows[0]["state"] is None:
            raise missing("turn")
        events = [pb.TurnEvent.FromString(row["event"]) for row in rows if row["event"] is not None]
        return rows[0]["state"], events

    async def place_of(self, turn: UUID, people: Sequence[UUID]) -> tuple[str, UUID, str]:
        """Owner, session and state of a turn of one of these people. Raises NotFound."""
        async with seeing(self._pool, people=people) as connection:
            row = await connection.fetchrow(
                "SELECT owner, session, state FROM runtime.turns WHERE id = $1", turn
            )
        if row is None:
            raise missing("turn")
        return row["owner"], row["session"], row["state"]

    async def ask_to_stop(self, owner: str, *, turn: UUID | None = None, session: UUID | None = None) -> bool:
        """Tell whichever process runs this turn, or one of this session, to end it; False when none runs.
        Who takes it over from a process that dies meanwhile ends it."""
        async with seeing(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "UPDATE runtime.turns SET stop_asked = true WHERE state = 'running'"
                " AND (id = $1 OR session = $2) RETURNING id, pg_notify($3, id::text)",
                turn,
                session,
                STOPS,
            )
        return row is not None

    async def asked_to_stop(self, running: Mapping[UUID, str]) -> list[UUID]:
        """Which of these (turns with their owners) somebody wants to end."""
        if not running:
            return []
        async with seeing(self._pool, list(dict.fromkeys(running.values()))) as connection:
            rows = await connection.fetch(
                "SELECT id FROM runtime.turns WHERE id = ANY($1) AND stop_asked", list(running)
            )
        return [row["id"] for row in rows]

    async def drop_queued(self, owner: str, turn: UUID) -> bool:
        """End a turn that has not begun; False when it has."""
        async with seeing(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "UPDATE runtime.turns SET state = 'finished', ending = 'stopped', finished_at = now()"
                " WHERE id = $1 AND state = 'queued' RETURNING id",
                turn,
            )
            if row is None:
                return False
            seq = await connection.fetchval(
                "SELECT max(seq) + 1 FROM runtime.turn_events WHERE turn = $1", turn
            )
            event = pb.TurnEvent(turn_id=turn.hex, seq=seq, finished=pb.TurnFinished(stopped=True))
            await connection.execute(_LAST_EVENT, turn, seq, owner, event.SerializeToString())
        return True


def _taken_over() -> Unavailable:
    return Unavailable(
        Reason.LOG_FENCED,
        "Another node has taken this turn over.",
        hint="two nodes run on one database; stop one of them",
    )
