"""What people did at the desks: rows that can be added and read, never changed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg
from indai.storage.pool import transaction
from indai.web.sessions import Session


@dataclass(frozen=True, slots=True)
class Act:
    """One act. `outcome`: `done`, or the reason why not."""

    id: int
    at_ms: int
    actor: str
    act: str
    target: str
    outcome: str


class AuditLog:
    """Adds and reads acts. `clock`: ms since the epoch."""

    def __init__(self, pool: asyncpg.Pool, clock: Callable[[], int]) -> None:
        self._pool, self._clock = pool, clock

    async def record(self, session: Session, act: str, target: str = "", outcome: str = "done") -> None:
        """Somebody who is signed in did something."""
        await self.note(
            session.scope, f"{session.role} {session.name}", act, target, outcome, session.account
        )

    async def note(
        self, scope: str, actor: str, act: str, target: str = "", outcome: str = "done", account: str = ""
    ) -> None:
        """`actor` did something in a scope; texts are cut to 200 characters."""
        async with transaction(self._pool, (scope,)) as connection:
            await self.within(connection, scope, actor, act, target, outcome, account)

    async def within(
        self,
        connection: asyncpg.Connection,
        scope: str,
        actor: str,
        act: str,
        target: str = "",
        outcome: str = "done",
        account: str = "",
    ) -> None:
        """The same in a transaction that sees the scope: the act and its row stand or fall together."""
        await connection.execute(
            "INSERT INTO web.audit_log (scope, at_ms, account, actor, act, target, outcome)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7)",
            scope,
            self._clock(),
            uuid.UUID(account) if account else None,
            actor[:200],
            act[:200],
            target[:200],
            outcome[:200],
        )

    async def page(self, scope: str, before: int = 0, size: int = 50) -> tuple[list[Act], int]:
        """Acts of a scope, the newest first, and where the next page begins (0: nowhere)."""
        async with transaction(self._pool, (scope,)) as connection:
            rows = await connection.fetch(
                "SELECT * FROM web.audit_log WHERE scope = $1 AND ($2 = 0 OR id < $2)"
                " ORDER BY id DESC LIMIT $3",
                scope,
                before,
                size + 1,
            )
        acts = [
            Act(row["id"], row["at_ms"], row["actor"], row["act"], row["target"], row["outcome"])
            for row in rows[:size]
        ]
        return acts, acts[-1].id if len(rows) > size else 0
