"""Sign-in codes sent to their owner: in their own conversation, on the messenger where they wrote last.

A code that a browser asks for has an allowance, or anybody could have an owner's messenger filled; strangers
with many addresses can use it up. Who writes `sign in` to their own agent has shown by that who they are, and
gets a code that nobody else's asking has any part in.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from uuid import UUID

import asyncpg
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.runtime.conversations.values import Turn
from indai.runtime.words import say
from indai.storage.pool import transaction
from indai.v1 import conversation_pb2
from indai.web.accounts import Accounts
from indai.web.audit import AuditLog
from indai.web.sessions import CODE_LIFE_MS, MINUTE_MS, Sessions

MESSENGERS = ("whatsapp", "telegram", "slack")
_SESSION = """
SELECT id FROM runtime.sessions
WHERE owner = $1 AND handle = $1 AND door = 'private' AND status = 'active' AND channel = ANY ($2)
ORDER BY last_active_at DESC LIMIT 1
"""


class CodeDelivery:
    """Hands codes to the conversations of this node."""

    def __init__(self, pool: asyncpg.Pool, outbound: Outbound) -> None:
        self._pool, self._outbound = pool, outbound

    async def reaches(self, handle: str) -> bool:
        """Whether there is a messenger of the owner's to send it on."""
        return await self._session(handle) is not None

    async def deliver(self, handle: str, text: str, now_ms: int) -> None:
        """Send `text`, which is worth nothing once its code has expired."""
        session = await self._session(handle)
        if session is None:
            return
        notice = Notice(
            f"sign-in {secrets.token_hex(8)}",
            conversation_pb2.Reply(text=text),
            expires_at_ms=now_ms + CODE_LIFE_MS,
            said=False,  # a code is for its owner's eyes, and for no model or memory
        )
        await self._outbound.put(handle, session, notice)

    async def _session(self, handle: str) -> UUID | None:
        async with transaction(self._pool, (handle,)) as connection:
            found: UUID | None = await connection.fetchval(_SESSION, handle, list(MESSENGERS))
        return found


class CodesOnRequest:
    """Sends a code to an owner who writes for one to their own agent. `clock`: ms since the epoch."""

    def __init__(self, pool: asyncpg.Pool, outbound: Outbound, clock: Callable[[], int]) -> None:
        self._outbound, self._clock = outbound, clock
        self._accounts, self._sessions = Accounts(pool, clock), Sessions(pool, clock)
        self._audit = AuditLog(pool, clock)

    async def send(self, turn: Turn) -> bool:
        """One code for a turn of the verified owner's, also when the turn is taken up again; False where it
        was not written on a messenger, and nothing is sent."""
        channel, owner = turn.request.sender.channel, turn.session.place.handle
        if channel not in MESSENGERS:
            return False
        account = await self._accounts.of_owner(owner)
        code, expires_ms = await self._sessions.code(account)
        words = say("sign_in_code", turn.session.language, code=code, minutes=str(CODE_LIFE_MS // MINUTE_MS))
        notice = Notice(
            f"sign-in {turn.id.hex}",
            conversation_pb2.Reply(text=words),
            expires_at_ms=expires_ms,
            said=False,
        )
        if await self._outbound.put(owner, turn.session.id, notice) is not None:
            await self._audit.note(owner, account.name, "CreateSignInCode", channel)
        return True
