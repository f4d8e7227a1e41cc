"""Forgetting: everything that public services gave about one person, or about everybody of one owner.

First what stands outside of the database (the service is told, the token leaves the vault), then all rows in
one transaction. A process that dies in between left nothing that opens anything, and the same call again does
the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg
from indai.dpi.lockers import Lockers
from indai.storage.pool import transaction

# In the order of their references. Payments name no person; they go with the owner alone.
_OF_PEOPLE = ("uses", "documents", "connections", "flows", "consents")
_OF_OWNERS = ("payment_links", "splits")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What went. `told`: every service that could be told was reached."""

    people: int
    rows: int
    told: bool


async def forget(pool: asyncpg.Pool, lockers: Lockers, owner: str, person: str | None) -> Forgotten:
    """Forget a person of an owner's agent, or with None everybody and the owner's pages to pay on."""
    people = [person] if person is not None else await _people(pool, owner)
    told = [await lockers.forget(owner, each) for each in people]
    tables = _OF_PEOPLE if person is not None else (*_OF_PEOPLE, *_OF_OWNERS)
    async with transaction(pool, [owner]) as connection:
        rows = [await _delete(connection, table, owner, person) for table in tables]
    return Forgotten(len(people), sum(rows), all(told))


async def _people(pool: asyncpg.Pool, owner: str) -> list[str]:
    """All of whom something is known, the owner among them."""
    async with transaction(pool, [owner]) as connection:
        rows = await connection.fetch(
            "SELECT person FROM dpi.connections WHERE owner = $1 UNION SELECT person FROM dpi.flows"
            " WHERE owner = $1 UNION SELECT person FROM dpi.consents WHERE owner = $1",
            owner,
        )
    return sorted({owner, *(row["person"] for row in rows)})


async def _delete(connection: asyncpg.Connection, table: str, owner: str, person: str | None) -> int:
    whose = (
        "consent IN (SELECT id FROM dpi.consents WHERE owner = $1 AND person = $2)"
        if table == "uses"
        else "person = $2"
    )
    query = f"DELETE FROM dpi.{table} WHERE owner = $1"  # noqa: S608 - names of our own
    if person is None:
        done: str = await connection.execute(query, owner)
    else:
        done = await connection.execute(f"{query} AND {whose}", owner, person)
    return int(done.rpartition(" ")[2])
