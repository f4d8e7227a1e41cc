"""Rows of the gateway in Postgres: calls, limits, accounts, reservations, notices.

Reserving and settling are one statement each. Both commit without waiting for the disk
(`synchronous_commit = off`): a power cut may lose the last half second of them, a killed program or database
process loses nothing. What one tenant's session sees is enforced by row-level security too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
from indai.llm.daycosts import DayCosts
from indai.llm.records import CallRow, Notice, Scope, SpendingLimit
from indai.llm.values import Finish, ModelClass, Usage
from indai.protocol.errors import Reason, Refused
from indai.storage.migrations import Schema
from indai.storage.pool import transaction, translate_errors

SCHEMA = Schema("llm", "indai.llm")
OVER_BUDGET = "IN402"

_RESERVE = "SELECT llm.reserve($1, $2, $3, $4, $5, $6, $7), set_config('synchronous_commit', 'off', true)"
_SETTLE = "SELECT llm.settle($1, $2, $3, $4, $5, $6::jsonb), set_config('synchronous_commit', 'off', true)"
_LIST_CALLS = """
    SELECT * FROM llm.calls
    WHERE tenant = $1 AND ($2 = '' OR binding = $2) AND ($3 = '' OR owner = $3) AND ($4 = '' OR session = $4)
      AND ($5::uuid IS NULL OR generation = $5)
      AND ($6::timestamptz IS NULL OR (started_at, id) < ($6, $7::uuid))
    ORDER BY started_at DESC, id DESC LIMIT $8
"""
_LIST_LIMITS = """
    SELECT l.key, l.subject, l.period, l.limit_micros,
           coalesce(a.spent_micros, 0) AS spent, coalesce(a.reserved_micros, 0) AS reserved
    FROM llm.limits l
    LEFT JOIN llm.accounts a
           ON a.tenant = l.tenant AND a.key = l.key AND a.subject = l.subject AND a.period = l.period
              AND a.starts = llm.period_start(l.period, $3)
    WHERE l.tenant = $1 AND ($2 = '' OR (l.key = 'owner' AND l.subject = $2))
    ORDER BY l.key, l.subject, l.period LIMIT 1000
"""
_SET_LIMIT = """
    INSERT INTO llm.limits (tenant, key, subject, period, limit_micros) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant, key, subject, period) DO UPDATE SET limit_micros = EXCLUDED.limit_micros
"""
_REMOVE_LIMIT = "DELETE FROM llm.limits WHERE tenant = $1 AND key = $2 AND subject = $3 AND period = $4"
_NOTE = """
    INSERT INTO llm.notices AS n (tenant, owner, kind, subject, day, message, first_at, last_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
    ON CONFLICT (tenant, owner, kind, subject, day)
    DO UPDATE SET last_at = EXCLUDED.last_at, message = EXCLUDED.message, times = n.times + 1
"""
_LIST_NOTICES = """
    SELECT kind, subject, message, first_at, last_at, times FROM llm.notices
    WHERE tenant = $1 AND ($2 = '' OR owner = $2)
    ORDER BY last_at DESC, kind, subject OFFSET $3 LIMIT $4
"""


class Store:
    """The gateway's tables."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self.days = DayCosts(pool)

    async def reserve(self, generation: bytes, scope: Scope, now_ms: int, micros: int, for_ms: int) -> None:
        """Hold `micros` in every limit that concerns the scope. Raises Refused(OVER_BUDGET) naming the limit
        that has no room; then nothing is held."""
        try:
            with translate_errors():
                await self._pool.execute(
                    _RESERVE,
                    UUID(bytes=generation),
                    scope.tenant,
                    scope.binding,
                    scope.owner,
                    _at(now_ms),
                    micros,
                    for_ms,
                )
        except asyncpg.PostgresError as error:
            if error.sqlstate != OVER_BUDGET:
                raise
            raise _over_budget(str(error.args[0])) from None

    async def settle(self, generation: bytes, scope: Scope, now_ms: int, rows: Sequence[CallRow]) -> None:
        """Store the attempts, book their cost, let go what was held: in one transaction."""
        with translate_errors():
            await self._pool.execute(
                _SETTLE,
                UUID(bytes=generation),
                scope.tenant,
                scope.binding,
                scope.owner,
                _at(now_ms),
                json.dumps([_columns(row) for row in rows]),
            )

    async def calls(
        self, scope: Scope, generation: bytes | None, before: tuple[int, bytes] | None, count: int
    ) -> list[CallRow]:
        """Newest first; `before` is (started in us, id) of the last row of the page before."""
        async with self._seeing(scope) as connection:
            rows = await connection.fetch(
                _LIST_CALLS,
                scope.tenant,
                scope.binding,
                scope.owner,
                scope.session,
                UUID(bytes=generation) if generation else None,
                _at(before[0]) if before else None,
                UUID(bytes=before[1]) if before else None,
                count,
            )
        return [_call(row) for row in rows]

    async def set_limit(self, limit: SpendingLimit) -> None:
        """Set or replace a limit; a negative one removes it."""
        named = (limit.tenant, limit.key, limit.subject, limit.period)
        async with self._seeing(Scope(limit.tenant)) as connection:
            if limit.limit_micros < 0:
                await connection.execute(_REMOVE_LIMIT, *named)
            else:
                await connection.execute(_SET_LIMIT, *named, limit.limit_micros)

    async def limits(self, scope: Scope, now_ms: int) -> list[SpendingLimit]:
        """All limits of the tenant, or only those of the scope's owner."""
        async with self._seeing(scope) as connection:
            rows = await connection.fetch(_LIST_LIMITS, scope.tenant, scope.owner, _at(now_ms).date())
        return [SpendingLimit(scope.tenant, *row) for row in rows]

    async def note(self, scope: Scope, notice: Notice, now_ms: int) -> None:
        """Tell the owner; the same thing again on the same day is counted."""
        at = _at(now_ms)
        async with self._seeing(scope) as connection:
            await connection.execute(
                _NOTE,
                scope.tenant,
                scope.owner,
                notice.kind,
                notice.subject,
                at.date(),
                notice.message,
                at,
            )

    async def notices(self, scope: Scope, offset: int, count: int) -> list[Notice]:
        """Newest first."""
        async with self._seeing(scope) as connection:
            rows = await connection.fetch(_LIST_NOTICES, scope.tenant, scope.owner, offset, count)
        return [
            Notice(kind, subject, message, _ms(first), _ms(last), times)
            for kind, subject, message, first, last, times in rows
        ]

    @asynccontextmanager
    async def _seeing(self, scope: Scope) -> AsyncIterator[asyncpg.Connection]:
        """A transaction that sees the tenant's rows, or only the owner's when the scope names one."""
        async with transaction(self._pool, [scope.owner] if scope.owner else []) as connection:
            await connection.execute("SELECT llm.act_for($1)", scope.tenant)
            yield connection


def thirty_days_before(now_ms: int, zone: ZoneInfo) -> date:
    """Where sums start when nobody says."""
    return _at(now_ms).astimezone(zone).date() - timedelta(days=30)


def _over_budget(limit: str) -> Refused:
    return Refused(
        Reason.OVER_BUDGET,
        f"The budget is used up: {limit}.",
        hint="wait for the next period, or raise the limit: indai llm limit",
        metadata={"limit": limit},
    )


def _columns(row: CallRow) -> dict[str, Any]:
    return {
        "id": str(UUID(bytes=row.id)),
        "generation": str(UUID(bytes=row.generation)),
        "attempt": row.attempt,
        "tenant": row.scope.tenant,
        "binding": row.scope.binding,
        "owner": row.scope.owner,
        "session": row.scope.session,
        "model_class": row.model_class.value,
        "provider": row.provider,
        "model": row.model,
        "why": row.why,
        "started_at": _at(row.started_ms).isoformat(),
        "input_tokens": row.usage.input_tokens,
        "output_tokens": row.usage.output_tokens,
        "cache_hit_tokens": row.usage.cache_hit_tokens,
        "cache_write_tokens": row.usage.cache_write_tokens,
        "cost_micros": row.cost_micros,
        "currency": row.currency,
        "latency_ms": row.latency_ms,
        "ttft_ms": row.ttft_ms,
        "finish": row.finish.value if row.finish else "",
        "error": row.error,
        "metadata": {"tokens_by_tier": dict(row.tokens_by_tier), "stage_ms": dict(row.stage_ms)},
    }


def _call(row: asyncpg.Record) -> CallRow:
    metadata = json.loads(row["metadata"])
    return CallRow(
        id=row["id"].bytes,
        generation=row["generation"].bytes,
        attempt=row["attempt"],
        scope=Scope(row["tenant"], row["binding"], row["owner"], row["session"]),
        model_class=ModelClass(row["model_class"]),
        provider=row["provider"],
        model=row["model"],
        why=row["why"],
        started_ms=_ms(row["started_at"]),
        usage=_usage(row),
        cost_micros=row["cost_micros"],
        currency=row["currency"],
        latency_ms=row["latency_ms"],
        ttft_ms=row["ttft_ms"],
        finish=Finish(row["finish"]) if row["finish"] else None,
        error=row["error"],
        tokens_by_tier=metadata["tokens_by_tier"],
        stage_ms=metadata["stage_ms"],
    )


def _usage(row: asyncpg.Record) -> Usage:
    return Usage(
        row["input_tokens"], row["output_tokens"], row["cache_hit_tokens"], row["cache_write_tokens"]
    )


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
