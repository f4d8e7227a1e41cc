"""A real Postgres for the tests: one server for the run, a fresh migrated database for each test that
asks. Files are in memory where there is room (`tests.scratch`).
"""

from __future__ import annotations

import asyncio
import pkgutil
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import asyncpg
import indai
import pytest
from indai.storage.cluster import discard
from indai.storage.embedded import EmbeddedPostgres, ServerInfo
from indai.storage.migrations import Schema, migrate
from indai.storage.pool import open_pool

from tests import scratch

_MADE_SCRATCH = scratch.prepare()
_TEMPLATE = "migrated"
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated database of a test's own; `pool` works as the application's role."""

    dsn: str = field(repr=False)
    admin_dsn: str = field(repr=False)
    pool: asyncpg.Pool


def every_schema() -> list[Schema]:
    """One for each `indai` package that carries migrations."""
    found = []
    for module in pkgutil.iter_modules(indai.__path__, "indai."):
        spec = find_spec(module.name)
        if spec is not None and spec.origin and (Path(spec.origin).parent / "migrations").is_dir():
            found.append(Schema(module.name.removeprefix("indai."), module.name))
    # The log comes first: what builds on it calls its functions.
    return sorted(found, key=lambda schema: (schema.name != "tlog", schema.name))


def pytest_unconfigure() -> None:
    """Workers end before the process that made the directory."""
    if _MADE_SCRATCH:
        scratch.remove()


@pytest.fixture(scope="session", autouse=True)
def _clusters_stay_inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Postgres' own account reaches what tests make; a cluster that it can't reach would lie elsewhere."""
    base, make = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp
    for directory in (base, *base.parents):
        if directory == Path(tempfile.gettempdir()):
            break
        directory.chmod(0o711)

    def mktemp(basename: str, numbered: bool = True) -> Path:
        made = make(basename, numbered)
        made.chmod(0o711)
        return made

    tmp_path_factory.mktemp = mktemp  # type: ignore[method-assign]
    yield
    discard(base)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[ServerInfo]:
    """One embedded server for the whole run; it is removed at the end."""
    home = _server_home()
    # No power cut is survived here; tests of crashes start servers of their own, with fsync on.
    # An autovacuum worker in a database would keep its owner from dropping it.
    settings = {"fsync": "off", "max_connections": "100", "autovacuum": "off"}
    server = EmbeddedPostgres(home / "postgres", settings)
    info = asyncio.run(server.start())
    yield info
    asyncio.run(server.destroy())
    shutil.rmtree(home)


@pytest.fixture
def server_home() -> Iterator[Path]:
    """A directory for a server of the test's own; Postgres' account can reach it if root runs the tests."""
    home = _server_home()
    yield home
    shutil.rmtree(home, ignore_errors=True)


def _server_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="indai-tests-"))
    home.chmod(0o711)
    return home


@pytest.fixture(scope="session")
def migrated_template(postgres_server: ServerInfo) -> str:
    """The name of a database that has every schema and no rows; tests get copies of it."""
    asyncio.run(_make_template(postgres_server))
    return _TEMPLATE


async def _make_template(server: ServerInfo) -> None:
    await _administer(server, f"CREATE DATABASE {_TEMPLATE}")
    await migrate(server.url(server.admin_user, server.admin_password, _TEMPLATE), every_schema())


async def _administer(server: ServerInfo, statement: str) -> None:
    connection = await asyncpg.connect(server.admin_dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def drop_database(server: ServerInfo, name: str) -> None:
    """The backends of a closed pool end in their own time, and the administrator may not end them."""
    for attempt in range(100):
        try:
            await _administer(server, f"DROP DATABASE {name} WITH (FORCE)")
        except asyncpg.InsufficientPrivilegeError:
            if attempt == 99:
                raise
            await asyncio.sleep(0.02)
        else:
            return


@pytest.fixture(scope="module")
def shared_database(postgres_server: ServerInfo, migrated_template: str) -> Iterator[tuple[str, str]]:
    """URL and administrator's URL of one migrated database for a file of many small tests, which empty the
    tables they use: making a database costs more than they do."""
    name = f"test_{next(_numbers)}"
    asyncio.run(_administer(postgres_server, f"CREATE DATABASE {name} TEMPLATE {migrated_template}"))
    yield (
        postgres_server.url(postgres_server.user, postgres_server.password, name),
        postgres_server.url(postgres_server.admin_user, postgres_server.admin_password, name),
    )
    asyncio.run(drop_database(postgres_server, name))


async def create_database(server: ServerInfo, template: str, name: str) -> tuple[str, str]:
    """A migrated database for more than one test: the application's URL and the administrator's."""
    await _administer(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    return (
        server.url(server.user, server.password, name),
        server.url(server.admin_user, server.admin_password, name),
    )


@pytest.fixture
async def make_database(
    postgres_server: ServerInfo, migrated_template: str
) -> AsyncIterator[Callable[[], Awaitable[Database]]]:
    """A function that makes another database, for tests of two nodes or of restores."""
    made: list[tuple[str, Database]] = []

    async def make() -> Database:
        name = f"test_{next(_numbers)}"
        await _administer(postgres_server, f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
        dsn = postgres_server.url(postgres_server.user, postgres_server.password, name)
        admin_dsn = postgres_server.url(postgres_server.admin_user, postgres_server.admin_password, name)
        database = Database(dsn, admin_dsn, await open_pool(dsn, max_size=5))
        made.append((name, database))
        return database

    yield make
    for name, database in made:
        database.pool.terminate()
        await drop_database(postgres_server, name)


@pytest.fixture
async def database(make_database: Callable[[], Awaitable[Database]]) -> Database:
    """A fresh migrated database with an open pool, gone after the test."""
    return await make_database()
