"""Tells memory what was said: after the turn, from the rows the turn stored, until memory has them.

A message is a turn of memory under its own id, so telling it twice adds nothing. An answer that quotes
outsiders is not told: memory would take their words for the agent's. Nor is a
wish to forget something, or an answer that tells what is remembered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg
import structlog
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError, Unavailable
from indai.runtime.bindings import Bindings
from indai.runtime.conversations.rows import every_owner, seeing
from indai.runtime.turn.consistent import stances
from indai.runtime.turn.recall import door_of
from indai.v1 import conversation_pb2, memory_pb2

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

MOST: Final = 100
TIMEOUT_S: Final = 15.0
AGAIN_S: Final = 10.0
_MAX_TEXT: Final = 30_000
"""Characters of one message: memory takes 128 KiB."""
_MAX_TOPIC: Final = 60
"""Characters of a topic: memory takes 200 bytes."""

_NEW = """
    SELECT m.id, m.session, m.segment, m.outgoing, m.by_human, m.text, m.body, m.created_at,
           s.tenant, s.binding, s.handle, s.door, s.scope_person,
           coalesce((t.trace->>'untrusted')::boolean, false) AS untrusted,
           coalesce(t.trace->'tools' @> '[{"tool": "forget"}]', false) AS forgets,
           coalesce(t.trace->'tools' @> '[{"tool": "recall"}]'
               OR t.trace->'tools' @> '[{"tool": "remember"}]', false) AS echoes,
           i.value AS peer
    FROM runtime.messages m
    JOIN runtime.sessions s ON s.id = m.session
    LEFT JOIN runtime.turns t ON t.id = m.turn
    LEFT JOIN LATERAL (
        SELECT value FROM runtime.identities
        WHERE person = s.person AND kind = 'handle' AND verified ORDER BY last_used_at DESC LIMIT 1
    ) i ON true
    WHERE m.owner = $1 AND NOT m.remembered AND (t.id IS NULL OR t.state = 'finished')
    ORDER BY m.place LIMIT $2
"""

log = structlog.get_logger(__name__)


class Remembering:
    """See the module. `poke` says that an owner has something new."""

    def __init__(self, pool: asyncpg.Pool, bindings: Bindings, memory: MemoryServiceAsyncStub) -> None:
        self._pool, self._bindings, self._memory = pool, bindings, memory
        self._owners: set[str] = set()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin with what an earlier run left."""
        self._owners |= set(await every_owner(self._pool))
        self._woken.set()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; what is left is told after the next start."""
        await end_tasks(self._task)

    def poke(self, owner: str) -> None:
        """An owner has something new."""
        self._owners.add(owner)
        self._woken.set()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            owners, self._owners = self._owners, set()
            for owner in sorted(owners):
                try:
                    while await self.step(owner):
                        pass
                except IndaiError as error:
                    log.warning("memory not told", owner=owner, reason=error.reason.name)
                    self._owners.add(owner)
            if self._owners:
                await asyncio.sleep(AGAIN_S)
                self._woken.set()

    async def step(self, owner: str) -> bool:
        """Tell one batch; whether there may be more. Raises Unavailable when memory is away."""
        async with seeing(self._pool, [owner]) as connection:
            rows = await connection.fetch(_NEW, owner, MOST)
        sessions: dict[UUID, list[asyncpg.Record]] = defaultdict(list)
        for row in rows:
            sessions[row["session"]].append(row)
        for told in sessions.values():
            await self._tell(owner, told)
        if rows:
            async with seeing(self._pool, [owner]) as connection:
                await connection.execute(
                    "UPDATE runtime.messages SET remembered = true WHERE id = ANY ($1)",
                    [row["id"] for row in rows],
                )
        return len(rows) == MOST

    async def _tell(self, owner: str, rows: Sequence[asyncpg.Record]) -> None:
        first = rows[0]
        composed = await self._bindings.of(first["tenant"], first["binding"])
        if composed.agent.memory == "session":
            return
        access = door_of(
            first["door"],
            owner,
            first["peer"] or "",
            first["scope_person"],
            composed.binding,
            first["binding"],
        )
        turns = [
            _turn(row, owner)
            for row in rows
            if row["text"] and not row["forgets"]
            # An answer that tells what is remembered would be remembered again, as the agent's own word.
            if not (row["outgoing"] and (row["untrusted"] or row["echoes"]))
        ]
        if not turns or (first["door"] == "public" and not access.peer):
            return  # an anonymous visitor leaves no memory
        try:
            await self._memory.Remember(
                memory_pb2.RememberRequest(access=access, turns=turns), timeout=TIMEOUT_S
            )
            for row in rows:
                if row["outgoing"] and not (
                    row["by_human"] or row["untrusted"] or row["forgets"] or row["echoes"]
                ):
                    await self._opinions(access, row)
        except Unavailable:
            raise
        except IndaiError as error:
            # It would be refused again for ever; the messages themselves stay in the session.
            log.error("memory refused what was said", reason=error.reason.name, error=error.message)

    async def _opinions(self, access: memory_pb2.Access, row: asyncpg.Record) -> None:
        """What the agent has said it thinks of something, so that it stays consistent with this person."""
        for stance in stances(row["text"]):
            opinion = memory_pb2.Opinion(
                topic=stance.topic[:_MAX_TOPIC], stance=stance.words, source=row["id"].hex
            )
            opinion.valid_from_time.FromDatetime(row["created_at"])
            request = memory_pb2.PutOpinionRequest(access=access, opinion=opinion)
            await self._memory.PutOpinion(request, timeout=TIMEOUT_S)


def _turn(row: asyncpg.Record, owner: str) -> memory_pb2.Turn:
    if row["outgoing"]:
        speaker, role = row["by_human"] or row["handle"] or "agent", memory_pb2.SPEAKER_ROLE_AGENT
    else:
        sender = conversation_pb2.InboundMessage.FromString(row["body"]).sender
        named = sender.display_name or row["peer"] or "visitor"
        speaker = owner if row["door"] == "private" else named
        role = memory_pb2.SPEAKER_ROLE_PERSON
    made = memory_pb2.Turn(
        source_id=row["id"].hex,
        session=row["segment"].hex,
        speaker=speaker[:60],
        role=role,
        text=row["text"][:_MAX_TEXT],
    )
    made.said_time.FromDatetime(row["created_at"])
    return made
