"""Transactions that see what one call may see: an owner's rows, a person's, or what it can name exactly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
from indai.storage.pool import transaction
from indai.v1 import conversation_pb2 as pb


@asynccontextmanager
async def seeing(
    pool: asyncpg.Pool,
    owners: Sequence[str] = (),
    *,
    people: Sequence[UUID] = (),
    identity: pb.Identity | None = None,
    delivery: str = "",
    code: bytes = b"",
    desk: str = "",
) -> AsyncIterator[asyncpg.Connection]:
    """A transaction; leaving it commits. `desk` narrows it to what people of a tenant, or with `*` of the
    node, may see."""
    settings = {
        "indai.people": ",".join(map(str, people)),
        "indai.identity": f"{identity.kind}\n{identity.value}" if identity is not None else "",
        "indai.delivery": delivery,
        "indai.code": code.hex(),
    }
    async with transaction(pool, owners, desk, settings) as connection:
        yield connection


async def also_see(connection: asyncpg.Connection, *, owner: str = "", people: Sequence[UUID] = ()) -> None:
    """Widen a running transaction to an owner's rows, or to those of people."""
    await connection.execute(
        "SELECT CASE WHEN $1 = '' THEN '' ELSE set_config('indai.owners', $1, true) END,"
        " CASE WHEN $2 = '' THEN '' ELSE set_config('indai.people', $2, true) END",
        owner,
        ",".join(map(str, people)),
    )


def delivery_key(message: pb.InboundMessage) -> str:
    """What names a provider's message; empty when the provider gave it no id."""
    if not message.provider_message_id:
        return ""
    return f"{message.sender.channel}\n{message.account}\n{message.provider_message_id}"


async def every_owner(pool: asyncpg.Pool) -> list[str]:
    """All that ever had a session: for a start, and for what goes through everything."""
    async with transaction(pool) as connection:
        rows = await connection.fetch("SELECT owner FROM runtime.conversation_owners ORDER BY owner")
    return [row["owner"] for row in rows]
