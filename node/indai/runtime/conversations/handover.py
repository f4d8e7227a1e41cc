"""A human of the tenant takes a session over, writes in the agent's place, and gives it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.runtime.conversations.reading import message_of
from indai.runtime.conversations.rows import seeing
from indai.runtime.conversations.values import missing
from indai.runtime.words import say
from indai.v1 import conversation_pb2 as pb

MAX_TEXT: Final = 4_000
MAX_NAME: Final = 200

Stop = Callable[[str, UUID], Awaitable[None]]
"""Ends what a session is thinking about."""


class Handover:
    """See the module. Who may, the caller has asked."""

    def __init__(self, pool: asyncpg.Pool, outbound: Outbound, stop: Stop) -> None:
        self._pool, self._outbound, self._stop = pool, outbound, stop

    async def take(self, owner: str, session: UUID, by: str) -> None:
        """From now on the agent is silent; the visitor is told. One that waits for any person is taken too;
        one that somebody has stays theirs."""
        _check_name(by)
        if await self._change(owner, session, "active", "handed_off", by, "handed_to_human"):
            await self._stop(owner, session)

    async def give_back(self, owner: str, session: UUID, by: str) -> None:
        """The agent answers again; the visitor is told."""
        _check_name(by)
        await self._change(owner, session, "handed_off", "active", by, "back_from_human")

    async def _change(self, owner: str, session: UUID, before: str, after: str, by: str, words: str) -> bool:
        """False when it is so already. How often it changed is counted, so that each time is told once."""
        async with seeing(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "UPDATE runtime.sessions SET status = $3, taken_by = CASE WHEN $3 = 'active' THEN ''"
                " ELSE $4 END, handovers = handovers + 1"
                " WHERE id = $1 AND (status = $2 OR ($3 = 'handed_off' AND taken_by = ''))"
                " RETURNING language, handovers",
                session,
                before,
                after,
                by,
            )
            if row is None:
                return False
            notice = Notice(
                f"{words} {row['handovers']}", pb.Reply(text=say(words, row["language"], name=by))
            )
            await self._outbound.put_in(connection, session, notice)
        self._outbound.poke()
        return True

    async def say(self, owner: str, request: pb.SendAsHumanRequest, session: UUID) -> pb.SessionMessage:
        """Write to the visitor. Raises IndaiError unless a human has the session."""
        _check_name(request.by)
        if not 0 < len(request.text) <= MAX_TEXT or "\0" in request.text:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"The text must have 1 to {MAX_TEXT} characters.")
        if not 0 < len(request.request_id) <= MAX_NAME:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "The request needs a request_id.")
        async with seeing(self._pool, [owner]) as connection:
            status = await connection.fetchval(
                "SELECT status FROM runtime.sessions WHERE id = $1 FOR UPDATE", session
            )
            if status is None:
                raise missing("session")
            if status != "handed_off":
                raise IndaiError(
                    Reason.ILLEGAL_MOVE,
                    "The agent answers in this session.",
                    hint="take the session over first",
                )
            key = f"human {request.request_id}"
            notice = Notice(key, pb.Reply(text=request.text), by=request.by)
            await self._outbound.put_in(connection, session, notice)
            row = await connection.fetchrow(
                "SELECT * FROM runtime.messages WHERE session = $1 AND request_id = $2", session, key
            )
        self._outbound.poke()
        return message_of(row)


def _check_name(by: str) -> None:
    if not 0 < len(by) <= MAX_NAME or not by.isprintable():
        raise InvalidInput(Reason.INVALID_ARGUMENT, "Say who does this: `by` is empty or no name.")
