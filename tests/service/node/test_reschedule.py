"""A meeting is moved: one commitment takes another one's place, on both sides, in one transaction each."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from indai.node.engine import Engine
from indai.node.moving import Moves
from indai.node.settlement import Settlement
from indai.protocol.contest import Bid, is_ahead
from indai.protocol.envelope import cosign, parse_envelope, payload_type, seal
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.protocol.lifecycle import committed
from indai.protocol.party_state import OwnerActs
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.database import connect
from tests.service.node.lives import STANDS, audited, busy, events, seen, until
from tests.service.node.scene import MINUTE, Scene
from tests.service.node.test_doubt import receipt
from tests.service.node.test_meeting import COMMITTED, DAY, REJECTED, ask
from tests.service.node.test_owner import AWAITING, WITHDRAWN, approve, inbox
from tests.service.node.world import Owner, now_ms
from tests.unit.lives import DEED

SUPERSEDED = owner_pb2.COMMITMENT_STATE_SUPERSEDED
ENDED = (COMMITTED, REJECTED, WITHDRAWN, owner_pb2.THREAD_STATE_LAPSED)


def move(
    thread: owner_pb2.Thread, days: int = 21, request_id: str = "", minutes: int = 0
) -> owner_pb2.RescheduleCommitmentRequest:
    request = owner_pb2.RescheduleCommitmentRequest(
        request_id=request_id or str(uuid.uuid4()), thread_id=thread.thread_id, duration_minutes=minutes
    )
    request.start_time.FromMilliseconds(now_ms() + days * DAY)
    request.end_time.FromMilliseconds(now_ms() + (days + 9) * DAY)
    return request


async def moved(owner: Owner, thread: owner_pb2.Thread, days: int = 21, minutes: int = 0) -> owner_pb2.Thread:
    new = (await owner.stub.RescheduleCommitment(move(thread, days, minutes=minutes))).thread
    return await owner.rest(new.thread_id)


@pytest.mark.rule("LIF-24")
@pytest.mark.parametrize("who", ["alice", "bob"])
async def test_a_meeting_is_moved_and_its_old_time_is_free(pair: Pair, who: str) -> None:
    old = await ask(pair, title=f"Moved by {who}")
    owner = pair.alice if who == "alice" else pair.bob
    new = await moved(owner, old)
    assert (new.state, new.commitment_state, new.title) == (COMMITTED, STANDS, old.title)
    assert new.start_time.ToMilliseconds() > old.end_time.ToMilliseconds()
    for one, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await until(one, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
        await until(one, new.thread_id, lambda _, node=node, one=one: busy(node, one, new))  # type: ignore[misc]
        await until(one, old.thread_id, lambda _, node=node, one=one: not busy(node, one, old))  # type: ignore[misc]
        assert (await seen(one, new.thread_id)).commitment_state == STANDS
    (event,) = await events(pair.alice, old)
    assert (event.kind, event.superseded_by.hex()) == (
        negotiation_pb2.EVENT_KIND_SUPERSEDE,
        new.commitment_mid,
    )


def at(thread: owner_pb2.Thread, minutes: int, length: int) -> owner_pb2.RescheduleCommitmentRequest:
    """To so many minutes after its old start, and no other time."""
    request = move(thread, minutes=length)
    start_ms = thread.start_time.ToMilliseconds() + minutes * MINUTE
    request.start_time.FromMilliseconds(start_ms)
    request.end_time.FromMilliseconds(start_ms + length * MINUTE)
    return request


@pytest.mark.parametrize("who", ["alice", "bob"])
async def test_the_new_time_may_overlap_the_old_one_which_nobody_else_has_meanwhile(
    pair: Pair, who: str
) -> None:
    old = await ask(pair, title=f"Half an hour later, by {who}")
    owner = pair.alice if who == "alice" else pair.bob
    for minutes, length in ((0, 30), (15, 30), (-15, 30), (0, 20)):  # the first is the time that it has
        asked = (await owner.stub.RescheduleCommitment(at(old, minutes, length))).thread
        new = await owner.rest(asked.thread_id)
        if (minutes, length) == (0, 30):
            assert (new.state, new.reason) == (owner_pb2.THREAD_STATE_REJECTED, "NO_COMMON_SLOT")
            continue
        assert new.state == COMMITTED, (minutes, new)
        start_ms = old.start_time.ToMilliseconds() + minutes * MINUTE
        assert (new.start_time.ToMilliseconds(), new.end_time.ToMilliseconds() - start_ms) == (
            start_ms,
            length * MINUTE,
        )
        for one in (pair.alice, pair.bob):
            await until(one, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
            await until(one, new.thread_id, lambda thread: thread.commitment_state == STANDS)
            assert await slots_at(pair, one, new) == [new.thread_id]
        old = new


async def slots_at(pair: Pair, owner: Owner, thread: owner_pb2.Thread) -> list[str]:
    """The threads that hold any time of this one's, as the tables have it."""
    node = pair.b if owner is pair.bob else pair.a
    admin = await connect(node)
    await admin.execute("SET row_security = off")
    rows = await admin.fetch(
        "SELECT t.thread FROM node.reservations r JOIN node.threads t USING (owner, mid)"
        " WHERE r.owner = $1 AND r.slot && tstzrange(to_timestamp($2), to_timestamp($3))",
        owner.handle,
        thread.start_time.seconds,
        thread.end_time.seconds,
    )
    await admin.close()
    return [row["thread"].hex() for row in rows]


async def test_a_move_that_fails_leaves_the_old_time_taken_and_the_rest_free(pair: Pair) -> None:
    old = await ask(pair, title="Stays, half an hour later or not")
    # bob's owner is asked about this length, and says no: by then his agent has looked at the slot.
    asked = (await pair.alice.stub.RescheduleCommitment(at(old, 15, 45))).thread
    await pair.alice.rest(asked.thread_id)
    (question,) = (await pair.bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    await pair.bob.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=False))
    await until(pair.alice, asked.thread_id, lambda t: t.state == owner_pb2.THREAD_STATE_REJECTED)
    for one in (pair.alice, pair.bob):
        assert (await seen(one, old.thread_id)).commitment_state == STANDS
        assert await slots_at(pair, one, old) == [old.thread_id]
    other = owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()), peer="ind.ai/bob", title="Another", duration_minutes=30
    )
    for start_ms, state in (
        (old.start_time.ToMilliseconds() + 15 * MINUTE, owner_pb2.THREAD_STATE_REJECTED),
        (old.end_time.ToMilliseconds(), COMMITTED),
    ):
        other.request_id = str(uuid.uuid4())
        other.start_time.FromMilliseconds(start_ms)
        other.end_time.FromMilliseconds(start_ms + 30 * MINUTE)
        thread = (await pair.alice.stub.StartMeet(other)).thread
        assert (await pair.alice.rest(thread.thread_id)).state == state


async def test_what_is_not_agreed_leaves_the_meeting_as_it_was(pair: Pair) -> None:
    old = await ask(pair, title="Stays where it is")
    refused = await moved(pair.alice, old, minutes=100)  # longer than bob's rules allow
    assert refused.state == owner_pb2.THREAD_STATE_REJECTED
    for one, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        assert (await seen(one, old.thread_id)).commitment_state == STANDS
        await until(one, old.thread_id, lambda _, node=node, one=one: busy(node, one, old))  # type: ignore[misc]


async def test_moved_twice_each_takes_the_place_of_the_one_before(pair: Pair) -> None:
    first = await ask(pair, title="Twice")
    second = await moved(pair.alice, first)
    third = await moved(pair.bob, second, days=32)
    for one in (pair.alice, pair.bob):
        for gone in (first, second):
            await until(one, gone.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
        assert (await seen(one, third.thread_id)).commitment_state == STANDS
    with pytest.raises(IndaiError) as ended:
        await pair.alice.stub.RescheduleCommitment(move(first))
    assert ended.value.reason is Reason.THREAD_CLOSED


@pytest.mark.rule("LIF-25")
async def test_moved_by_both_at_once_one_is_agreed_and_the_other_ends_with_its_reason(pair: Pair) -> None:
    old = await ask(pair, title="Wanted elsewhere by both")
    asked = await asyncio.gather(
        *(pair.alice.stub.RescheduleCommitment(move(old, days)) for days in (21, 33)),
        *(pair.bob.stub.RescheduleCommitment(move(old, days)) for days in (45, 57)),
        return_exceptions=True,
    )
    begun = [one.thread.thread_id for one in asked if isinstance(one, owner_pb2.RescheduleCommitmentResponse)]
    assert begun
    late = [one for one in asked if isinstance(one, BaseException)]  # it had been moved by then
    assert all(isinstance(one, IndaiError) and one.reason is Reason.THREAD_CLOSED for one in late)
    for one in (pair.alice, pair.bob):
        await until(one, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
        ends = [await until(one, thread, lambda seen: seen.state in ENDED) for thread in begun]
        (agreed,) = [end for end in ends if end.state == COMMITTED]
        assert {end.reason for end in ends if end is not agreed} <= {"OVERTAKEN", ""}
        assert await slots_at(pair, one, agreed) == [agreed.thread_id]
        assert await slots_at(pair, one, old) == []


@pytest.mark.parametrize("told", [True, False])
async def test_a_question_about_what_is_moved_otherwise_is_void_and_never_holds_that_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    old = await ask(pair, title="Longer, or elsewhere")
    asked = await moved(pair.alice, old, minutes=45)  # bob's owner is asked about this length
    assert asked.state == owner_pb2.THREAD_STATE_ON_HOLD

    async def unable(*_: object) -> None:
        raise Unavailable(Reason.UNREACHABLE, "There is no key to say so with.")

    if not told:
        monkeypatch.setattr(Moves, "_overtake", unable)
    assert (await moved(pair.bob, old, days=33)).state == COMMITTED
    if not told:
        assert (await approve(pair.bob, asked.thread_id)).reason == "OVERTAKEN"
    for one in (pair.alice, pair.bob):
        await until(one, asked.thread_id, lambda thread: thread.state in (REJECTED, WITHDRAWN))
        await until(one, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
    assert await inbox(pair.bob, asked.thread_id) is None


@pytest.mark.parametrize("mine", ["kept", "taken back"])
@pytest.mark.rule("LIF-26")
async def test_of_two_offers_that_cross_the_one_that_is_drawn_is_accepted(scene: Scene, mine: str) -> None:
    carol, eve = scene.carol, scene.eve
    old, proposal = await scene.ask("To be moved by both")
    agreed = scene.offer(proposal)
    assert not (await scene.say(agreed)).error.reason
    assert not (await scene.say(receipt(scene, proposal, agreed))).error.reason
    asked = (await carol.stub.RescheduleCommitment(move(await seen(carol, old)))).thread.thread_id
    wish = parse_envelope((await scene.thread(asked)).messages[0].envelope)
    # eve wants it elsewhere, too, and carol's agent offers her that once its owner has said yes.
    low = b"\x70\x00\x80" + bytes(7) if mine == "kept" else b"\x7f\xff\xbf" + b"\xff" * 7
    thread = bytes.fromhex(asked)[:6] + low  # which id she chooses for it decides nothing
    at_ms = now_ms() + (40 if mine == "kept" else 41) * DAY
    hers = negotiation_pb2.Move.FromString((await scene.proposal(at_ms, "Elsewhere")).payload)
    hers.header.id, hers.header.thread, hers.propose.supersedes = thread, thread, agreed.mid
    assert not (await scene.say(seal(payload_type("move"), hers.SerializeToString(), [eve.key]))).error.reason
    await approve(carol, thread.hex())
    offered = parse_envelope((await scene.thread(thread.hex())).messages[-1].envelope)
    # eve has not seen that when she offers carol what carol has asked for.
    terms = negotiation_pb2.Commitment.FromString(scene.offer(wish).payload)
    terms.supersedes = agreed.mid
    life, other = committed(replace(DEED, mid=agreed.mid)), Bid(offered.mid, "carol")
    for number in range(99):
        terms.header.nonce = bytes([number]) * len(terms.header.nonce)
        crossing = seal(payload_type("commitment"), terms.SerializeToString(), [eve.key])
        if is_ahead(life, (), other, Bid(crossing.mid, "eve")) is (mine == "kept"):
            break
    assert not (await scene.say(crossing)).error.reason
    own, theirs = await seen(carol, asked), await seen(carol, thread.hex())
    accepted = (await scene.say(cosign(offered, eve.key))).replies
    if mine == "taken back":
        assert (own.state, theirs.state, theirs.reason) == (AWAITING, WITHDRAWN, "OVERTAKEN")
        assert not (await scene.say(receipt(scene, wish, crossing))).error.reason
    else:
        assert (own.state, own.reason) == (REJECTED, "OVERTAKEN")
        assert accepted
    stands, lost = (asked, thread.hex()) if mine == "taken back" else (thread.hex(), asked)
    assert (await seen(carol, stands)).state == COMMITTED
    assert (await seen(carol, lost)).state in (WITHDRAWN, REJECTED)
    before = (await scene.thread(old)).thread  # eve numbers what becomes of it
    assert await slots_at(scene.pair, carol, before) == []


async def test_a_request_made_again_moves_nothing_again(pair: Pair) -> None:
    old, request_id = await ask(pair, title="Asked twice"), str(uuid.uuid4())
    one = (await pair.alice.stub.RescheduleCommitment(move(old, request_id=request_id))).thread
    await pair.alice.rest(one.thread_id)
    await until(pair.alice, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
    again = (await pair.alice.stub.RescheduleCommitment(move(old, request_id=request_id))).thread
    assert again.thread_id == one.thread_id


async def test_only_what_stands_is_moved(pair: Pair) -> None:
    old = await ask(pair, title="Called off first")
    await pair.bob.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=old.thread_id))
    await until(
        pair.alice, old.thread_id, lambda t: t.commitment_state == owner_pb2.COMMITMENT_STATE_CANCELLED
    )
    for thread in (old, await ask(pair, title="Denied", minutes=90)):
        with pytest.raises(IndaiError) as refused:
            await pair.alice.stub.RescheduleCommitment(move(thread))
        assert refused.value.reason in (Reason.THREAD_CLOSED, Reason.NOT_FOUND)


async def test_an_auditor_finds_both_valid(pair: Pair, tmp_path: Path) -> None:
    old = await ask(pair, title="Audited")
    await moved(pair.alice, old)
    for one in (pair.alice, pair.bob):
        await until(one, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
    report = await audited(pair, tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    assert {one.verdict.name for one in report.commitments} == {"VALID"}
    assert "SUPERSEDED" in {one.state for one in report.commitments if one.mid == old.commitment_mid}


async def test_only_what_is_pending_is_settled(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    thread, engines, act = await ask(pair, title="No payment"), list[Engine](), Engine.act

    async def noted(engine: Engine, owner: str, of: bytes, said: OwnerActs) -> None:
        engines.append(engine)
        await act(engine, owner, of, said)

    monkeypatch.setattr(Engine, "act", noted)
    await pair.alice.stub.DisputeCommitment(owner_pb2.DisputeCommitmentRequest(thread_id=thread.thread_id))
    settlement = Settlement(engines[0]._store, engines[0])
    for mid, reason in (
        (bytes.fromhex(thread.commitment_mid), Reason.ILLEGAL_MOVE),
        (bytes(32), Reason.NOT_FOUND),
    ):
        for call in (settlement.post("ind.ai/alice", mid, 100), settlement.void("ind.ai/alice", mid)):
            with pytest.raises(IndaiError) as refused:
                await call
            assert refused.value.reason is reason
