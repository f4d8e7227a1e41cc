"""From a signed webhook to a commitment on two nodes and the answer on the messenger, all parts real but the
provider's own server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from indai.client.channels import plain_channel
from indai.client.exports import read_export
from indai.client.receiptfile import ReceiptFile
from indai.desk.pause import LAYER, paused
from indai.protocol.errors import Refused
from indai.v1 import channels_pb2, owner_pb2
from indai.v1 import conversation_pb2 as pb
from indai.v1.channels_pb2_grpc import ChannelServiceStub
from indai.v1.conversation_pb2_grpc import ConversationServiceStub

from tests.service.edge.provider import Provider, words
from tests.service.edge.street import Street
from tests.service.node.conftest import ALICES, BOBS
from tests.service.node.world import Node, Owner, world
from tests.unit.edge.webhooks import tg, wa, wa_message

DORAS = ALICES.replace("ind.ai/bob, ind.ai/carol", "ind.ai/alice").replace("2h", "4h")

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Town(Street):
    """Alice's node with its channels, and bob's beside it."""

    def __init__(self, a: Node, provider: Provider, alice: Owner, bob: Owner) -> None:
        super().__init__(a, provider)
        self.alice, self.bob = alice, bob


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def street(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    base: Path = tmp_path_factory.mktemp("street")
    async with contextlib.AsyncExitStack() as stack:
        provider = await stack.enter_async_context(Provider().serving())
        registry = await stack.enter_async_context(world(base))
        a = await stack.enter_async_context(registry.node("node-a", "127.0.0.1:0", "llm", "memory", "edge"))
        b = await stack.enter_async_context(registry.node("node-b"))
        alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
        yield Town(a, provider, alice, bob)


async def test_a_signed_whatsapp_message_ends_in_a_commitment_and_telegram_goes_on(street: Town) -> None:
    added = await street.add("whatsapp-cloud")
    assert added.channel.webhook_url.endswith("/channels/wa")
    await street.add("telegram")
    # Alice makes herself known on WhatsApp by a code from her own terminal.
    owner = ConversationServiceStub(plain_channel(street.a.info.addresses["owner"], token=street.alice.token))
    code = (await owner.CreateLinkCode(pb.CreateLinkCodeRequest())).code
    await street.whatsapp(f"link {code}")
    answer = await street.whatsapp("Set up 30 min with bob this week")
    assert "bob" in answer
    for party in (street.alice, street.bob):
        found = (await party.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
        assert [each.state for each in found] == [owner_pb2.THREAD_STATE_COMMITTED]
    # The same person on Telegram, by a code from WhatsApp's side: one session, two channels.
    code = (await owner.CreateLinkCode(pb.CreateLinkCodeRequest())).code
    await street.telegram(f"/start link-{code}")
    await street.telegram("hello")
    sessions = (await owner.ListSessions(pb.ListSessionsRequest())).sessions
    assert {"whatsapp", "telegram"} <= set(sessions[0].channels)


ASKS = """\
  - id: longer
    ask: meet
    with: friends
    duration: { min: 121m, max: 180m }
"""


async def test_a_yes_brings_the_invitation_and_an_owner_who_asks_gets_receipt_and_export_as_files(
    street: Town, tmp_path: Path
) -> None:
    await street.add("whatsapp-cloud")
    address = street.a.info.addresses["owner"]
    owner = ConversationServiceStub(plain_channel(address, token=street.alice.token))
    code = (await owner.CreateLinkCode(pb.CreateLinkCodeRequest())).code
    await street.whatsapp(f"link {code}")
    rules = ALICES.replace("carol", "dora") + ASKS
    await street.alice.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=rules))
    dora = await street.a.agent("ind.ai/dora", DORAS)
    now = time.time_ns() // 1_000_000
    asked = await dora.meet("ind.ai/alice", minutes=150, from_ms=now, until_ms=now + 9 * 86_400_000)
    (question,) = (await street.alice.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    assert question.thread_id == asked.thread_id

    def last() -> tuple[str, bytes]:
        """The name of the newest file on the messenger, and what is in it."""
        document = street.provider.uploads[-1]["file"]
        return document["name"], document["content"]

    before = len(street.provider.uploads)
    await street.whatsapp(f"yes {question.code}")
    # At once, or told later where the other side takes its time; in the language of the conversation so far.
    async with asyncio.timeout(30), street.provider.news:
        await street.provider.news.wait_for(lambda: len(street.provider.uploads) > before)
    assert any("ind.ai/dora" in each for each in street.provider.texts())
    name, invitation = last()
    assert name == "meeting.ics"
    assert b"METHOD:REQUEST" in invitation
    assert asked.thread_id.encode() in invitation.replace(b"\r\n ", b"")

    await street.whatsapp("send me the receipt of my meeting with dora")
    name, content = last()
    assert name == f"{asked.thread_id[:12]}.receipt.json"
    receipt = ReceiptFile.parse(content)
    proved = await street.alice.stub.GetReceipt(owner_pb2.GetReceiptRequest(thread_id=asked.thread_id))
    assert (receipt.leaf, receipt.envelope) == (proved.leaf, proved.envelope)

    await street.whatsapp("send me my export")
    name, content = last()
    assert (name[:6], name[-6:]) == ("alice-", ".jsonl")
    (tmp_path / name).write_bytes(content)
    kinds = {type(record).__name__ for _, record in read_export(tmp_path / name)}
    assert {"OpenLeafLine", "MessageLine"} <= kinds


STRANGERS = """\
  - id: strangers
    allow: meet
    with: anyone
    door: public
    channel: {channel}
    duration: {{ max: 30m }}
"""


@pytest.mark.parametrize("channel", ["whatsapp", "telegram"])
async def test_a_newcomer_asks_a_named_agent_for_a_meeting_and_both_calendars_have_it(
    street: Town, channel: str
) -> None:
    provider = "whatsapp-cloud" if channel == "whatsapp" else channel
    await street.add(provider)
    rules = owner_pb2.ActivatePolicyRequest(yaml=ALICES + STRANGERS.format(channel=channel))
    await street.alice.stub.ActivatePolicy(rules)
    text, stamp, number = "@alice set up 20 minutes next week", int(time.time()), f"n{channel}"
    if channel == "whatsapp":
        whose = {"timestamp": str(stamp), "from": "919000000042"}
        said = wa_message("text", {"body": text}, f"wamid.{number}", **whose)
        payload = wa(said, contact={"profile": {"name": "Meera"}, "wa_id": "919000000042"})
    else:
        who = {"id": 77, "is_bot": False, "first_name": "Meera"}
        chat = {"id": 77, "type": "private"}
        payload = tg(text=text, message_id=901, date=stamp, **{"from": who, "chat": chat})
    before = len(street.provider.sent)
    answer = await street.say(provider, payload)
    assert "Booked with ind.ai/alice" in answer, answer
    link = re.search(r"http://[^/]+(/alice/-/meetings/[A-Za-z0-9_-]{20})", answer)
    assert link, answer
    (file,) = (street.a.data / "calendars").glob("*alice.ics")
    base = f"http://{street.a.info.addresses['http']}"
    async with aiohttp.ClientSession() as session, session.get(f"{base}{link[1]}/meeting.ics") as got:
        invitation = await got.read()
    uid = re.search(r"UID:(\S+)", invitation.decode())
    assert uid
    # And as a document of the messenger's own.
    assert len(street.provider.sent) == before + 2
    document = (
        street.provider.uploads[-1]["file"] if channel == "whatsapp" else street.provider.sent[-1]["document"]
    )
    assert (document["name"], document["content"]) == ("meeting.ics", invitation)
    theirs = file.read_text("utf-8")
    assert uid[1] in theirs
    assert "Meeting with Meera" in theirs
    assert f"the conversation on {channel}" in theirs.replace("\n ", "")


async def test_a_stranger_stands_at_the_public_door_and_the_operator_alone_sets_up(street: Town) -> None:
    await street.add("telegram")
    answer = await street.say(
        "telegram",
        tg(
            text="@alice hello",
            message_id=900,
            date=int(time.time()),
            **{"from": {"id": 42, "is_bot": False, "first_name": "S"}, "chat": {"id": 42, "type": "private"}},
        ),
    )
    assert "AI agent" in answer
    stub = ChannelServiceStub(plain_channel(street.a.info.addresses["owner"], token=street.alice.token))
    with pytest.raises(Refused):
        await stub.ListChannels(channels_pb2.ListChannelsRequest())


async def test_who_writes_to_a_paused_agent_is_told_what_that_means(street: Town) -> None:
    await street.add("whatsapp-cloud")
    rules = owner_pb2.ActivatePolicyRequest(yaml=ALICES + STRANGERS.format(channel="whatsapp"))
    await street.alice.stub.ActivatePolicy(rules)

    async def answers(way: str) -> list[str]:
        """To a newcomer's greeting and wish."""
        layer = owner_pb2.ActivatePolicyRequest(yaml=paused("", way) if way else "", layer=LAYER)
        await street.alice.stub.ActivatePolicy(layer)
        whose = {"timestamp": str(int(time.time())), "from": f"91900000{len(way):04}"}

        def heard() -> list[str]:  # by the newcomer: what needs her word is told to Alice, too
            return [words(each) for each in street.provider.sent if each.get("to") == whose["from"]]

        for count, text in enumerate(("@alice hello", "set up 20 minutes next week"), 1):
            said = wa_message("text", {"body": text}, f"wamid.{way}{text}", **whose)
            payload = wa(said, contact={"profile": {"name": "Meera"}, "wa_id": whose["from"]})
            await street.say("whatsapp-cloud", payload)
            async with asyncio.timeout(60), street.provider.news:
                await street.provider.news.wait_for(lambda: len(heard()) >= count)  # noqa: B023
        return heard()

    for answer in await answers("refuse"):
        assert "takes no messages at the moment" in answer
    greeting, asked = await answers("ask")
    assert "AI agent" in greeting
    assert "I have asked ind.ai/alice" in asked  # who then decides: nothing is booked
    assert "Booked" not in asked
    assert "Booked with ind.ai/alice" in (await answers(""))[1]
