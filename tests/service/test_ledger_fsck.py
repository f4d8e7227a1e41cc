"""`fsck` of a live ledger: sound ones pass, and one flipped byte anywhere is found and named."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from indai.ledger import fsck
from indai.ledger.entries import erase, prepare, record
from indai.ledger.fsck import MAX_FINDINGS, Checked, Subject, check
from indai.ledger.vault import Vault
from indai.protocol.keys import SigningKey
from indai.protocol.leaf import LeafKind
from indai.storage.pool import transaction
from indai.tlog.append import Writer, take_over
from indai.tlog.headfile import HeadFile
from indai.tlog.signer import LogKeys, LogSigner

from tests.conftest import Database

LOG = "ind.ai/node-a/ledger/2026"
ALICE, BOB = "ind.ai/alice", "ind.ai/bob"
NOW = 1_790_000_000_000
KEYS = LogKeys(LOG, SigningKey(b"\x01" * 32), f"{LOG}/time", SigningKey(b"\x02" * 32))
VAULT = Vault(b"\x03" * 32)
SIZES = (3, 200, 300, 530)


@dataclass
class Live:
    """A ledger of 530 entries, signed on the way, with one content erased."""

    database: Database
    writer: Writer
    signer: LogSigner
    head_file: Path

    async def check(self) -> Checked:
        subject = Subject(KEYS.verifier, VAULT, self.head_file)
        return await check(self.database.pool, subject, [ALICE, BOB])

    async def add(self, start: int, end: int) -> None:
        entries = [
            prepare(
                (ALICE, BOB)[number % 2],
                hashlib.sha256(b"%d" % number).digest(),
                LeafKind.COMMITMENT,
                b"envelope %d" % number,
                NOW + number,
            )
            for number in range(start, end)
        ]
        async with transaction(self.database.pool, [ALICE, BOB]) as connection:
            await record(connection, LOG, self.writer.epoch, entries, VAULT)

    async def tamper(self, *statements: str) -> None:
        """As somebody who owns the tables and has switched off what protects them."""
        connection = await asyncpg.connect(self.database.admin_dsn)
        try:
            for table in ("tlog.leaf", "tlog.entry", "tlog.tile", "tlog.checkpoint"):
                await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            await connection.execute(f"SELECT set_config('indai.owners', '{ALICE},{BOB}', false)")
            for statement in statements:
                done = await connection.execute(statement)
                assert not done.endswith(" 0"), statement
        finally:
            await connection.close()


@pytest.fixture
async def live(database: Database, tmp_path: Path) -> Live:
    writer = await take_over(database.pool, LOG)
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, lambda: NOW)
    ledger = Live(database, writer, signer, HeadFile(tmp_path, KEYS.verifier).path)
    for start, end in zip((0, *SIZES), SIZES, strict=False):
        await ledger.add(start, end)
        await signer.publish()
    async with transaction(database.pool, [ALICE]) as connection:
        assert await erase(connection, LOG, ALICE, [hashlib.sha256(b"10").digest()]) == 1
    return ledger


def flipped(table: str, column: str, where: str, byte: int = 7) -> str:
    changed = f"set_byte({column}, {byte}, get_byte({column}, {byte}) # 1)"
    return f"UPDATE {table} SET {column} = {changed} WHERE {where}"  # noqa: S608


async def test_a_sound_ledger_has_no_findings(live: Live) -> None:
    checked = await live.check()
    assert checked.findings == []
    assert (checked.leaves, checked.opened, checked.erased) == (530, 529, 1)
    # 530 leaves: two full and one begun tile of leaf hashes, one of the level above; and the empty head.
    assert (checked.tiles, checked.heads) == (4, 1 + len(SIZES))


async def test_leaves_not_hashed_yet_are_no_finding(live: Live) -> None:
    await live.add(530, 700)
    checked = await live.check()
    assert (checked.findings, checked.leaves) == ([], 700)


async def test_a_ledger_that_grows_and_changes_its_key_between_any_two_readings_is_sound(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands between all that the check reads: before and after each, 70 leaves more are there and signed."""
    keys, asked = [KEYS], list[str]()

    def subject() -> Subject:
        current, *former = (one.verifier for one in reversed(keys))
        return Subject(current, VAULT, live.head_file, tuple(former))

    async def grow() -> None:
        size = 530 + 70 * len(asked)
        await live.add(size, size + 70)
        if asked:
            keys.append(LogKeys(LOG, SigningKey(bytes([9 + len(asked)]) * 32), KEYS.time_name, KEYS.time_key))
            await live.signer.change(keys[-1])
        await live.signer.publish()

    class Between:
        """A connection on which something happens after each of the first readings."""

        def __init__(self, connection: asyncpg.Connection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> object:
            return getattr(self._connection, name)

        async def fetchval(self, query: str, *values: object) -> object:
            found = await self._connection.fetchval(query, *values)
            if len(asked) < 3:
                asked.append(next(word for word in query.split() if word.startswith("tlog.")))
                await grow()
            return found

    @asynccontextmanager
    async def between(pool: asyncpg.Pool, owners: Sequence[str]) -> AsyncIterator[Between]:
        await grow()  # the head file was read
        async with transaction(pool, owners) as connection:
            yield Between(connection)

    monkeypatch.setattr(fsck, "transaction", between)
    checked = await check(live.database.pool, subject(), [ALICE, BOB], renewed=subject)
    assert checked.findings == []
    assert (asked, checked.leaves) == (["tlog.published", "tlog.tree", "tlog.head"], 530 + 3 * 70)


async def test_an_empty_ledger_is_sound(database: Database, tmp_path: Path) -> None:
    await LogSigner.open(database.pool, KEYS, tmp_path, lambda: NOW)
    subject = Subject(KEYS.verifier, VAULT, HeadFile(tmp_path, KEYS.verifier).path)
    assert (await check(database.pool, subject, [])).findings == []


TAMPERED = [
    (flipped("tlog.leaf", "leaf", "idx = 17", 30), ["tlog.leaf 17", "tlog.tile level 0 index 0"]),
    (flipped("tlog.leaf", "leaf", "idx = 10", 30), ["tlog.tile level 0 index 0"]),  # of the erased content
    (flipped("tlog.leaf", "leaf", "idx = 529", 30), ["tlog.leaf 529", "tlog.tile level 0 index 2"]),
    (flipped("tlog.leaf", "leaf", "idx = 17", 0), ["tlog.leaf 17", "tlog.tile level 0 index 0"]),
    ("UPDATE tlog.leaf SET time = time + interval '1 s' WHERE idx = 17", ["tlog.leaf 17"]),
    (
        "DELETE FROM tlog.leaf WHERE idx = 529",
        ["tlog.leaf 529", "ledger.contents 529", "ledger.content_keys 529"],
    ),
    (flipped("tlog.tile", "hashes", "level = 0 AND idx = 1", 33), ["tlog.tile level 0 index 1"]),
    (flipped("tlog.tile", "hashes", "level = 0 AND idx = 2", 33), ["tlog.tile level 0 index 2"]),
    (flipped("tlog.tile", "hashes", "level = 1", 33), ["tlog.tile level 1 index 0"]),
    ("DELETE FROM tlog.tile WHERE level = 1", ["tlog.tile level 1 index 0"]),
    (flipped("tlog.checkpoint", "root", "size = 200"), ["tlog.checkpoint 200"]),
    (flipped("tlog.checkpoint", "note", "size = 300", 40), ["tlog.checkpoint 300"]),
    (flipped("tlog.published", "note", "true", 40), ["tlog.published"]),
    ("UPDATE tlog.entry SET idx = 18 WHERE idx = 17", ["tlog.entry", "ledger.contents 18"]),
    ("DELETE FROM tlog.entry WHERE idx = 17", ["tlog.entry"]),
    (flipped("tlog.entry", "mid", "idx = 17"), ["ledger.contents 17"]),
    (flipped("ledger.contents", "content", "idx = 17", 80), ["ledger.contents 17"]),
    (flipped("ledger.contents", "mid", "idx = 17"), ["ledger.contents 17"]),
    (flipped("ledger.content_keys", "key", "idx = 17", 40), ["ledger.contents 17"]),
    ("DELETE FROM ledger.contents WHERE idx = 17", ["ledger.contents 17"]),
    ("DELETE FROM ledger.content_keys WHERE idx = 17", ["ledger.contents 17"]),
    ("DELETE FROM ledger.erasures", ["ledger.contents 10"]),
    (f"INSERT INTO ledger.erasures VALUES ('{LOG}', 17, '{BOB}')", ["ledger.contents 17"]),  # noqa: S608
    ("UPDATE tlog.head SET size = 529", ["tlog.tree"]),
]


@pytest.mark.parametrize(("statement", "named"), TAMPERED)
async def test_what_was_changed_behind_the_functions_is_named(
    live: Live, statement: str, named: list[str]
) -> None:
    await live.tamper(statement)
    places = {finding.place for finding in (await live.check()).findings}
    assert set(named) <= places
    # A changed leaf is also found by the heads over it; nothing else is blamed.
    others = places - set(named)
    assert {place for place in others if not place.startswith("tlog.checkpoint")} <= {str(live.head_file)}


async def test_a_flipped_byte_in_the_head_file_is_named(live: Live) -> None:
    raw = bytearray(live.head_file.read_bytes())
    for position in (3, len(LOG) + 2, len(LOG) + 20, len(raw) - 12):
        changed = bytearray(raw)
        changed[position] ^= 1
        live.head_file.write_bytes(changed)
        assert {finding.place for finding in (await live.check()).findings} == {str(live.head_file)}
    live.head_file.unlink()
    assert {finding.place for finding in (await live.check()).findings} == {str(live.head_file)}


async def test_an_older_database_than_the_one_signed_is_named(
    live: Live, make_database: Callable[[], Awaitable[Database]]
) -> None:
    empty = await make_database()
    subject = Subject(KEYS.verifier, VAULT, live.head_file)
    (finding,) = (await check(empty.pool, subject, [ALICE])).findings
    assert finding.place == str(live.head_file)
    assert "530 leaves" in finding.message


async def test_an_entry_of_somebody_unknown_is_a_finding(live: Live) -> None:
    subject = Subject(KEYS.verifier, VAULT, live.head_file)
    findings = (await check(live.database.pool, subject, [ALICE])).findings
    assert len(findings) == MAX_FINDINGS
