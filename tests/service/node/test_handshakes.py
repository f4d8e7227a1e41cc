"""HELLOs between two nodes: they ride along, are pinned, and never go back."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from indai.client.tls import NodeIdentity, pinned_channel
from indai.node.handshakes import OWN, Handshakes
from indai.protocol.envelope import parse_envelope, payload_type, seal
from indai.protocol.header import new_id
from indai.protocol.hello import LIFETIME_MS, Card, compose, read, record_digest
from indai.v1 import envelope_pb2, owner_pb2, peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.test_hostile import STRANGER, proposal, reasons
from tests.service.node.world import now_ms

DAY = 86_400_000


async def greet(
    pair: Pair,
    generation: int,
    card: Card,
    identity: NodeIdentity | None = None,
    sender: str = "ind.ai/alice",
    record: bytes | None = None,
) -> peer_pb2.DeliverResponse:
    """A HELLO and a proposal to bob, signed with alice's second key, from her own node's TLS key."""
    resolver = pair.world.resolver()
    alice, bob = await resolver.resolve(sender), await resolver.resolve("ind.ai/bob")
    key, now = pair.world.insider[sender], now_ms()
    header = envelope_pb2.Header(
        id=new_id(now, os.urandom(10)),
        network=pair.world.policy.network,
        sender=sender,
        sender_subject=alice.subject_id,
        recipient="ind.ai/bob",
        recipient_subject=bob.subject_id,
        key_id=key.key_id,
        issued_at_ms=now,
        expires_at_ms=now + LIFETIME_MS,
        nonce=os.urandom(16),
        thread=new_id(now, os.urandom(10)),
    )
    card = replace(card, record=record_digest(alice.state) if record is None else record)
    said = seal(payload_type("hello"), compose(header, generation, card), [key])
    message = await proposal(pair, key)
    node = (await resolver.resolve("ind.ai/node-b")).state.node_record
    assert node is not None
    own = identity or pair.a.identity()
    async with await pinned_channel(node.address, node.tls_spki_sha256, own) as channel:
        request = peer_pb2.DeliverRequest(envelopes=[message.raw], hellos=[said.raw])
        answer: peer_pb2.DeliverResponse = await PeerServiceStub(channel).Deliver(request)
        return answer


async def test_a_deal_brings_the_hellos_of_both_sides_along(pair: Pair) -> None:
    before = now_ms()
    thread = await pair.alice.meet(
        "ind.ai/bob", title="Greetings", from_ms=before + DAY, until_ms=before + 9 * DAY
    )
    assert thread.state == owner_pb2.THREAD_STATE_COMMITTED
    # What alice's node said stands at bob's: an older one is refused from now on.
    answer = await greet(pair, 1, replace(OWN, intents=("meet", "pay")))
    assert [result.error.reason for result in answer.hellos] == ["ROLLBACK_DETECTED"]


async def test_a_hello_is_answered_to_the_senders_node_and_to_nobody_else(pair: Pair) -> None:
    (result,) = (await greet(pair, 1, OWN, STRANGER)).hellos
    assert (result.error.reason, list(result.replies)) == ("", [])
    (result,) = (await greet(pair, 1, OWN)).hellos
    for raw in result.replies:
        assert read(parse_envelope(raw)).header.sender == "ind.ai/bob"


async def test_a_card_that_goes_back_is_a_rollback_and_takes_its_messages_with_it(pair: Pair) -> None:
    newer = replace(OWN, intents=("meet", "pay"))
    answer = await greet(pair, 5, newer)
    assert [answer.hellos[0].error.reason, answer.results[0].error.reason] == ["", ""]
    for generation, card in ((4, newer), (5, OWN)):
        answer = await greet(pair, generation, card)
        assert answer.hellos[0].error.reason == "ROLLBACK_DETECTED"
        assert answer.results[0].error.reason == "ROLLBACK_DETECTED"
    assert "ROLLBACK_DETECTED" in await reasons(pair)
    answer = await greet(pair, 5, newer)
    assert [answer.hellos[0].error.reason, answer.results[0].error.reason] == ["", ""]


async def test_what_a_peer_requires_and_we_lack_is_said_and_not_dropped(pair: Pair) -> None:
    demanding = replace(OWN, features=("sealed-terms",), required=("sealed-terms",))
    answer = await greet(pair, 9, demanding)
    assert answer.hellos[0].error.reason == "UNSUPPORTED"
    assert "sealed-terms" in answer.hellos[0].error.message
    assert answer.results[0].error.reason == "UNSUPPORTED"


@pytest.mark.rule("HEL-05")
async def test_a_card_that_no_record_of_its_sender_has_is_a_rollback(pair: Pair) -> None:
    answer = await greet(pair, 6, OWN, record=bytes(32))
    # A record that is unknown here may be newer: it is asked for once, and then the card is nobody's.
    assert answer.hellos[0].error.reason == "ROLLBACK_DETECTED"
    assert answer.results[0].error.reason == "ROLLBACK_DETECTED"
    answer = await greet(pair, 6, OWN)
    assert [answer.hellos[0].error.reason, answer.results[0].error.reason] == ["", ""]


async def test_a_stranger_learns_nothing_of_why(pair: Pair) -> None:
    answer = await greet(pair, 1, replace(OWN, versions=(9,)), STRANGER)
    assert answer.hellos[0].error.reason == "REFUSED"
    assert answer.results[0].error.reason == "REFUSED"


async def test_an_established_pair_says_no_hello_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []
    original = Handshakes._written

    async def counted(self: Handshakes, owner: str, peer: str, card: Card, now: int) -> bytes:
        written.append((owner, peer))
        return await original(self, owner, peer, card, now)

    monkeypatch.setattr(Handshakes, "_written", counted)
    now = now_ms()
    for number in range(3):
        await pair.alice.meet(
            "ind.ai/bob", title=f"Again {number}", from_ms=now + DAY, until_ms=now + 9 * DAY
        )
    assert len(written) == len(set(written)) <= 2
