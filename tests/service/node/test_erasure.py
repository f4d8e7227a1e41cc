"""An owner erases what a meeting said: gone from every table and export, while tree and receipts stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.client.audit import Verdict, audit
from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import owner_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.database import connect
from tests.service.node.lives import is_cancelled, until
from tests.service.node.world import Node, Owner, now_ms

HOUR, DAY = 3_600_000, 86_400_000
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
SECRET = "Secret of the two"


async def everything(node: Node) -> str:
    """Every row of every table of the node and its ledger, as the superuser reads it."""
    connection = await connect(node)
    try:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname IN ('node', 'ledger', 'tlog', 'policy')"
        )
        texts = [
            row["text"]
            for table in tables
            for row in await connection.fetch(f"SELECT t::text AS text FROM {table['name']} t")  # noqa: S608
        ]
    finally:
        await connection.close()
    return "\n".join(texts)


async def export(node: Node, path: Path) -> Path:
    token = (node.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(node.info.addresses["owner"], token=token))
    with path.open("wb") as file:
        async for part in operator.ExportNode(owner_pb2.ExportNodeRequest()):
            file.write(part.lines)
    return path


async def agreed(pair: Pair, title: str) -> owner_pb2.Thread:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=20, title=title, from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    assert thread.state == COMMITTED
    await pair.bob.rest(thread.thread_id)
    return thread


async def erase(owner: Owner, thread_id: str) -> owner_pb2.EraseContentResponse:
    return await owner.stub.EraseContent(owner_pb2.EraseContentRequest(thread_id=thread_id))


async def test_what_was_erased_is_in_no_table_and_the_audit_says_unopened(pair: Pair, tmp_path: Path) -> None:
    await agreed(pair, "Stays")
    thread = await agreed(pair, SECRET)
    before = await everything(pair.a)
    for form in (SECRET, SECRET.encode().hex()):
        assert form in before  # in the thread, and inside the stored messages

    erased = await erase(pair.alice, thread.thread_id)
    assert (erased.thread.erased, erased.erased_entries) == (True, 3)
    after = await everything(pair.a)
    for form in (SECRET, SECRET.encode().hex()):
        assert form not in after
    assert (await erase(pair.alice, thread.thread_id)).erased_entries == 0

    paths = [await export(node, tmp_path / f"{name}.jsonl") for name, node in (("a", pair.a), ("b", pair.b))]
    assert SECRET.encode() not in paths[0].read_bytes()
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    trust = pair.world.policy.policy
    report = audit(paths[:1], registry, trust)
    assert {one.check for one in report.findings} == {"unopened"}
    assert report.verdicts["UNOPENED"] == 1
    # With the other side's export the deal itself is there; what alice erased stays open.
    both = audit(paths, registry, trust)
    (verdict,) = [one for one in both.commitments if one.mid == thread.commitment_mid]
    assert verdict.verdict is Verdict.UNOPENED
    assert report.exit_status == both.exit_status == 3


async def test_an_erased_cancellation_is_not_counted_as_a_commitment(pair: Pair, tmp_path: Path) -> None:
    thread = await agreed(pair, SECRET)
    await pair.bob.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id))
    for owner in (pair.alice, pair.bob):
        await until(owner, thread.thread_id, is_cancelled)
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    counted = []
    for name in ("before", "after"):
        path = await export(pair.a, tmp_path / f"{name}.jsonl")
        counted.append(audit([path], registry, pair.world.policy.policy).verdicts["UNOPENED"])
        if name == "before":
            await erase(pair.alice, thread.thread_id)
    assert counted[1] == counted[0] + 1


async def test_a_ledger_with_erased_contents_is_sound(pair: Pair) -> None:
    await erase(pair.alice, (await agreed(pair, SECRET)).thread_id)
    token = (pair.a.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(pair.a.info.addresses["owner"], token=token))
    request = owner_pb2.OperatorServiceCheckLedgerRequest()
    checks = [response.check async for response in operator.CheckLedger(request)]
    last = checks[-1]
    assert last.finished
    assert list(last.findings) == []
    assert last.erased
    assert last.leaves == last.opened + last.erased


async def test_the_owner_still_sees_that_there_was_something(pair: Pair) -> None:
    thread = await agreed(pair, SECRET)
    await erase(pair.alice, thread.thread_id)
    seen = await pair.alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread.thread_id))
    assert (seen.thread.peer, seen.thread.title, seen.thread.erased) == ("ind.ai/bob", "", True)
    assert seen.thread.ours == thread.ours
    assert [(one.move, one.words, one.envelope) for one in seen.messages] == [
        (move, "erased", b"") for move in ("PROPOSE", "OFFER", "ACCEPT", "RECEIPT")
    ]
    others = await pair.bob.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread.thread_id))
    assert others.thread.title == SECRET


async def test_what_has_ended_and_was_erased_takes_nothing_more(pair: Pair) -> None:
    thread = await agreed(pair, SECRET)
    await erase(pair.alice, thread.thread_id)
    with pytest.raises(IndaiError) as refused:
        await pair.alice.stub.WithdrawThread(owner_pb2.WithdrawThreadRequest(thread_id=thread.thread_id))
    assert refused.value.reason is Reason.THREAD_CLOSED


async def test_what_still_goes_on_is_not_erased(pair: Pair) -> None:
    waiting = await pair.alice.meet(
        "ind.ai/bob", minutes=50, title="Asks", from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    assert waiting.state == owner_pb2.THREAD_STATE_ON_HOLD
    with pytest.raises(IndaiError) as refused:
        await erase(pair.alice, waiting.thread_id)
    assert refused.value.reason is Reason.THREAD_OPEN
    seen = await pair.alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=waiting.thread_id))
    assert seen.thread.title == "Asks"


async def test_nobody_erases_what_is_not_theirs(pair: Pair) -> None:
    thread = await agreed(pair, SECRET)
    carol = await pair.a.agent("ind.ai/caroline", "version: 1\ntimezone: UTC\nrules: []\n")
    with pytest.raises(IndaiError) as refused:
        await erase(carol, thread.thread_id)
    assert refused.value.reason is Reason.NOT_FOUND
