"""An owner leaves: everything that is theirs goes, in steps that may each be made again.

    record       node.leavings: from here on the node carries on with it, whatever dies
    turn away    no token lets anybody in, nothing is taken or signed for the owner
    outside      tokens at public services, their calendar's file. Secrets that the operator stored stay: an
                 owner only names them, and could name anybody's
    tables       one transaction: contents of the ledger by their keys, then every row that names the owner
    memory       last: what still came from tables is found again
    look again   nothing is left, or once more

What stays: leaves of the ledger and blinded threads (others hold the same agreements, and replays are
refused by them), the public record of the handle, and, without their name, who did what at a desk and what
models cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import structlog
from indai.dpi.desk import Desk
from indai.node.agents import Agents
from indai.node.engine import Engine
from indai.protocol.errors import IndaiError, Reason, Refused, Unavailable
from indai.storage.pool import transaction
from indai.v1 import memory_pb2

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

LOOKS: Final = 3
"""How often it is looked again whether something came while it went."""
AGAIN_S: Final = 60.0
MEMORY_S: Final = 60.0
_ALL: Final = {"indai.leavings": "all"}
_OPEN = """
    SELECT (SELECT count(*) FROM node.threads t WHERE t.owner = $1
              AND t.phase NOT IN ('COMMITTED', 'REJECTED', 'WITHDRAWN', 'LAPSED'))
         + (SELECT count(*) FROM node.outbox o WHERE o.owner = $1)
         + (SELECT count(*) FROM node.effects e WHERE e.owner = $1 AND NOT e.done)
"""
_BEGIN = """
    INSERT INTO node.leavings (owner, asked_ms, asked_by, at_once) VALUES ($1, $2, $3, $4)
    ON CONFLICT (owner) WHERE finished_ms IS NULL
    DO UPDATE SET at_once = leavings.at_once OR EXCLUDED.at_once
"""
_ADD = "UPDATE node.leavings SET removed = $2 WHERE owner = $1 AND finished_ms IS NULL"
_END = "UPDATE node.leavings SET finished_ms = $2 WHERE owner = $1 AND finished_ms IS NULL"
_GOING = "SELECT removed FROM node.leavings WHERE owner = $1 AND finished_ms IS NULL"
_DONE = "SELECT removed FROM node.leavings WHERE owner = $1 ORDER BY asked_ms DESC LIMIT 1"
_THREADS = "SELECT thread FROM node.threads WHERE owner = $1 AND erased_ms IS NULL"
_CALENDAR = "SELECT calendar_path FROM node.agents WHERE owner = $1"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gone:
    """How many rows of which table went, or would go; what a second look found; what still goes on."""

    removed: Mapping[str, int]
    remaining: int = 0
    open: int = 0


class Leaving:
    """See the module. `calendars`: where the node keeps files of owners who gave none of their own."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        agents: Agents,
        engine: Engine,
        services: Desk,
        memory: MemoryServiceAsyncStub | None,
        calendars: Path,
        clock: Callable[[], int],
    ) -> None:
        self._pool, self._agents, self._engine = pool, agents, engine
        self._services, self._memory = services, memory
        self._calendars, self._clock = calendars, clock
        self._one = asyncio.Lock()

    async def count(self, owner: str) -> Gone:
        """What would go."""
        async with transaction(self._pool, [owner]) as connection:
            opened = await connection.fetchval(_OPEN, owner)
            counted = await self._tables(connection, owner, only_count=True)
        remembered = await self._remembered(owner, dry_run=True)
        return Gone(_sum(counted, remembered), open=opened)

    async def forget(self, owner: str, by: str, *, at_once: bool) -> Gone:
        """All of it; who has left already has. Raises NotFound; Refused(THREAD_OPEN) while something goes on;
        Unavailable when it is not done yet, and the node carries on."""
        async with self._one:
            async with transaction(self._pool, [owner]) as connection:
                going = await connection.fetchrow(_GOING, owner)
                if going is None and owner not in self._agents:
                    done = await connection.fetchval(_DONE, owner)
                    if done is None:
                        self._agents.get(owner)  # says that they don't live here
                    return Gone(json.loads(done))
                opened = await connection.fetchval(_OPEN, owner)
                if going is None and opened and not at_once:
                    raise _still_open(opened)
                await connection.execute(_BEGIN, owner, self._clock(), by, at_once)
            return await self._carry_on(owner)

    async def resume(self) -> None:
        """What an earlier run left half done; until it is done, however often it fails."""
        while True:
            try:
                if not await self._once_more():
                    return
            except IndaiError as error:
                log.error("who is to be forgotten is not known yet", reason=error.reason.name)
            await asyncio.sleep(AGAIN_S)

    async def listed(self, before: tuple[int, str] | None, count: int) -> list[asyncpg.Record]:
        """Newest first; `before`: (asked_ms, owner) of the last row of the page before."""
        async with transaction(self._pool, settings=_ALL) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT * FROM node.leavings WHERE $1::bigint IS NULL OR (asked_ms, owner) < ($1, $2)"
                " ORDER BY asked_ms DESC, owner DESC LIMIT $3",
                *(before or (None, None)),
                count,
            )
        return rows

    async def _once_more(self) -> bool:
        """Whether something is still to be done."""
        async with transaction(self._pool, settings=_ALL) as connection:
            rows = await connection.fetch("SELECT owner FROM node.leavings WHERE finished_ms IS NULL")
        failed = False
        for row in rows:
            try:
                async with self._one:
                    await self._carry_on(row["owner"])
            except IndaiError as error:
                failed = True
                log.error("an owner is not forgotten yet", reason=error.reason.name)
        return failed

    async def _carry_on(self, owner: str) -> Gone:
        self._agents.leave(owner)
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(_GOING, owner)
        removed = dict(json.loads(row["removed"])) if row else {}
        await self._outside(owner)
        await self._threads(owner)
        for _ in range(LOOKS):
            async with transaction(self._pool, [owner]) as connection:
                removed = _sum(removed, await self._tables(connection, owner, only_count=False))
                await connection.execute(_ADD, owner, json.dumps(removed))
            self._engine.forget(owner)
            removed = _sum(removed, await self._remembered(owner, dry_run=False))
            left = await self._left(owner)
            if not left:
                async with transaction(self._pool, [owner]) as connection:
                    await connection.execute(_ADD, owner, json.dumps(removed))
                    await connection.execute(_END, owner, self._clock())
                return Gone(removed)
        raise Unavailable(
            Reason.UNREACHABLE, "Something still came while it was forgotten.", hint="ask for it again"
        )

    async def _outside(self, owner: str) -> None:
        """What is not in our tables. Each part may be gone already."""
        await self._services.forget(owner, None)
        async with transaction(self._pool, [owner]) as connection:
            path = await connection.fetchval(_CALENDAR, owner)
        if not path or Path(path).parent != self._calendars:  # a file of the owner's own is theirs
            return
        try:
            await asyncio.to_thread(Path(path).unlink, missing_ok=True)
        except OSError as error:
            raise Unavailable(
                Reason.UNREACHABLE,
                f"The calendar {path} cannot be removed: {error.strerror}.",
                hint="see to its folder; the node tries again each minute",
            ) from None

    async def _threads(self, owner: str) -> None:
        """Through the engine, which keeps some in memory; what still goes on is dropped with the tables."""
        async with transaction(self._pool, [owner]) as connection:
            rows = await connection.fetch(_THREADS, owner)
        for row in rows:
            with contextlib.suppress(Refused):
                await self._engine.erase(owner, row["thread"])

    async def _tables(
        self, connection: asyncpg.Connection, owner: str, *, only_count: bool
    ) -> dict[str, int]:
        text = await connection.fetchval(
            "SELECT node.forget_owner($1, $2, $3)", owner, self._clock(), only_count
        )
        found: dict[str, int] = json.loads(text)
        return found

    async def _remembered(self, owner: str, *, dry_run: bool) -> dict[str, int]:
        if self._memory is None:
            return {}
        access = memory_pb2.Access(tenant=owner, door=memory_pb2.DOOR_ADMIN)
        done = await self._memory.Forget(
            memory_pb2.ForgetRequest(access=access, everything=True, dry_run=dry_run), timeout=MEMORY_S
        )
        return {f"memory.{name}": count for name, count in done.removed.items()}

    async def _left(self, owner: str) -> int:
        async with transaction(self._pool, [owner]) as connection:
            counted = await self._tables(connection, owner, only_count=True)
        return sum(counted.values()) + sum((await self._remembered(owner, dry_run=True)).values())


def _sum(*counts: Mapping[str, Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + int(count)
    return total


def _still_open(count: int) -> Refused:
    return Refused(
        Reason.THREAD_OPEN,
        f"{count} negotiations or deliveries still go on.",
        hint="withdraw them (indai threads), wait, or drop them with: indai handle forget HANDLE --at-once",
    )
