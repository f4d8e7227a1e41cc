"""Tells open desks of a tenant that something changed: one look at the database for all of them together.

Turns and hand-overs may be another process's, so the database is asked, by index, every two seconds and only
while somebody watches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import asyncpg
from indai.node.tenancy.access import Post
from indai.protocol.errors import IndaiError
from indai.storage.pool import transaction

LOOK_S: Final = 2.0
MAX_WAITING: Final = 500
_LOOK: Final = """
    SELECT (SELECT max(last_active_at) FROM runtime.sessions s WHERE s.owner = ANY ($2)) AS spoken,
           (SELECT max(created_at) FROM runtime.guardrail_violations v WHERE v.owner = ANY ($2)) AS guarded,
           (SELECT max(updated_ms) FROM node.request_stages r WHERE r.owner = ANY ($2)) AS staged,
           (SELECT max(created_ms) FROM node.threads t WHERE t.owner = ANY ($2)) AS filed,
           (SELECT md5(string_agg(id::text || taken_by, ',' ORDER BY id)) FROM (
                SELECT id, taken_by FROM runtime.sessions s WHERE s.owner = ANY ($2) AND s.tenant = $1
                  AND s.status = 'handed_off' ORDER BY handed_at LIMIT $3) AS handed) AS handed,
           (SELECT count(*) FROM (SELECT FROM runtime.sessions s WHERE s.owner = ANY ($2) AND s.tenant = $1
                AND s.status = 'handed_off' AND s.taken_by = '' LIMIT $3) AS waits) AS waiting
"""


@dataclass
class _Room:
    """Those who watch one tenant."""

    watchers: set[asyncio.Event] = field(default_factory=set)
    seen: tuple[object, ...] = ()
    waiting: int = 0
    looking: asyncio.Task[None] | None = None


class Watch:
    """See the module. One event loop owns it."""

    def __init__(self, pool: asyncpg.Pool, look_s: float = LOOK_S) -> None:
        self._pool, self._look_s = pool, look_s
        self._rooms: dict[tuple[str, ...], _Room] = {}

    async def close(self) -> None:
        """Look no more."""
        for room in self._rooms.values():
            if room.looking is not None:
                room.looking.cancel()

    async def changes(self, post: Post) -> AsyncIterator[int]:
        """How many conversations wait for a person: at once, and after each change."""
        room = self._rooms.setdefault(post.owners, _Room())
        changed = asyncio.Event()
        room.watchers.add(changed)
        try:
            if room.looking is None:
                # Before anything is waited for: whoever comes meanwhile begins no second one, which would
                # look for ever.
                room.looking = asyncio.create_task(self._keep_looking(post, room))
                await self._look(post, room)
            while True:
                yield room.waiting
                await changed.wait()
                changed.clear()
        finally:
            room.watchers.discard(changed)
            if not room.watchers:
                self._rooms.pop(post.owners, None)
                if room.looking is not None:
                    room.looking.cancel()

    async def _keep_looking(self, post: Post, room: _Room) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            # The database is away for a while: the next look tells what happened meanwhile.
            with contextlib.suppress(IndaiError):
                await self._look(post, room)

    async def _look(self, post: Post, room: _Room) -> None:
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            row = await connection.fetchrow(_LOOK, post.tenant, post.owners, MAX_WAITING)
        seen = tuple(row.values())
        if seen == room.seen:
            return
        room.seen, room.waiting = seen, row["waiting"]
        for watcher in room.watchers:
            watcher.set()
