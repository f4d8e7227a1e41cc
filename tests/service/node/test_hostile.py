"""What a hostile or confused peer sends is refused, with its reason in the owner's journal."""

from __future__ import annotations

import contextlib
import os

import pytest
from indai.client.tls import NodeIdentity, make_node_identity, pinned_channel
from indai.node import crowd, peer_service
from indai.node.quota import Bucket
from indai.protocol.checkpoint import open_checkpoint
from indai.protocol.envelope import Envelope, parse_envelope, payload_type, seal
from indai.protocol.errors import IndaiError, NotFound, Reason, Unavailable
from indai.protocol.header import new_id
from indai.protocol.keys import SigningKey
from indai.v1 import envelope_pb2, intents_pb2, negotiation_pb2, owner_pb2, peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.scene import Scene, refused_by
from tests.service.node.world import now_ms

HOUR, DAY = 3_600_000, 86_400_000
STRANGER = make_node_identity("ind.ai/stranger")


async def deliver(
    pair: Pair, *raw: bytes, identity: NodeIdentity = STRANGER, node: str = "ind.ai/node-b"
) -> list[peer_pb2.DeliverResult]:
    """Send to bob's node, or another, as somebody with a TLS key of their own."""
    record = (await pair.world.resolver().resolve(node)).state.node_record
    assert record is not None
    async with await pinned_channel(record.address, record.tls_spki_sha256, identity) as channel:
        response = await PeerServiceStub(channel).Deliver(peer_pb2.DeliverRequest(envelopes=raw))
    return list(response.results)


async def reasons(pair: Pair) -> list[str]:
    """Why bob's node refused messages, newest first."""
    return [entry.reason for entry in await refused_by(pair.bob)]


async def threads(pair: Pair) -> int:
    return len((await pair.bob.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=500))).threads)


async def proposal(
    pair: Pair,
    key: SigningKey,
    title: str = "Hello",
    window: tuple[int, int] | None = None,
    **changes: object,
) -> Envelope:
    """A proposal that says it is from alice to bob, signed by `key`."""
    resolver = pair.world.resolver()
    alice, bob = await resolver.resolve("ind.ai/alice"), await resolver.resolve("ind.ai/bob")
    now = now_ms()
    header = envelope_pb2.Header(
        id=new_id(now, os.urandom(10)),
        network=pair.world.policy.network,
        sender="ind.ai/alice",
        sender_subject=alice.subject_id,
        recipient="ind.ai/bob",
        recipient_subject=bob.subject_id,
        key_id=pair.world.insider["ind.ai/alice"].key_id,
        issued_at_ms=now,
        expires_at_ms=now + HOUR,
        nonce=os.urandom(16),
        thread=new_id(now, os.urandom(10)),
    )
    for name, value in changes.items():
        setattr(header, name, value)
    start, end = window or (now + DAY, now + 2 * DAY)
    windows = [intents_pb2.Window(start_ms=start, end_ms=end)]
    wish = intents_pb2.MeetWish(title=title, duration_minutes=30, windows=windows)
    move = negotiation_pb2.Move(header=header, propose=negotiation_pb2.Propose(meet=wish))
    return seal(payload_type("move"), move.SerializeToString(), [key])


async def test_a_forged_message_is_refused(pair: Pair) -> None:
    before = await threads(pair)
    (result,) = await deliver(pair, (await proposal(pair, SigningKey.generate())).raw)
    assert (result.error.reason, list(result.replies)) == ("REFUSED", [])
    assert (await reasons(pair))[0] == "BAD_SIGNATURE"
    assert await threads(pair) == before


async def test_a_tampered_message_is_refused(pair: Pair) -> None:
    genuine = await stored(pair, "PROPOSE")
    at = genuine.index(b"Genuine")
    (result,) = await deliver(pair, genuine[:at] + b"g" + genuine[at + 1 :])
    assert result.error.reason == "REFUSED"
    assert (await reasons(pair))[0] == "BAD_SIGNATURE"


@pytest.mark.rule("HDR-06")
async def test_a_replayed_message_is_refused_and_answered_by_nothing(pair: Pair) -> None:
    genuine = await stored(pair, "PROPOSE")
    before = await threads(pair)
    (result,) = await deliver(pair, genuine)
    assert (result.error.reason, list(result.replies)) == ("REFUSED", [])
    assert (await reasons(pair))[0] == "REPLAYED"
    assert await threads(pair) == before


@pytest.mark.rule("HDR-06")
async def test_the_senders_own_node_gets_the_stored_answer_again(pair: Pair) -> None:
    genuine, offer = await stored(pair, "PROPOSE"), await stored(pair, "OFFER")
    (result,) = await deliver(pair, genuine, identity=pair.a.identity())
    assert list(result.replies) == [offer]
    (result,) = await deliver(pair, await stored(pair, "ACCEPT"), identity=pair.a.identity())
    assert list(result.replies) == [await stored(pair, "RECEIPT")]


@pytest.mark.rule("HDR-06")
async def test_an_id_with_other_bytes_is_refused(pair: Pair) -> None:
    key = pair.world.insider["ind.ai/alice"]
    first = await proposal(pair, key)
    taken = negotiation_pb2.Move.FromString(first.payload).header.id
    assert not (await deliver(pair, first.raw, identity=pair.a.identity()))[0].error.reason
    (result,) = await deliver(pair, (await proposal(pair, key, id=taken)).raw, identity=pair.a.identity())
    assert result.error.reason == "ID_REUSE"


async def test_a_clock_ten_minutes_ahead_is_named(pair: Pair) -> None:
    late = now_ms() + 600_000
    message = await proposal(
        pair, pair.world.insider["ind.ai/alice"], issued_at_ms=late, expires_at_ms=late + HOUR
    )
    (result,) = await deliver(pair, message.raw, identity=pair.a.identity())
    assert result.error.reason == "FROM_FUTURE"
    assert "ahead of this clock" in result.error.message


async def test_a_message_of_another_network_is_refused(pair: Pair) -> None:
    message = await proposal(pair, pair.world.insider["ind.ai/alice"], network="else.where/registry+00000000")
    await deliver(pair, message.raw)
    assert (await reasons(pair))[0] == "WRONG_NETWORK"


async def test_a_bad_message_does_not_hold_up_the_good_ones_beside_it(pair: Pair) -> None:
    good = await proposal(pair, pair.world.insider["ind.ai/alice"])
    results = await deliver(pair, b"", b"\xff" * 100, b"x" * 70_000, good.raw, identity=pair.a.identity())
    assert [bool(result.error.reason) for result in results] == [True, True, True, False]
    assert len(results[3].replies) == 1


async def test_an_unproved_caller_learns_no_reply(pair: Pair) -> None:
    message = await proposal(pair, pair.world.insider["ind.ai/alice"])
    (result,) = await deliver(pair, message.raw)
    assert (result.error.reason, list(result.replies)) == ("", [])


async def test_a_revoked_key_is_refused_at_once_after_the_log_is_read(pair: Pair) -> None:
    mallory = await pair.a.agent("ind.ai/mallory", "version: 1\ntimezone: UTC\nrules: []\n")
    assert mallory.handle == "ind.ai/mallory"
    key = pair.world.insider["ind.ai/mallory"]
    await pair.world.revoke("ind.ai/mallory", key.key_id)
    record = await pair.world.resolver().resolve("ind.ai/mallory")
    message = await proposal(
        pair, key, sender="ind.ai/mallory", sender_subject=record.subject_id, key_id=key.key_id
    )
    said = await deliver(pair, message.raw, identity=pair.a.identity())
    assert (await reasons(pair))[0] == "KEY_REVOKED", said


@pytest.mark.rule("FRD-02")
async def test_a_node_shows_the_signed_note_of_the_registry_head_it_names(pair: Pair) -> None:
    offer = parse_envelope(await stored(pair, "OFFER"))
    header = negotiation_pb2.Commitment.FromString(offer.payload).header
    node = await pair.world.resolver().resolve("ind.ai/node-b")
    record = node.state.node_record
    assert record is not None
    async with await pinned_channel(record.address, record.tls_spki_sha256, STRANGER) as channel:
        stub = PeerServiceStub(channel)
        answer = await stub.GetRegistryHead(peer_pb2.GetRegistryHeadRequest(size=header.registry_size))
        with pytest.raises(NotFound):
            await stub.GetRegistryHead(peer_pb2.GetRegistryHeadRequest(size=1 << 40))
    head, _ = open_checkpoint(answer.checkpoint, pair.world.policy.log)
    assert (head.size, head.root) == (header.registry_size, header.registry_root)


async def stored(pair: Pair, move: str) -> bytes:
    """The exact bytes of one message of a genuine, finished negotiation."""
    wanted = [
        thread
        for thread in (await pair.alice.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
        if thread.title == "Genuine"
    ]
    if not wanted:
        wanted = [
            await pair.alice.meet(
                "ind.ai/bob", title="Genuine", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
            )
        ]
    got = await pair.alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=wanted[0].thread_id))
    return next(message.envelope for message in got.messages if message.move == move)


async def test_a_name_that_is_none_never_reaches_a_screen(pair: Pair) -> None:
    evil = await proposal(pair, SigningKey.generate(), sender="\x1b[2J\u202eevil\x00")
    await deliver(pair, evil.raw)
    newest = (await refused_by(pair.bob))[0]
    assert (newest.reason, newest.peer) == ("MALFORMED", "")
    assert newest.words.isprintable()
    assert newest.words.isascii()


async def test_a_wish_for_the_end_of_time_is_answered_at_once(pair: Pair) -> None:
    key, far = pair.world.insider["ind.ai/alice"], 253_402_300_799_000
    last = await proposal(pair, key, window=(now_ms() + DAY, far))
    (result,) = await deliver(pair, last.raw, identity=pair.a.identity())
    assert result.error.reason == "REFUSED"
    long = await proposal(pair, key, window=(now_ms() + DAY, now_ms() + 5000 * DAY))
    (result,) = await deliver(pair, long.raw, identity=pair.a.identity())
    assert (result.error.reason, len(result.replies)) == ("", 1)


async def test_a_broken_calendar_is_told_to_its_owner_and_not_to_the_peer(pair: Pair) -> None:
    path = pair.b.data / "calendars" / "ind.ai_bob.ics"
    whole = path.read_bytes() if path.exists() else b""
    path.write_bytes(b"BEGIN:VCALENDAR\r\nthis is no calendar\r\n")
    try:
        message = await proposal(pair, pair.world.insider["ind.ai/alice"])
        (result,) = await deliver(pair, message.raw, identity=pair.a.identity())
        assert result.error.reason == "UNREACHABLE"
        assert "ics" not in result.error.message
        entries = (await pair.bob.stub.ListJournal(owner_pb2.ListJournalRequest())).entries
        (entry, *_) = [entry for entry in entries if entry.reason == "INVALID_CALENDAR"]
        assert "ind.ai_bob.ics" in entry.words
    finally:
        path.write_bytes(whole) if whole else path.unlink()
    (result,) = await deliver(pair, message.raw, identity=pair.a.identity())
    assert (result.error.reason, len(result.replies)) == ("", 1)


async def test_an_unknown_key_is_not_final_until_the_log_was_read_for_it(pair: Pair) -> None:
    first, second = SigningKey.generate(), SigningKey.generate()
    for key in (first, second):
        message = await proposal(pair, key, key_id=key.key_id)
        (result,) = await deliver(pair, message.raw, identity=pair.a.identity())
    assert result.error.reason == "UNREACHABLE"


async def test_one_peer_raises_a_few_questions_and_then_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "MAX_ASKED_PER_PEER", 2)
    asked = [await propose(scene, at, f"Question {at}") for at in range(3)]
    assert [answer.error.reason for _, answer in asked] == ["", "", "RATE_LIMITED"]
    (first, _), _, (third, _) = asked
    (approval,) = [
        one
        for one in (await scene.carol.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
        if one.thread_id == negotiation_pb2.Move.FromString(first.payload).header.thread.hex()
    ]
    await scene.carol.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=approval.code))
    assert not (await scene.say(third)).error.reason


async def test_one_peer_keeps_so_many_negotiations_open(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "MAX_OPEN_PER_PEER", 1)
    _, answer = await propose(scene, 7, "One too many")
    assert answer.error.reason == "RATE_LIMITED"


async def propose(scene: Scene, at: int, title: str) -> tuple[Envelope, peer_pb2.DeliverResult]:
    """eve asks carol for half an hour, another one for each number."""
    sent = await scene.proposal(now_ms() + 2 * DAY + at * HOUR, title)
    return sent, await scene.say(sent)


async def test_a_flood_empties_the_strangers_bucket_and_nobody_elses(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_service, "HOLD_S", 0.0)
    # A busy machine takes so long over a flood that the bucket fills up again: no time passes for it.
    monkeypatch.setattr(Bucket, "level", lambda bucket, _: bucket.tokens)
    forged = (await proposal(pair, SigningKey.generate())).raw
    strangers = [make_node_identity("ind.ai/ever-new") for _ in range(16)]
    for stranger in strangers[:-1]:
        with contextlib.suppress(Unavailable):
            await deliver(pair, *[forged] * 64, identity=stranger)
    with pytest.raises(IndaiError) as limited:
        await deliver(pair, forged, identity=strangers[-1])
    assert limited.value.reason is Reason.RATE_LIMITED
    thread = await pair.alice.meet(
        "ind.ai/bob", title="Meanwhile", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
    )
    assert thread.state == owner_pb2.THREAD_STATE_COMMITTED
