"""How tasks end."""

from __future__ import annotations

import asyncio

import pytest
from indai.client.tasks import end_tasks


async def _fails_at_its_end() -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        raise ValueError("at the end")


async def test_all_have_ended_however_they_did_and_one_that_never_began_is_none() -> None:
    waits = asyncio.ensure_future(asyncio.get_running_loop().create_future())
    fails = asyncio.create_task(_fails_at_its_end())
    await asyncio.sleep(0)
    await end_tasks(waits, None, fails)
    assert waits.cancelled()
    assert isinstance(fails.exception(), ValueError)
    await end_tasks()


async def test_who_is_cancelled_meanwhile_hears_it() -> None:
    lingering = asyncio.Event()

    async def lingers() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            lingering.set()
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(lingers())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end_tasks(task))
    await lingering.wait()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert task.cancelled()
