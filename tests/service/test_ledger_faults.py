"""What a ledger survives: a lost answer, a paused writer, a full or read-only or slow disk, a crowd."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest
from indai.ledger.entries import prepare, record
from indai.ledger.fsck import Subject, check
from indai.protocol.checkpoint import open_checkpoint
from indai.protocol.errors import ProtocolError, Reason, Unavailable
from indai.protocol.leaf import LeafKind
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import open_pool, transaction
from indai.tlog.append import Appended, Entry, Writer, take_over
from indai.tlog.sequencer import Sequencer
from indai.tlog.signer import LogSigner

from tests.conftest import Database
from tests.hammer.cycles import (
    SCHEMAS,
    findings,
    rewrite_append,
    without_compare_and_set,
    without_replay_row,
)
from tests.hammer.writer import KEYS, LOG, NOW, OWNERS, VAULT, entry, mid_of

ROOT = Path(__file__).parents[2]
SOCKET = ".s.PGSQL.5432"


def leaf(number: int) -> Entry:
    one = entry(number)
    return Entry(one.owner, one.mid, int(one.kind), one.leaf, one.time_ms)


async def commit(pool: asyncpg.Pool, writer: Writer, *numbers: int) -> list[int]:
    async with transaction(pool, OWNERS) as connection:
        return await record(connection, LOG, writer.epoch, [entry(number) for number in numbers], VAULT)


class Proxy:
    """Between program and server, on a socket of its own: cuts both after a COMMIT that the server has
    answered, so that nobody hears of it."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder, self._server = folder, server
        self.cuts = 0
        self.cut_next = False

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_unix_server(self._connected, self.folder / SOCKET)
        async with server:
            yield self

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(self._server / SOCKET)
        cutting = asyncio.Event()
        pumps = [
            asyncio.create_task(self._forward(reader, ours, cutting)),
            asyncio.create_task(self._back(theirs, writer, cutting)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for side in (writer, ours):
            side.close()

    async def _forward(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, cutting: asyncio.Event
    ) -> None:
        while data := await reader.read(1 << 16):
            if self.cut_next and b"COMMIT\0" in data:
                self.cut_next = False
                self.cuts += 1
                cutting.set()
            server.write(data)
            await server.drain()

    async def _back(
        self, server: asyncio.StreamReader, writer: asyncio.StreamWriter, cutting: asyncio.Event
    ) -> None:
        while data := await server.read(1 << 16):
            if cutting.is_set():
                return  # the server has committed and said so; this is as far as its word goes
            writer.write(data)
            await writer.drain()


@pytest.fixture
def proxy_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="indai-proxy-") as folder:
        yield Path(folder)


@contextlib.asynccontextmanager
async def cut_off(database: Database, folder: Path) -> AsyncIterator[tuple[Proxy, asyncpg.Pool]]:
    """A proxy before the database, and a pool that goes through it."""
    host = database.dsn.rpartition("host=")[2]
    async with Proxy(folder, Path(host.replace("%2F", "/"))).serving() as proxy:
        pool = await open_pool(database.dsn.replace(host, quote(str(folder), safe="")))
        yield proxy, pool
        pool.terminate()


async def test_an_answer_cut_off_after_commit_is_looked_up_and_nothing_stands_twice(
    database: Database, proxy_folder: Path
) -> None:
    writer = await take_over(database.pool, LOG)
    async with cut_off(database, proxy_folder) as (proxy, pool):
        async with Sequencer(pool, writer) as sequencer:
            for number in range(6):
                proxy.cut_next = number % 2 == 1
                assert (await sequencer.submit(leaf(number))).index == number
        # The ledger's own way: the caller is told that it does not know, and finds out by recording again.
        for number in range(6, 12):
            proxy.cut_next = number % 2 == 1
            try:
                indexes = await commit(pool, writer, number)
            except Unavailable:
                indexes = await commit(pool, writer, number)
            assert indexes == [number]
        assert proxy.cuts == 6
    assert await database.pool.fetchval("SELECT count(*) FROM tlog.leaf") == 12


async def test_a_ledger_that_forgets_what_it_has_writes_twice_what_was_cut_off_or_came_at_once(
    database: Database, proxy_folder: Path
) -> None:
    """The control of the tests beside it: without the replay row the faults show."""
    await rewrite_append(database.admin_dsn, without_replay_row)
    writer = await take_over(database.pool, LOG)
    async with cut_off(database, proxy_folder) as (proxy, pool):
        async with Sequencer(pool, writer) as sequencer:
            proxy.cut_next = True
            with pytest.raises(Unavailable):
                await sequencer.submit(leaf(0))  # it stands at 0, and the look-up does not find it
            assert (await sequencer.submit(leaf(0))).index == 1
        proxy.cut_next = True
        with pytest.raises(Unavailable):
            await commit(pool, writer, 1)
        assert await commit(pool, writer, 1) == [3]
    crowd = await asyncio.gather(*(commit(database.pool, writer, 2) for _ in range(8)))
    assert len({index for (index,) in crowd}) == 8
    other = prepare(OWNERS[0], mid_of(0), LeafKind.COMMITMENT, b"other terms", NOW)
    async with transaction(database.pool, OWNERS) as connection:
        assert await record(connection, LOG, writer.epoch, [other], VAULT) == [12]


@pytest.mark.parametrize("fenced", [True, False])
async def test_a_paused_writer_that_wakes_after_another_took_over_writes_nothing(
    database: Database, fenced: bool
) -> None:
    """Without the compare-and-set on the epoch, which the second run takes out, it does."""
    if not fenced:
        await rewrite_append(database.admin_dsn, without_compare_and_set)
    paused = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.hammer.paused",
        database.dsn,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert paused.stdin is not None
    assert paused.stdout is not None
    assert await paused.stdout.readline() == b"ready\n"
    paused.send_signal(signal.SIGSTOP)
    successor = await take_over(database.pool, LOG)
    assert await commit(database.pool, successor, 1) == [1]
    paused.send_signal(signal.SIGCONT)
    paused.stdin.write(b"go on\n\n")
    await paused.stdin.drain()
    assert await paused.stdout.readline() == (b"fenced\n" if fenced else b"done\n")
    paused.stdin.close()
    await paused.wait()
    assert await database.pool.fetchval("SELECT size FROM tlog.head") == (2 if fenced else 3)


async def test_the_same_entry_from_a_thousand_at_once_is_one_leaf(database: Database) -> None:
    writer = await take_over(database.pool, LOG)
    async with Sequencer(database.pool, writer) as sequencer:
        answers = await asyncio.gather(*(sequencer.submit(leaf(0)) for _ in range(1000)))
    assert {one.index for one in answers} == {0}
    assert sum(one.is_new for one in answers) == 1
    # Who waits for a connection waits here: the pool gives up on a crowd that a busy machine serves slowly.
    free = asyncio.Semaphore(database.pool.get_max_size())

    async def one() -> list[int]:
        async with free:
            return await commit(database.pool, writer, 1)

    recorded = await asyncio.gather(*(one() for _ in range(1000)))
    assert recorded == [[1]] * 1000
    assert await database.pool.fetchval("SELECT count(*) FROM tlog.leaf") == 2


async def test_an_id_used_again_with_other_bytes_is_refused_in_any_crowd(database: Database) -> None:
    writer, free = await take_over(database.pool, LOG), asyncio.Semaphore(database.pool.get_max_size())

    async def one(number: int) -> str:
        other = prepare(OWNERS[0], mid_of(0), LeafKind.COMMITMENT, b"terms %d" % (number % 2), NOW)
        try:
            async with free, transaction(database.pool, OWNERS) as connection:
                await record(connection, LOG, writer.epoch, [other], VAULT)
        except ProtocolError as error:
            return error.reason.name
        return f"taken {number % 2}"

    said = await asyncio.gather(*(one(number) for number in range(60)))
    (winner,) = {word for word in said if word.startswith("taken")}
    assert said.count(winner) == said.count(Reason.ID_REUSE.name) == 30
    assert await database.pool.fetchval("SELECT count(*) FROM tlog.leaf") == 1


async def test_a_read_only_database_refuses_and_goes_on_afterwards(
    database: Database, tmp_path: Path
) -> None:
    writer = await take_over(database.pool, LOG)
    assert await commit(database.pool, writer, 0) == [0]
    settings = {"role": "indai_app", "default_transaction_read_only": "on"}
    frozen = await asyncpg.create_pool(database.dsn, min_size=1, max_size=1, server_settings=settings)
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            await commit(frozen, writer, 1, 2)
        assert caught.value.reason is Reason.DATABASE_UNAVAILABLE
        assert "read-only" in caught.value.message
    frozen.terminate()
    assert await commit(database.pool, writer, 1, 2) == [1, 2]
    assert await findings(database.pool, {0: 0, 1: 1, 2: 2}, tmp_path) == []


@pytest.fixture
def small_disk(server_home: Path) -> Iterator[Path]:
    """A file system of 128 MB, where the sandbox allows to mount one."""
    folder = server_home / "small"
    folder.mkdir(mode=0o711)
    options = ["mount", "-t", "tmpfs", "-o", "size=128m,mode=0711", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_full_disk_loses_nothing_that_was_acknowledged(small_disk: Path, tmp_path: Path) -> None:
    server = EmbeddedPostgres(small_disk / "postgres")
    info = await server.start()
    ballast = small_disk / "ballast"
    try:
        await migrate(info.admin_dsn, SCHEMAS)
        pool = await open_pool(info.dsn, max_size=2)
        writer = await take_over(pool, LOG)
        acknowledged = {number: number for number in await commit(pool, writer, *range(8))}
        with ballast.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()

        async def fill_up() -> None:
            for number in range(8, 8000, 8):
                await commit(pool, writer, *range(number, number + 8))
                acknowledged.update({one: one for one in range(number, number + 8)})

        with pytest.raises(Unavailable) as caught:
            await fill_up()
        assert caught.value.reason in (Reason.STORAGE_FULL, Reason.DATABASE_UNAVAILABLE)
        ballast.unlink()
        await server.start()  # it may have given up for want of room
        following = len(acknowledged)
        acknowledged |= {following: (await commit(pool, writer, following))[0]}
        assert await findings(pool, acknowledged, tmp_path) == []
        pool.terminate()
    finally:
        ballast.unlink(missing_ok=True)
        await server.destroy()


async def test_a_slow_disk_makes_batches_larger_and_turns_away_what_is_too_much(server_home: Path) -> None:
    # Each flush of the server's log waits 50 ms first, as on a disk that takes its time.
    slow = {"commit_delay": "50000", "commit_siblings": "0"}
    server = EmbeddedPostgres(server_home / "postgres", slow)
    info = await server.start()
    try:
        await migrate(info.admin_dsn, SCHEMAS)
        pool = await open_pool(info.dsn, max_size=2)
        async with Sequencer(pool, await take_over(pool, LOG), max_waiting=300) as sequencer:
            tasks = [asyncio.create_task(sequencer.submit(leaf(number))) for number in range(400)]
            done = await asyncio.gather(*tasks, return_exceptions=True)
        taken = [one.index for one in done if isinstance(one, Appended)]
        refused = [one for one in done if isinstance(one, Unavailable)]
        assert sorted(taken) == list(range(300))
        assert {one.reason for one in refused} == {Reason.RATE_LIMITED}
        assert len(refused) == 100
        assert await pool.fetchval("SELECT count(DISTINCT xmin::text) FROM tlog.leaf") < 10
        # The control: with room for all of them nobody is turned away, so it was the bound that did it.
        async with Sequencer(pool, await take_over(pool, LOG), max_waiting=400) as sequencer:
            await asyncio.gather(*(sequencer.submit(leaf(number)) for number in range(300, 700)))
        pool.terminate()
    finally:
        await server.destroy()


async def test_a_clock_that_steps_back_breaks_no_proof_and_is_told(
    database: Database, tmp_path: Path
) -> None:
    writer = await take_over(database.pool, LOG)
    times = iter((NOW, NOW - 3_600_000, NOW + 1))
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, lambda: NOW)
    for number, at in enumerate(times):
        one = prepare(OWNERS[0], mid_of(number), LeafKind.COMMITMENT, b"terms", at)
        async with transaction(database.pool, OWNERS) as connection:
            assert await record(connection, LOG, writer.epoch, [one], VAULT) == [number]
        stepped = await LogSigner.open(database.pool, KEYS, tmp_path, lambda at=at: at)  # type: ignore[misc]
        head, _ = open_checkpoint(await stepped.publish(), KEYS.verifier)
        assert head.size == number + 1
    subject = Subject(KEYS.verifier, VAULT, signer.head_file)
    assert (await check(database.pool, subject, OWNERS)).findings == []
