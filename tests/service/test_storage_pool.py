"""Connections: the rights they have, and the one place where the driver's failures become ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.storage.pool import DatabaseUrls, open_pool, transaction, translate_errors

from tests.conftest import Database


async def test_sessions_work_as_the_application_role_even_with_a_superusers_url(database: Database) -> None:
    pool = await open_pool(database.dsn, max_size=1)
    try:
        assert await pool.fetchval("SHOW role") == "indai_app"
        with pytest.raises(IndaiError, match="42501"):
            async with transaction(pool) as connection:
                await connection.execute("CREATE TABLE public.mine (n int)")
    finally:
        await pool.close()


@pytest.fixture
async def notes(database: Database) -> Database:
    """A table with two owners' rows, protected as the convention says."""
    admin = await asyncpg.connect(database.admin_dsn)
    await admin.execute(
        """
        CREATE SCHEMA notes; GRANT USAGE ON SCHEMA notes TO indai_app;
        CREATE TABLE notes.note (owner text, body text);
        GRANT SELECT, INSERT ON notes.note TO indai_app;
        INSERT INTO notes.note VALUES ('ind.ai/alice', 'a'), ('ind.ai/bob', 'b');
        ALTER TABLE notes.note ENABLE ROW LEVEL SECURITY;
        ALTER TABLE notes.note FORCE ROW LEVEL SECURITY;
        CREATE POLICY owners ON notes.note
          USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
        """
    )
    await admin.close()
    return database


@pytest.mark.parametrize(
    ("owners", "seen"),
    [((), []), (("ind.ai/alice",), ["a"]), (("ind.ai/alice", "ind.ai/bob"), ["a", "b"])],
)
async def test_a_transaction_sees_only_its_owners_rows(
    notes: Database, owners: tuple[str, ...], seen: list[str]
) -> None:
    async with transaction(notes.pool, owners) as connection:
        rows = await connection.fetch("SELECT body FROM notes.note ORDER BY body")
    assert [row["body"] for row in rows] == seen


async def test_owners_do_not_outlive_their_transaction(notes: Database) -> None:
    pool = await open_pool(notes.dsn, max_size=1)
    try:
        async with transaction(pool, ["ind.ai/alice"]) as connection:
            assert await connection.fetchval("SELECT count(*) FROM notes.note") == 1
        async with transaction(pool) as connection:
            assert await connection.fetchval("SELECT count(*) FROM notes.note") == 0
    finally:
        await pool.close()


async def test_a_task_that_is_stopped_while_its_connection_is_lost_is_stopped(database: Database) -> None:
    began = asyncio.Event()

    async def work() -> None:
        async with transaction(database.pool) as connection:
            began.set()
            await connection.execute("SELECT pg_sleep(1)")

    task = asyncio.create_task(work())
    await began.wait()
    database.pool.terminate()
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled()


async def test_a_row_of_another_owner_cannot_be_written(notes: Database) -> None:
    with pytest.raises(IndaiError) as caught:
        async with transaction(notes.pool, ["ind.ai/alice"]) as connection:
            await connection.execute("INSERT INTO notes.note VALUES ('ind.ai/bob', 'forged')")
    assert caught.value.reason is Reason.INTERNAL


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (asyncpg.DiskFullError("x"), Reason.STORAGE_FULL),
        (asyncpg.ReadOnlySQLTransactionError("x"), Reason.DATABASE_UNAVAILABLE),
        (asyncpg.AdminShutdownError("x"), Reason.DATABASE_UNAVAILABLE),
        (asyncpg.CannotConnectNowError("x"), Reason.DATABASE_UNAVAILABLE),
        (asyncpg.TooManyConnectionsError("x"), Reason.DATABASE_UNAVAILABLE),
        (asyncpg.DeadlockDetectedError("x"), Reason.DATABASE_UNAVAILABLE),
        (asyncpg.InvalidPasswordError("x"), Reason.DATABASE_UNAVAILABLE),
        (asyncpg.QueryCanceledError("x"), Reason.DEADLINE_EXCEEDED),
        (asyncpg.UndefinedTableError("x"), Reason.INTERNAL),
        (asyncpg.InterfaceError("connection is closed"), Reason.DATABASE_UNAVAILABLE),
        (ConnectionRefusedError(), Reason.DATABASE_UNAVAILABLE),
        (TimeoutError(), Reason.DATABASE_UNAVAILABLE),
    ],
)
def test_every_failure_of_the_driver_has_a_reason(error: Exception, reason: Reason) -> None:
    with pytest.raises(IndaiError) as caught, translate_errors():
        raise error
    assert caught.value.reason is reason


def test_a_violated_constraint_is_an_answer_for_the_caller() -> None:
    with pytest.raises(asyncpg.UniqueViolationError), translate_errors():
        raise asyncpg.UniqueViolationError("x")


async def test_a_slow_statement_is_cut_off(database: Database) -> None:
    pool = await open_pool(database.dsn, max_size=1, statement_timeout_ms=50)
    try:
        with pytest.raises(Unavailable) as caught:
            async with transaction(pool) as connection:
                await connection.execute("SELECT pg_sleep(5)")
        assert caught.value.reason is Reason.DEADLINE_EXCEEDED
    finally:
        await pool.close()


async def test_a_read_only_database_says_so(notes: Database) -> None:
    async with transaction(notes.pool, ["ind.ai/bob"]) as connection:
        await connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(Unavailable, match="read-only"), translate_errors():
            await connection.execute("INSERT INTO notes.note VALUES ('ind.ai/bob', 'c')")


async def test_a_database_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable) as caught:
        await open_pool("postgresql://nobody@127.0.0.1:1/nothing")
    assert caught.value.reason is Reason.DATABASE_UNAVAILABLE


async def test_an_unreadable_url_is_the_callers_mistake() -> None:
    with pytest.raises(InvalidInput):
        await open_pool("mysql://somewhere/else")


def test_urls_come_from_the_environment_and_stay_out_of_repr() -> None:
    assert DatabaseUrls.from_environment({}) is None
    urls = DatabaseUrls.from_environment({"INDAI_DATABASE_URL": "postgresql://u:hunter2@h/d"})
    assert urls is not None
    assert urls.admin == urls.app
    assert "hunter2" not in repr(urls)
    both = DatabaseUrls.from_environment({"INDAI_DATABASE_URL": "a", "INDAI_DATABASE_ADMIN_URL": "b"})
    assert both == DatabaseUrls("a", "b")


async def test_each_test_has_a_database_of_its_own(make_database: Callable[[], Awaitable[Database]]) -> None:
    names = {await (await make_database()).pool.fetchval("SELECT current_database()") for _ in range(2)}
    assert len(names) == 2
