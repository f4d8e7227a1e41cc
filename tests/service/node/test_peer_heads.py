"""Signed heads travel beside messages: each node holds the other's, exports them, and proves a split view."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from indai.client.audit import audit
from indai.client.channels import plain_channel
from indai.client.exports import PeerCheckpointLine, read_export
from indai.client.fraud import read_evidence
from indai.node.keyring import Keyring
from indai.node.keystore import open_keystore
from indai.node.peer_heads import PeerHeads
from indai.protocol.checkpoint import Checkpoint, read_checkpoint, sign_checkpoint
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer
from indai.storage.pool import open_pool
from indai.v1 import ledger_pb2, owner_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub

from tests.conftest import Database
from tests.service.node.conftest import Pair
from tests.service.node.world import Node, now_ms

HOUR, DAY = 3_600_000, 86_400_000


async def export(node: Node, path: Path) -> Path:
    token = (node.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(node.info.addresses["owner"], token=token))
    with path.open("wb") as file:
        async for part in operator.ExportNode(owner_pb2.ExportNodeRequest()):
            file.write(part.lines)
    return path


async def test_each_side_holds_the_others_heads_and_exports_them(pair: Pair, tmp_path: Path) -> None:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=20, from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    await pair.bob.rest(thread.thread_id)
    paths = []
    for name, node, other in (("a", pair.a, "ind.ai/node-b"), ("b", pair.b, "ind.ai/node-a")):
        async with asyncio.timeout(20):
            while True:
                path = await export(node, tmp_path / f"{name}.jsonl")
                heard = [one for _, one in read_export(path) if isinstance(one, PeerCheckpointLine)]
                if heard:  # a head is kept a moment after the message that it came with
                    break
        origins = {read_checkpoint(one.note.encode()).origin for one in heard}
        assert origins == {f"{other}/ledger/2026"}
        paths.append(path)
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    report = audit(paths, registry, pair.world.policy.policy)
    assert [finding.to_json() for finding in report.findings] == []


async def test_two_heads_that_contradict_each_other_are_a_proof_in_a_file(
    pair: Pair, database: Database, tmp_path: Path
) -> None:
    origin = "ind.ai/node-b/ledger/2026"
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
    await heads.close()
    await pool.close()
