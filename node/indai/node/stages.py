"""Where a request stands, in the office's words; the asker reads it by QUERY."""

from __future__ import annotations

from indai.node.store import Store
from indai.protocol.bodies import MAX_SENTENCE
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.forms import check_text


class Stages:
    """The table `node.request_stages`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def set(self, owner: str, thread: bytes, stage: str, now_ms: int) -> None:
        """Say where it stands. Raises InvalidInput."""
        try:
            check_text("stage", stage, MAX_SENTENCE, required=True)
        except ProtocolError as error:
            raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "INSERT INTO node.request_stages (owner, thread, stage, updated_ms) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (owner, thread) DO UPDATE SET stage = excluded.stage,"
                " updated_ms = excluded.updated_ms",
                owner,
                thread,
                stage,
                now_ms,
            )

    async def get(self, owner: str, thread: bytes) -> str:
        """What was said last; "" for nothing."""
        async with self._store.scope(owner) as connection:
            stage = await connection.fetchval(
                "SELECT stage FROM node.request_stages WHERE owner = $1 AND thread = $2", owner, thread
            )
        return stage or ""
