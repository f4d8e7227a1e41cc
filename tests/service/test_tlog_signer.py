"""Signed heads: fresh, provable from tiles, and never of two histories."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from indai.node.ledger_name import ledger_name
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import (
    EMPTY_ROOT,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root,
    verify_consistency,
    verify_inclusion,
)
from indai.protocol.note import format_vkey, parse_vkey
from indai.protocol.tiles import Tile, decode_entries, decode_hashes, tiles_of
from indai.storage.pool import transaction
from indai.tlog import hasher
from indai.tlog.append import Entry, Writer, append, take_over
from indai.tlog.headfile import HeadFile
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogKeys, LogSigner

from tests.conftest import Database

LOG = "ind.ai/node/ledger/2026"
OWNER = "ind.ai/alice"
KEYS = LogKeys(LOG, SigningKey(bytes([1]) * 32), f"{LOG}/time", SigningKey(bytes([2]) * 32))


class Clock:
    now_ms = 1_790_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def leaf(number: int) -> bytes:
    return b"leaf %d" % number


async def grow(database: Database, writer: Writer, size: int) -> list[bytes]:
    """Append until the log has `size` leaves; the hashes of all of them."""
    async with transaction(database.pool, [OWNER]) as connection:
        start = await connection.fetchval("SELECT size FROM tlog.head WHERE log = $1", writer.log)
        mids = [hashlib.sha256(leaf(number)).digest() for number in range(start, size)]
        entries = [Entry(OWNER, mid, 1, leaf(number), 1) for number, mid in enumerate(mids, start)]
        await append(connection, writer, entries)
    return [leaf_hash(leaf(number)) for number in range(size)]


def opened(note: bytes) -> tuple[Checkpoint, int]:
    """The verified head and the time of its time line, in seconds."""
    checkpoint, times = open_checkpoint(note, KEYS.verifier, [KEYS.time_verifier])
    assert len(times) == 1
    assert times[0].time is not None
    return checkpoint, times[0].time


@pytest.fixture
async def writer(database: Database) -> Writer:
    return await take_over(database.pool, LOG)


async def test_an_empty_log_has_a_signed_head(database: Database, tmp_path: Path) -> None:
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    assert opened(await signer.publish())[0] == Checkpoint(LOG, 0, EMPTY_ROOT)


async def test_heads_tiles_and_proofs_agree_with_the_textbook_tree(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    reader = LogReader(database.pool, LOG)
    for size in (1, 2, 255, 256, 257, 600):
        hashes = await grow(database, writer, size)
        checkpoint, _ = opened(await signer.publish())
        assert (checkpoint.size, checkpoint.root) == (size, root(hashes))
        assert await reader.checkpoint() == await signer.publish()
        for old in (1, size // 2 or 1, size):
            assert await reader.consistency_proof(old, size) == consistency_proof(hashes, old)
            assert await reader.root(old) == root(hashes[:old])
        for index in (0, size // 3, size - 1):
            assert await reader.inclusion_proof(index, size) == inclusion_proof(hashes, index)
    for tile in tiles_of(600):
        data = await reader.tile(tile)
        first = tile.index * 256
        if tile.level is None:
            assert decode_entries(data) == [leaf(number) for number in range(first, first + tile.width)]
        elif tile.level == 0:
            assert decode_hashes(data) == hashes[first : first + tile.width]
        else:
            assert decode_hashes(data) == [root(hashes[:256]), root(hashes[256:512])]


async def test_a_new_signer_goes_on_without_hashing_again(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    await grow(database, writer, 700)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    # If a start read old leaves, it would meet this one: the stored tiles alone say what came before.
    admin = await asyncpg.connect(database.admin_dsn)
    await admin.execute(
        "ALTER TABLE tlog.leaf DISABLE TRIGGER only_grows; UPDATE tlog.leaf SET leaf = 'other'"
    )
    await admin.close()
    hashes = await grow(database, writer, 703)
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    assert opened(await signer.publish())[0].root == root(hashes)


async def test_what_is_far_behind_is_hashed_in_long_steps_and_a_step_that_was_cut_off_goes_on(
    database: Database, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hasher, "_STEP", 16)
    monkeypatch.setattr(hasher, "_LONG_STEP", 300)
    hashes = await grow(database, writer, 700)
    epoch = await hasher.take_over_signing(database.pool, LOG)
    await hasher.Hasher(database.pool, LOG, epoch)._step(300)
    assert await LogReader(database.pool, LOG).size() == 300
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    assert opened(await signer.publish())[0] == Checkpoint(LOG, 700, root(hashes))


# What damage behind the functions looks like to a start, which reads the right edge and nothing else.
DAMAGED = {
    "UPDATE tlog.tile SET hashes = set_byte(hashes, 3, 7) WHERE idx = 2": "another history of the 600 leaves",
    "UPDATE tlog.tile SET hashes = substr(hashes, 1, 64) WHERE level = 0 AND idx = 2": "level 0 index 2",
    "DELETE FROM tlog.tile WHERE level = 1": "level 1 index 0",
    "DELETE FROM tlog.leaf WHERE idx = 601": "a leaf after leaf 599",
}


@pytest.mark.parametrize("damage", DAMAGED)
async def test_a_start_signs_nothing_on_a_damaged_edge(
    database: Database, writer: Writer, tmp_path: Path, damage: str
) -> None:
    await grow(database, writer, 600)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    await grow(database, writer, 603)
    admin = await asyncpg.connect(database.admin_dsn)
    triggers = "; ".join(f"ALTER TABLE tlog.{name} DISABLE TRIGGER USER" for name in ("tile", "leaf"))
    await admin.execute(f"{triggers}; {damage}")
    await admin.close()
    with pytest.raises(IndaiError, match=DAMAGED[damage]) as caught:
        await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    assert caught.value.reason is Reason.LOG_ROLLED_BACK
    assert opened(await LogReader(database.pool, LOG).checkpoint())[0].size == 600


async def test_an_idle_log_stays_fresh(database: Database, writer: Writer, tmp_path: Path) -> None:
    clock = Clock()
    await grow(database, writer, 3)
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, clock)
    first, first_time = opened(await signer.publish())
    clock.now_ms += 15_000
    second, second_time = opened(await signer.publish())
    assert first == second
    assert (first_time, second_time) == (1_790_000_000, 1_790_000_015)


async def test_nothing_beyond_the_hashed_size_is_served(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    await grow(database, writer, 3)
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    await grow(database, writer, 5)
    reader = LogReader(database.pool, LOG)
    assert await reader.size() == 3
    assert await reader.entries(0, 10) == [leaf(0), leaf(1), leaf(2)]
    assert await reader.entries(3, 10) == []
    for unready in (
        reader.inclusion_proof(1, 5),
        reader.consistency_proof(3, 4),
        reader.tile(Tile(0, 0, 5)),
        reader.tile(Tile(None, 0, 4)),
        reader.checkpoint_at(4),
    ):
        with pytest.raises(NotFound):
            await unready
    await signer.publish()
    assert len(await reader.inclusion_proof(1, 5)) == 3


async def test_a_proof_leads_to_the_first_head_that_covers_its_leaf(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    for size in (2, 5, 9):
        await grow(database, writer, size)
        await signer.publish()
    reader = LogReader(database.pool, LOG)
    checkpoint, _ = open_checkpoint(await reader.checkpoint_at(4), KEYS.verifier)
    assert checkpoint.size == 5
    proof = await reader.inclusion_proof(3, 5)
    verify_inclusion(leaf_hash(leaf(3)), 3, 5, proof, checkpoint.root)
    newest, _ = open_checkpoint(await reader.checkpoint(), KEYS.verifier)
    steps = await reader.consistency_proof(5, 9)
    verify_consistency(5, checkpoint.root, 9, newest.root, steps)


async def test_a_replaced_signer_signs_no_more(database: Database, writer: Writer, tmp_path: Path) -> None:
    former = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    successor = await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    await grow(database, writer, 2)
    with pytest.raises(Refused) as caught:
        await former.publish()
    assert caught.value.reason is Reason.LOG_FENCED
    assert opened(await successor.publish())[0].size == 2


async def restored(database: Database, other: Database, writer: Writer) -> Writer:
    """The log as a backup had it after two leaves, in another database."""
    copied = await take_over(other.pool, writer.log)
    await grow(other, copied, 2)
    return copied


async def test_a_database_restored_from_yesterday_is_not_signed(
    make_database: Callable[[], Awaitable[Database]], tmp_path: Path
) -> None:
    today, yesterday = await make_database(), await make_database()
    writer = await take_over(today.pool, LOG)
    await grow(today, writer, 5)
    await LogSigner.open(today.pool, KEYS, tmp_path, Clock())
    copied = await restored(today, yesterday, writer)
    with pytest.raises(IndaiError, match="5 leaves were signed and the database has 2") as caught:
        await LogSigner.open(yesterday.pool, KEYS, tmp_path, Clock())
    assert caught.value.reason is Reason.LOG_ROLLED_BACK
    assert "Restore" in caught.value.hint
    # Having grown past the signed head does not help: it is another history.
    async with transaction(yesterday.pool, [OWNER]) as connection:
        others = [Entry(OWNER, os.urandom(32), 1, b"other %d" % number, 1) for number in range(9)]
        await append(connection, copied, others)
    with pytest.raises(IndaiError, match="another history"):
        await LogSigner.open(yesterday.pool, KEYS, tmp_path, Clock())
    # The control: the same history, grown, is signed.
    await grow(today, writer, 9)
    assert opened(await (await LogSigner.open(today.pool, KEYS, tmp_path, Clock())).publish())[0].size == 9


async def test_a_lost_head_file_is_not_taken_for_a_new_log(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    await grow(database, writer, 2)
    note = await (await LogSigner.open(database.pool, KEYS, tmp_path, Clock())).publish()
    head_file = HeadFile(tmp_path, KEYS.verifier).path
    head_file.unlink()
    with pytest.raises(IndaiError) as caught:
        await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    assert caught.value.reason is Reason.LOG_ROLLED_BACK
    # Any newest checkpoint of the log, from whoever has it, puts things right.
    head_file.write_bytes(note)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())


async def test_a_head_file_of_another_key_is_refused(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    await grow(database, writer, 2)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    other = LogKeys(LOG, SigningKey(bytes([3]) * 32), KEYS.time_name, KEYS.time_key)
    with pytest.raises(IndaiError, match="signed with a key that is not here any more") as caught:
        await LogSigner.open(database.pool, other, tmp_path, Clock())
    assert caught.value.reason is Reason.LOG_ROLLED_BACK
    assert "begin another ledger: indai up --ledger-year 2027" in caught.value.hint


async def test_a_start_on_a_head_file_with_a_flipped_byte_is_refused(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    await grow(database, writer, 2)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    head_file = HeadFile(tmp_path, KEYS.verifier).path
    raw = head_file.read_bytes()
    for position in (3, len(LOG) + 1, len(LOG) + 9, len(raw) - 12):  # origin, size, root, signature
        head_file.write_bytes(raw[:position] + bytes([raw[position] ^ 1]) + raw[position + 1 :])
        with pytest.raises(InvalidInput, match="does not hold a checkpoint"):
            await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    head_file.write_bytes(raw)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())


async def test_the_head_is_on_disk_before_anybody_hears_of_it(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    signer = await LogSigner.open(database.pool, KEYS, tmp_path / "heads", Clock())
    await grow(database, writer, 2)
    # A directory stands where the file was, so the head can't be written: nothing is published either.
    head_file = HeadFile(tmp_path / "heads", KEYS.verifier).path
    head_file.unlink()
    head_file.mkdir()
    with pytest.raises(IndaiError):
        await signer.publish()
    assert opened(await LogReader(database.pool, LOG).checkpoint())[0].size == 0


async def test_the_database_refuses_a_tile_that_changes(
    database: Database, writer: Writer, tmp_path: Path
) -> None:
    await grow(database, writer, 3)
    await LogSigner.open(database.pool, KEYS, tmp_path, Clock())
    with pytest.raises(asyncpg.PostgresError) as caught:
        await database.pool.execute("UPDATE tlog.tile SET hashes = decode(repeat('00', 96), 'hex')")
    assert caught.value.sqlstate == "TL003"


async def test_a_node_goes_on_with_its_newest_ledger_also_when_its_database_is_lost(
    database: Database, tmp_path: Path
) -> None:
    async def named(node: str, wanted: int = 0, year: int = 2029) -> str:
        return await ledger_name(database.pool, tmp_path, node, wanted, year)

    assert await named("ind.ai/node") == "ind.ai/node/ledger/2029"  # the first
    await take_over(database.pool, "ind.ai/node/ledger/2027")
    await take_over(database.pool, "ind.ai/node/ledger/2027/more")
    await take_over(database.pool, "ind.ai/node-b/ledger/2028")
    assert await named("ind.ai/node") == "ind.ai/node/ledger/2027"
    HeadFile(tmp_path, parse_vkey(format_vkey("ind.ai/node/ledger/2028", b"\x01" * 32))).write(b"signed")
    assert await named("ind.ai/node") == "ind.ai/node/ledger/2028"
    assert await named("ind.ai/node", 2031) == "ind.ai/node/ledger/2031"
    with pytest.raises(InvalidInput, match="has gone on to the ledger ind"):
        await named("ind.ai/node", 2027)
