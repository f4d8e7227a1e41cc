"""A tenant's conversations: who waits for a person, what was said, what guardrails did. Reads only."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
from indai.node.tenancy.access import Post
from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.bindings import Bindings
from indai.runtime.conversations.reading import message_of, session_of
from indai.runtime.conversations.values import missing, read_id
from indai.storage.pool import transaction
from indai.v1 import tenant_pb2 as pb

PAGE: Final = (50, 200)
MESSAGES: Final = 100
MAX_QUEUE: Final = 200

# What is the tenant's: what its bindings answer, but never at an owner's own private door.
THEIRS: Final = "s.tenant = $1 AND s.owner = ANY ($2) AND s.door <> 'private'"
WAITS: Final = """
    CASE WHEN s.status <> 'handed_off' THEN NULL
         WHEN s.taken_by = '' THEN s.handed_at
         ELSE (SELECT min(m.created_at) FROM runtime.messages m
               WHERE m.session = s.id AND NOT m.outgoing AND m.created_at >= s.handed_at
                 AND m.place > coalesce((SELECT max(h.place) FROM runtime.messages h
                                         WHERE h.session = s.id AND h.by_human <> ''), 0)) END
"""
_SHOWN: Final = f"""
    s.*, {WAITS} AS waiting_since, ARRAY(
        SELECT channel FROM runtime.identities WHERE person = s.person GROUP BY channel
        ORDER BY max(last_used_at) DESC) AS channels,
    (SELECT coalesce(max(nullif(display_name, '')), '') FROM runtime.identities
     WHERE person = s.person) AS name
"""  # noqa: S608 - of constants
_COLUMNS: Final = f"SELECT {_SHOWN} FROM runtime.sessions s WHERE {THEIRS}"  # noqa: S608
_QUEUE: Final = f"""
    SELECT * FROM ({_COLUMNS} AND s.status = 'handed_off' ORDER BY s.handed_at LIMIT $3) AS queue
    ORDER BY waiting_since NULLS LAST, handed_at, id
"""  # noqa: S608
# The page is cut out first: what is told of each is looked up for its rows alone.
_NEWEST: Final = f"""
    SELECT {_SHOWN} FROM (
        SELECT s.* FROM runtime.sessions s
        WHERE {THEIRS} AND s.status = 'active'
          AND ($3::timestamptz IS NULL OR (s.last_active_at, s.id) < ($3, $4))
        ORDER BY s.last_active_at DESC, s.id DESC LIMIT $5) AS s
    ORDER BY s.last_active_at DESC, s.id DESC
"""  # noqa: S608
_ONE: Final = f"{_COLUMNS} AND s.id = $3"
_MESSAGES: Final = """
    SELECT * FROM runtime.messages WHERE session = $1 AND place < $2 ORDER BY place DESC LIMIT $3
"""
_AFTER_TURN: Final = "SELECT max(place) + 1 FROM runtime.messages WHERE session = $1 AND turn = $2"
_TURNS: Final = """
    SELECT id, trace, stage_ms, ending, cost_micros FROM runtime.turns WHERE session = $1 AND id = ANY ($2)
    ORDER BY place
"""
_EVENTS_OF: Final = """
    SELECT * FROM runtime.guardrail_violations WHERE session = $1 AND turn = ANY ($2) ORDER BY created_at
"""
_EVENTS: Final = """
    SELECT v.* FROM runtime.guardrail_violations v
    JOIN runtime.sessions s ON s.id = v.session
    WHERE v.owner = ANY ($2) AND s.tenant = $1 AND s.door <> 'private'
      AND ($3::timestamptz IS NULL OR (v.created_at, v.id) < ($3, $4))
    ORDER BY v.created_at DESC, v.id DESC LIMIT $5
"""


class Talks:
    """See the module. Every query names the tenant, and row-level security holds it to the post's owners."""

    def __init__(self, pool: asyncpg.Pool, bindings: Bindings) -> None:
        self._pool, self._bindings = pool, bindings

    async def listed(
        self, post: Post, request: pb.ListTenantConversationsRequest
    ) -> pb.ListTenantConversationsResponse:
        """The queue on the first page, then those where an agent answers."""
        if request.status not in ("", "active", "handed_off"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "There is no such status.", hint="active or handed_off"
            )
        size, (at, last) = page_size(request.page_size), _after(request.page_token)
        minutes = await self._bindings.answer_minutes(post.tenant)
        shown: list[asyncpg.Record] = []
        more = ""
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            if request.status != "active" and at is None:
                shown = await connection.fetch(_QUEUE, post.tenant, post.owners, MAX_QUEUE)
            if request.status != "handed_off":
                rows = await connection.fetch(_NEWEST, post.tenant, post.owners, at, last, size + 1)
                shown = [*shown, *rows[:size]]
                if len(rows) > size:
                    more = _token(rows[size - 1]["last_active_at"], rows[size - 1]["id"])
        return pb.ListTenantConversationsResponse(
            conversations=[conversation_of(row, minutes) for row in shown], next_page_token=more
        )

    async def find(self, post: Post, session_id: str) -> tuple[str, UUID]:
        """Whose rows a conversation of the tenant is in, and its id. Raises NotFound for any other."""
        session = read_id(session_id, "session")
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            row = await connection.fetchrow(_ONE, post.tenant, post.owners, session)
        if row is None:
            raise missing("session")
        return row["owner"], session

    async def taken_by(self, post: Post, session_id: str) -> str:
        """Who has a conversation of the tenant; empty for nobody."""
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            row = await connection.fetchrow(_ONE, post.tenant, post.owners, read_id(session_id, "session"))
        return str(row["taken_by"]) if row else ""

    async def one(
        self, post: Post, request: pb.GetTenantConversationRequest
    ) -> pb.GetTenantConversationResponse:
        """The messages before the token, or up to the turn, or the newest. Raises NotFound."""
        session = read_id(request.session_id, "session")
        before = _place(request.page_token)
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            row = await connection.fetchrow(_ONE, post.tenant, post.owners, session)
            if row is None:
                raise missing("session")
            if request.turn_id and not request.page_token:
                turn = read_id(request.turn_id, "turn")
                before = await connection.fetchval(_AFTER_TURN, session, turn) or before
            rows = await connection.fetch(_MESSAGES, session, before, MESSAGES + 1)
            turns = list({each["turn"] for each in rows[:MESSAGES] if each["turn"]})
            told = await connection.fetch(_TURNS, session, turns)
            events = await connection.fetch(_EVENTS_OF, session, turns)
        more = str(rows[MESSAGES - 1]["place"]) if len(rows) > MESSAGES else ""
        return pb.GetTenantConversationResponse(
            conversation=conversation_of(row, await self._bindings.answer_minutes(post.tenant)),
            messages=[message_of(each) for each in reversed(rows[:MESSAGES])],
            next_page_token=more,
            turns=map(_turn, told),
            events=map(_event, events),
        )

    async def events(
        self, post: Post, request: pb.ListGuardrailEventsRequest
    ) -> pb.ListGuardrailEventsResponse:
        """Newest first."""
        size, (at, last) = page_size(request.page_size), _after(request.page_token)
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            rows = await connection.fetch(_EVENTS, post.tenant, post.owners, at, last, size + 1)
        more = _token(rows[size - 1]["created_at"], rows[size - 1]["id"]) if len(rows) > size else ""
        return pb.ListGuardrailEventsResponse(events=map(_event, rows[:size]), next_page_token=more)


def conversation_of(row: asyncpg.Record, answer_minutes: int) -> pb.TenantConversation:
    """A conversation from its row; a person ought to answer within these minutes."""
    made = pb.TenantConversation(session=session_of(row), taken_by=row["taken_by"])
    if row["waiting_since"] is not None:
        made.waiting_since.FromDatetime(row["waiting_since"])
        made.due_time.FromDatetime(row["waiting_since"] + timedelta(minutes=answer_minutes))
    return made


def page_size(asked: int) -> int:
    """How many rows; raises InvalidInput for too many."""
    usual, most = PAGE
    if asked > most:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"A page has at most {most} entries.")
    return asked or usual


def _turn(row: asyncpg.Record) -> pb.TurnFacts:
    trace, stages = _object(row["trace"]), _object(row["stage_ms"])
    return pb.TurnFacts(
        turn_id=row["id"].hex,
        topic=str(trace.get("route", "")),
        mood=str(trace.get("mood", "")),
        ending=row["ending"],
        stage_ms={name: round(took) for name, took in stages.items()},
        cost_micros=row["cost_micros"],
    )


def _event(row: asyncpg.Record) -> pb.GuardrailEvent:
    made = pb.GuardrailEvent(
        session_id=row["session"].hex,
        turn_id=row["turn"].hex,
        binding=row["binding"],
        tier=row["tier"],
        rule_id=row["rule_id"],
        severity=row["severity"],
        blocked=row["blocked"],
        sentence=row["sentence"],
    )
    made.time.FromDatetime(row["created_at"])
    return made


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value


def _token(at: datetime, last: UUID) -> str:
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), last.hex]).encode()).decode()


def _after(token: str) -> tuple[datetime | None, UUID | None]:
    if not token:
        return None, None
    try:
        parts: Sequence[str] = json.loads(base64.urlsafe_b64decode(token))
        at, last = datetime.fromisoformat(parts[0]), UUID(parts[1])
    except (binascii.Error, ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise _no_token() from None
    if at.tzinfo is None:
        raise _no_token()
    return at, last


def _place(token: str) -> int:
    if not token:
        return 2**62
    if not (token.isascii() and token.isdigit() and len(token) < 19):
        raise _no_token()
    return int(token)


def _no_token() -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, "This page token was not given by this node.", hint="begin again without one"
    )
