"""Forgetting reaches what was said, too: memory is asked which turns match, and here everything that has
their words goes in one transaction, is counted and is looked for again; then memory forgets.

A message goes with the whole turn it belongs to: what was written, what was answered, the events that were
shown, the trace, what guardrails stopped, what tools did, what was sent in its name, the session's working
memory and the summary of its segment. Of the turn its times and costs are left, which have no words in them.

Memory knows single turns (by key, id, or the person they are about); conversations are known here. A scope,
a person, a conversation or a time takes all that was said there, whether memory was told of it or not.
Whoever is interrupted between the two asks again: memory is the last to forget, so everything is found again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import NotFound, Reason, Unavailable
from indai.runtime.conversations.rows import seeing
from indai.runtime.conversations.values import Clock, fresh
from indai.tools import forgetting as of_tools
from indai.v1 import conversation_pb2
from indai.v1 import memory_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

TIMEOUT_S: Final = 60.0
LOOKS: Final = 3
"""How often memory is asked again whether something came while it forgot."""
SHORTEST: Final = 12
"""Characters of a text that is looked for in other messages: "yes" stands in many."""
_OWN: Final = (pb.DOOR_PRIVATE, pb.DOOR_WORK, pb.DOOR_ADMIN)
_PRIVATE: Final = (pb.SCOPE_KIND_PRIVATE,)
_CONDITIONS: Final = frozenset({"scope", "key", "person", "session", "id", "start_time", "end_time"})

# The sessions that a scope or a person names. $2: doors; $3: a proved handle; $4: who, by any name.
_SESSIONS = """
    SELECT s.id FROM runtime.sessions s
    WHERE s.owner = $1 AND s.door = ANY ($2)
      AND ($3 = '' OR EXISTS (SELECT FROM runtime.identities i
            WHERE i.person = s.person AND i.kind = 'handle' AND i.verified AND i.value = $3))
      AND ($4 = '' OR EXISTS (SELECT FROM runtime.identities i
            WHERE i.person = s.person AND (i.value = $4 OR lower(i.display_name) = lower($4))))
      AND ($5::uuid IS NULL OR (s.scope_person = $5 AND s.binding = $6))
"""
_COLUMNS: Final = "id, session, segment, turn, created_at, request_id, text"
_SAID: Final = f"(SELECT {_COLUMNS} FROM runtime.messages UNION ALL SELECT {_COLUMNS} FROM runtime.archive)"  # noqa: S608
# What matches: the messages that memory named, and those of the sessions, within a segment and a time.
_MATCHING = f"""
    SELECT m.id, m.turn, m.session, m.segment, m.request_id FROM {_SAID} m
    LEFT JOIN runtime.turns t ON t.id = m.turn
    WHERE (t.id IS NULL OR t.state = 'finished') AND (m.id = ANY ($1) OR m.turn = ANY ($6) OR (
        m.session = ANY ($2) AND ($3::uuid IS NULL OR m.segment = $3)
        AND ($4::timestamptz IS NULL OR m.created_at >= $4)
        AND ($5::timestamptz IS NULL OR m.created_at < $5)))
"""  # noqa: S608 - a constant
_IN_TURNS = f"""
    SELECT id, turn, session, segment, request_id FROM {_SAID} m WHERE turn = ANY ($1)
"""  # noqa: S608 - a constant
_TEXTS = f"""
    SELECT DISTINCT m.text FROM {_SAID} m
    WHERE m.id = ANY ($1) AND length(m.text) BETWEEN {SHORTEST} AND 2000 LIMIT 50
"""  # noqa: S608 - constants
# An answer of the same conversation that told it again, word for word, under whatever turn.
_REPEATS = f"""
    SELECT m.id, m.turn, m.session, m.segment, m.request_id FROM {_SAID} m
    LEFT JOIN runtime.turns t ON t.id = m.turn
    WHERE m.session = ANY ($1) AND (t.id IS NULL OR t.state = 'finished')
      AND EXISTS (SELECT FROM unnest($2::text[]) AS said(text) WHERE strpos(m.text, said.text) > 0)
"""  # noqa: S608 - a constant
_BLANK = """
    WITH gone AS (DELETE FROM runtime.turn_events WHERE turn = ANY ($1) AND seq > 1)
    UPDATE runtime.turns SET request = '', note = '{}', trace = '{"forgotten": true}'
    WHERE id = ANY ($1) AND trace <> '{"forgotten": true}' RETURNING id
"""
# Whoever asks for the turn again is told that it ended, and nothing of it.
_ENDED = """
    INSERT INTO runtime.turn_events (turn, seq, owner, event)
    SELECT given.turn, 2, $1, given.event FROM unnest($2::uuid[], $3::bytea[]) AS given(turn, event)
    ON CONFLICT DO NOTHING
"""
_TABLES: Final = {
    "messages": "DELETE FROM runtime.messages WHERE id = ANY ($1) OR request_id = ANY ($2)",
    "archived": "DELETE FROM runtime.archive WHERE id = ANY ($1) OR request_id = ANY ($2)",
}
_GUARDRAILS = "DELETE FROM runtime.guardrail_violations WHERE turn = ANY ($1)"
_SENT = "DELETE FROM runtime.outbound WHERE key = ANY ($1)"
_SETTLE = """
    UPDATE runtime.sessions SET state = '{}', last_text = '' WHERE id = ANY ($1)
"""
_SUMMARIES = """
    UPDATE runtime.segments SET summary = CASE WHEN EXISTS (
        SELECT FROM runtime.messages m WHERE m.segment = segments.id) THEN NULL ELSE '' END
    WHERE id = ANY ($1) AND ended_at IS NOT NULL
"""
_LEFT = f"""
    SELECT (SELECT count(*) FROM {_SAID} m WHERE id = ANY ($1) OR turn = ANY ($2))
        + (SELECT count(*) FROM runtime.turn_events WHERE turn = ANY ($2) AND seq > 2)
        + (SELECT count(*) FROM runtime.turns WHERE id = ANY ($2) AND request <> '')
        + (SELECT count(*) FROM runtime.guardrail_violations WHERE turn = ANY ($2))
        + (SELECT count(*) FROM runtime.outbound WHERE key = ANY ($3))
"""  # noqa: S608 - a constant
_SEGMENTS = "SELECT id FROM runtime.segments WHERE session = $1 ORDER BY started_at"
_RECORD = "INSERT INTO runtime.forgettings (id, owner, conditions, removed) VALUES ($1, $2, $3, $4)"


@dataclass(slots=True)
class Matching:
    """What is to go."""

    messages: set[UUID] = field(default_factory=set)
    turns: set[UUID] = field(default_factory=set)
    sessions: set[UUID] = field(default_factory=set)
    segments: set[UUID] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)

    def take(self, rows: Sequence[asyncpg.Record]) -> None:
        """Add rows of messages."""
        for row in rows:
            self.messages.add(row["id"])
            self.sessions.add(row["session"])
            self.segments.add(row["segment"])
            if row["turn"]:
                self.turns.add(row["turn"])
                self.keys |= {f"notice {what} {row['turn'].hex}" for what in ("draft", "complaint")}
            if row["request_id"]:
                self.keys.add(row["request_id"])


class Forgetting:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, memory: MemoryServiceAsyncStub, clock: Clock) -> None:
        self._pool, self._memory, self._clock = pool, memory, clock

    async def forget(self, request: pb.ForgetRequest, *, turn: str = "") -> pb.ForgetResponse:
        """Forget everywhere; `turn`: the one in which it was asked for, whose words go as well. The answer
        counts what went, by table, and what a second look still found. Raises what memory raises; NotFound
        for a scope in which nothing was said either."""
        total: dict[str, int] = {}
        remaining = 0
        for each in await self._parts(request):
            answer = await self._part(each, turn)
            for name, count in answer.removed.items():
                total[name] = total.get(name, 0) + count
            remaining += answer.remaining
        return pb.ForgetResponse(
            removed={name: count for name, count in total.items() if count}, remaining=remaining
        )

    async def tool(self, request: pb.ForgetRequest, turn: str) -> pb.ForgetResponse:
        """The same for the tool `forget`."""
        return await self.forget(request, turn=turn)

    async def _parts(self, request: pb.ForgetRequest) -> list[pb.ForgetRequest]:
        """Memory knows the segments of a conversation, a person its session: one request for each segment."""
        if not _is_id(request.session):
            return [request]
        async with seeing(self._pool, [request.access.tenant]) as connection:
            rows = await connection.fetch(_SEGMENTS, UUID(request.session))
        parts = []
        for row in rows:
            part = pb.ForgetRequest()
            part.CopyFrom(request)
            part.session = row["id"].hex
            parts.append(part)
        return parts or [request]

    async def _part(self, request: pb.ForgetRequest, turn: str) -> pb.ForgetResponse:
        look = pb.ForgetRequest()
        look.CopyFrom(request)
        look.dry_run = True
        told, missing = pb.ForgetResponse(), None
        try:
            told = await self._memory.Forget(look, timeout=TIMEOUT_S)
        except NotFound as error:
            missing = error
        matching = await self._matching(request, told, turn)
        if missing is not None and not matching.messages:
            raise missing
        if request.dry_run:
            told.removed["messages"] = len(matching.messages)
            return told
        removed, remaining = await self._remove(request, matching)
        for _ in range(LOOKS if missing is None else 0):
            answer = await self._memory.Forget(request, timeout=TIMEOUT_S)
            for name, count in answer.removed.items():
                removed[name] = removed.get(name, 0) + count
            remaining += answer.remaining
            # A message that was on its way to memory may have come there meanwhile.
            try:
                again = await self._memory.Forget(look, timeout=TIMEOUT_S)
            except NotFound:
                break
            if not any(again.removed.values()):
                break
        else:
            if missing is None:
                raise Unavailable(
                    Reason.DATABASE_UNAVAILABLE,
                    "Something new came while it was forgotten.",
                    hint="try again",
                )
        return pb.ForgetResponse(removed=removed, remaining=remaining)

    async def _matching(self, request: pb.ForgetRequest, told: pb.ForgetResponse, turn: str) -> Matching:
        owner, made = request.access.tenant, Matching()
        sources = [UUID(each) for each in told.sources if _is_id(each)]
        extra = [UUID(turn)] if turn and _is_id(turn) else []
        segment = UUID(request.session) if _is_id(request.session) else None
        start = request.start_time.ToDatetime(UTC) if request.HasField("start_time") else None
        end = request.end_time.ToDatetime(UTC) if request.HasField("end_time") else None
        async with seeing(self._pool, [owner]) as connection:
            sessions = await self._sessions(connection, request)
            rows = await connection.fetch(_MATCHING, sources, sessions, segment, start, end, extra)
            made.take(rows)
            made.turns |= set(extra)
            if sources:
                texts = [each["text"] for each in await connection.fetch(_TEXTS, list(made.messages))]
                made.take(await connection.fetch(_REPEATS, list(made.sessions), texts))
            made.take(await connection.fetch(_IN_TURNS, list(made.turns)))
        return made

    async def _sessions(self, connection: asyncpg.Connection, request: pb.ForgetRequest) -> list[UUID]:
        """Those that are meant as a whole; none where single memories are named."""
        access = request.access
        if request.key or request.id:
            return []
        person, binding = None, ""
        doors: tuple[str, ...] = ("private", "public")
        peer = ""
        if request.HasField("scope"):
            kind = request.scope.kind
            if kind == pb.SCOPE_KIND_RELATIONSHIP:
                doors, peer = ("public",), request.scope.id
            elif kind in _PRIVATE:
                doors = ("private",)
            elif kind != pb.SCOPE_KIND_USER_BINDING:
                return []  # what administrators wrote, and what is public, was said in no conversation
        if access.door == pb.DOOR_DISTRIBUTION:
            doors, person, binding = ("distribution",), UUID(access.person), access.binding
        elif access.door not in _OWN:
            return []
        if request.person and not request.HasField("scope"):
            doors = ("public",)
        rows = await connection.fetch(
            _SESSIONS, access.tenant, list(doors), peer, request.person, person, binding
        )
        return [row["id"] for row in rows]

    async def _remove(self, request: pb.ForgetRequest, made: Matching) -> tuple[dict[str, int], int]:
        owner = request.access.tenant
        messages, turns, keys = list(made.messages), list(made.turns), list(made.keys)
        hexes = [each.hex for each in turns]
        async with seeing(self._pool, [owner]) as connection:
            removed = {
                name: _count(await connection.execute(statement, messages, keys))
                for name, statement in _TABLES.items()
            }
            removed["guardrails"] = _count(await connection.execute(_GUARDRAILS, turns))
            removed["sent"] = _count(await connection.execute(_SENT, keys))
            blank = [row["id"] for row in await connection.fetch(_BLANK, turns)]
            ends = [_end(each) for each in blank]
            await connection.execute(_ENDED, owner, blank, ends)
            await connection.execute(_SETTLE, list(made.sessions))
            await connection.execute(_SUMMARIES, list(made.segments))
            removed |= {"turns": len(blank), **await of_tools.remove(connection, hexes)}
            left = await connection.fetchval(_LEFT, messages, turns, keys) + await of_tools.left(
                connection, hexes
            )
            named = [each.name for each, _ in request.ListFields() if each.name in _CONDITIONS]
            await connection.execute(_RECORD, fresh(self._clock), owner, named, json.dumps(removed))
        return removed, left


def _end(turn: UUID) -> bytes:
    event = conversation_pb2.TurnEvent(turn_id=turn.hex, seq=2)
    event.finished.CopyFrom(conversation_pb2.TurnFinished(reason="FORGOTTEN"))
    return event.SerializeToString()


def _is_id(text: str) -> bool:
    try:
        UUID(hex=text)
    except ValueError:
        return False
    return True


def _count(done: str) -> int:
    """The number in a command's tag, such as `DELETE 3`."""
    return int(done.rpartition(" ")[2])
