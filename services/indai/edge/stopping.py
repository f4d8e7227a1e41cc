"""Loops that end when they are cancelled."""

from __future__ import annotations

import asyncio


def is_stopped() -> bool:
    """Whether the running task was cancelled, even if a library has swallowed it: asyncpg, on Python 3.11,
    goes on when a connection comes in the very moment of the cancellation. Loops ask before each round."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
