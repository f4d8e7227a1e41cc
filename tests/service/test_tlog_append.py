"""Appending to a log: contiguous, idempotent, fenced, and only through the function."""

from __future__ import annotations

import asyncio
import hashlib

import asyncpg
import pytest
from indai.protocol.errors import IndaiError, Reason, Refused
from indai.storage.pool import transaction
from indai.tlog.append import Appended, Entry, HeadMoved, Writer, append, settle, take_over

from tests.conftest import Database

LOG = "ind.ai/node/ledger/2026"
ALICE, BOB = "ind.ai/alice", "ind.ai/bob"


def entry(name: str, owner: str = ALICE, kind: int = 1, time_ms: int = 1_790_000_000_123) -> Entry:
    return Entry(owner, hashlib.sha256(name.encode()).digest(), kind, f"leaf {name}".encode(), time_ms)


async def put(
    database: Database, writer: Writer, *entries: Entry, expected_size: int | None = None
) -> list[Appended]:
    async with transaction(database.pool, sorted({one.owner for one in entries})) as connection:
        return await append(connection, writer, entries, expected_size)


async def leaves(database: Database, log: str = LOG) -> list[bytes]:
    rows = await database.pool.fetch("SELECT idx, leaf FROM tlog.leaf WHERE log = $1 ORDER BY idx", log)
    assert [row["idx"] for row in rows] == list(range(len(rows)))
    assert await database.pool.fetchval("SELECT size FROM tlog.head WHERE log = $1", log) == len(rows)
    return [row["leaf"] for row in rows]


@pytest.fixture
async def writer(database: Database) -> Writer:
    return await take_over(database.pool, LOG)


async def test_entries_get_contiguous_indexes_in_their_order(database: Database, writer: Writer) -> None:
    first = await put(database, writer, entry("a"), entry("b", BOB))
    second = await put(database, writer, entry("c"))
    assert [one.index for one in first + second] == [0, 1, 2]
    assert first[0] == Appended(0, 1_790_000_000_123, is_new=True)
    assert await leaves(database) == [b"leaf a", b"leaf b", b"leaf c"]


async def test_a_repeated_entry_gets_its_first_index_and_time(database: Database, writer: Writer) -> None:
    await put(database, writer, entry("a"), entry("b"))
    again = await put(database, writer, entry("c"), entry("b", time_ms=5), entry("d"))
    assert again == [
        Appended(2, 1_790_000_000_123, is_new=True),
        Appended(1, 1_790_000_000_123, is_new=False),
        Appended(3, 1_790_000_000_123, is_new=True),
    ]
    assert len(await leaves(database)) == 4


async def test_a_repetition_inside_one_batch_is_one_leaf(database: Database, writer: Writer) -> None:
    got = await put(database, writer, entry("a"), entry("b"), entry("a", time_ms=7), entry("c"))
    assert [(one.index, one.is_new) for one in got] == [(0, True), (1, True), (0, False), (2, True)]
    assert got[2].time_ms == 1_790_000_000_123
    assert len(await leaves(database)) == 3


async def test_owner_and_kind_are_part_of_the_name(database: Database, writer: Writer) -> None:
    got = await put(database, writer, entry("a"), entry("a", BOB), entry("a", kind=3))
    assert [one.index for one in got] == [0, 1, 2]


async def test_what_is_rolled_back_leaves_no_trace(database: Database, writer: Writer) -> None:
    async def fail_after_append() -> None:
        async with transaction(database.pool, [ALICE]) as connection:
            await append(connection, writer, [entry("lost")])
            raise KeyError

    with pytest.raises(KeyError):
        await fail_after_append()
    assert [one.index for one in await put(database, writer, entry("kept"))] == [0]


async def test_a_former_writer_is_fenced_out(database: Database, writer: Writer) -> None:
    await put(database, writer, entry("a"))
    successor = await take_over(database.pool, LOG)
    with pytest.raises(Refused) as caught:
        await put(database, writer, entry("b"))
    assert caught.value.reason is Reason.LOG_FENCED
    assert [one.index for one in await put(database, successor, entry("b"))] == [1]


async def test_a_takeover_waits_for_an_append_under_way(database: Database, writer: Writer) -> None:
    async with transaction(database.pool, [ALICE]) as connection:
        await append(connection, writer, [entry("a")])
        takeover = asyncio.create_task(take_over(database.pool, LOG))
        done, _ = await asyncio.wait([takeover], timeout=0.1)
        assert not done
    successor = await takeover
    assert [one.index for one in await put(database, successor, entry("b"))] == [1]


async def test_a_log_nobody_took_refuses_appends(database: Database) -> None:
    with pytest.raises(Refused):
        await put(database, Writer("ind.ai/other", 1), entry("a"))


async def test_leaves_that_depend_on_the_size_are_refused_after_growth(
    database: Database, writer: Writer
) -> None:
    assert (await put(database, writer, entry("a"), expected_size=0))[0].index == 0
    with pytest.raises(HeadMoved):
        await put(database, writer, entry("b"), expected_size=0)
    # A repetition needs no size: it was there before.
    assert (await put(database, writer, entry("a"), expected_size=0))[0].index == 0
    assert len(await leaves(database)) == 1


async def test_concurrent_appends_are_contiguous_and_complete(database: Database, writer: Writer) -> None:
    batches = [[entry(f"{batch}/{item}") for item in range(7)] for batch in range(12)]
    answers = await asyncio.gather(*(put(database, writer, *batch) for batch in batches))
    assert sorted(one.index for answer in answers for one in answer) == list(range(84))
    stored = await leaves(database)
    for batch, answer in zip(batches, answers, strict=True):
        assert [stored[one.index] for one in answer] == [one.leaf for one in batch]


async def test_two_logs_do_not_share_indexes(database: Database, writer: Writer) -> None:
    other = await take_over(database.pool, "ind.ai/registry")
    await put(database, writer, entry("a"))
    assert (await put(database, other, entry("a")))[0].index == 0


async def test_settle_tells_what_was_committed(database: Database, writer: Writer) -> None:
    await put(database, writer, entry("a"), entry("b"))
    async with transaction(database.pool, [ALICE]) as connection:
        known = await settle(connection, LOG, [entry("b"), entry("never"), entry("a")])
    assert [one and one.index for one in known] == [1, None, 0]


async def test_an_owner_must_be_named_by_the_transaction(database: Database, writer: Writer) -> None:
    async def append_for_bob_as_alice() -> None:
        async with transaction(database.pool, [ALICE]) as connection:
            await append(connection, writer, [entry("a", BOB)])

    with pytest.raises(IndaiError, match="42501"):
        await append_for_bob_as_alice()
    assert await leaves(database) == []


async def test_whose_leaf_it_is_shows_to_its_owner_only(database: Database, writer: Writer) -> None:
    await put(database, writer, entry("a"), entry("b", BOB))
    async with transaction(database.pool, [BOB]) as connection:
        assert await connection.fetchval("SELECT array_agg(owner) FROM tlog.entry") == [BOB]
    assert await database.pool.fetchval("SELECT count(*) FROM tlog.entry") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO tlog.leaf VALUES ('l', 0, 'x', now())",
        "UPDATE tlog.leaf SET leaf = 'x'",
        "DELETE FROM tlog.leaf",
        "TRUNCATE tlog.leaf",
        "UPDATE tlog.head SET size = 0",
        "UPDATE tlog.entry SET idx = 9",
        "DELETE FROM tlog.checkpoint",
        "DELETE FROM tlog.tile",
    ],
)
async def test_the_application_cannot_write_past_the_function(database: Database, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await database.pool.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tlog.leaf SET leaf = 'x'",
        "DELETE FROM tlog.leaf",
        "TRUNCATE tlog.leaf",
        "DELETE FROM tlog.entry",
        "TRUNCATE tlog.checkpoint",
        "TRUNCATE tlog.tile",
    ],
)
async def test_not_even_the_tables_owner_changes_a_leaf(
    database: Database, writer: Writer, statement: str
) -> None:
    await put(database, writer, entry("a"))
    admin = await asyncpg.connect(database.admin_dsn)
    try:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await admin.execute(statement)
        assert caught.value.sqlstate == "TL003"
    finally:
        await admin.close()
