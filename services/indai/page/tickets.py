"""Addresses that only a visitor has: at each stands one meeting that a stranger has asked for.

A ticket is made of the meeting's UID by a code of ours, so that asking twice gives one address and nobody
guesses one; only its SHA-256 is kept, beside what the page shows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import asyncpg
from indai.protocol.errors import NotFound, Reason
from indai.storage.pool import transaction

FORMS: Final = "desk-forms"
"""Whose forms and tickets are whose: the name under which the node key gives the secret for that."""
KEPT_MS: Final = 30 * 86_400_000
"""For how long after its end the page of a meeting is there."""
_BYTES: Final = 15


class Tickets:
    """Makes and reads them. `secret`: whoever has it makes tickets of ours; `clock`: ms since the epoch."""

    def __init__(self, pool: asyncpg.Pool, secret: bytes, clock: Callable[[], int]) -> None:
        self._pool, self._secret, self._clock = pool, secret, clock

    async def make(self, handle: str, uid: str, end_ms: int, meeting: Mapping[str, Any]) -> str:
        """The ticket of a meeting at a handle: 20 letters that may stand in an address. What is asked again
        under the same UID takes the place of what stood there; what is long over goes."""
        code = hmac.new(self._secret, f"meeting:{handle}\0{uid}".encode(), hashlib.sha256).digest()
        ticket = base64.urlsafe_b64encode(code[:_BYTES]).decode()
        async with transaction(self._pool, (handle,)) as connection:
            await connection.execute(
                "DELETE FROM web.visits WHERE owner = $1 AND end_ms < $2", handle, self._clock() - KEPT_MS
            )
            await connection.execute(
                "INSERT INTO web.visits (ticket_sha256, owner, meeting, end_ms) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (ticket_sha256)"
                " DO UPDATE SET meeting = excluded.meeting, end_ms = excluded.end_ms",
                _digest(ticket),
                handle,
                json.dumps(meeting, ensure_ascii=False),
                end_ms,
            )
        return ticket

    async def read(self, handle: str, ticket: str) -> dict[str, Any]:
        """The meeting. Raises NotFound for a ticket that is not ours, or of another handle."""
        async with transaction(self._pool, (handle,)) as connection:
            text = await connection.fetchval(
                "SELECT meeting FROM web.visits WHERE ticket_sha256 = $1 AND owner = $2",
                _digest(ticket),
                handle,
            )
        if text is None:
            raise no_meeting()
        found: dict[str, Any] = json.loads(text)
        return found


def no_meeting() -> NotFound:
    """For an address that was made up, and for a meeting that does not stand."""
    return NotFound(Reason.NOT_FOUND, "There is no such meeting.", hint="check the address")


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "replace")).digest()
