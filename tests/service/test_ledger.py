"""The commitment ledger on a real Postgres: recording, proofs, and an export that the auditor accepts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from indai.client.audit import Verdict, audit
from indai.client.bundles import write_bundles
from indai.client.exports import ErasedLeafLine, ExportWriter, LeafLine, OpenLeafLine, read_lines
from indai.client.receipts import verify_receipt
from indai.ledger.entries import Entry, erase, prepare, record
from indai.ledger.export import LedgerIdentity
from indai.ledger.servicer import LedgerService
from indai.ledger.vault import Sealed, Vault, entry_name
from indai.protocol.checkpoint import open_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, ProtocolError, Reason
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.protocol.merkle import verify_consistency
from indai.protocol.note import Signer
from indai.protocol.tiles import tiles_of
from indai.protocol.tlogproof import TlogProof
from indai.storage.pool import transaction
from indai.tlog.append import Writer, take_over
from indai.tlog.hasher import Hasher
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogKeys, LogSigner
from indai.v1 import ledger_pb2 as pb

from tests.unit.audit.worlds import ALICE, BOB, NOW, Deal, Node, World, key, write
from tests.unit.ledger_keys import held

LOG = "ind.ai/node-a/ledger/2026"
VAULT = Vault(b"\x07" * 32)
CONTEXT: Any = None  # the service asks nothing of its caller


def entry(number: int, owner: str = ALICE, envelope: bytes = b"signed") -> Entry:
    mid = hashlib.sha256(b"%d" % number).digest()
    return prepare(owner, mid, LeafKind.COMMITMENT, envelope, NOW + number)


async def commit(
    pool: asyncpg.Pool, writer: Writer, entries: Sequence[Entry], expected_size: int | None = None
) -> list[int]:
    async with transaction(pool, sorted({one.owner for one in entries})) as connection:
        return await record(connection, writer.log, writer.epoch, entries, VAULT, expected_size)


async def service_of(pool: asyncpg.Pool, folder: Path, node: Node | None = None) -> LedgerService:
    log, log_key = (node.origin, node.key) if node else (LOG, key("ledger"))
    keys = LogKeys(log, log_key, f"{log}/time", key("time"))
    signer = await LogSigner.open(pool, keys, folder / log.replace("/", "-"), lambda: NOW)
    network = node.network if node else "ind.ai/registry+00000000"
    identity = LedgerIdentity(
        node.handle if node else "ind.ai/node-a", log, Signer(log, log_key).verifier.vkey, network
    )
    return LedgerService(pool, signer, identity, VAULT, lambda: NOW, held(keys))


async def exported(
    service: LedgerService, owner: str = "", owners: Sequence[str] = (ALICE, BOB)
) -> list[bytes]:
    request = pb.ExportLedgerRequest(owner=owner, owners=owners)
    chunks = [response.lines async for response in service.ExportLedger(request, CONTEXT)]
    return b"".join(chunks).splitlines(keepends=True)


@pytest.fixture
async def pool(database: Any) -> asyncpg.Pool:
    return database.pool


@pytest.fixture
async def writer(pool: asyncpg.Pool) -> Writer:
    return await take_over(pool, LOG)


async def test_entries_get_their_indexes_in_order(pool: asyncpg.Pool, writer: Writer) -> None:
    assert await commit(pool, writer, [entry(1), entry(2, BOB)]) == [0, 1]
    assert await commit(pool, writer, [entry(3)]) == [2]


async def test_the_same_entry_is_recorded_once(pool: asyncpg.Pool, writer: Writer) -> None:
    first = entry(1)
    await commit(pool, writer, [first, entry(2)])
    again = entry(1)
    assert again.opening != first.opening
    assert await commit(pool, writer, [entry(3), again]) == [2, 0]
    async with transaction(pool, [ALICE]) as connection:
        rows = await connection.fetch(
            "SELECT content, key FROM ledger.contents JOIN ledger.content_keys USING (log, idx)"
            " WHERE mid = $1",
            first.mid,
        )
    name = entry_name(first.owner, first.mid, first.kind)
    assert [VAULT.open(name, Sealed(*row))[1] for row in rows] == [first.opening]


async def test_one_entry_recorded_by_many_at_once_is_one_leaf(pool: asyncpg.Pool, writer: Writer) -> None:
    indexes = await asyncio.gather(*(commit(pool, writer, [entry(1), entry(2)]) for _ in range(20)))
    assert indexes == [[0, 1]] * 20
    assert await pool.fetchval("SELECT size FROM tlog.head WHERE log = $1", LOG) == 2


async def test_another_envelope_under_the_same_name_is_refused(pool: asyncpg.Pool, writer: Writer) -> None:
    await commit(pool, writer, [entry(1)])
    with pytest.raises(ProtocolError) as caught:
        await commit(pool, writer, [entry(2), entry(1, envelope=b"other")])
    assert caught.value.reason is Reason.ID_REUSE
    assert await pool.fetchval("SELECT size FROM tlog.head WHERE log = $1", LOG) == 1


async def test_two_owners_of_one_node_each_have_their_leaf(pool: asyncpg.Pool, writer: Writer) -> None:
    assert await commit(pool, writer, [entry(1, ALICE), entry(1, BOB)]) == [0, 1]


async def test_a_predicted_size_that_is_wrong_records_nothing(pool: asyncpg.Pool, writer: Writer) -> None:
    await commit(pool, writer, [entry(1)], expected_size=0)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await commit(pool, writer, [entry(2)], expected_size=0)
    assert caught.value.sqlstate == "TL002"
    async with transaction(pool, [ALICE]) as connection:
        assert await connection.fetchval("SELECT count(*) FROM ledger.contents") == 1


async def test_a_writer_that_was_replaced_records_nothing(pool: asyncpg.Pool, writer: Writer) -> None:
    await take_over(pool, LOG)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await commit(pool, writer, [entry(1)])
    assert caught.value.sqlstate == "TL001"
    async with transaction(pool, [ALICE]) as connection:
        assert await connection.fetchval("SELECT count(*) FROM ledger.contents") == 0


async def test_a_session_sees_and_writes_its_owners_contents_only(pool: asyncpg.Pool, writer: Writer) -> None:
    await commit(pool, writer, [entry(1, ALICE), entry(2, BOB)])
    async with transaction(pool, [BOB]) as connection:
        assert await connection.fetch("SELECT owner FROM ledger.contents") == [(BOB,)]
    async with transaction(pool) as connection:
        assert await connection.fetch("SELECT owner FROM ledger.contents") == []
    with pytest.raises(Exception, match=r"unexpected error|row-level"):
        async with transaction(pool, [BOB]) as connection:
            await record(connection, LOG, writer.epoch, [entry(3, ALICE)], VAULT)


async def test_the_checkpoint_covers_everything_committed(
    pool: asyncpg.Pool, writer: Writer, tmp_path: Path
) -> None:
    service = await service_of(pool, tmp_path)
    await commit(pool, writer, [entry(1), entry(2)])
    response = await service.GetCheckpoint(pb.GetCheckpointRequest(), CONTEXT)
    checkpoint, _ = open_checkpoint(response.checkpoint, Signer(LOG, key("ledger")).verifier)
    assert (checkpoint.origin, checkpoint.size) == (LOG, 2)
    assert (response.origin, response.vkey) == (LOG, Signer(LOG, key("ledger")).verifier.vkey)


async def test_a_receipt_proof_verifies_offline(pool: asyncpg.Pool, writer: Writer, tmp_path: Path) -> None:
    service = await service_of(pool, tmp_path)
    mine = entry(3)
    await commit(pool, writer, [entry(1), entry(2), mine, entry(4), entry(5)])
    response = await service.GetReceiptProof(
        pb.GetReceiptProofRequest(owner="IND.ai/Alice", mid=mine.mid), CONTEXT
    )
    proof = TlogProof.parse(response.proof)
    checkpoint, _ = proof.verify(mine.leaf, Signer(LOG, key("ledger")).verifier)
    assert (proof.index, checkpoint.size) == (2, 5)
    assert proof.extra is not None
    assert LedgerLeaf.parse(mine.leaf).opens(proof.extra, mine.envelope)
    with pytest.raises(ProtocolError):
        proof.verify(entry(1).leaf, Signer(LOG, key("ledger")).verifier)


async def test_a_receipt_asked_for_while_its_head_is_being_signed_waits_for_it(
    pool: asyncpg.Pool, writer: Writer, tmp_path: Path
) -> None:
    """A leaf is hashed in one transaction and its head signed in the next: between them there is no head."""
    service, mine = await service_of(pool, tmp_path), entry(3)
    await commit(pool, writer, [entry(1), entry(2), mine])
    epoch = await pool.fetchval("SELECT epoch FROM tlog.tree WHERE log = $1", LOG)
    assert (await Hasher(pool, LOG, epoch).advance()).size == 3
    response = await service.GetReceiptProof(pb.GetReceiptProofRequest(owner=ALICE, mid=mine.mid), CONTEXT)
    TlogProof.parse(response.proof).verify(mine.leaf, Signer(LOG, key("ledger")).verifier)


async def test_a_cose_receipt_verifies_offline(pool: asyncpg.Pool, writer: Writer, tmp_path: Path) -> None:
    service, mine = await service_of(pool, tmp_path), entry(3)
    await commit(pool, writer, [entry(1), entry(2), mine, entry(4), entry(5)])
    response = await service.GetReceiptProof(
        pb.GetReceiptProofRequest(owner=ALICE, mid=mine.mid, format=pb.RECEIPT_FORMAT_COSE), CONTEXT
    )
    vkey = Signer(LOG, key("ledger")).verifier.vkey
    proved = verify_receipt(response.proof, response.leaf, [(LOG, vkey)])
    assert (proved.index, proved.size, response.leaf) == (2, 5, mine.leaf)
    assert proved.leaf.opens(response.opening, mine.envelope)


async def test_no_table_holds_a_content_that_can_be_read(database: Any, writer: Writer) -> None:
    mine = entry(1, envelope=b"the terms of this deal")
    await commit(database.pool, writer, [mine])
    async with transaction(database.pool, [ALICE]) as connection:
        for table in ("contents", "content_keys"):
            rows = await connection.fetch(f"SELECT * FROM ledger.{table}")  # noqa: S608
            stored = b"".join(value for row in rows for value in row.values() if isinstance(value, bytes))
            assert stored
            assert b"the terms" not in stored
            assert mine.opening not in stored


async def test_an_erased_content_is_gone_and_its_leaf_stays(
    database: Any, writer: Writer, tmp_path: Path
) -> None:
    pool = database.pool
    service, mine = await service_of(pool, tmp_path), entry(2)
    about = prepare(ALICE, mine.mid, LeafKind.DECISION, b"why", NOW)
    await commit(pool, writer, [entry(1), mine, about, entry(3, BOB), entry(4)])
    async with transaction(pool, [ALICE]) as connection:
        assert await erase(connection, LOG, ALICE, [mine.mid]) == 2
        assert await erase(connection, LOG, ALICE, [mine.mid]) == 0
    records = [one for _, one in read_lines("export", await exported(service))]
    assert [type(one) for one in records if isinstance(one, LeafLine | ErasedLeafLine | OpenLeafLine)] == [
        OpenLeafLine,
        ErasedLeafLine,
        ErasedLeafLine,
        OpenLeafLine,
        OpenLeafLine,
    ]
    proof = await service.GetReceiptProof(pb.GetReceiptProofRequest(owner=ALICE, mid=mine.mid), CONTEXT)
    TlogProof.parse(proof.proof).verify(mine.leaf, Signer(LOG, key("ledger")).verifier)
    assert proof.opening == b""
    async with transaction(pool, [ALICE]) as connection:
        for table in ("contents", "content_keys"):
            rows = await connection.fetch(f"SELECT idx FROM ledger.{table} ORDER BY idx")  # noqa: S608
            assert [row["idx"] for row in rows] == [0, 4]
        erased = await connection.fetch("SELECT idx FROM ledger.erasures ORDER BY idx")
    assert [row["idx"] for row in erased] == [1, 2]
    # Recorded again it gets its old place, and what was erased is not written again.
    assert await commit(pool, writer, [entry(2)]) == [1]
    async with transaction(pool, [ALICE]) as connection:
        assert await connection.fetchval("SELECT count(*) FROM ledger.contents WHERE idx = 1") == 0


async def test_only_the_owner_erases_and_only_by_the_function(pool: asyncpg.Pool, writer: Writer) -> None:
    await commit(pool, writer, [entry(1, ALICE), entry(2, BOB)])
    for session, owner in ((BOB, ALICE), ("", ALICE)):
        with pytest.raises(IndaiError):
            async with transaction(pool, [session] if session else []) as connection:
                await erase(connection, LOG, owner, [entry(1).mid])
    async with transaction(pool, [BOB]) as connection:
        assert await erase(connection, LOG, BOB, [entry(1).mid]) == 0
    for table in ("contents", "content_keys", "erasures"):
        with pytest.raises(IndaiError):
            async with transaction(pool, [ALICE]) as connection:
                await connection.execute(f"DELETE FROM ledger.{table}")  # noqa: S608


async def test_somebody_elses_entry_is_not_found(pool: asyncpg.Pool, writer: Writer, tmp_path: Path) -> None:
    service = await service_of(pool, tmp_path)
    mine = entry(1, ALICE)
    await commit(pool, writer, [mine])
    with pytest.raises(NotFound):
        await service.GetReceiptProof(pb.GetReceiptProofRequest(owner=BOB, mid=mine.mid), CONTEXT)
    with pytest.raises(InvalidInput):
        await service.GetReceiptProof(pb.GetReceiptProofRequest(owner=ALICE, mid=b"short"), CONTEXT)


async def test_heads_are_proved_consistent(pool: asyncpg.Pool, writer: Writer, tmp_path: Path) -> None:
    service, verifier = await service_of(pool, tmp_path), Signer(LOG, key("ledger")).verifier
    await commit(pool, writer, [entry(number) for number in range(3)])
    older = (await service.GetCheckpoint(pb.GetCheckpointRequest(), CONTEXT)).checkpoint
    await commit(pool, writer, [entry(number) for number in range(3, 9)])
    proof = await service.GetConsistencyProof(pb.GetConsistencyProofRequest(old_size=3), CONTEXT)
    old, new = (open_checkpoint(note, verifier)[0] for note in (older, proof.checkpoint))
    verify_consistency(old.size, old.root, new.size, new.root, list(proof.hashes))
    assert (old.size, new.size) == (3, 9)
    with pytest.raises(InvalidInput):
        await service.GetConsistencyProof(pb.GetConsistencyProofRequest(old_size=0), CONTEXT)


async def test_an_owners_export_shows_their_contents_and_everybodys_leaves(
    pool: asyncpg.Pool, writer: Writer, tmp_path: Path
) -> None:
    service = await service_of(pool, tmp_path)
    await commit(pool, writer, [entry(1, ALICE), entry(2, BOB)])
    records = [one for _, one in read_lines("export", await exported(service, BOB))]
    assert [type(one) for one in records if isinstance(one, LeafLine | OpenLeafLine)] == [
        LeafLine,
        OpenLeafLine,
    ]
    whole = [one for _, one in read_lines("export", await exported(service))]
    assert sum(isinstance(one, OpenLeafLine) for one in whole) == 2


async def test_a_long_export_comes_in_pages_and_whole_lines(
    pool: asyncpg.Pool, writer: Writer, tmp_path: Path
) -> None:
    service = await service_of(pool, tmp_path)
    await commit(pool, writer, [entry(number, envelope=b"x" * 600) for number in range(1100)])
    responses = [one async for one in service.ExportLedger(pb.ExportLedgerRequest(owners=[ALICE]), CONTEXT)]
    assert len(responses) > 1
    assert all(one.lines.endswith(b"\n") for one in responses)
    lines = b"".join(one.lines for one in responses).splitlines(keepends=True)
    assert sum(isinstance(one, OpenLeafLine) for _, one in read_lines("export", lines)) == 1100
    # The tiles that are cut out of it are, byte for byte, those that the node serves.
    (tmp_path / "export.jsonl").write_bytes(b"".join(lines))
    write_bundles(tmp_path / "export.jsonl", tmp_path / "tiles")
    served = LogReader(pool, LOG)
    for tile in tiles_of(1100):
        assert (tmp_path / "tiles" / tile.path).read_bytes() == await served.tile(tile)


async def test_an_empty_ledger_is_exported_too(pool: asyncpg.Pool, writer: Writer, tmp_path: Path) -> None:
    service = await service_of(pool, tmp_path)
    assert [type(one).__name__ for _, one in read_lines("export", await exported(service))] == [
        "Header",
        "CheckpointLine",
        "End",
    ]


async def test_what_two_services_export_is_what_the_auditor_accepts(
    make_database: Callable[[], Awaitable[Any]], tmp_path: Path
) -> None:
    world = World()
    Deal(world).run()
    write(tmp_path / "registry.jsonl", world.registry.records())
    paths = []
    for node in (world.a, world.b):
        pool = (await make_database()).pool
        writer = await take_over(pool, node.origin)
        service = await service_of(pool, tmp_path, node)
        for leaf, shown in zip(node.leaves, node.contents, strict=True):
            assert shown
            parsed = LedgerLeaf.parse(leaf)
            one = prepare(shown.owner, shown.mid, parsed.kind, shown.envelope, parsed.time_ms)
            await commit(pool, writer, [one])
            await service.GetCheckpoint(pb.GetCheckpointRequest(), CONTEXT)
        out, path = ExportWriter(), tmp_path / f"{node.handle.replace('/', '-')}.jsonl"
        lines = (await exported(service, owners=[node.owner]))[:-1]
        copied = [out.copy(line) for line in lines] + [out.line(message) for message in node.messages]
        path.write_bytes(b"".join(copied) + out.end())
        paths.append(path)
    report = audit(paths, tmp_path / "registry.jsonl", world.trust)
    assert [finding.to_json() for finding in report.findings] == []
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert report.counts.checkpoints > 2
