"""Timers: a thread that can't be woken now rests, and others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from indai.node import timers
from indai.node.store import Store
from indai.node.timers import Timers
from indai.protocol.errors import IndaiError, Reason

ALICE = "ind.ai/alice"


async def test_a_thread_that_fails_rests_and_the_next_is_woken(
    make_database: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "MAX_DUE", 1)
    monkeypatch.setattr(timers, "POLL_S", 0.01)
    store = Store((await make_database()).pool, "ind.ai/node-a/ledger/2026")
    woken: list[int] = []
    later = asyncio.Event()
    async with store.scope(ALICE) as connection:
        for number in (1, 2):
            await connection.execute(
                "INSERT INTO node.threads"
                " (owner, thread, peer, side, phase, outgoing, title, wake_ms, created_ms, updated_ms)"
                " VALUES ($1, $2, 'ind.ai/bob', '', 'NEGOTIATING', true, '', $3, 0, 0)",
                ALICE,
                bytes([number]) * 16,
                number,
            )

    async def tick(owner: str, thread: bytes) -> None:
        woken.append(thread[0])
        if thread[0] == 2:
            later.set()
        raise IndaiError(Reason.UNKNOWN_KEY, "No key signs for this thread.")

    polling = Timers(store, [ALICE], tick, lambda: 1_000)  # type: ignore[arg-type]
    polling.start()
    async with asyncio.timeout(10):
        await later.wait()
    await polling.close()
    assert woken[:2] == [1, 2]
