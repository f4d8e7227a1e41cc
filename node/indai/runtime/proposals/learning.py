"""Learning: what people say of how a persona speaks becomes a proposal, one for each wish.

Nothing that they say changes the persona: an operator reads in how many conversations it was asked for.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import asyncpg
import structlog
from indai.protocol.errors import IndaiError
from indai.runtime.conversations.values import Clock, fresh
from indai.runtime.proposals.store import insert, persona, room
from indai.runtime.proposals.values import changed
from indai.runtime.proposals.wishes import change_of, reason_of, wish_of
from indai.runtime.tiers import dump
from indai.storage.pool import transaction

log = structlog.get_logger(__name__)

LEARNED: Final = "people"
"""Who proposes it."""
COUNTED: Final = 1_000
"""Conversations are counted up to that many."""
_COUNT: Final = """
    UPDATE runtime.persona_proposals
    SET sessions = CASE WHEN $4 = ANY (sessions) OR cardinality(sessions) >= $5 THEN sessions
                        ELSE sessions || $4 END
    WHERE tenant = $1 AND human = $2 AND wish = $3 AND state = 'open' RETURNING id
"""
# Who has said no is not asked the same again at once.
_REFUSED: Final = """
    SELECT EXISTS (SELECT FROM runtime.persona_proposals WHERE tenant = $1 AND human = $2 AND wish = $3
        AND state = 'rejected' AND decided_at > now() - interval '30 days')
"""


async def learn(pool: asyncpg.Pool, clock: Clock, tenant: str, human: str, session: UUID, text: str) -> str:
    """Which wish was heard and is waiting now; empty for none, and for what is so already, was refused, or is
    too much."""
    wish = wish_of(text)
    if not wish:
        return ""
    try:
        async with transaction(pool, (tenant,)) as connection:
            _, config = await persona(connection, tenant, human)
            if await connection.fetchval(_COUNT, tenant, human, wish, session, COUNTED):
                return wish
            change = change_of(wish, config)
            if dump(changed(config, change, human)) == config:
                return ""
            if await connection.fetchval(_REFUSED, tenant, human, wish):
                return ""
            await room(connection, tenant, human)
            given = (fresh(clock), tenant, human, change, reason_of(wish), LEARNED)
            await insert(connection, *given, wish=wish, session=session)
    except IndaiError as error:  # what could not be learned is no reason not to answer
        log.info("wish not learned", persona=human, wish=wish, reason=error.reason.name)
        return ""
    return wish
