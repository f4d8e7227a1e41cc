"""Sharing between real nodes: what rules allow, under a consent, and nothing beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.kinds.share import Mode, Unit
from indai.v1 import owner_pb2, sharing_pb2

from tests.service.exchange.neighbours import Neighbours, agreed
from tests.service.node.database import connect
from tests.service.node.world import Node

COMMITTED, REJECTED = owner_pb2.THREAD_STATE_COMMITTED, owner_pb2.THREAD_STATE_REJECTED
ACTIVE, REVOKED = sharing_pb2.CONSENT_STATUS_ACTIVE, sharing_pb2.CONSENT_STATUS_REVOKED


async def times(near: Neighbours, item: str) -> int:
    """How often alice was told it, by bob's own list."""
    request = sharing_pb2.ListDisclosuresRequest(peer="ind.ai/alice")
    told = (await near.bob.sharing.ListDisclosures(request)).disclosures
    return sum(one.times for one in told if one.item == item)


async def test_a_field_is_shared_under_a_consent_that_both_sides_show(
    near: Neighbours, tmp_path: Path
) -> None:
    await near.bob.has(email="bob@example.org", pan="ABCDE1234F")
    before = await times(near, "profile/email")
    thread = await near.alice.wants("ind.ai/bob", field="email")
    assert thread.state == COMMITTED, thread.words
    got = await near.alice.read(thread)
    assert (got.content, got.from_copy) == (b"bob@example.org", False)
    assert (await near.alice.read(thread)).from_copy
    theirs, ours = (await near.alice.consents())[0], (await near.bob.consents())[0]
    assert theirs.consent_id == ours.consent_id == thread.commitment_mid
    assert (theirs.given, ours.given, ours.reads, ours.item) == (False, True, 1, "profile/email")
    assert ours.consent == theirs.consent
    assert {ours.status, theirs.status} == {ACTIVE}
    assert await times(near, "profile/email") == before + 1
    report = await near.audited(tmp_path, near.alice, near.bob)
    assert report.exit_status == 0, report.to_json()["findings"]


async def test_what_is_denied_stays(near: Neighbours) -> None:
    await near.bob.has(pan="ABCDE1234F", city="Pune")
    assert (await near.alice.wants("ind.ai/bob", field="pan")).state == REJECTED
    life = agreed(data_life_unit=Unit.YEAR, data_life_value=5)
    assert (await near.alice.wants("ind.ai/bob", life, field="city")).state == REJECTED
    assert (await near.alice.wants("ind.ai/bob", field="city")).state == COMMITTED


async def test_a_revoked_consent_is_read_no_more(near: Neighbours) -> None:
    await near.bob.has(city="Pune")
    thread = await near.alice.wants("ind.ai/bob", field="city")
    await near.bob.owner.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id))
    with pytest.raises(IndaiError) as caught:
        await near.alice.read(thread)
    assert caught.value.reason is Reason.POLICY_DENIED


async def test_reads_beyond_the_consent_are_refused_and_nobody_else_reads(near: Neighbours) -> None:
    await near.bob.has(city="Pune")
    view = agreed(mode=Mode.VIEW)
    thread = await near.alice.wants("ind.ai/bob", view, field="city")
    mid = bytes.fromhex(thread.commitment_mid)
    for _ in range(2):  # one read may begin anew for a while: a broken connection
        got = await near.alice.read(thread)
        assert (got.content, got.from_copy) == (b"Pune", False)
    await begun_earlier(near.b, mid, 3_600_000)
    with pytest.raises(IndaiError, match="ALREADY_READ"):
        await near.alice.read(thread)
    with pytest.raises(IndaiError, match="NOT_FOUND"):
        await near.mallory.sharing.QueryPeer(
            sharing_pb2.QueryPeerRequest(peer="ind.ai/bob", commitment=thread.commitment_mid)
        )


async def test_a_stranger_who_wants_something_waits_for_the_owner(near: Neighbours) -> None:
    await near.bob.has(city="Pune")
    thread = await near.mallory.wants("ind.ai/bob", field="city")
    assert thread.state == owner_pb2.THREAD_STATE_ON_HOLD
    (asked,) = [one for one in await near.bob.inbox() if one.peer == "ind.ai/mallory"]
    assert "the field 'city'" in asked.terms.replace('"', "'")
    await near.bob.owner.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=asked.code, approve=False))


async def begun_earlier(node: Node, mid: bytes, by_ms: int) -> None:
    """As if what was read had been read that much earlier."""
    connection = await connect(node)
    try:
        await connection.execute(
            "UPDATE node.disclosures SET begun_ms = begun_ms - $2 WHERE commitment = $1", mid, by_ms
        )
    finally:
        await connection.close()
