"""A memory service for each test that asks, over one database that is emptied in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from indai.storage.embedded import ServerInfo

from tests.databases import create_database, drop_database, pooled
from tests.service.memory.rooms import Room

_TABLES = """
    SELECT string_agg(format('memory.%I', relname), ', ')
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = 'memory' AND relkind IN ('r', 'p') AND NOT relispartition
        AND relname <> 'schema_migrations'
"""


@pytest.fixture(scope="session")
def memory_database(postgres_server: ServerInfo, migrated_template: str) -> Iterator[tuple[str, str]]:
    """The application's and the administrator's URL."""
    name = "memories"
    yield asyncio.run(create_database(postgres_server, migrated_template, name))
    asyncio.run(drop_database(postgres_server, name))


@pytest.fixture
async def room(memory_database: tuple[str, str]) -> AsyncIterator[Room]:
    """The service over an empty database."""
    url, admin_url = memory_database
    owner = await asyncpg.connect(admin_url)
    await owner.execute(f"TRUNCATE {await owner.fetchval(_TABLES)} RESTART IDENTITY")
    await owner.close()
    async with pooled(url, 5) as pool:
        yield Room(pool, admin_url=admin_url)
