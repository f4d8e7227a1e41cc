"""Tells conversations what became of work that a tool began in them: durable, and once for each thing."""

from __future__ import annotations

from uuid import UUID

import asyncpg
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.runtime.turn.attaching import media_of
from indai.storage.pool import transaction
from indai.tools.outcomes import sentence
from indai.tools.values import Caller, Outcome
from indai.v1 import conversation_pb2 as pb

_NEWEST = """
    SELECT id FROM runtime.sessions WHERE owner = $1 AND door = 'private' AND status <> 'closed'
    ORDER BY last_active_at DESC, id LIMIT 1
"""


class News:
    """Ports of the toolbox onto what conversations send of their own accord; silent until `outbound` is
    there."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self.outbound: Outbound | None = None

    async def push(self, caller: Caller, outcome: Outcome) -> None:
        """See `indai.tools.values.Push`. An owner's program has no conversation, and looks for itself."""
        session = _session(caller.session)
        if session is None or self.outbound is None:
            return
        notice = Notice(key=_key(outcome), reply=_reply(outcome, caller.language))
        # At a door of an organisation's own the conversation is the tenant's.
        for owner in dict.fromkeys((caller.owner, caller.tenant)):
            if owner and await self.outbound.put(owner, session, notice) is not None:
                return

    async def tell_owner(self, owner: str, words: str, key: str) -> bool:
        """See `indai.tools.toolbox.TellOwner`."""
        if self.outbound is None:
            return False
        async with transaction(self._pool, (owner,)) as connection:
            session = await connection.fetchval(_NEWEST, owner)
        if session is None:
            return False
        await self.outbound.put(owner, session, Notice(key=key, reply=pb.Reply(text=words, language="en")))
        return True


def _reply(outcome: Outcome, language: str) -> pb.Reply:
    media = media_of(outcome.files)
    return pb.Reply(text=sentence(outcome, language), language=language or "en", media=media)


def _key(outcome: Outcome) -> str:
    """Names what is told, so that telling it again is one message."""
    if outcome.job:
        return f"tool-job:{outcome.job}"
    if outcome.approval is not None:
        return f"tool-approval:{outcome.approval.action_hash}:{outcome.approval.expires_at_ms}"
    return f"tool-thread:{outcome.thread}:{outcome.result.get('state', '')}"


def _session(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
