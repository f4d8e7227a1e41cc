"""A node's database, as nobody but a test goes into it."""

from __future__ import annotations

import asyncpg

from tests import databases
from tests.service.node.world import Node


async def connect(node: Node) -> asyncpg.Connection:
    """As the superuser, whom no row is hidden from."""
    shared = node.world.databases
    if shared is None:
        return await databases.superuser(node.data / "postgres", "indai")
    return await shared.superuser(node.data)
