"""Sign-in codes sent to their owner: in their own conversation, on the messenger where they wrote last."""

from __future__ import annotations

import secrets
from uuid import UUID

import asyncpg
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.storage.pool import transaction
from indai.v1 import conversation_pb2
from indai.web.sessions import CODE_LIFE_MS

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
