"""Migrated databases of a server that tests share: for one test, for a module, or for nodes that tests run in
their own process, which would each start a server otherwise.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from indai.storage.embedded import ServerInfo
from indai.storage.pool import open_pool
from indai.storage.postmaster import read_pid_file
from indai.storage.programs import SUPERUSER

_numbers = count(1)


async def administer(server: ServerInfo, statement: str) -> None:
    """Run it as the role that owns the databases."""
    connection = await asyncpg.connect(server.admin_dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def create_database(server: ServerInfo, template: str, name: str) -> tuple[str, str]:
    """A migrated database: the application's URL and the administrator's."""
    await administer(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    return (
        server.url(server.user, server.password, name),
        server.url(server.admin_user, server.admin_password, name),
    )


async def drop_database(server: ServerInfo, name: str) -> None:
    """The backends of a closed pool end in their own time, at the latest when their statement is cut off; the
    administrator may not end them."""
    for attempt in range(1_000):
        try:
            await administer(server, f"DROP DATABASE {name} WITH (FORCE)")
        except asyncpg.InsufficientPrivilegeError:
            if attempt == 999:
                raise
            await asyncio.sleep(0.02)
        else:
            return


@asynccontextmanager
async def pooled(url: str, max_size: int) -> AsyncIterator[asyncpg.Pool]:
    """A pool of the application's role. It ends at once: one that was closed would wait without limit for the
    connections that a failed test still holds."""
    pool = await open_pool(url, max_size=max_size)
    try:
        yield pool
    finally:
        pool.terminate()


async def superuser(home: Path, database: str) -> asyncpg.Connection:
    """Into a database of the embedded server in `home`, as nobody but a test goes."""
    pointer = home / "postgres.location"  # the cluster may lie elsewhere when root runs the tests
    base = Path(pointer.read_text().strip()) if pointer.exists() else home
    running = read_pid_file(base / "cluster")
    assert running is not None
    passwords = json.loads((home / "postgres.credentials").read_text())
    return await asyncpg.connect(
        host=str(running.socket_dir), user=SUPERUSER, password=passwords[SUPERUSER], database=database
    )


class Databases:
    """Databases of one server, each for the roles of one data directory: who starts again finds their own."""

    def __init__(self, server: ServerInfo, home: Path, template: str) -> None:
        self._server, self._home, self._template = server, home, template
        self._names: dict[Path, str] = {}

    async def settle(self, data: Path) -> None:
        """Make the database of a directory if it has none yet."""
        if data not in self._names:
            name = f"node_{next(_numbers)}"
            await create_database(self._server, self._template, name)
            self._names[data] = name

    @contextmanager
    def given(self, data: Path) -> Iterator[None]:
        """What starts within works on the database of `data`, by the variables that an operator sets."""
        name, server = self._names[data], self._server
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("INDAI_DATABASE_URL", server.url(server.user, server.password, name))
            patch.setenv(
                "INDAI_DATABASE_ADMIN_URL", server.url(server.admin_user, server.admin_password, name)
            )
            yield

    async def superuser(self, data: Path) -> asyncpg.Connection:
        """Into the database of `data`."""
        return await superuser(self._home, self._names[data])

    async def drop(self, below: Path) -> None:
        """Those of the directories below are needed no more."""
        gone: Sequence[Path] = [data for data in self._names if data.is_relative_to(below)]
        for data in gone:
            await drop_database(self._server, self._names.pop(data))
