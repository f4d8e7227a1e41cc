"""A node's database, as nobody but a test goes into it."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
from indai.storage.postmaster import read_pid_file

from tests.service.node.world import Node


async def connect(node: Node) -> asyncpg.Connection:
    """As the administrator."""
    home: Path = node.data / "postgres"
    pointer = home / "postgres.location"
    base = Path(pointer.read_text().strip()) if pointer.exists() else home
    running = read_pid_file(base / "cluster")
    assert running is not None
    passwords = json.loads((home / "postgres.credentials").read_text())
    return await asyncpg.connect(
        host=str(running.socket_dir), user="postgres", password=passwords["postgres"], database="indai"
    )
