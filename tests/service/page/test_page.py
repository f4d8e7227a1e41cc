"""The public page of a handle: who may see what, a chat as a form and as a stream, and what strangers try."""

from __future__ import annotations

import re

from indai.client.channels import plain_channel
from indai.v1 import conversation_pb2 as pb
from indai.v1.conversation_pb2_grpc import ConversationServiceStub

from tests.service.page.conftest import events, visiting
from tests.service.web.conftest import Desks

STREAM = {"Accept": "text/event-stream"}
CORPUS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "</textarea><svg onload=alert(1)>",
    "![x](data:text/html;base64,PHNjcmlwdD4=)",
    '" autofocus onfocus=alert(1) x="',
)


async def test_a_page_says_who_it_is_and_proves_it(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        page = await visitor.get("/bob")
        assert page.status == 200
        for words in ("ind.ai/bob", "Verified handle", "AI agent", "Find a time for a meeting"):
            assert words in page.text, words
        assert re.search(r"<dd class=\"mono\">\S{20,}<", page.text)
        assert (await visitor.get("/ind.ai/bob")).path == "/bob"
        assert (await visitor.get("/Bob")).path == "/bob"
        card = await visitor.get("/ind.ai/bob/.well-known/agent-card.json")
        assert card.status == 200


async def test_where_nobody_is_the_page_says_so_and_swallows_no_path_of_the_node(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        for path in (
            "/nobody-there",
            "/alice",
            "/desk/nothing",
            "/a.b.c.d",
            "/x",
            "/shop.example",
            "/bob/say",
        ):
            page = await visitor.get(path)
            assert (page.status, "There is nobody at" in page.text) == (404, True), path
        assert (await visitor.get("/desk")).path.startswith("/desk/sign-in")
        assert "a2a" in (await visitor.get("/.well-known/agent-card.json")).text.lower()
        assert (await visitor.get("/%3Cscript%3E")).status == 404


async def test_without_javascript_a_form_brings_the_page_back_with_the_answer(desks: Desks) -> None:
    async with visiting(desks) as visitor, visiting(desks) as other:
        await visitor.get("/bob")
        page = await visitor.post("/bob/-/say", text="Hello <b>there</b>")
        assert (page.status, page.path) == (200, "/bob")
        assert "Hello &lt;b&gt;there&lt;/b&gt;" in page.text
        assert page.text.count('class="theirs"') == 1
        # What one visitor says, no other one sees.
        assert "there&lt;" not in (await other.get("/bob")).text


async def test_a_stream_tells_sentences_and_goes_on_after_the_last_event(desks: Desks) -> None:
    async with visiting(desks) as visitor, visiting(desks) as other:
        await visitor.get("/bob")
        fields = {"text": "What can you do?", "id": "0123456789ab"}
        told = events((await visitor.post("/bob/-/say", STREAM, **fields)).text)
        assert [told[0][1], told[-1][1]] == ["accepted", "finished"]
        assert [int(number) for number, _, _ in told] == list(range(1, len(told) + 1))
        turn = told[0][2]["turn"]
        again = await visitor.get(f"/bob/-/turns/{turn}", **{"Last-Event-ID": told[1][0]})
        assert events(again.text) == told[2:]
        # The same message is taken once, and told again.
        repeated = events((await visitor.post("/bob/-/say", STREAM, **fields)).text)
        assert repeated[-1] == told[-1]
        assert (await visitor.get("/bob")).text.count('class="mine"') == 1
        assert (await other.get(f"/bob/-/turns/{turn}")).status == 404


async def test_nothing_that_is_written_becomes_script(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        for text in CORPUS:
            page = await visitor.post("/bob/-/say", text=text)
            assert page.status == 200
        clean = re.sub(r'<script src="/static/[^"]+" defer></script>', "", page.text)
        assert not re.search(
            r"<script|<img|<svg|<iframe|<[^>]* on\w+=|(href|src)=\"(javascript|data):", clean
        ), clean
        assert "unsafe" not in page.answer.headers["Content-Security-Policy"]
        told = await visitor.post("/bob/-/say", STREAM, text=f"say {CORPUS[0]}")
        for _, kind, value in events(told.text):
            assert "<script" not in str(value), kind


async def test_who_is_signed_in_is_known_by_their_handle_and_the_owner_stands_at_the_private_door(
    desks: Desks,
) -> None:
    async with desks.browser(desks.b, desks.bob) as owner, visiting(desks) as visitor:
        page = await owner.get("/bob")
        assert "this is your private door" in page.text
        told = events((await owner.post("/bob/-/say", STREAM, text="Hello")).text)
        assert told[0][2]["door"] == "private"
        await visitor.get("/bob")
        told = events((await visitor.post("/bob/-/say", STREAM, text="Hello")).text)
        assert told[0][2]["door"] == "public"
    talk = ConversationServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    sessions = (await talk.ListSessions(pb.ListSessionsRequest())).sessions
    assert {each.door for each in sessions} == {"private", "public"}


async def test_a_cookie_that_we_did_not_make_makes_nobody(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        await visitor.post("/bob/-/say", text="Hello")
        (cookie,) = [each for each in visitor.http.cookie_jar if each.key == "indai-visitor"]
        assert cookie["httponly"]
        for made_up in (cookie.value[:-1] + ("0" if cookie.value[-1] != "0" else "1"), "x", ""):
            headers = {"X-Visitor": made_up}
            page = await visitor.post("/bob/-/say", headers, text="Hello again")
            assert (page.status == 403) == bool(made_up), made_up
        assert "Hello again" not in (await visitor.get("/bob", **{"X-Visitor": "forged"})).text


async def test_a_form_of_another_site_says_nothing_in_somebodys_name(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        page = await visitor.post("/bob/-/say", {"Origin": "https://evil.example"}, text="Hello")
        assert page.status == 403
        assert (await visitor.post("/bob/-/say", csrf="0" * 64, text="Hello")).status == 403
        assert 'class="mine"' not in (await visitor.get("/bob")).text


async def test_a_visitor_who_writes_without_end_is_slowed_down(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        pages = [await visitor.post("/bob/-/say", STREAM, text="") for _ in range(21)]
        assert [page.status for page in pages] == [400] * 20 + [429]
        assert "often" in pages[-1].text


async def test_a_telephone_is_joined_only_by_who_is_signed_in_and_says_so(desks: Desks) -> None:
    async with visiting(desks) as visitor, desks.browser(desks.b, desks.bob) as owner:
        await visitor.get("/bob")
        assert (await visitor.post("/bob/-/link", consent="yes")).status == 400
        await owner.get("/bob")
        assert (await owner.post("/bob/-/link")).status == 400
        page = await owner.post("/bob/-/link", consent="yes")
        assert page.status == 200


async def test_a_paused_agent_says_so(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as owner, visiting(desks) as visitor:
        await owner.get("/desk/pause")
        await owner.post("/desk/pause/on", way="refuse")
        assert "takes on nothing new" in (await visitor.get("/bob")).text
        await owner.post("/desk/pause/off")
        assert "takes on nothing new" not in (await visitor.get("/bob")).text
