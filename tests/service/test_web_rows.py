"""What row-level security keeps apart of the desks' tables, and how long codes and sessions last."""

from __future__ import annotations

import hashlib

import asyncpg
import pytest
from indai.protocol.errors import IndaiError
from indai.web.accounts import Accounts
from indai.web.audit import AuditLog
from indai.web.sessions import IDLE_MS, LIFE_MS, Sessions

from tests.conftest import Database


async def test_rows_of_one_scope_are_hidden_from_another_and_acts_cannot_be_changed(
    database: Database,
) -> None:
    now = [1_790_000_000_000]
    accounts, sessions = Accounts(database.pool, lambda: now[0]), Sessions(database.pool, lambda: now[0])
    bob = await accounts.of_owner("ind.ai/bob")
    code, _ = await sessions.code(bob)
    token = await sessions.redeem(code, "a test", "any browser")
    await AuditLog(database.pool, lambda: now[0]).note("ind.ai/bob", "owner", "x")
    for table in ("accounts", "sign_in_codes", "sessions", "audit_log"):
        assert await _count(database, table, "ind.ai/bob") == 1
        assert await _count(database, table, "ind.ai/alice") == 0
        assert await _count(database, table, "") == 0
    async with database.pool.acquire() as connection, connection.transaction():
        digest = hashlib.sha256(token.encode()).hexdigest()
        await connection.execute("SELECT set_config('indai.presented', $1, true)", digest)
        assert await connection.fetchval("SELECT count(*) FROM web.sessions") == 1
        assert await connection.execute("UPDATE web.sessions SET revoked_ms = 1") == "UPDATE 0"
    for change in ("UPDATE web.audit_log SET act = ''", "DELETE FROM web.audit_log"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await database.pool.execute(change)
    # A session ends when it is not used for a week, and after a month in any case.
    assert await sessions.find_token(token)
    now[0] += IDLE_MS + 1
    assert await sessions.find_token(token) is None
    now[0] -= IDLE_MS + 1
    for _ in range(0, LIFE_MS, IDLE_MS - 1):
        assert await sessions.find_token(token)
        now[0] += IDLE_MS - 1
    assert await sessions.find_token(token) is None
    code, expires = await sessions.code(bob)
    now[0] = expires
    with pytest.raises(IndaiError):
        await sessions.redeem(code, "a test", "")
    code, _ = await sessions.code(bob, "the browser that asked")
    with pytest.raises(IndaiError):
        await sessions.redeem(code, "a test", "another")
    assert await sessions.redeem(code, "a test", "the browser that asked")
    await accounts.revoke("ind.ai/bob", "ind.ai/bob")
    assert await sessions.listed("ind.ai/bob") == []


async def _count(database: Database, table: str, scope: str) -> int:
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', $1, true)", scope)
        found: int = await connection.fetchval(f"SELECT count(*) FROM web.{table}")  # noqa: S608 - ours
        return found
