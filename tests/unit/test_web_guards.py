"""What strangers send in place of a cookie or a form's token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestClient, TestServer
from indai.protocol.errors import Reason, Refused, Unavailable
from indai.web.guards import (
    Known,
    check_form,
    form_token,
    is_visitor,
    known_by,
    known_cookie,
    visitor_cookie,
)
from indai.web.site import STRANGERS_ACTS_A_MINUTE, Place, Site
from indai.web.visit import Visit

SECRET = b"s" * 32


@pytest.mark.parametrize("shown", ["", ".", "a.b", "a.\udcff", "\udcff.a", "\udcff"])
def test_bytes_that_are_no_text_make_nobody_a_visitor(shown: str) -> None:
    assert is_visitor(SECRET, visitor_cookie(SECRET))
    assert not is_visitor(SECRET, shown)
    with pytest.raises(Refused) as raised:
        check_form(SECRET, visitor_cookie(SECRET), shown)
    assert raised.value.reason is Reason.PERMISSION_DENIED


async def test_who_signed_in_here_before_is_not_kept_out_by_others_behind_the_same_address() -> None:
    nothing: Any = None
    site = Site(nothing, nothing, SECRET, lambda: 0, lambda: Place("http://localhost", secure=True), {})

    async def done(visit: Visit) -> web.Response:
        return web.Response(text="done", headers={"X-Known": visit.known.of})

    app = web.Application()
    app.add_routes([site.post("/try", done)])
    cookie = visitor_cookie(SECRET)
    async with TestClient(TestServer(app), cookies={"indai-visitor": cookie}) as client:

        async def tries(known: str) -> int:
            cookies = {"indai-known": known} if known else {}
            form = {"csrf": form_token(SECRET, cookie)}
            async with client.post("/try", data=form, cookies=cookies) as answer:
                return answer.status

        assert {await tries("") for _ in range(STRANGERS_ACTS_A_MINUTE)} == {200}
        assert await tries("") == 429
        assert await tries(known_cookie(b"another's", "ind.ai/bob")) == 429
        assert await tries(known_cookie(SECRET, "ind.ai/bob")) == 200


@pytest.mark.parametrize("shown", ["", ".", "..", "zz.1.2", "\udcff.a.b"])
def test_a_browser_is_known_by_our_own_word_alone(shown: str) -> None:
    assert known_by(SECRET, known_cookie(SECRET, "ind.ai/bob")).of == "ind.ai/bob"
    assert known_by(SECRET, shown) == Known()


async def test_a_download_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    nothing: Any = None
    site = Site(nothing, nothing, SECRET, lambda: 0, lambda: Place("http://localhost", secure=True), {})

    async def parts(*, breaks: bool) -> AsyncIterator[bytes]:
        yield b"one\n"
        if breaks:
            raise Unavailable(Reason.UNREACHABLE, "The memory went away.")
        yield b"two\n"

    async def download(request: web.Request) -> web.StreamResponse:
        visit: Any = SimpleNamespace(request=request)
        lines = parts(breaks="breaks" in request.query)
        return await site.streamed(visit, lines, "memory.jsonl", "application/jsonl")

    app = web.Application()
    app.router.add_get("/", download)
    async with TestClient(TestServer(app)) as client:
        async with client.get("/") as whole:
            assert await whole.read() == b"one\ntwo\n"
            assert "attachment" in whole.headers["Content-Disposition"]
            assert "default-src 'none'" in whole.headers["Content-Security-Policy"]
        async with client.get("/?breaks=1") as half:
            with pytest.raises(ClientPayloadError):
                await half.read()
