"""Tells owners what they should know of their agent: in their own conversation with it, once for each key."""

from __future__ import annotations

import asyncpg
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.runtime.conversations.rows import seeing
from indai.v1 import conversation_pb2 as pb

_OWN = """
    SELECT id FROM runtime.sessions WHERE owner = $1 AND door = 'private' AND status <> 'closed'
    ORDER BY last_active_at DESC LIMIT 1
"""


class Notices:
    """See the module. An owner who has never talked to their agent is told nothing here."""

    def __init__(self, pool: asyncpg.Pool, outbound: Outbound) -> None:
        self._pool, self._outbound = pool, outbound

    async def tell(self, owner: str, key: str, text: str, *, again_is_told: bool = False) -> bool:
        """Whether it was told now, and not before; with `again_is_told`, now or before."""
        if not owner:
            return False
        async with seeing(self._pool, [owner]) as connection:
            session = await connection.fetchval(_OWN, owner)
        if session is None:
            return False
        notice = Notice(f"notice {key}", pb.Reply(text=text))
        return await self._outbound.put(owner, session, notice) is not None or again_is_told
