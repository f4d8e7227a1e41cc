"""Signed heads travel beside messages: each node holds the other's, exports them, and proves a split view. A
ledger changes its key while its node runs, and wherever the change is cut off.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from aiohttp.web import RouteDef
from indai.client.audit import Verdict, audit
from indai.client.audit.receipts import check_receipt, key_history
from indai.client.channels import plain_channel
from indai.client.exports import CheckpointLine, Header, PeerCheckpointLine, read_export
from indai.client.fraud import read_evidence
from indai.client.receiptfile import ReceiptFile
from indai.ledger.entries import prepare, record
from indai.ledger.export import LedgerIdentity
from indai.ledger.fsck import Subject, check
from indai.ledger.keys import LedgerKeys
from indai.ledger.servicer import LedgerService
from indai.ledger.vault import Vault
from indai.node import app
from indai.node.inprocess import local_channel
from indai.node.keyring import Keyring
from indai.node.keystore import open_keystore
from indai.node.ledger_key import LedgerKey
from indai.node.peer_heads import PeerHeads
from indai.node.service import Service
from indai.protocol.checkpoint import Checkpoint, open_checkpoint, read_checkpoint, sign_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, ProtocolError
from indai.protocol.handlestate import HandleState
from indai.protocol.keys import SigningKey
from indai.protocol.leaf import LeafKind
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer, parse_vkey
from indai.storage.pool import open_pool, transaction
from indai.tlog.append import take_over
from indai.tlog.headfile import HeadFile
from indai.tlog.signer import LogSigner
from indai.tlog.tileserver import PublicLog, tile_routes
from indai.v1 import ledger_pb2, ledger_pb2_grpc, owner_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub

from tests.conftest import Database
from tests.service.node.conftest import ALICES, Pair
from tests.service.node.lives import is_cancelled, until
from tests.service.node.world import Node, Owner, now_ms

HOUR, DAY = 3_600_000, 86_400_000
KEPT = "ind.ai/node-kept"  # the node whose ledger is started again and again


async def export(node: Node, path: Path, ledger: str = "") -> Path:
    token = (node.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(node.info.addresses["owner"], token=token))
    with path.open("wb") as file:
        async for part in operator.ExportNode(owner_pb2.ExportNodeRequest(ledger=ledger)):
            file.write(part.lines)
    return path


async def test_each_side_holds_the_others_heads_and_exports_them(pair: Pair, tmp_path: Path) -> None:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=20, from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    await pair.bob.rest(thread.thread_id)
    paths = []
    for name, node, other in (("a", pair.a, "ind.ai/node-b"), ("b", pair.b, "ind.ai/node-a")):
        async with asyncio.timeout(60):
            while True:
                path = await export(node, tmp_path / f"{name}.jsonl")
                heard = [one for _, one in read_export(path) if isinstance(one, PeerCheckpointLine)]
                if heard:  # a head is kept a moment after the message that it came with
                    break
        origins = {read_checkpoint(one.note.encode()).origin for one in heard}
        assert origins == {await pair.world.ledger(other)}
        paths.append(path)
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    report = audit(paths, registry, pair.world.policy.policy)
    assert [finding.to_json() for finding in report.findings] == []


async def test_two_heads_that_contradict_each_other_are_a_proof_in_a_file(
    pair: Pair, database: Database, tmp_path: Path
) -> None:
    origin = await pair.world.ledger("ind.ai/node-b")
    keyring = Keyring(pair.b.data / "keys", open_keystore(pair.b.data, {}))
    signer = Signer(origin, keyring.log_keys(origin, f"{origin}/clock").key)
    stranger = Signer(origin, SigningKey(b"\x05" * 32))
    first = ledger_pb2.GetCheckpointResponse(origin="ind.ai/node-a/ledger/2026", checkpoint=b"ours")
    pool = await open_pool(database.dsn, max_size=2)  # of the loop that this module's nodes live on
    heads = PeerHeads(pool, None, first, pair.world.resolver(), tmp_path, now_ms)  # type: ignore[arg-type]
    notes = [
        sign_checkpoint(Checkpoint(origin, 7, bytes([root]) * 32), [by])
        for root, by in ((1, signer), (1, signer), (2, stranger), (2, signer))
    ]
    for note in (*notes, b"", b"no note", b"x" * 20_000):
        heads.hear(note)
        await asyncio.gather(*heads._tasks)
    rows = await pool.fetch("SELECT note FROM node.peer_heads ORDER BY heard_ms")
    assert [row["note"] for row in rows] == [notes[0], notes[3]]
    (path,) = [one for one in os.scandir(tmp_path) if one.name.startswith("split-view-")]
    evidence = read_evidence(Path(path.path))
    assert evidence.is_proof
    assert evidence.log == signer.verifier
    assert heads.newest() == b"ours"
    # Two keys of one ledger make no file that proves it alone, unless one of them has announced the other.
    record = (await pair.world.resolver().resolve("ind.ai/node-b")).state.node_record
    assert record is not None
    assert await heads._prove(record, notes[3], notes[2]) == ""
    later = Signer(origin, SigningKey(b"\x06" * 32))
    other = sign_checkpoint(Checkpoint(origin, 7, b"\x03" * 32), [later])
    change = announce(origin, signer.key, later.key)
    changed = replace(record, ledger_vkey=later.verifier.vkey, ledger_key_change=change)
    name = await heads._prove(changed, other, notes[0])
    assert read_evidence(tmp_path / name).is_proof
    assert await heads._prove(changed, other, notes[2]) == ""
    await heads.close()
    await pool.close()


async def deal(pair: Pair) -> owner_pb2.GetReceiptRequest:
    """A meeting; what asks for its receipt."""
    start = now_ms() + HOUR
    thread = await pair.alice.meet("ind.ai/bob", minutes=20, from_ms=start, until_ms=start + 20 * DAY)
    await pair.bob.rest(thread.thread_id)
    return owner_pb2.GetReceiptRequest(thread_id=thread.thread_id)


async def name_next_key(pair: Pair, node: str, prepared: ledger_pb2.PrepareLedgerKeyResponse) -> None:
    """What the command does with the node's rotation key."""
    record = (await pair.world.resolver().resolve(node)).state.node_record
    assert record is not None
    wanted = replace(record, ledger_vkey=prepared.next_vkey, ledger_key_change=prepared.announcement)
    await pair.world.enrol(node, HandleState((), node_record=wanted).to_proto().node_record)


async def test_a_live_ledger_changes_its_key_and_what_the_former_signed_holds(
    pair: Pair, tmp_path: Path
) -> None:
    operator, deals = pair.a.operator(), [await deal(pair)]
    early = await pair.alice.stub.GetReceipt(deals[0])
    before = await pair.world.mirror(tmp_path / "before.jsonl")
    answer = await operator.PrepareLedgerKey(owner_pb2.OperatorServicePrepareLedgerKeyRequest())
    await name_next_key(pair, answer.handle, answer.key)
    followed = await operator.FollowLedgerKey(owner_pb2.FollowLedgerKeyRequest())
    assert followed.vkey == answer.key.next_vkey != answer.key.vkey
    assert (await operator.GetNode(owner_pb2.GetNodeRequest())).record.ledger_vkey == followed.vkey
    deals.append(await deal(pair))
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    history = key_history(registry, pair.world.policy.policy)
    # The early receipt as it was handed out, the same anew, and one of after the change, in both encodings.
    for receipt in (early, *[await pair.alice.stub.GetReceipt(ask) for ask in deals]):
        file = ReceiptFile(receipt.leaf, receipt.tlog_proof, receipt.cose, receipt.opening, receipt.envelope)
        assert check_receipt(file, history).what == "commitment"
    with pytest.raises(ProtocolError):  # a mirror of before vouches for the former key alone
        check_receipt(file, key_history(before, pair.world.policy.policy))
    path = await export(pair.a, tmp_path / "a.jsonl")
    notes = [one.note.encode() for _, one in read_export(path) if isinstance(one, CheckpointLine)]
    keys = [answer.key.vkey, answer.key.next_vkey]
    by = [next(vkey for vkey in keys if signed_by(note, vkey)) for note in notes]
    assert by == sorted(by, key=keys.index)
    assert set(by) == set(keys)
    report = audit([path, await export(pair.b, tmp_path / "b.jsonl")], registry, pair.world.policy.policy)
    assert [finding.to_json() for finding in report.findings] == []
    assert {one.verdict for one in report.commitments} == {Verdict.VALID}
    checks = [one.check async for one in operator.CheckLedger(owner_pb2.OperatorServiceCheckLedgerRequest())]
    assert [one.message for one in checks[-1].findings] == []
    assert audit([path], before, pair.world.policy.policy).exit_status == 1


def signed_by(note: bytes, vkey: str) -> bool:
    try:
        open_checkpoint(note, vkey)
    except ProtocolError:
        return False
    return True


@dataclass
class Machine:
    """A node's ledger alone, as it is after a start: whatever was in memory before is gone."""

    pair: Pair
    pool: asyncpg.Pool
    data: Path
    origin: str = f"{KEPT}/ledger/2026"

    @property
    def keyring(self) -> Keyring:
        return Keyring(self.data / "keys", open_keystore(self.data, {}, create=True))

    async def start(self) -> tuple[LedgerService, LedgerKey]:
        keys = LedgerKeys(self.keyring, self.origin)
        signer = await LogSigner.open(
            self.pool, keys.current, self.data / "heads", now_ms, former=keys.former
        )
        world, vault = self.pair.world, Vault(b"\x07" * 32)
        identity = LedgerIdentity(KEPT, self.origin, signer.verifier.vkey, world.policy.network)
        service = LedgerService(self.pool, signer, identity, vault, now_ms, keys)
        adder = ledger_pb2_grpc.add_LedgerServiceServicer_to_server
        stub = ledger_pb2_grpc.LedgerServiceStub(local_channel([Service(adder, service)]))
        said = await stub.GetCheckpoint(ledger_pb2.GetCheckpointRequest())
        key = LedgerKey(KEPT, stub, world.resolver(), said)
        await world.enrol(KEPT, await key.settle("127.0.0.1:9", b""))
        return service, key

    async def grow(self, leaves: int) -> None:
        writer = await take_over(self.pool, self.origin)
        async with transaction(self.pool, ["ind.ai/alice"]) as connection:
            size = await connection.fetchval("SELECT size FROM tlog.head WHERE log = $1", self.origin)
            mids = [hashlib.sha256(b"%d" % number).digest() for number in range(size, size + leaves)]
            entries = [prepare("ind.ai/alice", mid, LeafKind.COMMITMENT, b"x", now_ms()) for mid in mids]
            await record(connection, self.origin, writer.epoch, entries, Vault(b"\x07" * 32))


async def test_a_change_that_is_cut_off_anywhere_is_complete_after_a_start_or_was_none(
    pair: Pair, database: Database, tmp_path: Path
) -> None:
    """Each round goes one step further, and then everything in memory is gone, as after kill -9."""
    pool = await open_pool(database.dsn, max_size=4)
    machine = Machine(pair, pool, tmp_path)
    await machine.grow(1)
    _, key = await machine.start()
    first = key.record.ledger_vkey
    prepared = (await key.prepare()).key
    _, key = await machine.start()
    assert (await key.follow(), (await key.prepare()).key) == (
        first,
        prepared,
    )  # made once, and signs nothing
    await machine.grow(1)
    await name_next_key(pair, KEPT, prepared)
    _, key = await machine.start()  # the record names it, and the ledger did not know yet
    assert await key.follow() == key.record.ledger_vkey == prepared.next_vkey
    head_file = HeadFile(tmp_path / "heads", parse_vkey(first)).path
    backup = head_file.read_bytes()
    second = (await key.prepare()).key
    await name_next_key(pair, KEPT, second)
    path = tmp_path / "keys" / f"next-log-{machine.origin.replace('/', '_')}.sealed"
    left = path.read_bytes()
    machine.keyring.release_log_key(machine.origin)
    path.write_bytes(left)  # killed between two files: it stands in both, and no head is signed with it
    service, key = await machine.start()
    assert await key.follow() == key.record.ledger_vkey == second.next_vkey
    third = (await key.prepare()).key
    assert (third.vkey, third.next_vkey != third.vkey) == (second.next_vkey, True)
    # A key that the record does not name is never taken; nor one that nobody made.
    assert await key.follow() == second.next_vkey
    context: Any = None
    with pytest.raises(NotFound):
        await service.ChangeLedgerKey(ledger_pb2.ChangeLedgerKeyRequest(vkey=first), context)
    request = ledger_pb2.ExportLedgerRequest(owners=["ind.ai/alice"])
    (export_file := tmp_path / "kept.jsonl").write_bytes(
        b"".join([part.lines async for part in service.ExportLedger(request, context)])
    )
    # Its heads are by former keys: the newest one stands there by the key in the first line once more.
    lines = [one for _, one in read_export(export_file) if isinstance(one, CheckpointLine)]
    assert [signed_by(one.note.encode(), second.next_vkey) for one in lines] == [False, False, True]
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    found = audit([export_file], registry, pair.world.policy.policy).findings
    assert {one.check for one in found} == {"content"}  # its contents are no commitments; all else holds
    # Older keys alone start nothing any more: nobody signs with what was given up.
    (newest_key,) = (tmp_path / "keys").glob("log-*-3.sealed")
    hidden = newest_key.rename(tmp_path / "hidden")
    with pytest.raises(IndaiError, match="signed with a key that is not here any more") as lost:
        await machine.start()
    assert "indai up --ledger-year 2027" in lost.value.hint
    latest = head_file.read_bytes()
    head_file.write_bytes(backup)  # nor does a backup of the whole, which looks sound to itself
    with pytest.raises(IndaiError, match="names a later key"):
        await machine.start()
    head_file.write_bytes(latest)
    machine.origin = f"{KEPT}/ledger/2025"
    with pytest.raises(IndaiError, match="names a later ledger"):  # as of before the operator began another
        await machine.start()
    machine.origin = f"{KEPT}/ledger/2026"
    hidden.rename(newest_key)
    await machine.grow(1)
    await machine.start()
    keys = LedgerKeys(machine.keyring, machine.origin)
    order = [keys.current.verifier, *keys.former]
    for newest, said in ((0, False), (2, True)):  # a key that signs after a later one has signed is told
        subject = Subject(order[newest], Vault(b"\x07" * 32), HeadFile(tmp_path / "heads", *order).path)
        subject = replace(subject, former=tuple(one for one in order if one != subject.verifier))
        findings = (await check(pool, subject, ["ind.ai/alice"])).findings
        assert ("had given up" in " ".join(one.message for one in findings)) is said
        assert bool(findings) is said
    await pool.close()


class Turned(datetime):
    """The calendar of who starts a node."""

    year_now = 2026

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Turned:
        return cls(cls.year_now, 1, 1, tzinfo=tz)


async def deal_with_ivy(owner: Owner) -> owner_pb2.GetReceiptRequest:
    return await deal_with(owner, "ind.ai/ivy")


async def deal_with(owner: Owner, peer: str) -> owner_pb2.GetReceiptRequest:
    start = now_ms() + HOUR
    thread = await owner.meet(peer, minutes=20, from_ms=start, until_ms=start + 20 * DAY)
    assert thread.state == owner_pb2.THREAD_STATE_COMMITTED
    return owner_pb2.GetReceiptRequest(thread_id=thread.thread_id)


async def older_is_shown(
    node: Node, owner: Owner, ask: owner_pb2.GetReceiptRequest, folder: Path, *, has_keys: bool
) -> None:
    """Receipt, exports and check of the ledger before this one; nothing is signed or made for it."""
    log, kept = "ind.ai/node-y/ledger/2026", {}
    for path in [*(node.data / "heads").iterdir(), *(node.data / "keys").iterdir()]:
        kept[path] = path.read_bytes()
    registry, policy = await node.world.mirror(folder / "newest.jsonl"), node.world.policy.policy
    answer = await owner.stub.GetReceipt(ask)
    assert bool(answer.cose) is has_keys
    receipt = ReceiptFile(answer.leaf, answer.tlog_proof, answer.cose, answer.opening, answer.envelope)
    proved = check_receipt(receipt, key_history(registry, policy)).proved
    assert proved.log == log
    ours = (await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=ask.thread_id))).thread.ours
    assert (ours.log, ours.index) == (log, proved.index)
    listed = (await owner.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
    assert {one.ours.log for one in listed} == {log, log.replace("2026", "2028")}
    older = await export(node, folder / "older.jsonl", "2026")
    _, header = next(read_export(older))
    assert isinstance(header, Header)
    assert header.log == log
    report = audit([older, await export(node, folder / "newer.jsonl")], registry, policy)
    assert [finding.to_json() for finding in report.findings] == []
    assert {one.verdict for one in report.commitments} == {Verdict.VALID}
    mine = owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest(ledger=log))
    assert b'"type":"open-leaf"' in b"".join([part.lines async for part in mine])
    checks = node.operator().CheckLedger(owner_pb2.OperatorServiceCheckLedgerRequest(ledger="2026"))
    *_, last = [answer.check async for answer in checks]
    assert (last.finished, list(last.findings)) == (True, [])
    assert last.leaves > proved.index
    for other in ("2025", "ind.ai/node-b/ledger/2026", "ind.ai/registry"):
        with pytest.raises(NotFound, match="has kept no ledger") as unknown:
            await export(node, folder / "none.jsonl", other)
        assert log in unknown.value.hint
    theirs = {path for path in kept if "2026" in path.name}
    assert {path: path.read_bytes() for path in theirs} == {path: kept[path] for path in theirs}
    assert set((node.data / "keys").iterdir()) <= set(kept)


async def test_a_ledger_goes_on_over_the_turn_of_a_year_and_another_begins_when_the_operator_says(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "datetime", Turned)
    handle, world, policy = "ind.ai/node-y", pair.world, pair.world.policy.policy
    ivy = await pair.b.agent("ind.ai/ivy", ALICES.replace("ind.ai/bob", "ind.ai/dora"))
    async with world.node("node-y") as node:
        dora = await node.agent("ind.ai/dora", ALICES.replace("ind.ai/bob", "ind.ai/ivy, ind.ai/fern"))
        before = [await deal_with_ivy(dora)]
        assert await world.ledger(handle) == f"{handle}/ledger/2026"
    monkeypatch.setattr(Turned, "year_now", 2027)
    async with world.node("node-y") as node:
        assert await world.ledger(handle) == f"{handle}/ledger/2026"
        dora = Owner(dora.handle, node.owner_stub(dora.token), dora.token)
        before.append(await deal_with_ivy(dora))
        for ask in before:  # of either year
            assert (await dora.stub.GetReceipt(ask)).leaf
        exports = [await export(node, tmp_path / "y.jsonl"), await export(pair.b, tmp_path / "b.jsonl")]
        registry = await world.mirror(tmp_path / "registry.jsonl")
        report = audit(exports, registry, policy)
        assert [finding.to_json() for finding in report.findings] == []
        assert {one.verdict for one in report.commitments} == {Verdict.VALID}
        # Of two on this node: no head is sent to anybody, so none covers it when the next ledger begins.
        await node.agent("ind.ai/fern", ALICES.replace("ind.ai/bob", "ind.ai/dora"))
        newest = await deal_with(dora, "ind.ai/fern")
    published: list[PublicLog] = []

    def routes(log: PublicLog) -> list[RouteDef]:
        published.append(log)
        return tile_routes(log)

    monkeypatch.setattr(app, "tile_routes", routes)
    async with world.node("node-y", ledger_year=2028) as node:
        # Both are public: the older one's tiles stand under its last signed head.
        assert [log.origin for log in published] == [f"{handle}/ledger/{year}" for year in (2028, 2026)]
        last = read_checkpoint(await published[1].checkpoint())
        assert last.root == await published[1].reader.root(last.size)
        assert await world.ledger(handle) == f"{handle}/ledger/2028"
        dora = Owner(dora.handle, node.owner_stub(dora.token), dora.token)
        # What was agreed in the older one lives on: called off here (at a lower index), erased there.
        await dora.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=before[1].thread_id))
        await until(dora, before[1].thread_id, is_cancelled)
        await until(ivy, before[1].thread_id, is_cancelled)
        known = await dora.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=before[1].thread_id))
        assert known.thread.ours.log == f"{handle}/ledger/2026"  # also while the engine has it in memory
        ask = await deal_with_ivy(dora)
        assert (await dora.stub.GetReceipt(ask)).leaf
        await older_is_shown(node, dora, newest, tmp_path, has_keys=True)
    for lost in (node.data / "keys").glob("log-*2026*"):
        lost.unlink()
    async with world.node("node-y") as node:  # it is the newest now, and goes on
        dora = Owner(dora.handle, node.owner_stub(dora.token), dora.token)
        assert (await dora.stub.GetReceipt(ask)).leaf
        # What the older one holds is proved and shown from it, read-only: by its records' keys.
        await older_is_shown(node, dora, newest, tmp_path, has_keys=False)
        exports += [await export(node, tmp_path / "z.jsonl"), await export(pair.b, tmp_path / "b2.jsonl")]
        registry = await world.mirror(tmp_path / "registry.jsonl")
        report = audit([tmp_path / "older.jsonl", exports[2], exports[3]], registry, policy)
        assert [finding.to_json() for finding in report.findings] == []
        assert {one.verdict for one in report.commitments} == {Verdict.VALID}
        erase = owner_pb2.EraseContentRequest(thread_id=before[0].thread_id)
        assert (await dora.stub.EraseContent(erase)).erased_entries > 0
    with pytest.raises(InvalidInput, match="has gone on to the ledger"):
        async with world.node("node-y", ledger_year=2027):
            pass
