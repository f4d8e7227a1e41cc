"""One flipped byte in a page of the database, and a clock that stepped back, as an auditor sees it."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
from indai.client.audit import audit
from indai.client.exports import read_lines
from indai.ledger.entries import prepare, record
from indai.ledger.export import LedgerIdentity, export_lines
from indai.ledger.fsck import Subject, check
from indai.protocol.errors import Unavailable
from indai.protocol.leaf import LeafKind
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import open_pool, transaction
from indai.tlog.append import take_over
from indai.tlog.signer import LogSigner

from tests.conftest import Database
from tests.hammer.cycles import SCHEMAS
from tests.hammer.writer import KEYS, LOG, NOW, OWNERS, VAULT, entry, mid_of

LEAF = 17


async def _file_of(admin_dsn: str) -> str:
    """Where the leaves are, inside the cluster."""
    connection = await asyncpg.connect(admin_dsn)
    try:
        path: str = await connection.fetchval("SELECT pg_relation_filepath('tlog.leaf')")
    finally:
        await connection.close()
    return path


def _flip(home: Path, file: str, leaf: bytes) -> None:
    """One bit of this leaf's last byte."""
    (page,) = home.glob(f"**/{file}")
    raw = bytearray(page.read_bytes())
    raw[raw.index(leaf) + len(leaf) - 1] ^= 1
    page.write_bytes(raw)


@pytest.mark.parametrize("checked", [True, False])
async def test_a_flipped_byte_in_a_page_is_found_by_postgres_or_else_by_fsck(
    server_home: Path, tmp_path: Path, checked: bool
) -> None:
    """Without the checksums of pages, which the second run ignores, it would be read as a leaf."""
    ignoring = {} if checked else {"ignore_checksum_failure": "on"}
    server = EmbeddedPostgres(server_home / "postgres", ignoring)
    info = await server.start()
    try:
        await migrate(info.admin_dsn, SCHEMAS)
        pool = await open_pool(info.dsn, max_size=2)
        writer = await take_over(pool, LOG)
        async with transaction(pool, OWNERS) as connection:
            await record(connection, LOG, writer.epoch, [entry(n) for n in range(2 * LEAF)], VAULT)
        signer = await LogSigner.open(pool, KEYS, tmp_path, lambda: NOW)
        await signer.publish()
        leaf = await pool.fetchval("SELECT leaf FROM tlog.leaf WHERE idx = $1", LEAF)
        file = await _file_of(info.admin_dsn)
        pool.terminate()
        await server.stop()
        _flip(server_home, file, leaf)
        pool = await open_pool((await server.start()).dsn, max_size=2)
        subject = Subject(KEYS.verifier, VAULT, signer.head_file)
        if checked:
            with pytest.raises(Unavailable):
                await check(pool, subject, OWNERS)
        else:
            places = {finding.place for finding in (await check(pool, subject, OWNERS)).findings}
            assert f"tlog.leaf {LEAF}" in places
        pool.terminate()
    finally:
        await server.destroy()


@pytest.mark.parametrize(("step_ms", "found"), [(3_600_000, True), (60_000, False)])
async def test_a_clock_that_stepped_back_is_told_by_the_audit(
    database: Database, tmp_path: Path, step_ms: int, found: bool
) -> None:
    """Two honest clocks may differ by two minutes; what is more is a finding, and breaks no proof."""
    writer = await take_over(database.pool, LOG)
    for number, at in enumerate((NOW, NOW - step_ms, NOW + 1)):
        one = prepare(OWNERS[0], mid_of(number), LeafKind.COMMITMENT, b"terms", at)
        async with transaction(database.pool, OWNERS) as connection:
            await record(connection, LOG, writer.epoch, [one], VAULT)
    signer = await LogSigner.open(database.pool, KEYS, tmp_path, lambda: NOW)
    note = await signer.publish()
    identity = LedgerIdentity("ind.ai/hammer", LOG, KEYS.verifier.vkey, "net")
    lines = [line async for line in export_lines(database.pool, identity, note, [], "", NOW, VAULT)]
    assert len(list(read_lines("export", lines))) == len(lines)
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"".join(lines))
    checks = {finding.check for finding in audit([path], None).findings}
    assert ("leaf" in checks) is found
    assert "ledger-tree" not in checks
