"""Keeps the pages at owners' payment providers: one for each payment to them that was agreed, and gone when
nothing is to be paid. Effects of the kinds `pay-link-open` and `pay-link-close`, idempotent by the reference.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import asyncpg
import structlog
from indai.client.tasks import end_tasks
from indai.dpi.razorpay import Provider
from indai.node.kinds.pay import CLOSE_PAGE, OPEN_PAGE
from indai.node.pay_accounts import PayAccounts
from indai.node.secrets import Secrets
from indai.node.store import Store
from indai.protocol.errors import IndaiError

LOOK_S = 2.0
BATCH = 50

log = structlog.get_logger(__name__)


class PayPages:
    """The one worker for these effects."""

    def __init__(
        self,
        store: Store,
        accounts: PayAccounts,
        secrets: Secrets,
        provider: Provider,
        done: Callable[[str, bytes], None],
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._secrets = secrets
        self._provider = provider
        self._done = done
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; what is not done stays stored."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        while True:
            try:
                await self.work()
            except IndaiError as error:
                log.warning("payment pages not looked at", reason=error.reason.name, error=error.message)
            except Exception as error:  # noqa: BLE001 -- and no traceback, whose locals hold the provider's key
                log.error("payment pages not looked at", error=type(error).__name__)
            await asyncio.sleep(LOOK_S)

    async def work(self) -> None:
        """Carry out what waits, for owners with a provider."""
        owners = self._accounts.with_provider()
        if not owners:
            return
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT owner, thread, key, kind, doc FROM node.effects WHERE owner = ANY($1) AND NOT done"
                " AND kind = ANY($2) ORDER BY created_ms LIMIT $3",
                owners,
                [OPEN_PAGE, CLOSE_PAGE],
                BATCH,
            )
        for row in rows:
            try:
                await self._carry_out(row)
            except IndaiError as error:
                log.warning("payment page not made", owner=row["owner"], reason=error.reason.name)

    async def _carry_out(self, row: asyncpg.Record) -> None:
        owner, doc = row["owner"], json.loads(row["doc"])
        account, mid = self._accounts.get(owner), bytes.fromhex(doc["mid"])
        key = await asyncio.to_thread(self._secrets.get, account.provider_key_ref)
        if row["kind"] == OPEN_PAGE:
            wanted = {
                name: doc[name] for name in ("amount_minor", "currency", "reference", "purpose", "due_ms")
            }
            page = await self._provider.open_page(account.provider_url, key, **wanted)
            await self._mark(
                row,
                "INSERT INTO node.pay_links (owner, mid, link_id, url) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (owner, mid) DO UPDATE SET link_id = excluded.link_id, url = excluded.url",
                mid,
                page.id,
                page.url,
            )
            return
        async with self._store.scope(owner) as connection:
            link = await connection.fetchval(
                "SELECT link_id FROM node.pay_links WHERE owner = $1 AND mid = $2", owner, mid
            )
        if link is not None:
            await self._provider.close_page(account.provider_url, key, link)
        await self._mark(row, "DELETE FROM node.pay_links WHERE owner = $1 AND mid = $2", mid)

    async def _mark(self, row: asyncpg.Record, change: str, *values: Any) -> None:
        """The change and the effect's end, together."""
        async with self._store.scope(row["owner"]) as connection:
            await connection.execute(change, row["owner"], *values)
            await connection.execute(
                "UPDATE node.effects SET done = true WHERE owner = $1 AND kind = $2 AND key = $3",
                row["owner"],
                row["kind"],
                row["key"],
            )
        self._done(row["owner"], row["thread"])
