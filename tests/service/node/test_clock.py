"""A clock that is ten minutes off is named to an owner, whichever side it is on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from indai.node.clock import DatabaseClock
from indai.protocol.errors import ProtocolError
from indai.v1 import owner_pb2

from tests.databases import Databases
from tests.service.node.conftest import ALICES, BOBS
from tests.service.node.world import now_ms, world

HOUR, DAY = 3_600_000, 86_400_000


def skew(monkeypatch: pytest.MonkeyPatch, ms: int) -> Callable[[bool], None]:
    """Makes clocks that are started while it is on wrong by `ms`."""
    real, on = DatabaseClock.read, False
    wrong: dict[int, int] = {}

    def read(self: DatabaseClock, reading_ms: int, asked_ms: int | None = None) -> None:
        real(self, reading_ms + wrong.setdefault(id(self), ms if on else 0), asked_ms)

    def switch(to: bool) -> None:
        nonlocal on
        on = to

    monkeypatch.setattr(DatabaseClock, "read", read)
    return switch


async def test_a_clock_ten_minutes_ahead_is_named(
    tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    skewed = skew(monkeypatch, 590_000)
    async with world(tmp_path, databases) as registry:
        skewed(True)
        async with registry.node("node-a") as a:
            skewed(False)
            async with registry.node("node-b") as b, asyncio.timeout(60):
                alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
                thread_id = await alice.start(
                    "ind.ai/bob", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
                )
                told = ""
                while "clock" not in told:
                    got = await alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
                    entries = (await bob.stub.ListJournal(owner_pb2.ListJournalRequest())).entries
                    told = " ".join([got.thread.words, *(entry.words for entry in entries)])


async def test_a_clock_ten_minutes_behind_is_named(
    tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that can't believe the registry's head does not start, and says why."""
    skewed = skew(monkeypatch, -590_000)
    async with world(tmp_path, databases) as registry:
        skewed(True)
        with pytest.raises(ProtocolError, match="clock"):
            async with registry.node("node-b"):
                pass
