"""Tells conversations what became of work that a tool began in them: durable, and once for each thing."""

from __future__ import annotations

from uuid import UUID

import asyncpg
from indai.language.phrasebook import in_language
from indai.runtime.conversations.outbound import Notice, Outbound
from indai.runtime.turn.attaching import media_of
from indai.storage.pool import transaction
from indai.tools.outcomes import sentence
from indai.tools.values import Caller, Outcome, Status
from indai.v1 import conversation_pb2 as pb

_NEWEST = """
    SELECT id, language FROM runtime.sessions WHERE owner = $1 AND door = 'private' AND status <> 'closed'
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
        if self.outbound is None:
            return
        session, notice = (
            _session(caller.session),
            Notice(key=_key(outcome), reply=_reply(outcome, caller.language)),
        )
        if session is None:
            if not caller.session and caller.owner == caller.person:
                # Begun for them in a conversation that is another's: they hear of it in their own.
                await self._told_in_newest(caller.owner, outcome)
            return
        # At a door of an organisation's own the conversation is the tenant's.
        for owner in dict.fromkeys((caller.owner, caller.tenant)):
            if owner and await self.outbound.put(owner, session, notice) is not None:
                return

    async def tell_owner(self, owner: str, words: str, key: str) -> bool:
        """See `indai.tools.toolbox.TellOwner`."""
        if self.outbound is None:
            return False
        newest = await self._newest(owner)
        if newest is None:
            return False
        session, language = newest
        reply = pb.Reply(text=in_language(words, language), language=language)
        await self.outbound.put(owner, session, Notice(key=key, reply=reply))
        return True

    async def _told_in_newest(self, owner: str, outcome: Outcome) -> None:
        if self.outbound is not None and (newest := await self._newest(owner)) is not None:
            session, language = newest
            notice = Notice(key=_key(outcome), reply=_reply(outcome, language))
            await self.outbound.put(owner, session, notice)

    async def _newest(self, owner: str) -> tuple[UUID, str] | None:
        """The conversation in which an owner talked to their own agent last, and its language."""
        async with transaction(self._pool, (owner,)) as connection:
            row = await connection.fetchrow(_NEWEST, owner)
        return None if row is None else (row["id"], row["language"] or "en")


def _reply(outcome: Outcome, language: str) -> pb.Reply:
    language, choices = language or "en", list[pb.Choice]()
    if (asked := outcome.approval) is not None and outcome.status is Status.NEEDS_APPROVAL:
        said = [f"{word} {asked.code}" for word in ("yes", "no")]
        choices = [pb.Choice(id=each, title=each.capitalize()) for each in said]
    media = media_of(outcome.files)
    return pb.Reply(text=sentence(outcome, language), language=language, media=media, choices=choices)


def _key(outcome: Outcome) -> str:
    """Names what is told, so that telling it again is one message."""
    if outcome.about:
        return f"tool-about:{outcome.about}"
    if outcome.job:
        return f"tool-job:{outcome.job}"
    return f"tool-thread:{outcome.thread}:{outcome.result.get('state', '')}"


def _session(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
