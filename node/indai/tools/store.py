"""What tools did, in Postgres: one row for each call, and what a session's calls say of the next one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from indai.storage.migrations import Schema
from indai.storage.pool import one_trip, transaction
from indai.tools.schemas import without_secrets
from indai.tools.values import Caller, Outcome, Spec, Touch

SCHEMA: Final = Schema("tools", "indai.tools")
FAULTS: Final = 3
MAX_KEPT: Final = 4_000  # characters of a result that a row keeps

_BEFORE = "SELECT * FROM tools.before($1, $2, $3, $4)"
_FAULTS = """
    SELECT tool FROM tools.tool_calls WHERE holder = $1 AND session = $2 AND faulty
    GROUP BY tool HAVING count(*) >= $3
"""
_NOTE = f"SELECT tools.note({', '.join(f'${number}' for number in range(1, 20))})"
_LIST = """
    SELECT * FROM tools.tool_calls WHERE holder = $1 AND (created_ms, id) < ($2, $3)
    AND ($4 = '' OR session = $4) ORDER BY created_ms DESC, id DESC LIMIT $5
"""


@dataclass(frozen=True, slots=True)
class Before:
    """What was before a call: whether the tool failed too often in this session, and what this turn's calls
    have read and done."""

    disabled: bool
    touched: frozenset[Touch]


def holder_of(caller: Caller) -> str:
    """Whose rows a call makes: the owner's, or the organisation's at a door of its own."""
    return caller.owner or f"tenant:{caller.tenant}"


class CallStore:
    """Rows of calls. Every query names the holder, and row-level security holds it to that."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def before(self, caller: Caller, name: str) -> Before:
        """See `Before`; one query."""
        holder = holder_of(caller)
        (row,) = await one_trip(self._pool, _BEFORE, holder, caller.session, name, caller.turn)
        touched = frozenset(map(Touch, row["touched"])) if caller.turn else frozenset()
        return Before(row["faults"] >= FAULTS, touched)

    async def disabled(self, caller: Caller) -> frozenset[str]:
        """The tools that failed too often in this session."""
        holder = holder_of(caller)
        async with transaction(self._pool, (holder,)) as connection:
            rows = await connection.fetch(_FAULTS, holder, caller.session, FAULTS)
        return frozenset(row["tool"] for row in rows)

    async def note(
        self,
        caller: Caller,
        spec: Spec,
        digest: bytes,
        arguments: Mapping[str, Any],
        outcome: Outcome,
        *,
        faulty: bool = False,
        cached: bool = False,
        latency_ms: int = 0,
        now_ms: int,
    ) -> None:
        """Keep what a call did. `arguments` come without secrets."""
        holder = holder_of(caller)
        heard = {Touch.UNTRUSTED} if any(each.untrusted for each in outcome.fields) else set()
        touches = spec.touches | heard
        kept = without_secrets(spec.result, outcome.result) if outcome.kept is None else outcome.kept
        result = json.dumps(kept, ensure_ascii=False, default=str) if kept else ""
        await one_trip(
            self._pool,
            _NOTE,
            uuid.uuid4(),
            holder,
            caller.tenant,
            caller.binding,
            caller.session,
            caller.turn,
            caller.door,
            caller.channel,
            spec.name,
            digest,
            json.dumps(arguments, ensure_ascii=False),
            (result or outcome.words)[:MAX_KEPT].replace("\x00", ""),
            outcome.status.value,
            outcome.code,
            faulty,
            cached,
            sorted(each.value for each in touches),
            latency_ms,
            now_ms,
        )

    async def listed(
        self, holder: str, session: str, before: tuple[int, uuid.UUID], limit: int
    ) -> Sequence[asyncpg.Record]:
        """Newest first, those before (created_ms, id)."""
        async with transaction(self._pool, (holder,)) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(_LIST, holder, *before, session, limit)
        return rows
