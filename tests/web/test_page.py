"""The public page in a real browser: chat, a meeting, a broken stream, script in every text, another site."""

from __future__ import annotations

import pytest
from aiohttp import web
from indai.v1 import owner_pb2
from playwright.async_api import Browser, Route, ViewportSize, expect

from tests.service.page.test_meeting import STRANGERS, _titles
from tests.service.page.test_page import CORPUS
from tests.service.web.conftest import BOBS, Desks
from tests.web.conftest import DESKTOP, PHONE, screen

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _write(window: object, text: str) -> None:
    page = window.page  # type: ignore[attr-defined]
    await page.get_by_label("Your message").fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=("phone", "desktop"))
async def test_a_newcomer_chats_and_books_a_meeting(
    chromium: Browser, desks: Desks, size: ViewportSize
) -> None:
    rules = BOBS + STRANGERS.format(way="allow")
    await desks.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=rules))
    async with screen(chromium, desks, size) as window:
        page = window.page
        await window.open("/bob")
        await window.check()
        await window.picture("page")
        await page.get_by_role("button", name="Who do you work for?").click()
        await expect(page.locator(".theirs .said").last).not_to_be_empty()
        await window.check()
        await window.picture("page-chat")
        await page.get_by_label("Your name").fill("Meera")
        await page.get_by_label("Your e-mail address").fill("meera@example.org")
        await page.get_by_label("What it is about").fill(f"Seen from a {window.name}")
        await page.get_by_role("button", name="Ask for it").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("The meeting is booked")
        await window.check()
        await window.picture("page-booked")
    assert f"Seen from a {window.name}" in _titles(desks)


async def test_a_visitors_own_agent_takes_over_and_both_nodes_sign(chromium: Browser, desks: Desks) -> None:
    await desks.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=BOBS))
    async with screen(chromium, desks, PHONE) as window:
        page = window.page
        # Cookies know no ports: on one machine two nodes are told apart by their names.
        await page.goto(window.base.replace("localhost", "127.0.0.1") + "/bob")
        await page.get_by_text("You have an agent of your own?").click()
        await page.get_by_label("Your handle").fill("ind.ai/alice")
        await page.get_by_role("button", name="Let it take over").click()
        await expect(page.get_by_text("Verified handle")).to_be_visible()
        await window.check()
        await window.picture("page-agent")
        await page.get_by_role("link", name="Go on at").click()
        await page.get_by_label("Your one-time code").fill(await desks.code(desks.a, desks.alice))
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Ask ind.ai/bob for a meeting")
        await window.check()
        await window.picture("desk-start")
        await page.get_by_label("What it is about").fill("Two agents, one browser")
        await page.get_by_role("button", name="Let my agent ask").click()
        await expect(page.locator("main .notice")).to_contain_text("agreed")
        await window.check()
        await page.get_by_role("link", name="Back to 127.0.0.1").click()
        await expect(page.locator(".who")).to_contain_text("ind.ai/alice")
        await window.check()
        await window.picture("page-introduced")
    for owner in (desks.alice, desks.bob):
        threads = (await owner.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
        states = [each.state for each in threads if each.title == "Two agents, one browser"]
        assert states == [owner_pb2.THREAD_STATE_COMMITTED]


async def test_a_broken_stream_goes_on_and_nothing_that_is_written_runs(
    chromium: Browser, desks: Desks
) -> None:
    async with screen(chromium, desks, PHONE) as window:
        page, dialogs, again = window.page, [], []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.on("request", lambda one: again.append(one.headers) if "/-/turns/" in one.url else None)

        async def cut(route: Route) -> None:
            answer = await route.fetch()
            first = (await answer.text()).split("\n\n")[:2]
            await route.fulfill(response=answer, body="\n\n".join(first) + "\n\n")

        await page.route("**/-/say", cut)
        await window.open("/bob")
        await _write(window, "What can you do?")
        await expect(page.locator(".theirs .said").last).to_contain_text("questions")
        assert again[0]["last-event-id"] == "2"
        await page.unroute("**/-/say")
        for number, text in enumerate(CORPUS[:3], 2):
            await _write(window, text)
            await expect(page.locator(".theirs .said")).to_have_count(number)
            await expect(page.locator(".mine .said").last).to_have_text(text)
            await expect(page.locator(".theirs .said").last).not_to_be_empty()
        await page.reload()
        await expect(page.locator(".mine .said")).to_have_count(4)
        assert dialogs == []
        assert window.errors == []


async def test_the_chat_stands_in_a_site_that_the_owner_named_and_in_no_other(
    chromium: Browser, desks: Desks
) -> None:
    line = (
        f'<script src="{desks.base(desks.b)}/widget.js" data-handle="bob" data-label="Ask us" defer></script>'
    )

    async def shop(_: web.Request) -> web.Response:
        head = "<!doctype html><html lang=en><link rel=icon href='data:,'><title>Shop</title>"
        page = f"{head}<h1>A shop</h1>{line}</html>"
        return web.Response(text=page, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", shop)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with desks.browser(desks.b, desks.bob) as owner:
            await owner.get("/bob")
            await owner.post("/bob/-/sites", sites=address)
        async with screen(chromium, desks, DESKTOP) as window:
            page = window.page
            await page.goto(address)
            await page.get_by_role("button", name="Ask us").click()
            frame = page.frame_locator("iframe")
            await frame.get_by_label("Your message").fill("What can you do?")
            await frame.get_by_role("button", name="Send", exact=True).click()
            await expect(frame.locator(".theirs .said").last).to_contain_text("questions")
            await window.picture("page-widget")
            assert window.errors == []
            await page.goto(address.replace("127.0.0.1", "localhost"))
            await page.get_by_role("button", name="Ask us").click()
            await expect(page.frame_locator("iframe").get_by_label("Your message")).to_have_count(0)
            for _ in range(200):  # the console's word comes when it comes
                if any("frame-ancestors" in each for each in window.errors):
                    break
                await page.wait_for_timeout(50)
            assert any("frame-ancestors" in each for each in window.errors)
    finally:
        await runner.cleanup()
