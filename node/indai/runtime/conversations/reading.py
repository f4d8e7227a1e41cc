"""Sessions and their messages, for the people in them and for who runs the agent."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.conversations.rows import every_owner, seeing
from indai.runtime.conversations.values import missing
from indai.v1 import conversation_pb2 as pb

SESSIONS: Final = (50, 200)
MESSAGES: Final = (100, 500)

_LIST = """
    SELECT s.*, ARRAY(
        SELECT channel FROM runtime.identities WHERE person = s.person GROUP BY channel
        ORDER BY max(last_used_at) DESC) AS channels,
        (SELECT coalesce(max(nullif(display_name, '')), '') FROM runtime.identities
         WHERE person = s.person) AS name
    FROM runtime.sessions s
    WHERE s.status <> 'closed'
      AND ($1 = '' OR s.handle = $1 OR (s.tenant, s.binding) IN (
           SELECT tenant, binding FROM runtime.routing_keys WHERE routing_key = $1))
      AND ($2::uuid IS NULL OR s.person = $2)
      AND ($3::timestamptz IS NULL OR (s.last_active_at, s.id) < ($3, $4))
      AND ($6::uuid IS NULL OR s.id = $6)
    ORDER BY s.last_active_at DESC, s.id DESC LIMIT $5
"""
_COLUMNS = "place, id, session, turn, outgoing, by_human, channel, text, body, created_at"
# What is older than ninety days lies in the archive: for who reads there is no difference.
_MESSAGES = f"""
    (SELECT {_COLUMNS} FROM runtime.archive WHERE session = $1 AND place > $2 ORDER BY place LIMIT $3)
    UNION ALL
    (SELECT {_COLUMNS} FROM runtime.messages WHERE session = $1 AND place > $2 ORDER BY place LIMIT $3)
    ORDER BY place LIMIT $3
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose rows a call may see: those of `owners` (None: of all), or of one person; `desk` is that of
    `seeing`."""

    owners: Sequence[str] | None = None
    person: UUID | None = None
    desk: str = ""


TENANTS: Final = Sight(desk="*")
"""What the node's operator sees: conversations of all tenants, and nobody's own."""


class Reading:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def sessions(self, sight: Sight, request: pb.ListSessionsRequest) -> pb.ListSessionsResponse:
        """Newest first."""
        size, after = _size(request.page_size, *SESSIONS), _read(request.page_token)
        at, last = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else (None, None)
        rows = await self._rows(sight, request.handle, at, last, size + 1, None)
        more = ""
        if len(rows) > size:
            more = _token(rows[size - 1]["last_active_at"].isoformat(), rows[size - 1]["id"].hex)
        return pb.ListSessionsResponse(sessions=map(session_of, rows[:size]), next_page_token=more)

    async def session(self, sight: Sight, session: UUID) -> tuple[str, pb.Session]:
        """One, with its owner. Raises NotFound."""
        rows = await self._rows(sight, "", None, None, 1, session)
        if not rows:
            raise missing("session")
        return rows[0]["owner"], session_of(rows[0])

    async def messages(
        self, sight: Sight, session: UUID, request: pb.ListSessionMessagesRequest
    ) -> pb.ListSessionMessagesResponse:
        """Oldest first. Raises NotFound."""
        size, after = _size(request.page_size, *MESSAGES), _read(request.page_token)
        owner, _ = await self.session(sight, session)
        place = int(after[0]) if after and after[0].isdecimal() else 0
        async with seeing(self._pool, [owner], desk=sight.desk) as connection:
            rows = await connection.fetch(_MESSAGES, session, place, size + 1)
        more = _token(str(rows[size - 1]["place"]), "") if len(rows) > size else ""
        return pb.ListSessionMessagesResponse(messages=map(message_of, rows[:size]), next_page_token=more)

    async def turn(self, sight: Sight, turn: UUID) -> pb.GetTurnResponse:
        """One turn with its trace. Raises NotFound."""
        owners = await every_owner(self._pool) if sight.owners is None else sight.owners
        async with seeing(self._pool, owners, desk=sight.desk) as connection:
            row = await connection.fetchrow("SELECT * FROM runtime.turns WHERE id = $1", turn)
            broken = await connection.fetch(
                "SELECT tier, rule_id, severity FROM runtime.guardrail_violations"
                " WHERE turn = $1 ORDER BY created_at, id",
                turn,
            )
        if row is None:
            raise missing("turn")
        return _turn(row, broken)

    async def _rows(
        self,
        sight: Sight,
        handle: str,
        at: datetime | None,
        last: UUID | None,
        limit: int,
        only: UUID | None,
    ) -> list[asyncpg.Record]:
        people = [sight.person] if sight.person is not None else []
        owners = sight.owners
        if owners is None:
            owners = [] if people else await every_owner(self._pool)
        async with seeing(self._pool, owners, people=people, desk=sight.desk) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                _LIST, handle, sight.person, at, last, limit, only
            )
        return rows


def message_of(row: asyncpg.Record) -> pb.SessionMessage:
    """A message from its row."""
    whole = pb.Reply if row["outgoing"] else pb.InboundMessage
    made = pb.SessionMessage(
        message_id=row["id"].hex,
        outgoing=row["outgoing"],
        channel=row["channel"],
        text=row["text"],
        media=whole.FromString(row["body"]).media,
        turn_id=row["turn"].hex if row["turn"] else "",
        by_human=bool(row["by_human"]),
    )
    made.create_time.FromDatetime(row["created_at"])
    return made


def session_of(row: asyncpg.Record) -> pb.Session:
    """A session from its row, with `channels` and `name` of its person."""
    made = pb.Session(
        session_id=row["id"].hex,
        handle=row["handle"],
        binding=row["binding"],
        door=row["door"],
        person=row["name"],
        channels=row["channels"],
        language=row["language"],
        status=row["status"],
        last_text=row["last_text"],
    )
    made.create_time.FromDatetime(row["created_at"])
    made.update_time.FromDatetime(row["last_active_at"])
    return made


def _turn(row: asyncpg.Record, broken: Sequence[asyncpg.Record]) -> pb.GetTurnResponse:
    made = pb.GetTurnResponse(
        turn_id=row["id"].hex,
        session_id=row["session"].hex,
        ending=row["ending"],
        reason=row["reason"],
        attempts=row["attempts"],
        cost_micros=row["cost_micros"],
        stage_ms=json.loads(row["stage_ms"]),
        trace_json=row["trace"],
        breaches=[
            pb.GuardrailBreach(tier=each["tier"], rule=each["rule_id"], severity=each["severity"])
            for each in broken
        ],
    )
    made.create_time.FromDatetime(row["accepted_at"])
    if row["finished_at"] is not None:
        made.finish_time.FromDatetime(row["finished_at"])
    return made


def _size(asked: int, usual: int, most: int) -> int:
    if asked > most:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"A page has at most {most} entries.")
    return asked or usual


def _token(*parts: str) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _read(token: str) -> tuple[str, str] | None:
    if not token:
        return None
    try:
        first, second = json.loads(base64.urlsafe_b64decode(token))
        if second:
            datetime.fromisoformat(first)
            UUID(second)
    except (binascii.Error, ValueError, TypeError, AttributeError):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "This page token was not given by this node.",
            hint="begin again without one",
        ) from None
    return str(first), str(second)
