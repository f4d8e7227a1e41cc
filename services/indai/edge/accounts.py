"""The channels of this node: their rows, and the accounts made from them with their secrets."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg
import structlog
from indai.edge.channels.base import Account, Adapter
from indai.edge.channels.table import ADAPTERS, adapter_of
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.storage.migrations import Schema
from indai.storage.pool import transaction
from indai.v1 import conversation_pb2 as pb

SCHEMA: Final = Schema("edge", "indai.edge")
VAULT: Final = "vault:"
FRESH_S: Final = 15.0

Secret = Callable[[str], Awaitable[str]]
"""Gives the value behind a reference, or raises IndaiError."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as it is stored: `settings` hold references in the place of secrets."""

    tenant: str
    name: str
    provider: str
    account: str
    settings: Mapping[str, str]
    trouble: str = ""
    trouble_at: datetime | None = None


class Keys:
    """Keyed hashes, so that a stolen database tells nobody's number."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def peer(self, identity: pb.Identity) -> bytes:
        """Who somebody is on a channel, in 16 bytes."""
        return self._of("peer", identity.channel, identity.kind, identity.value)

    def message(self, channel: str, message_id: str) -> bytes:
        """A provider's id of a message, in 16 bytes."""
        return self._of("message", channel, message_id)

    def _of(self, *parts: str) -> bytes:
        text = "\x00".join(parts).encode()
        return hmac.new(self._key, text, hashlib.sha256).digest()[:16]


class Channels:
    """Rows of channels."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def tenants(self) -> list[str]:
        """Those that have channels."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch("SELECT DISTINCT tenant FROM edge.names ORDER BY tenant")
        return [row["tenant"] for row in rows]

    async def put(self, channel: Channel) -> None:
        """Store a channel, in place of the one before. Raises InvalidInput for another tenant's name."""
        async with transaction(self._pool, (channel.tenant,)) as connection:
            owner = await connection.fetchval(
                "INSERT INTO edge.names (name, tenant) VALUES ($1, $2)"
                " ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING tenant",
                channel.name,
                channel.tenant,
            )
            if owner != channel.tenant:
                raise InvalidInput(
                    Reason.ALREADY_EXISTS,
                    f"There is another channel with the name {channel.name}.",
                    hint="choose another name",
                )
            await connection.execute(
                "INSERT INTO edge.channels (tenant, name, provider, account, settings)"
                " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, name) DO UPDATE SET provider ="
                " excluded.provider, account = excluded.account, settings = excluded.settings, trouble = ''",
                channel.tenant,
                channel.name,
                channel.provider,
                channel.account,
                json.dumps(dict(channel.settings)),
            )

    async def find(self, name: str) -> Channel | None:
        """One, whosever it is."""
        async with transaction(self._pool) as connection:
            tenant = await connection.fetchval("SELECT tenant FROM edge.names WHERE name = $1", name)
        if tenant is None:
            return None
        async with transaction(self._pool, (tenant,)) as connection:
            row = await connection.fetchrow(
                "SELECT * FROM edge.channels WHERE tenant = $1 AND name = $2", tenant, name
            )
        return _channel(row) if row else None

    async def listed(self, tenant: str = "") -> list[Channel]:
        """Those of a tenant, or all, by name."""
        tenants = [tenant] if tenant else await self.tenants()
        async with transaction(self._pool, tenants) as connection:
            rows = await connection.fetch(
                "SELECT * FROM edge.channels WHERE tenant = ANY ($1) ORDER BY name", tenants
            )
        return list(map(_channel, rows))

    async def remove(self, channel: Channel) -> None:
        """With all that waits there."""
        async with transaction(self._pool, (channel.tenant,)) as connection:
            await connection.execute("DELETE FROM edge.names WHERE name = $1", channel.name)

    async def trouble(self, channel: Account, reason: str) -> None:
        """Remember why nothing can be sent, or with an empty reason that all is well."""
        async with transaction(self._pool, (channel.tenant,)) as connection:
            await connection.execute(
                "UPDATE edge.channels SET trouble = $3, trouble_at = now()"
                " WHERE tenant = $1 AND name = $2 AND trouble <> $3",
                channel.tenant,
                channel.name,
                reason,
            )


@dataclass(frozen=True, slots=True)
class Served:
    """An account with its adapter."""

    account: Account
    adapter: Adapter
    trouble: str = ""


class Directory:
    """The accounts, read again every few seconds: a secret that was changed is soon the one that counts."""

    def __init__(self, channels: Channels, secret: Secret, monotonic: Callable[[], float]) -> None:
        self._channels = channels
        self._secret = secret
        self._monotonic = monotonic
        self._served: dict[str, Served] = {}
        self._read_at = float("-inf")
        # One reading at a time: an older one must not end after a newer one.
        self._reading = asyncio.Lock()

    async def find(self, name: str) -> Served:
        """One by its name. Raises NotFound."""
        found = (await self.all()).get(name)
        if found is None:
            raise NotFound(Reason.NOT_FOUND, "There is no such channel.")
        return found

    async def all(self) -> Mapping[str, Served]:
        """All by name."""
        if self._is_old():
            async with self._reading:
                if self._is_old():
                    await self._read()
        return self._served

    async def tenants(self) -> list[str]:
        """Whose channels there are: what a transaction over all of them names."""
        return sorted({served.account.tenant for served in (await self.all()).values()})

    async def refresh(self) -> None:
        """Read them now."""
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        rows = await self._channels.listed()
        self._served = {row.name: await self._serve(row) for row in rows if _is_known(row)}
        self._read_at = self._monotonic()

    def _is_old(self) -> bool:
        return self._monotonic() - self._read_at > FRESH_S

    async def _serve(self, row: Channel) -> Served:
        adapter = adapter_of(row.provider)
        secrets = {
            field.name: await self._value(row, row.settings[field.name])
            for field in adapter.fields
            if field.secret and field.name in row.settings
        }
        plain = {name: value for name, value in row.settings.items() if name not in secrets}
        account = Account(row.name, row.tenant, row.provider, row.account, plain, secrets)
        return Served(account, adapter, row.trouble)

    async def _value(self, row: Channel, reference: str) -> str:
        try:
            return await self._secret(reference)
        except IndaiError as error:
            # The others must go on; this one refuses all webhooks and sends nothing until it is there.
            log.warning("a channel's secret is missing", channel=row.name, error=error.message)
            return ""


def _is_known(row: Channel) -> bool:
    """A channel that a newer program has stored must not stop the others."""
    if row.provider in ADAPTERS:
        return True
    log.warning("a channel of an unknown kind is not served", channel=row.name)
    return False


def _channel(row: asyncpg.Record) -> Channel:
    return Channel(
        row["tenant"],
        row["name"],
        row["provider"],
        row["account"],
        json.loads(row["settings"]),
        row["trouble"],
        row["trouble_at"],
    )
