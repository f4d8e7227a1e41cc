"""Meetings asked for on a page: by strangers under the owner's rules, by those whose agent takes over."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
from typing import Any

import pytest
from aiohttp import ClientResponse, WSMsgType
from indai.client.channels import plain_channel
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.v1 import conversation_pb2 as pb
from indai.v1 import owner_pb2, tools_pb2
from indai.v1.conversation_pb2_grpc import ConversationServiceStub
from indai.v1.tools_pb2_grpc import ApprovalServiceStub
from indai.voice.audio import HEARING, Audio, to_mulaw
from indai.voice.local import LocalSpeech

from tests.service.edge.provider import Provider
from tests.service.edge.street import Street, call
from tests.service.node.trade import SELLERS, Trader
from tests.service.page.conftest import events, visiting
from tests.service.page.test_page import STREAM
from tests.service.web.conftest import ALICES, BOBS, Desks, Page
from tests.unit.edge.webhooks import wa, wa_message

FORM = {"name": "Meera <b>", "contact": "meera@example.org", "minutes": "30", "when": "next week", "time": ""}
STRANGERS = """\
  - id: strangers
    {way}: meet
    with: anyone
    door: public
    duration: {{ max: 30m }}
"""


PRICES = """\
  - id: prices
    ask: book
    with: anyone
"""


async def _rules(desks: Desks, way: str) -> None:
    text = BOBS + (STRANGERS.format(way=way) if way else "")
    await desks.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=text))


async def _asked(desks: Desks, visitor: Any, **more: str) -> Page:
    page = await visitor.get("/bob")
    number = re.search(r'name="id" value="(\w+)"', page.text)
    assert number
    found: Page = await visitor.post("/bob/-/meet", id=number[1], **(FORM | more))
    return found


def _titles(desks: Desks, name: str = "bob") -> str:
    files = (desks.b.data / "calendars").glob(f"*{name}.ics")
    return "".join(file.read_text("utf-8") for file in files)  # none before the first meeting


async def test_what_the_rules_permit_is_booked_and_the_visitor_gets_an_invitation(
    desks: Desks,
) -> None:
    await _rules(desks, "allow")
    async with visiting(desks) as visitor, visiting(desks) as other:
        page = await _asked(desks, visitor, title="Garden <script>")
        assert page.status == 200, page.text
        assert "The meeting is booked" in page.text
        assert "Garden &lt;script&gt;" in page.text
        assert "SUMMARY:Garden <script>" in _titles(desks)
        file = await visitor.get(f"{page.path}/meeting.ics")
        assert file.answer.content_type == "text/calendar"
        assert "METHOD:REQUEST" in file.text
        # An address that nobody was given shows nothing.
        forged = page.path[:-8] + ("AAAAAAAA" if page.path[-8:] != "AAAAAAAA" else "BBBBBBBB")
        assert (await other.get(forged)).status == 404
        assert (await other.get(page.path.replace("/bob/", "/alice/"))).status == 404


async def test_what_the_rules_would_ask_about_waits_for_the_owners_word(desks: Desks) -> None:
    await _rules(desks, "ask")
    approvals = ApprovalServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    async with visiting(desks) as visitor:
        page = await _asked(desks, visitor, title="Perhaps")
        assert page.status == 200, page.text
        assert "The owner is asked" in page.text
        assert "Perhaps" not in _titles(desks)
        assert (await visitor.get(f"{page.path}/meeting.ics")).status == 404
        (waiting,) = (await approvals.ListApprovals(tools_pb2.ListApprovalsRequest())).approvals
        assert '"Meera <b>"' in waiting.terms
        assert "meera@example.org" in waiting.terms
        answer = tools_pb2.AnswerToolApprovalRequest(code=waiting.code, approve=True)
        await approvals.AnswerToolApproval(answer)
        assert "The meeting is booked" in (await visitor.get(page.path)).text
        assert "Perhaps" in _titles(desks)


async def test_what_the_rules_refuse_is_refused_without_telling_why(desks: Desks) -> None:
    await _rules(desks, "")
    async with visiting(desks) as visitor:
        page = await _asked(desks, visitor, title="Never")
        assert "There is no time for this" in page.text
        assert "rule" not in page.text.lower()
    assert "Never" not in _titles(desks)


@pytest.mark.parametrize(
    "wrong",
    [
        {"contact": "nobody"},
        {"name": ""},
        {"minutes": "600"},
        {"when": "yesterday"},
        {"contact": 'a"@b.c\nx@y.zz'},
    ],
    ids=str,
)
async def test_a_form_that_is_wrong_asks_for_nothing(desks: Desks, wrong: dict[str, str]) -> None:
    await _rules(desks, "allow")
    async with visiting(desks) as visitor:
        assert (await _asked(desks, visitor, title="Wrong", **wrong)).status == 400
    assert "Wrong" not in _titles(desks)


async def test_a_visitor_who_asks_without_end_is_stopped(desks: Desks) -> None:
    await _rules(desks, "")
    async with visiting(desks) as visitor:
        found = [(await _asked(desks, visitor)).status for _ in range(7)]
    assert found[-1] == 429


async def _chat(visitor: Any, text: str) -> str:
    """What the agent answers to a message; of its files, the names."""
    told = events((await visitor.post("/bob/-/say", STREAM, text=text)).text)
    assert told[-1][1] == "finished", told
    return str(told[-1][2]["html"]) + " ".join(each["name"] for each in told[-1][2]["files"])


async def test_a_newcomer_books_a_meeting_by_chatting_and_takes_it_into_their_own_calendar(
    desks: Desks,
) -> None:
    await _rules(desks, "allow")
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        assert "Who may I say" in await _chat(visitor, "Can we meet for 20 minutes next week?")
        assert "e-mail" in await _chat(visitor, "Meera <b>Rao</b>")
        assert "e-mail" in await _chat(visitor, "somewhere")  # that is no address
        booked = await _chat(visitor, "meera@example.org")
        assert "Booked with ind.ai/bob" in booked, booked
        assert booked.endswith("meeting.ics")
        link = re.search(r'href="http://[^/]+(/bob/-/meetings/[^"]+)"', booked)
        assert link, booked
        page = await visitor.get(link[1])
        assert "The meeting is booked" in page.text
        mine = (await visitor.get(f"{link[1]}/meeting.ics")).text
        assert "METHOD:REQUEST" in mine
        uid = re.search(r"UID:(\S+)", mine)
        assert uid
        assert uid[1] in _titles(desks)
        assert "Meeting with Meera <b>Rao</b>" in _titles(desks)
        # The same file comes with the answer, and stands in the chat when the page is opened again.
        links = re.findall(
            r'class="file"><a href="http://[^/"]+(/channels/-/files/[^"]+/meeting.ics)"',
            (await visitor.get("/bob")).text,
        )
        sent = await visitor.get(links[-1])
        assert (sent.answer.content_type, sent.text) == ("text/calendar", mine)
        # At a door one meets its owner.
        await _chat(visitor, "Set up a meeting with carol next week")
        await _chat(visitor, "Meera")
        assert "with ind.ai/bob alone" in await _chat(visitor, "meera@example.org")


async def test_what_the_rules_would_ask_about_is_told_in_the_chat_and_so_is_the_owners_word(
    desks: Desks,
) -> None:
    await _rules(desks, "ask")
    approvals = ApprovalServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        await _chat(visitor, "Set up a 25 minute meeting next week")
        await _chat(visitor, "Ravi")
        asked = await _chat(visitor, "ravi@example.org")
        assert "I have asked ind.ai/bob" in asked, asked
        listed = (await approvals.ListApprovals(tools_pb2.ListApprovalsRequest())).approvals
        (waiting,) = [each for each in listed if "Ravi" in each.terms]
        assert waiting.code not in asked
        await approvals.AnswerToolApproval(
            tools_pb2.AnswerToolApprovalRequest(code=waiting.code, approve=True)
        )
        assert "Meeting with Ravi" in _titles(desks)
        async with asyncio.timeout(60):  # the job that tells it begins with the owner's word
            while (page := (await visitor.get("/bob")).text).count('class="theirs"') < 4:
                await asyncio.sleep(0.05)
        assert "The meeting stands in the calendar of ind.ai/bob: " in page
        assert page.count("/meeting.ics") == 1  # with what was told later, and not before


async def test_what_a_chat_began_and_the_desk_decides_is_told_in_the_chat_and_the_other_way_round(
    desks: Desks,
) -> None:
    shop = Trader(desks.alice, desks.a)
    await shop.stocks("table", 4, per_minutes=30, price_minor=50_000, currency="INR")
    await desks.alice.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=SELLERS))
    asks = BOBS.replace("timezone: Asia/Kolkata", "timezone: Asia/Kolkata\ncurrency: INR") + PRICES
    await desks.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=asks))
    async with desks.browser(desks.b, desks.bob) as bob:

        async def ask(day: str) -> str:
            await bob.get("/bob")
            return _code(await _chat(bob, f"Book a table with alice next {day} at 13:00"))

        async def say(text: str) -> str:
            await bob.get("/bob")
            return await _chat(bob, text)

        async def decide(tools: str, code: str, answer: str) -> None:
            page = (await bob.get("/desk")).text
            action = re.search(rf"/desk/{tools}approvals/([0-9a-f]{{64}})", page[page.index(code) :])
            assert action, page
            assert (await bob.post(action[0], answer=answer)).status == 200

        async def heard(words: str) -> str:
            async with asyncio.timeout(60):  # what is decided wakes the job that tells
                while words not in (page := (await bob.get("/bob")).text):
                    await asyncio.sleep(0.05)
            return page

        # Both questions are answered at the desk: whether to ask at all, and the price.
        await decide("tool-", await ask("monday"), "yes")
        page = await heard("Book at ind.ai/alice 1 of")
        price = re.findall(r"yes ([0-9a-f]{8})", page)[-1]
        await decide("", price, "yes")
        page = await heard("Agreed with ind.ai/alice")
        assert page.count("/meeting.ics") == 1
        # The first in the chat, the second at the desk.
        price = _code(await say(f"yes {await ask('tuesday')}"))
        await decide("", price, "no")
        await heard("You said no, so nothing was agreed with ind.ai/alice: ")
        # And both in the chat, while the desk is open.
        price = _code(await say(f"yes {await ask('wednesday')}"))
        assert price in (await bob.get("/desk")).text
        async with bob.http.get(f"{bob.base}/desk/live") as stream:
            await _lines(stream, b"event: changed")
            assert "Agreed with" in await say(f"yes {price}")
            await _lines(stream, b"event: changed")
        inbox = (await bob.get("/desk")).text
        assert price not in inbox
        rows = inbox[inbox.index("Answered lately") :].split("<li>")
        lately = [row for row in rows if "Book at ind.ai/alice" in row]
        assert [("you declined" in row, "in a chat" in row) for row in lately] == [
            (False, True),  # the price on Wednesday, then the wish
            (False, True),
            (True, False),
            (False, True),
            (False, False),
        ]
        # What its own turn has told nobody tells again.
        page = (await bob.get("/bob")).text
        assert (page.count("Agreed with ind.ai/alice"), page.count("You said no, so")) == (2, 1)
    async with desks.browser(desks.a, desks.alice) as alice:
        assert "you approved" not in (await alice.get("/desk")).text
    await desks.alice.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=ALICES))
    await _rules(desks, "")


def _code(asked: str) -> str:
    found = re.search(r"yes (\w{8})", asked)
    assert found, asked
    return found[1]


async def _lines(stream: ClientResponse, wanted: bytes) -> None:
    async with asyncio.timeout(60):
        while wanted not in await stream.content.readline():
            pass


async def test_what_the_rules_refuse_is_refused_in_the_chat_without_telling_why(desks: Desks) -> None:
    await _rules(desks, "")
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        await _chat(visitor, "Set up a 10 minute meeting next week")
        await _chat(visitor, "Nina")
        answer = await _chat(visitor, "nina@example.org")
        assert "There is no time for this" in answer, answer
        assert "rule" not in answer.lower()
    assert "Nina" not in _titles(desks)


async def test_a_spoken_sentence_books_a_meeting_and_the_chat_of_the_same_browser_has_the_invitation(
    desks: Desks,
) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("nothing speaks here: apt-get install espeak-ng")
    await _rules(desks, "allow")
    voice = LocalSpeech(voices={"en": "en-us+klatt4"})
    said = await voice.say("Set up a meeting for thirty minutes next week", "en")
    silence = bytes(2 * HEARING * 2)
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        async with visitor.http.ws_connect(f"{visitor.base}/voice/ind.ai/bob") as line:
            await line.send_json({"type": "start", "language": "en", "time_zone": "Asia/Kolkata"})
            sound, step = said.at(HEARING).pcm + silence, HEARING // 5
            for at in range(0, len(sound), step):
                await line.send_bytes(sound[at : at + step])
            told: dict[str, Any] = {}
            async with asyncio.timeout(60):
                while told.get("type") not in ("finished", "error"):
                    message = await line.receive()
                    told = json.loads(message.data) if message.type is WSMsgType.TEXT else told
        assert "Booked with ind.ai/bob" in told["text"], told
        # Whoever spoke is who chats in this browser.
        page = await visitor.get("/bob")
        assert "set up a meeting for thirty minutes next week" in page.text.lower()
        link = re.findall(r'href="http://[^/"]+(/bob/-/meetings/[^"]+)"', page.text)
        uid = re.search(r"UID:(\S+)", (await visitor.get(f"{link[-1]}/meeting.ics")).text)
        assert uid
        assert uid[1] in _titles(desks)
    async with visiting(desks) as other:
        assert "thirty minutes" not in (await other.get("/bob")).text


async def test_who_calls_gets_the_invitation_where_they_write_and_else_the_owner_has_their_number(
    desks: Desks,
) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("nothing speaks here: apt-get install espeak-ng")
    await _rules(desks, "allow")
    Secrets(desks.b.data, open_keystore(desks.b.data, {}), {}).set("twilio", "twilio-token")
    voice = LocalSpeech(voices={"en": "en-us+klatt4"})
    spoken = await voice.say("Set up a meeting for thirty minutes next week", "en")
    said = to_mulaw(Audio(spoken.at(HEARING).pcm + bytes(4 * HEARING), HEARING))
    owner = ConversationServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    own = pb.InboundMessage(text="hello", provider_message_id="before the calls")
    async for _ in owner.SendMessage(pb.SendMessageRequest(message=own)):
        pass
    async with Provider().serving() as provider:
        street = Street(desks.b, provider)
        base = (await street.add("whatsapp-cloud")).channel.webhook_url.removesuffix("/channels/wa")
        # Ravi has written with bob's agent on WhatsApp, from the number that he calls from.
        whose = {"timestamp": str(int(time.time())), "from": "919000000055"}
        hello = wa_message("text", {"body": "@bob hello"}, "wamid.ravi", **whose)
        await street.say("whatsapp-cloud", wa(hello, contact={"wa_id": whose["from"]}))
        before = len(provider.sent)
        await call(base, "+919000000055", said)
        words, document = (await provider.until(before + 2))[before:]
        assert words["to"] == document["to"] == "919000000055"
        assert "stands in the calendar of ind.ai/bob" in words["text"]["body"]
        assert b"METHOD:REQUEST" in provider.uploads[-1]["file"]["content"]
        # Nobody knows who the other caller is: nothing is sent to them, and bob reads whom to tell.
        await call(base, "+919000000066", said)
        assert not any(each.get("to") == "919000000066" for each in provider.sent)
        await street.remove("whatsapp-cloud")
    assert "+919000000066\\, as the network says" in _titles(desks).replace("\n ", "").replace("\r", "")
    # On the call itself each has heard which of the two it is; what was said is kept when the turn is over.
    async with asyncio.timeout(60):
        while "ind.ai/bob has your number" not in (heard := await _said(owner, "voice")):
            await asyncio.sleep(0.05)
        while "Somebody called from +919000000066" not in await _said(owner, "cli"):
            await asyncio.sleep(0.05)
    assert "goes to your number on WhatsApp" in heard


async def _said(owner: Any, channel: str) -> str:
    """All that the agent said in sessions that began on a channel."""
    mine = (await owner.ListSessions(pb.ListSessionsRequest())).sessions
    return "\n".join([await _said_in(owner, each) for each in mine if each.channels[0] == channel])


async def _said_in(owner: Any, session: pb.Session) -> str:
    """All that the agent said in a session."""
    asked = pb.ListSessionMessagesRequest(session_id=session.session_id)
    return "\n".join(each.text for each in (await owner.ListSessionMessages(asked)).messages if each.outgoing)


async def test_a_member_who_chats_at_anothers_door_is_asked_by_their_own_agent_first(desks: Desks) -> None:
    dora = await desks.b.agent("ind.ai/dora", BOBS.replace("ind.ai/alice", "ind.ai/bob"))
    approvals = ApprovalServiceStub(plain_channel(desks.b.info.addresses["owner"], token=dora.token))
    async with desks.browser(desks.b, dora) as visitor:
        await visitor.get("/bob")
        await _chat(visitor, "Set up a 15 minute meeting next week")
        await _chat(visitor, "Dora")
        answer = await _chat(visitor, "dora@example.org")
        assert "own inbox" in answer, answer
    (waiting,) = (await approvals.ListApprovals(tools_pb2.ListApprovalsRequest())).approvals
    assert "Ask ind.ai/bob for 15 minutes" in waiting.terms
    assert (await dora.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads == []


async def test_the_agent_of_somebody_signed_in_takes_over_and_both_calendars_have_it(desks: Desks) -> None:
    carol = await desks.b.agent("ind.ai/carol", BOBS.replace("ind.ai/alice", "ind.ai/bob"))
    rules = BOBS.replace("[ind.ai/alice]", "[ind.ai/alice, ind.ai/carol]")
    await desks.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=rules))
    async with desks.browser(desks.b, carol) as visitor:
        page = await _asked(desks, visitor, title="With my own agent", time="morning")
        assert page.status == 200
        assert re.search(r'role="status">agreed; ', page.text), page.text
    for owner in (carol, desks.bob):
        threads = (await owner.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
        states = [each.state for each in threads if each.title == "With my own agent"]
        assert states == [owner_pb2.THREAD_STATE_COMMITTED]
        assert owner is desks.bob or "With my own agent" in _titles(desks, "carol")
