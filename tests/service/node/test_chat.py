"""A sentence to one's agent ends in a commitment on two nodes, with the built-in provider alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from indai.cli.chat import Heard, _show_end
from indai.client.channels import plain_channel
from indai.protocol.errors import NotFound, Refused
from indai.v1 import conversation_pb2 as pb
from indai.v1 import owner_pb2
from indai.v1.conversation_pb2_grpc import ConversationServiceStub

from tests.service.node.conftest import ALICES, BOBS
from tests.service.node.world import Node, Owner, world

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub


class Two:
    """alice on a node with language models, bob on one without."""

    def __init__(self, a: Node, b: Node, alice: Owner, bob: Owner) -> None:
        self.a, self.b, self.alice, self.bob = a, b, alice, bob


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Two]:
    base: Path = tmp_path_factory.mktemp("chat")
    async with contextlib.AsyncExitStack() as stack:
        registry = await stack.enter_async_context(world(base))
        a = await stack.enter_async_context(registry.node("node-a", "127.0.0.1:0", "llm", "memory"))
        b = await stack.enter_async_context(registry.node("node-b"))
        alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
        yield Two(a, b, alice, bob)


def stub(node: Node, owner: Owner) -> ConversationServiceAsyncStub:
    return ConversationServiceStub(plain_channel(node.info.addresses["owner"], token=owner.token))


async def say(talk: ConversationServiceAsyncStub, text: str) -> list[pb.TurnEvent]:
    message = pb.InboundMessage(text=text)
    stream = talk.SendMessage(pb.SendMessageRequest(message=message), timeout=60)
    return [each.event async for each in stream if each.HasField("event")]


async def test_a_sentence_ends_in_a_commitment_on_both_nodes(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = stub(two.a, two.alice)
    events = await say(talk, "Set up 30 min with bob this week")
    finished = events[-1].finished
    tools = [each.tool for each in events if each.HasField("tool")]
    assert [(each.name, each.done, each.failed) for each in tools[-1:]] == [("meet", True, False)]
    thread = tools[-1].thread_id
    assert "ind.ai/bob" in finished.reply.text
    assert not finished.degraded
    (file,) = finished.reply.media
    _show_end(Heard(finished=finished))
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("+ meeting.ics, in the node's data: media/")
    kept = two.a.data / "".join(shown.rpartition(" media/")[1:]).strip()
    assert kept.read_bytes().startswith(b"BEGIN:VCALENDAR")
    assert kept.stat().st_size == file.size
    for owner in (two.alice, two.bob):
        found = (await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))).thread
        assert found.state == owner_pb2.THREAD_STATE_COMMITTED


async def test_at_the_owners_port_the_token_says_who_writes(two: Two) -> None:
    mine, bobs = stub(two.a, two.alice), stub(two.b, two.bob)
    sender = pb.Identity(channel="whatsapp", kind="phone", value="+911234567890", verified=True)
    message = pb.InboundMessage(sender=sender, account="ind.ai/bob", text="hello")
    stream = mine.SendMessage(pb.SendMessageRequest(message=message), timeout=60)
    events = [each.event async for each in stream if each.HasField("event")]
    accepted = events[0].accepted
    assert (accepted.door, accepted.handle) == ("private", "ind.ai/alice")
    listed = await mine.ListSessions(pb.ListSessionsRequest())
    assert accepted.session_id in [each.session_id for each in listed.sessions]
    with pytest.raises(NotFound):
        await bobs.ListSessionMessages(pb.ListSessionMessagesRequest(session_id=accepted.session_id))
    with pytest.raises(NotFound):
        await bobs.TakeOverSession(pb.TakeOverSessionRequest(session_id=accepted.session_id))
    assert (await mine.GetTurn(pb.GetTurnRequest(turn_id=events[0].turn_id))).ending == "answered"
    with pytest.raises(NotFound):
        await bobs.GetTurn(pb.GetTurnRequest(turn_id=events[0].turn_id))
    with pytest.raises(Refused):
        await mine.LinkIdentity(pb.LinkIdentityRequest(identity=sender, code="AAAACCCC"))


async def test_a_goal_is_kept_up_and_ended_in_a_conversation(two: Two) -> None:
    talk = stub(two.a, two.alice)
    said = [
        (await say(talk, text))[-1].finished.reply.text
        for text in (
            "bob se har do hafte mein milna hai",
            "what are my goals?",
            "stop my goal with bob",
            "मेरे लक्ष्य क्या हैं?",
        )
    ]
    assert said[0] == "Ab se: har 14 din par ind.ai/bob se milna."
    assert "meet ind.ai/bob every 14 days" in said[1]
    assert said[2] == "Ended: meet ind.ai/bob every 14 days."
    assert said[3].startswith("कुछ नहीं"), said[3]
