"""A clock that is ten minutes off is named to an owner, whichever side it is on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from indai.node.clock import DatabaseClock
from indai.v1 import owner_pb2

from tests.service.node.conftest import ALICES, BOBS
from tests.service.node.world import now_ms, world

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(("skewed", "skew_ms"), [("node-a", 590_000), ("node-b", -590_000)])
async def test_ten_minutes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skewed: str, skew_ms: int
) -> None:
    real, starting = DatabaseClock.read, "registry"
    skew: dict[int, int] = {}

    def read(self: DatabaseClock, reading_ms: int) -> None:
        real(self, reading_ms + skew.setdefault(id(self), skew_ms if starting == skewed else 0))

    monkeypatch.setattr(DatabaseClock, "read", read)
    async with world(tmp_path) as registry:
        starting = "node-a"
        async with registry.node("node-a") as a:
            starting = "node-b"
            async with registry.node("node-b") as b, asyncio.timeout(30):
                alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
                thread_id = await alice.start(
                    "ind.ai/bob", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
                )
                told = ""
                while "clock" not in told:
                    got = await alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
                    entries = (await bob.stub.ListJournal(owner_pb2.ListJournalRequest())).entries
                    told = " ".join([got.thread.words, *(entry.words for entry in entries)])
