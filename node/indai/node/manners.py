"""How owners want their agents to speak: one word of theirs, one sentence of the prompt."""

from __future__ import annotations

from typing import Final

import asyncpg
from indai.protocol.errors import InvalidInput, Reason
from indai.storage.pool import transaction
from indai.v1 import desk_pb2

SENTENCES: Final = {
    desk_pb2.TONE_BRIEF: "Your owner wants you to be brief and plain: one or two short sentences.",
    desk_pb2.TONE_WARM: "Your owner wants you to be warm and friendly.",
    desk_pb2.TONE_FORMAL: "Your owner wants you to be formal and courteous.",
}


class Manners:
    """Reads and writes `node.manners`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, owner: str) -> int:
        """The tone, a value of `indai.v1.Tone`."""
        async with transaction(self._pool, [owner]) as connection:
            return await connection.fetchval("SELECT tone FROM node.manners WHERE owner = $1", owner) or 0

    async def set(self, owner: str, tone: int) -> None:
        """Choose it. Raises InvalidInput for a tone that there is not."""
        if tone not in desk_pb2.Tone.values():
            raise InvalidInput(Reason.INVALID_ARGUMENT, "There is no such tone.")
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.manners (owner, tone) VALUES ($1, $2)"
                " ON CONFLICT (owner) DO UPDATE SET tone = excluded.tone",
                owner,
                tone,
            )

    async def sentence(self, owner: str) -> str:
        """What the prompt of the owner's agent says of it; nothing where they left it to the persona."""
        return SENTENCES.get(desk_pb2.Tone.ValueType(await self.get(owner)), "")
