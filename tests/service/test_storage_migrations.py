"""Migrations: applied once, in order, by one process at a time; a failing one leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.storage.migrations import Schema, migrate

from tests.conftest import Database

_DOWN = "\n-- migrate:down\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Schema]:
    """Makes an importable package with migrations."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, **migrations: str) -> Schema:
        folder = tmp_path / name / "migrations"
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "__init__.py").touch()
        for file, text in migrations.items():
            (folder / f"{file.removeprefix('m')}.sql").write_text(f"-- migrate:up\n{text}{_DOWN}")
        sys.modules.pop(name, None)
        return Schema(name, name)

    return make


async def query(database: Database, sql: str) -> object:
    connection = await asyncpg.connect(database.admin_dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_migrations_run_once_and_in_order(database: Database, package: Callable[..., Schema]) -> None:
    shop = package(
        "shop",
        m0001_things="CREATE TABLE thing (n int); GRANT SELECT ON thing TO indai_app;",
        m0002_one="INSERT INTO thing VALUES (1);",
    )
    await migrate(database.admin_dsn, [shop])
    await migrate(database.admin_dsn, [shop])
    assert await query(database, "SELECT count(*) FROM shop.thing") == 1
    package("shop", m0003_more="INSERT INTO thing VALUES (2);")
    await migrate(database.admin_dsn, [shop])
    assert await database.pool.fetchval("SELECT array_agg(n ORDER BY n) FROM shop.thing") == [1, 2]


async def test_with_nothing_new_no_tool_is_started(
    database: Database, package: Callable[..., Schema], monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = [package("old", m0001_t="CREATE TABLE t (n int);"), package("new")]
    await migrate(database.admin_dsn, schemas[:1])

    def started() -> str:
        raise AssertionError("the tool was asked for")

    monkeypatch.setattr("indai.storage.migrations._dbmate", started)
    await migrate(database.admin_dsn, schemas[:1])
    package("old", m0000_forgotten="CREATE TABLE u (n int);")  # a branch's file may come with an older number
    for news in schemas:
        with pytest.raises(AssertionError, match="the tool"):
            await migrate(database.admin_dsn, [news])


async def test_each_schema_keeps_its_own_record(database: Database, package: Callable[..., Schema]) -> None:
    schemas = [package(name, m0001_t="CREATE TABLE t (n int);") for name in ("first", "second")]
    await migrate(database.admin_dsn, schemas)
    assert await query(database, "SELECT count(*) FROM first.schema_migrations") == 1
    assert await query(database, "SELECT count(*) FROM second.schema_migrations") == 1


async def test_processes_that_start_together_migrate_once(
    database: Database, package: Callable[..., Schema]
) -> None:
    shop = package("busy", m0001_t="CREATE TABLE t (n int); INSERT INTO t VALUES (1);")
    await asyncio.gather(*(migrate(database.admin_dsn, [shop]) for _ in range(4)))
    assert await query(database, "SELECT count(*) FROM busy.t") == 1


async def test_a_failing_migration_is_rolled_back_and_named(
    database: Database, package: Callable[..., Schema]
) -> None:
    broken = package(
        "broken", m0001_t="CREATE TABLE t (n int);", m0002_bad="CREATE TABLE u (n int); SELECT 1/0;"
    )
    with pytest.raises(IndaiError, match=r"schema broken failed: .*division by zero") as caught:
        await migrate(database.admin_dsn, [broken])
    assert caught.value.reason is Reason.INTERNAL
    assert await query(database, "SELECT to_regclass('broken.t') IS NOT NULL")
    assert await query(database, "SELECT to_regclass('broken.u') IS NULL")
    package("broken", m0002_bad="CREATE TABLE u (n int);")
    await migrate(database.admin_dsn, [broken])
    assert await query(database, "SELECT to_regclass('broken.u') IS NOT NULL")


async def test_the_application_role_may_not_migrate(
    database: Database, package: Callable[..., Schema]
) -> None:
    with pytest.raises(IndaiError):
        await migrate(database.dsn, [package("forbidden", m0001_t="CREATE TABLE t (n int);")])


async def test_no_database_is_unavailable(package: Callable[..., Schema]) -> None:
    with pytest.raises(Unavailable):
        await migrate("postgresql://nobody@127.0.0.1:1/nothing", [])
