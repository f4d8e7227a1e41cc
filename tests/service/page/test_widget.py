"""The chat inside other sites: only where its owner says so, without cookies, and never signed in."""

from __future__ import annotations

import re

import pytest

from tests.service.page.conftest import events, visiting
from tests.service.page.test_page import STREAM
from tests.service.web.conftest import Desks


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
