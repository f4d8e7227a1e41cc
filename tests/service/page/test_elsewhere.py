"""What reaches a page from elsewhere: other sites that show its chat, visitors whose agent lives on another
node, and what others try of both."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from indai.client.channels import plain_channel
from indai.protocol.errors import InvalidInput, Refused
from indai.runtime.conversations.rows import seeing
from indai.v1 import conversation_pb2 as pb
from indai.v1 import desk_pb2, owner_pb2
from indai.v1.desk_pb2_grpc import SteeringServiceStub

from tests.service.page.conftest import events, visiting
from tests.service.page.test_page import STREAM
from tests.service.web.conftest import BOBS, Desks


async def _sent_on(visitor: Any, handle: str = "ind.ai/alice") -> tuple[str, str]:
    """Where the page sends a visitor who names their handle, and the way back that it gives along."""
    await visitor.get("/bob")
    page = await visitor.post("/bob/-/agent", handle=handle)
    assert page.status == 200, page.text
    assert "Verified handle" in page.text
    way = re.search(r'href="([^"]+/desk/start[^"]+)"', page.text)
    assert way, page.text
    query = parse_qs(urlsplit(unescape(way[1])).query)
    assert query["with"] == ["ind.ai/bob"]
    return unescape(way[1]), query["back"][0]


async def _introduced(desks: Desks, back: str, page: str = "", challenge: str = "", to: str = "") -> str:
    """The path of a way back with an introduction of alice's; her node signs whatever page she names."""
    steering = SteeringServiceStub(plain_channel(desks.a.info.addresses["owner"], token=desks.alice.token))
    request = desk_pb2.IntroduceRequest(
        page=page or back, to=to or "ind.ai/bob", challenge=challenge or back.rpartition("/")[2]
    )
    text = (await steering.Introduce(request)).introduction
    return f"{urlsplit(back).path}?introduction={text}"


async def test_the_visitors_agent_asks_at_its_own_node_and_both_sign(desks: Desks) -> None:
    await desks.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=BOBS))
    async with visiting(desks) as visitor, desks.browser(desks.a, desks.alice) as home:
        way, _ = await _sent_on(visitor)
        assert way.startswith(desks.base(desks.a))
        start = await home.get(way.removeprefix(desks.base(desks.a)))
        assert "Ask ind.ai/bob for a meeting" in start.text
        fields = dict(
            re.findall(r'name="(with|back|id)" value="([^"]+)"', start.text.partition("<footer")[0])
        )
        wish = {"minutes": "30", "when": "next week", "time": "", "title": "By my own agent"}
        wish |= {"ask": "yes", "introduce": "yes"} | fields
        done = await home.post("/desk/start", None, **wish)
        assert "agreed" in done.text, done.text
        back = re.search(r'href="([^"]+/-/agent/back/[^"]+)"', done.text)
        assert back, done.text
        page = await visitor.get(unescape(back[1]).removeprefix(visitor.base))
        assert page.path.startswith("/bob"), page.text
        assert "You talk as your handle now" in page.text
        told = events((await visitor.post("/bob/-/say", STREAM, text="Hello")).text)
        assert told[0][2]["door"] == "public"
    for owner in (desks.alice, desks.bob):
        threads = (await owner.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
        states = [each.state for each in threads if each.title == "By my own agent"]
        assert states == [owner_pb2.THREAD_STATE_COMMITTED]


async def test_an_introduction_is_of_one_browser_one_page_and_one_handle(desks: Desks) -> None:
    async with visiting(desks) as visitor, visiting(desks) as other:
        _, back = await _sent_on(visitor)
        good = await _introduced(desks, back)
        _, others = await _sent_on(other)
        await visitor.get("/bob")
        wrong = (
            await _introduced(desks, back, page=others),
            await _introduced(desks, back, page="https://evil.example/bob"),
            await _introduced(desks, back, challenge=others.rpartition("/")[2]),
            await _introduced(desks, back, to="ind.ai/carol"),
            good[:-6] + "AAAAAA",
            good.replace("introduction=ey", "introduction=eyJ"),
            urlsplit(back).path,
            good.replace("/back/1", "/back/2"),
        )
        for path in wrong:
            page = await visitor.get(path)
            assert page.status in (400, 401, 403, 404), (path, page.status)
            assert "ind.ai/alice" not in (await visitor.get("/bob")).text
        assert (await other.get(good)).status == 403  # somebody who was sent the link
        assert "ind.ai/alice" in (await visitor.get(good)).text
        # The cookie is of this browser alone.
        (guest,) = [each for each in visitor.http.cookie_jar if each.key == "indai-guest"]
        page = await other.get("/bob", Cookie=f"indai-guest={guest.value}")
        assert "ind.ai/alice" not in page.text


async def test_what_a_guest_said_before_goes_on_under_their_handle_and_nowhere_else(desks: Desks) -> None:
    await desks.b.agent("ind.ai/nima", BOBS)
    before, during, elsewhere = "My heron is called Miso", "Now I write as alice", "This is for nima"
    async with visiting(desks) as visitor, visiting(desks) as other:
        for handle, text in (("bob", before), ("nima", elsewhere)):
            await visitor.get(f"/{handle}")
            assert text in (await visitor.post(f"/{handle}/-/say", text=text)).text
        _, back = await _sent_on(visitor)
        good = await _introduced(desks, back)
        for _ in range(2):  # also when the way back is loaded again
            assert before in (await visitor.get(good)).text
        page = await visitor.post("/bob/-/say", text=during)
        assert before in page.text
        assert during in page.text
        assert elsewhere not in (await visitor.get("/nima")).text  # nobody was told there who it was

        # Whoever has the browser when the guest is gone, is nobody, and finds nothing of theirs.
        visitor.http.cookie_jar.clear(lambda cookie: cookie.key == "indai-guest")
        for text in (before, during):
            assert text not in (await visitor.get("/bob")).text
        assert during not in (await visitor.post("/bob/-/say", text="Hello again")).text
        assert elsewhere in (await visitor.get("/nima")).text

        # The handle's conversation is where the handle is proved.
        assert before not in (await other.get("/bob")).text
        _, back = await _sent_on(other)
        assert before in (await other.get(await _introduced(desks, back))).text
    async with seeing(desks.pool, ["ind.ai/bob"]) as connection:
        rows = await connection.fetch(
            "SELECT DISTINCT s.id, s.person, s.scope_person, s.status FROM runtime.sessions s"
            " JOIN runtime.messages m ON m.session = s.id WHERE m.text = ANY ($1)",
            [before, during],
        )
        later = await connection.fetchval(
            "SELECT s.scope_person FROM runtime.sessions s JOIN runtime.messages m ON m.session = s.id"
            " WHERE m.text = 'Hello again'"
        )
    (one,) = rows
    assert (one["status"], one["scope_person"]) == ("active", one["person"])
    assert later != one["scope_person"]  # and its memory is another


async def test_what_was_proved_already_is_taken_over_by_nobody(desks: Desks) -> None:
    alice = pb.Identity(channel="web", kind="handle", value="ind.ai/alice", verified=True)
    telephone = pb.Identity(channel="whatsapp", kind="phone", value="+919800088001", verified=True)
    browser = pb.Identity(channel="web", kind="web_session", value="b" * 64)
    for visitor, known in ((alice, telephone), (telephone, alice), (browser, browser)):
        request = pb.AdoptSessionRequest(visitor=visitor, known=known, handle="ind.ai/bob")
        with pytest.raises(Refused):
            await desks.talks.stub.AdoptSession(request)
    nothing = pb.AdoptSessionRequest(visitor=browser, known=alice, handle="ind.ai/bob")
    assert not (await desks.talks.stub.AdoptSession(nothing)).adopted


async def test_who_lives_here_signs_in_and_is_introduced_by_nobody(desks: Desks) -> None:
    async with visiting(desks) as visitor:
        await visitor.get("/bob")
        page = await visitor.post("/bob/-/agent", handle="ind.ai/bob")
        assert page.path.startswith("/desk/sign-in?next=/bob")
        assert (await visitor.post("/bob/-/agent", handle="ind.ai/nobody-at-all")).status == 404
        assert (await visitor.post("/bob/-/agent", handle="<script>")).status == 400
        _, back = await _sent_on(visitor)
        steering = SteeringServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
        request = desk_pb2.IntroduceRequest(page=back, to="ind.ai/bob", challenge=back.rpartition("/")[2])
        text = (await steering.Introduce(request)).introduction
        page = await visitor.get(f"{urlsplit(back).path}?introduction={text}")
        assert page.status == 404
        assert "private door" not in (await visitor.get("/bob")).text


async def test_a_link_asks_for_nothing_by_itself(desks: Desks) -> None:
    async with desks.browser(desks.a, desks.alice) as home:
        before = len((await desks.alice.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads)
        assert (await home.get("/desk/start?with=ind.ai/bob")).status == 200
        assert (await home.post("/desk/start", {"Origin": "https://evil.example"}, ask="yes")).status == 403
        for back in (
            "javascript:alert(1)//-/agent/back/x",
            "http://evil.example/bob/-/agent/back/1",
            "https://e.example/x",
        ):
            page = await home.get("/desk/start?with=ind.ai/bob&back=" + back)
            assert page.status == 400, back
        assert len((await desks.alice.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads) == before
    async with visiting(desks) as nobody:
        page = await nobody.get("/desk/start?with=ind.ai/bob")
        assert page.path.startswith("/desk/sign-in?next=/desk/start?with%3D")


async def test_a_node_signs_for_pages_alone(desks: Desks) -> None:
    for page in ("http://evil.example/x", "https://a b/", "ftp://a.example/", "https://u@a.example/"):
        with pytest.raises(InvalidInput):
            await _introduced(desks, "https://a.example/bob/-/agent/back/" + "1" * 20, page=page)


async def test_the_owner_says_which_sites_may_frame_it(desks: Desks) -> None:
    async with visiting(desks) as visitor, desks.browser(desks.b, desks.bob) as owner:
        before = (await visitor.get("/bob/-/widget")).answer.headers
        assert "frame-ancestors 'none'" in before["Content-Security-Policy"]
        await owner.get("/bob")
        page = await owner.post("/bob/-/sites", sites="https://shop.example\nhttp://localhost:8123")
        assert page.path.startswith("/bob")
        after = (await visitor.get("/bob/-/widget")).answer.headers
        named = "frame-ancestors https://shop.example http://localhost:8123"
        assert named in after["Content-Security-Policy"]
        assert "X-Frame-Options" not in after
        assert (
            "frame-ancestors 'none'" in (await visitor.get("/bob")).answer.headers["Content-Security-Policy"]
        )
        script = await visitor.get("/widget.js")
        assert script.answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert len(script.text) < 4_000


async def test_the_command_names_the_same_sites_and_refuses_the_same_ones(desks: Desks) -> None:
    token, address = desks.bob.token, desks.b.info.addresses["owner"]
    steering = SteeringServiceStub(plain_channel(address, token=token))
    named = desk_pb2.SetChatSitesRequest(sites=["https://Shop.example", "https://shop.example"])
    assert (await steering.SetChatSites(named)).sites == ["https://shop.example"]
    assert (await steering.ListChatSites(desk_pb2.ListChatSitesRequest())).sites == ["https://shop.example"]
    with pytest.raises(InvalidInput):
        await steering.SetChatSites(desk_pb2.SetChatSitesRequest(sites=["https://a.b; script-src *"]))
    async with visiting(desks) as visitor:
        policy = (await visitor.get("/bob/-/widget")).answer.headers["Content-Security-Policy"]
        assert "frame-ancestors https://shop.example" in policy
    # Another owner's sites are their own.
    alice = SteeringServiceStub(plain_channel(desks.a.info.addresses["owner"], token=desks.alice.token))
    assert (await alice.ListChatSites(desk_pb2.ListChatSitesRequest())).sites == []


@pytest.mark.parametrize(
    "site", ["http://shop.example", "https://a.b/path", "https://a.b; script-src *", "*", "https://", "data:"]
)
async def test_what_is_no_site_is_not_allowed(desks: Desks, site: str) -> None:
    async with desks.browser(desks.b, desks.bob) as owner:
        await owner.get("/bob")
        assert (await owner.post("/bob/-/sites", sites=site)).status == 400


async def test_nobody_else_says_where_it_may_be(desks: Desks) -> None:
    async with visiting(desks) as visitor, desks.browser(desks.b, desks.bob) as owner:
        await visitor.get("/bob")
        page = await visitor.post("/bob/-/sites", sites="https://evil.example")
        assert page.path == "/desk/sign-in"
        await owner.get("/bob")
        assert (await owner.post("/alice/-/sites", sites="https://evil.example")).status == 403
        policy = (await visitor.get("/bob/-/widget")).answer.headers["Content-Security-Policy"]
        assert "evil" not in policy


async def test_the_frame_carries_its_visitor_and_is_never_signed_in(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as owner:
        page = await owner.get("/bob/-/widget")
        carried = re.search(r'data-visitor="([^"]+)"', page.text)
        assert carried
        headers = {"X-Visitor": carried[1]}
        told = events((await owner.post("/bob/-/say", STREAM | headers, text="Hello")).text)
        assert told[0][2]["door"] == "public"
        assert "Hello" in (await owner.get("/bob/-/widget", **headers)).text
        assert 'class="mine"' not in (await owner.get("/bob/-/widget")).text
