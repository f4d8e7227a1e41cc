"""A Postgres of the benchmark's own, migrated, for the parts that need no node."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
from indai.ledger.entries import SCHEMA as LEDGER
from indai.node.roles import POLICY
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import DatabaseUrls, open_pool
from indai.tlog.append import SCHEMA as TLOG


@contextlib.asynccontextmanager
async def database(data: Path) -> AsyncIterator[tuple[asyncpg.Pool, str]]:
    """(a pool with the application's rights, the administrator's URL)."""
    async with EmbeddedPostgres(data) as server:
        urls = DatabaseUrls.from_server(server)
        await migrate(urls.admin, [TLOG, POLICY, LEDGER])
        pool = await open_pool(urls.app)
        try:
            yield pool, urls.admin
        finally:
            await pool.close()
