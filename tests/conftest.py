"""A real Postgres for the tests: one server for the run, a fresh migrated database for each test that
asks. Files are in memory where there is room (`tests.scratch`).
"""

from __future__ import annotations

import asyncio
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import indai
import pytest
import structlog
from hypothesis import HealthCheck, settings
from indai.storage.cluster import discard
from indai.storage.embedded import EmbeddedPostgres, ServerInfo
from indai.storage.migrations import Schema, migrate
from indai.storage.pool import open_pool

from tests import scratch
from tests.databases import Databases, administer, create_database, drop_database
from tests.scheduling import Files
from tests.watchdog import Watchdog

# No example is judged by the time that it took, and a run draws the same ones as the run before: it fails for
# what changed, beside whatever else runs. Other examples: --hypothesis-profile=others.
settings.register_profile("others", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("others"), derandomize=True, database=None)
settings.load_profile("suite")
_MADE_SCRATCH = scratch.prepare()
_TEMPLATE = "migrated"
_FIRST = (("system",), ("web",), ("service", "node"), ("service",))
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start processes, browsers and nodes come first: those of functions fill what is left of the
    workers' time at the end, where a long one would run beside an idle worker."""
    items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> int:
    below = path.relative_to(Path(__file__).parent).parts
    return next((at for at, first in enumerate(_FIRST) if below[: len(first)] == first), len(_FIRST))


def pytest_configure(config: pytest.Config) -> None:
    """In every process: the controller tells what fails, and workers are watched."""
    config.pluginmanager.register(Watchdog(config), "watchdog")
    # Not where commands that tests run in this process print: a node beside them may log at any moment.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files | None:
    """In the controller: `--dist loadfile` goes on when a worker has ended."""
    return Files(config, log) if config.getoption("dist") == "loadfile" else None


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
def _postgres() -> Iterator[tuple[ServerInfo, Path]]:
    """One embedded server for the whole run, and its directory; it is removed at the end."""
    home = _server_home()
    # No power cut is survived here; tests of crashes start servers of their own, with fsync on.
    # An autovacuum worker in a database would keep its owner from dropping it.
    settings = {"fsync": "off", "max_connections": "300", "autovacuum": "off"}
    server = EmbeddedPostgres(home / "postgres", settings)
    info = asyncio.run(server.start())
    yield info, home / "postgres"
    asyncio.run(server.destroy())
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def postgres_server(_postgres: tuple[ServerInfo, Path]) -> ServerInfo:
    """The server that the tests of this run share."""
    return _postgres[0]


@pytest.fixture(scope="session")
def databases(_postgres: tuple[ServerInfo, Path], migrated_template: str) -> Databases:
    """Databases for nodes that tests run in this process: a server of its own costs each of them a second."""
    server, home = _postgres
    return Databases(server, home, migrated_template)


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
    await administer(server, f"CREATE DATABASE {_TEMPLATE}")
    await migrate(server.url(server.admin_user, server.admin_password, _TEMPLATE), every_schema())


@pytest.fixture(scope="module")
def shared_database(postgres_server: ServerInfo, migrated_template: str) -> Iterator[tuple[str, str]]:
    """URL and administrator's URL of one migrated database for a file of many small tests, which empty the
    tables they use: making a database costs more than they do."""
    name = f"test_{next(_numbers)}"
    yield asyncio.run(create_database(postgres_server, migrated_template, name))
    asyncio.run(drop_database(postgres_server, name))


@pytest.fixture
async def make_database(
    postgres_server: ServerInfo, migrated_template: str
) -> AsyncIterator[Callable[[], Awaitable[Database]]]:
    """A function that makes another database, for tests of two nodes or of restores."""
    made: list[tuple[str, Database]] = []

    async def make() -> Database:
        name = f"test_{next(_numbers)}"
        dsn, admin_dsn = await create_database(postgres_server, migrated_template, name)
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
