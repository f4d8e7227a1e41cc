"""One database for a file of tests, emptied before each; a provider and a conversation of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.databases import pooled
from tests.service.edge.provider import Provider
from tests.service.edge.rooms import TABLES, Room, running
from tests.service.edge.talk import Talk


@pytest.fixture
async def pool(shared_database: tuple[str, str]) -> AsyncIterator[asyncpg.Pool]:
    url, admin_url = shared_database
    admin = await asyncpg.connect(admin_url)
    await admin.execute(f"TRUNCATE {TABLES}")
    await admin.close()
    async with pooled(url, 8) as opened:
        yield opened


@pytest.fixture
async def still(pool: asyncpg.Pool, tmp_path: Path) -> AsyncIterator[Room]:
    """A room that isn't running yet."""
    async with Provider().serving() as provider:
        yield Room(pool, provider, Talk(), tmp_path)  # type: ignore[abstract]


@pytest.fixture
async def room(still: Room) -> AsyncIterator[Room]:
    """A running one."""
    async with running(still):
        yield still
