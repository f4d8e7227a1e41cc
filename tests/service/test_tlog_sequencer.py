"""Group commit: nobody is answered before COMMIT, and what was answered survives any kill."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused, Unavailable
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import leaf_hash, root
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import open_pool
from indai.tlog.append import SCHEMA, Appended, Entry, take_over
from indai.tlog.sequencer import GroupCommit, Sequencer
from indai.tlog.signer import LogKeys, LogSigner

from tests.conftest import Database

LOG = "ind.ai/registry"
OWNERS = ("ind.ai/alice", "ind.ai/bob")


def entry(number: int) -> Entry:
    name = b"%d" % number
    return Entry(OWNERS[number % 2], hashlib.sha256(name).digest(), 2, b"leaf " + name, number)


async def test_callers_are_answered_with_their_own_index(database: Database) -> None:
    async with Sequencer(database.pool, await take_over(database.pool, LOG)) as sequencer:
        answers = await asyncio.gather(*(sequencer.submit(entry(number)) for number in range(300)))
    rows = await database.pool.fetch("SELECT idx, leaf FROM tlog.leaf ORDER BY idx")
    assert [row["idx"] for row in rows] == list(range(300))
    assert [rows[one.index]["leaf"] for one in answers] == [entry(number).leaf for number in range(300)]
    # Far fewer transactions than entries: that is what the group is for.
    assert await database.pool.fetchval("SELECT count(DISTINCT xmin::text) FROM tlog.leaf") < 30


async def test_what_waits_is_committed_before_the_end_and_nothing_after(database: Database) -> None:
    sequencer = Sequencer(database.pool, await take_over(database.pool, LOG))
    async with sequencer:
        waiting = [asyncio.create_task(sequencer.submit(entry(number))) for number in range(5)]
        await asyncio.sleep(0)
    assert [(await task).index for task in waiting] == [0, 1, 2, 3, 4]
    with pytest.raises(Unavailable):
        await sequencer.submit(entry(9))


async def test_too_many_waiting_callers_are_turned_away(database: Database) -> None:
    sequencer = Sequencer(database.pool, await take_over(database.pool, LOG), max_waiting=3)
    async with sequencer:
        tasks = [asyncio.create_task(sequencer.submit(entry(number))) for number in range(5)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
    refused = [one for one in done if isinstance(one, Unavailable)]
    assert [one.reason for one in refused] == [Reason.RATE_LIMITED] * 2
    assert [one.index for one in done if isinstance(one, Appended)] == [0, 1, 2]


async def test_one_bad_entry_fails_alone(database: Database) -> None:
    bad = Entry(OWNERS[0], b"not a message id", 2, b"x", 1)
    async with Sequencer(database.pool, await take_over(database.pool, LOG)) as sequencer:
        tasks = [sequencer.submit(one) for one in (entry(0), entry(1), bad, entry(2), entry(3))]
        done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[2], asyncpg.CheckViolationError)
    assert sorted(one.index for one in done if isinstance(one, Appended)) == [0, 1, 2, 3]


async def test_an_item_can_be_refused_without_failing_its_batch(database: Database) -> None:
    async def write(_: asyncpg.Connection, items: Sequence[Entry]) -> list[int | IndaiError]:
        return [InvalidInput(Reason.INVALID_OPERATION, "no") if one.kind == 9 else one.kind for one in items]

    async def look_up(_: asyncpg.Connection, items: Sequence[Entry]) -> list[int | None]:
        return [None] * len(items)

    async with GroupCommit[Entry, int](database.pool, write, look_up) as group:
        entries = [Entry("o", b"", kind, b"", 0) for kind in (1, 9, 2)]
        done = await asyncio.gather(*map(group.submit, entries), return_exceptions=True)
    assert (done[0], done[2]) == (1, 2)
    assert isinstance(done[1], InvalidInput)


async def test_a_cancelled_caller_does_not_disturb_the_others(database: Database) -> None:
    async with Sequencer(database.pool, await take_over(database.pool, LOG)) as sequencer:
        first, second = (asyncio.create_task(sequencer.submit(entry(number))) for number in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).index == 1


async def test_a_fenced_sequencer_stops_for_good(database: Database) -> None:
    former = Sequencer(database.pool, await take_over(database.pool, LOG))
    async with former, Sequencer(database.pool, await take_over(database.pool, LOG)) as successor:
        for number in range(2):
            with pytest.raises(Refused) as caught:
                await former.submit(entry(number))
            assert caught.value.reason is Reason.LOG_FENCED
        assert (await successor.submit(entry(0))).index == 0
    assert await database.pool.fetchval("SELECT size FROM tlog.head") == 1


async def test_a_connection_lost_after_commit_is_looked_up_not_repeated(database: Database) -> None:
    calls = count(1)

    sequencer = Sequencer(database.pool, await take_over(database.pool, LOG))
    write = sequencer._write

    async def commit_then_lose(connection: asyncpg.Connection, items: Sequence[Entry]) -> Sequence[object]:
        next(calls)
        await write(connection, items)
        await connection.execute("COMMIT")
        connection.terminate()
        raise Unavailable(Reason.DATABASE_UNAVAILABLE, "lost")

    sequencer._write = commit_then_lose  # type: ignore[assignment]
    async with sequencer:
        assert (await sequencer.submit(entry(0))).index == 0
    assert next(calls) == 2
    assert await database.pool.fetchval("SELECT count(*) FROM tlog.leaf") == 1


def findings(acknowledged: dict[int, int], stored: Sequence[bytes]) -> list[str]:
    """What is wrong with a log: each acknowledged entry stands once, where its caller was told."""
    wrong = [f"{one!r} stands twice" for one in set(stored) if stored.count(one) > 1]
    for number, index in acknowledged.items():
        if index >= len(stored) or stored[index] != entry(number).leaf:
            wrong.append(f"entry {number} is not at {index}")
    return wrong


@pytest.fixture
async def own_server(server_home: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(server_home / "postgres")
    yield server
    await server.destroy()


async def test_every_acknowledged_append_survives_sigkill(
    own_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    info = await own_server.start()
    await migrate(info.admin_dsn, [SCHEMA])
    pool = await open_pool(info.dsn, max_size=4)
    acknowledged: dict[int, int] = {}
    numbers = count()
    enough = asyncio.Condition()
    stopped = False

    async def client(sequencer: Sequencer) -> None:
        while not stopped:
            number = next(numbers)
            while number not in acknowledged:
                try:
                    acknowledged[number] = (await sequencer.submit(entry(number))).index
                except Unavailable:
                    # Unknown or failed: the same entry may be submitted again, since the log has it once.
                    await asyncio.sleep(0.01)
            async with enough:
                enough.notify_all()

    async def wait_for(more: int) -> None:
        target = len(acknowledged) + more
        async with enough:
            await enough.wait_for(lambda: len(acknowledged) >= target)

    keys = LogKeys(LOG, SigningKey(bytes([1]) * 32), f"{LOG}/time", SigningKey(bytes([2]) * 32))
    signer = await LogSigner.open(pool, keys, tmp_path, lambda: 1_790_000_000_000)
    async with Sequencer(pool, await take_over(pool, LOG), max_batch=16) as sequencer:
        clients = [asyncio.create_task(client(sequencer)) for _ in range(24)]
        for victim in ("postmaster", "backend", "postmaster"):
            await wait_for(150)
            await signer.publish()
            if victim == "postmaster":
                assert own_server.pid is not None
                os.kill(own_server.pid, signal.SIGKILL)
            else:
                os.kill(await pool.fetchval("SELECT pg_backend_pid()"), signal.SIGKILL)
            await own_server.start()
        await wait_for(50)
        stopped = True
        await asyncio.gather(*clients)

    rows = await pool.fetch("SELECT idx, leaf FROM tlog.leaf ORDER BY idx")
    stored = [row["leaf"] for row in rows]
    assert [row["idx"] for row in rows] == list(range(len(rows)))
    assert len(acknowledged) >= 500
    assert findings(acknowledged, stored) == []
    assert findings(acknowledged, stored[:-1] + stored[:1]) != []  # the check itself can fail
    await (await LogSigner.open(pool, keys, tmp_path, lambda: 1_790_000_000_000)).publish()
    signed = await pool.fetchrow("SELECT size, root FROM tlog.checkpoint ORDER BY size DESC LIMIT 1")
    assert (signed["size"], signed["root"]) == (len(stored), root([leaf_hash(leaf) for leaf in stored]))
    await pool.close()
