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
_THREAD = (
    "INSERT INTO node.threads"
    " (owner, thread, peer, side, phase, outgoing, title, wake_ms, created_ms, updated_ms)"
    " VALUES ($1, $2, 'ind.ai/bob', '', 'NEGOTIATING', true, '', $3, 0, 0)"
)


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
            await connection.execute(_THREAD, ALICE, bytes([number]) * 16, number)

    async def tick(owner: str, thread: bytes) -> None:
        woken.append(thread[0])
        if thread[0] == 2:
            later.set()
        raise IndaiError(Reason.UNKNOWN_KEY, "No key signs for this thread.")

    polling = Timers(store, [ALICE], tick, lambda: 1_000)  # type: ignore[arg-type]
    polling.start()
    async with asyncio.timeout(60):
        await later.wait()
    await polling.close()
    assert woken[:2] == [1, 2]


async def test_an_owner_is_looked_at_when_something_of_theirs_is_due_and_not_before(
    make_database: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "POLL_S", 0.001)
    pool = (await make_database()).pool
    store, now = Store(pool, "ind.ai/node-a/ledger/2026"), [1_000]
    owners = [f"ind.ai/owner-{number}" for number in range(3)]
    for place, owner in enumerate(owners):
        async with store.scope(owner) as connection:
            await connection.execute(_THREAD, owner, bytes(16), 2_000 + place)
    looked: list[str] = []
    woken = asyncio.Event()

    async def tick(owner: str, thread: bytes) -> None:
        looked.append(owner)
        async with store.scope(owner) as connection:
            await connection.execute("UPDATE node.threads SET wake_ms = NULL WHERE owner = $1", owner)
        woken.set()

    polling = Timers(store, owners, tick, lambda: now[0])  # type: ignore[arg-type]
    asked: list[list[str]] = []
    real = polling._due

    async def noted(some: Any) -> Any:
        asked.append(list(some))
        return await real(some)

    monkeypatch.setattr(polling, "_due", noted)
    polling.start()
    async with asyncio.timeout(60):
        while len(polling._next) < len(owners):
            await asyncio.sleep(0)
        assert asked == []
        now[0] = 2_001
        await woken.wait()
        while len(looked) < 2:
            await asyncio.sleep(0)
        assert sorted(owner for some in asked for owner in some) == sorted(looked) == owners[:2]
        asked.clear()
        polling.doubted(owners[:1])  # perhaps something of theirs was stored
        while not asked:
            await asyncio.sleep(0)
    await polling.close()
    assert asked == [owners[:1]]
    assert sorted(looked) == owners[:2]
