"""Who asks for a meeting by telephone: how they get what a telephone does not show.

The number is what the telephone network says, and networks let callers lie. So nothing is said to it by other
ways but to whoever has written from that very number to the same agent on WhatsApp before: in their own
conversation, where a caller who lied about the number sees nothing. For anybody else the owner is told the
number, and tells the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg
from indai.node.tool_news import News
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.runtime.conversations.rows import seeing
from indai.v1 import conversation_pb2 as pb

CHANNEL: Final = "voice"
_NUMBER: Final = """
    SELECT value FROM runtime.identities
    WHERE person = $1 AND channel = 'voice' AND kind = 'phone' AND value ~ '^[+][0-9]{5,18}$'
"""
_SESSION: Final = """
    SELECT s.id FROM runtime.sessions s JOIN runtime.identities i ON i.person = s.person
    WHERE s.owner = $1 AND s.handle = $1 AND s.door = 'public' AND s.status <> 'closed'
      AND s.channel = 'whatsapp' AND i.channel = 'whatsapp' AND i.kind = 'phone'
      AND i.value = $2 AND i.verified
    ORDER BY s.last_active_at DESC, s.id LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What becomes of a caller's meeting: `key` names it, `reply` is for the caller, `owner_words` for the
    owner when the caller is not reached."""

    key: str
    reply: pb.Reply
    owner_words: str


class Callers:
    """Callers of the owners who live here."""

    def __init__(self, pool: asyncpg.Pool, outbound: Outbound, news: News) -> None:
        self._pool, self._outbound, self._news = pool, outbound, news

    async def number(self, person: str, channel: str) -> str:
        """From which number somebody calls; nothing for whoever does not, or hides it."""
        if channel != CHANNEL or (id := _uuid(person)) is None:
            return ""
        async with seeing(self._pool, people=[id]) as connection:
            return await connection.fetchval(_NUMBER, id) or ""

    async def writes(self, owner: str, number: str) -> bool:
        """Whether whoever has the number writes with the owner's agent on WhatsApp."""
        return await self._session(owner, number) is not None

    async def tell(self, owner: str, number: str, told: Told) -> None:
        """Tell the caller in their own conversation, or else the owner. Again it is one message."""
        session = await self._session(owner, number)
        if session is not None:
            await self._outbound.put(owner, session, Notice(key=told.key, reply=told.reply))
        else:
            await self._news.tell_owner(owner, told.owner_words, told.key)

    async def _session(self, owner: str, number: str) -> UUID | None:
        async with seeing(self._pool, [owner]) as connection:
            found: UUID | None = await connection.fetchval(_SESSION, owner, number)
        return found


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
