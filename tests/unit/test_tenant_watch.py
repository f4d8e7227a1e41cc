"""Desks that watch one tenant: one look at the database for all of them, and none when they have gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from indai.node.auth import Caller
from indai.node.tenancy.access import Post
from indai.node.tenancy.watch import Watch


class Slow(Watch):
    """A database that answers when it is told to."""

    answers: asyncio.Event

    async def _look(self, post: Post, room: object) -> None:
        await self.answers.wait()


async def test_two_who_come_at_once_leave_nothing_behind_that_looks() -> None:
    watch = Slow(None, look_s=0.001)
    watch.answers = asyncio.Event()
    before = asyncio.all_tasks()
    post = Post("acme", ("acme",), Caller(operator=True), "operator")
    desks = [watch.changes(post), watch.changes(post)]
    first = [asyncio.ensure_future(anext(desk)) for desk in desks]
    await asyncio.sleep(0)
    watch.answers.set()
    assert await asyncio.gather(*first) == [0, 0]
    for desk in desks:
        assert isinstance(desk, AsyncGenerator)
        await desk.aclose()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
