"""The owner's inbox: questions that wait, and the one that a code or hash names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from indai.node import views
from indai.node.paging import MAX_NUMBER, after, beginning_with, next_token, page_size
from indai.node.store import Store
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import owner_pb2

CODE_LENGTH: Final = 8
MAX_CHANNEL: Final = 40
_ALL = """
SELECT a.*, t.peer, t.kind, t.start_ms, t.end_ms, p.first_ms AS known_since_ms,
  coalesce(p.agreed, 0) AS agreed_before
FROM node.approvals a JOIN node.threads t USING (owner, thread)
LEFT JOIN node.peers p ON p.owner = t.owner AND p.peer = t.peer
WHERE a.owner = $1
"""
_WAITING = f"{_ALL} AND a.state = 'pending' AND a.expires_ms > $2"
_ANSWERED = f"{_ALL} AND a.answered_ms >= $2 ORDER BY a.answered_ms DESC, a.action_hash LIMIT $3"
_PAGE = """
  AND (a.expires_ms, encode(a.action_hash, 'hex')) > ($3, $4)
ORDER BY a.expires_ms, a.action_hash LIMIT $5
"""


class Approvals:
    """Reads `node.approvals`; the engine alone decides them."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock

    async def waiting(self, owner: str, request: owner_pb2.ListInboxRequest) -> owner_pb2.ListInboxResponse:
        """A page of what waits, the most urgent first; of what was answered since a time, if one is named."""
        size = page_size(request.page_size, 50)
        if request.HasField("answered_since_time"):
            since_ms = max(0, min(MAX_NUMBER, views.milliseconds(request.answered_since_time)))
            async with self._store.scope(owner) as connection:
                rows = await connection.fetch(_ANSWERED, owner, since_ms, size)
            return owner_pb2.ListInboxResponse(approvals=[views.approval(row, CODE_LENGTH) for row in rows])
        number, last = after(request.page_token, (0, ""))
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(_WAITING + _PAGE, owner, self._clock(), number, last, size + 1)
        token = next_token(rows, size, lambda row: (row["expires_ms"], row["action_hash"].hex()))
        approvals = [views.approval(row, CODE_LENGTH) for row in rows[:size]]
        return owner_pb2.ListInboxResponse(approvals=approvals, next_page_token=token)

    async def find(self, owner: str, code: str) -> tuple[bytes, bytes]:
        """(thread, hash) of the question with this code, waiting or not. Raises NotFound when none or several
        of the owner's have it."""
        code = code.strip().lower()
        if len(code) < CODE_LENGTH or len(code) > 64 or set(code) - set("0123456789abcdef"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"An approval code has {CODE_LENGTH} to 64 hexadecimal digits.",
                hint="indai inbox shows the codes",
            )
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT action_hash, thread FROM node.approvals"
                " WHERE owner = $1 AND action_hash BETWEEN $2 AND $3 LIMIT 2",
                owner,
                *beginning_with(code, 64),
            )
        if len(rows) != 1:
            raise NotFound(
                Reason.NOT_FOUND, f"Nothing in your inbox has the code {code}.", hint="indai inbox"
            )
        return rows[0]["thread"], rows[0]["action_hash"]

    async def stands(self, owner: str, action_hash: bytes, *, approved: bool) -> bool:
        """Whether this very answer was given before. Who was cut off before they heard says it again."""
        async with self._store.scope(owner) as connection:
            state = await connection.fetchval(
                "SELECT state FROM node.approvals WHERE owner = $1 AND action_hash = $2", owner, action_hash
            )
        return bool(state == ("approved" if approved else "declined"))

    async def note(self, owner: str, action_hash: bytes, channel: str) -> None:
        """In which channel's conversation an answer was given; only the owner is ever shown it."""
        if not channel:
            return
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "UPDATE node.approvals SET answered_on = $3 WHERE owner = $1 AND action_hash = $2",
                owner,
                action_hash,
                channel[:MAX_CHANNEL].replace("\0", " "),  # which Postgres stores in no text
            )

    async def get(self, owner: str, action_hash: bytes) -> owner_pb2.Approval:
        """One that waits; raises NotFound."""
        async with self._store.scope(owner) as connection:
            row = await connection.fetchrow(
                _WAITING + " AND a.action_hash = $3", owner, self._clock(), action_hash
            )
        if row is None:
            raise NotFound(Reason.NOT_FOUND, "That no longer waits for you.", hint="indai inbox")
        return views.approval(row, CODE_LENGTH)
