"""An organisation's desk in a real browser, at phone and desktop size, on what really took place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from indai.v1 import desk_pb2
from indai.v1.desk_pb2_grpc import DeskServiceStub
from indai.web.oidc import RETURN as OIDC
from playwright.async_api import Browser, ViewportSize, expect

from tests.service.edge.provider import Fault, Provider
from tests.service.web.addresses import filled, is_file, is_stream
from tests.service.web.tenants import CITIZENS, City, city
from tests.service.web.test_tenant_rooms import line
from tests.web.conftest import DESKTOP, PHONE, SCREENSHOTS, Screen, screen
from tests.web.english import english
from tests.web.test_desk import AUTHENTICATOR
from tests.web.test_desk import ROOMS as WALKED

__all__ = ["city"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {
    "": "tenant-overview",
    "/talks": "tenant-conversations",
    "/board": "tenant-board",
    "/guardrails": "tenant-guardrails",
    "/costs": "tenant-costs",
    "/work": "tenant-work",
    "/log": "tenant-log",
    "/desk/let-in": "tenant-people",
}
"""What pictures of the rooms are called."""
HOST = "riverton.example"
NAMED = (
    *(
        "Riverton",
        "riverton",
        "Ravi",
        "Meera",
        "Fatima",
        "Asha Rao",
        "shop",
        "electric",
        "no-shrug",
        "Chrome · Linux",
    ),
    *("Which number is the hotline?", "When is the ward office open?", "And on Saturdays?"),
    *("This is terrible, nobody calls me back! I want to complain.", "I did not understand that."),
    "I cannot help with that. I can set up, move or cancel a meeting, ask, share, pay and book; for example:"
    " set up 30 minutes with bob this week.",
    *("I am sorry about that. I have noted it as a complaint, and a person will see it.", "Counter 2"),
    *("staff takes over now and will answer you here.", "I am Kavya. I will call you at five."),
    *(
        "Street light dark on 4th Cross",
        "Lamp post leaning",
        "Lights on by day",
        "It has been so for a week.",
    ),
    *("A crew looks at it on Monday.", "Hello from Riverton.", "Hello", "Still there?"),
    *("wa ", "whatsapp", "WhatsApp", "line", "consolidate"),
    *("HUMAN", "TEAM", "AGENT", "HISTORY", "human", "team", "agent", "history", "ms", "p95", "p50"),
    "CSV",
    "JSON",
)
"""What people, agents and tiers are called here, and what was said."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy(city: City) -> AsyncIterator[City]:
    """Three visitors, of whom one has somebody's ear, and three requests."""
    people = [("ind.ai/meera", "Meera"), ("ind.ai/ravi", "Ravi"), ("ind.ai/fatima", "Fatima")]
    said = (
        ("When is the ward office open?", "And on Saturdays?"),
        ("This is terrible, nobody calls me back! I want to complain.",),
        ("नमस्ते, पानी का बिल कहाँ भरूँ?", "Which number is the hotline?"),
    )
    for (handle, name), texts in zip(people, said, strict=True):
        who = await city.b.agent(handle, CITIZENS)
        for text in texts:
            await city.says(HOST, text, who, name)
    for subject in ("Street light dark on 4th Cross", "Lamp post leaning", "Lights on by day"):
        await city.files(subject)
    yield city


def _rooms(city: City, role: str) -> list[str]:
    """Every page there is for somebody with this role, as the site's own table has it."""
    return [
        filled(one.path, {"tenant": "riverton", "session": city.session})
        for one in city.pages.site.made
        if one.method == "GET" and role in (one.roles or ()) and not (is_stream(one) or is_file(one))
    ]


async def _signed_in(window: Screen, city: City, role: str = "operator") -> None:
    await window.open(f"/desk/sign-in?code={await city.code('riverton', role)}")
    await window.click("button", "Sign in")
    await expect(window.page.get_by_role("heading", level=1)).to_have_text("Overview")


LOOKS = [(PHONE, "light"), (DESKTOP, "dark")]


@pytest.mark.parametrize(
    ("size", "scheme"),
    # For pictures alone: what it would find the other two do.
    [*LOOKS, (DESKTOP, "light"), (PHONE, "dark")] if SCREENSHOTS else LOOKS,
)
async def test_every_room_is_accessible_and_fits_the_screen(
    chromium: Browser, busy: City, size: ViewportSize, scheme: str
) -> None:
    async with screen(chromium, busy, size, color_scheme=scheme) as window:
        await _signed_in(window, busy)
        rooms = _rooms(busy, "operator")
        assert len(rooms) > 8
        for path in rooms:
            await window.open(path)
            await window.check()
            name = NAMES.get(path.removeprefix("/tenant/riverton"), "")
            if name:
                await window.picture(name if scheme == "light" else f"{name}-dark")
        await window.open("/tenant/riverton/guardrails")
        await window.page.get_by_text("no-shrug").last.click()
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("Meera")
        await expect(window.page.locator(".shown .notice")).to_contain_text("I did not understand")
        await window.check()
        if size == PHONE:
            await window.page.set_viewport_size({"width": 320, "height": 640})
            for path in rooms:
                await window.open(path)
                width = await window.page.evaluate("document.documentElement.scrollWidth")
                assert width <= 320, path


async def test_pages_that_are_new_are_accessible_and_fit_too(chromium: Browser, busy: City) -> None:
    """Pages for owners and for anybody that no other test walks through yet, by the site's own table."""
    desk = busy.stub(DeskServiceStub, busy.office.token)
    code = (await desk.CreateSignInCode(desk_pb2.CreateSignInCodeRequest())).code
    public = [one.path for one in busy.pages.site.made if one.method == "GET" and one.roles is None]
    async with screen(chromium, busy, PHONE, color_scheme="dark") as window:
        await window.open(f"/desk/sign-in?code={code}")
        await window.click("button", "Sign in")
        paths = [path for path in _rooms(busy, "owner") if path not in WALKED]
        paths += [path for path in public if "{" not in path and path != OIDC]
        for path in paths:
            answer = await window.page.goto(window.base + path)
            assert answer is not None
            window.errors.clear()  # a page that is not there says so in the console
            await window.check()


async def test_a_conversation_is_taken_over_and_another_open_desk_sees_it(
    chromium: Browser, busy: City
) -> None:
    async with (
        screen(chromium, busy, DESKTOP) as mine,
        screen(chromium, busy, PHONE) as theirs,
    ):
        await _signed_in(mine, busy, "staff")
        await _signed_in(theirs, busy, "operator")
        await theirs.open("/tenant/riverton/talks")
        await mine.open("/tenant/riverton/talks")
        await mine.page.get_by_text("Ravi").first.click()
        await mine.click("button", "Take over")
        await expect(theirs.page.get_by_text("staff answers")).to_be_visible()
        await mine.page.get_by_label("Your answer").fill("I am Kavya. I will call you at five.")
        await mine.click("button", "Send")
        await expect(mine.page.get_by_text("I will call you at five.").first).to_be_visible()
        await mine.check()
        await mine.picture("tenant-conversation")
        await mine.click("button", "Hand back to the agent")
        await expect(theirs.page.get_by_text("staff answers")).not_to_be_visible()
        assert theirs.errors == []


async def test_the_board_works_without_scripts(chromium: Browser, busy: City) -> None:
    options: dict[str, Any] = {"java_script_enabled": False}
    async with screen(chromium, busy, PHONE, **options) as window:
        await window.open(f"/desk/sign-in?code={await busy.code('riverton', 'staff')}")
        await window.click("button", "Sign in")
        await window.open("/tenant/riverton/board")
        card = window.page.get_by_role("article").filter(has_text="Lamp post leaning")
        await card.get_by_text("Move it").click()
        await card.get_by_label("What to tell who filed it").fill("A crew looks at it on Monday.")
        await card.get_by_role("button", name="In work", exact=True).click()
        await expect(window.page.get_by_text("A crew looks at it on Monday.")).to_be_visible()
        await window.picture("tenant-board-moved")


async def test_a_channel_s_health_is_seen_while_its_provider_is_down_and_while_it_is_slow(
    chromium: Browser, busy: City, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real server in the provider's place: first it fails, then it takes a message and never answers."""
    monkeypatch.setattr("indai.desk.tenant_work.SLOW_MS", 1)  # nobody waits five minutes here
    async with (
        Provider().serving() as provider,
        line(busy, provider) as write,
        screen(chromium, busy, DESKTOP) as window,
    ):
        await _signed_in(window, busy)
        channel = window.page.get_by_role("article").filter(has_text="wa ")

        async def shows(*words: str) -> None:
            async with asyncio.timeout(60):
                await window.open("/tenant/riverton/work")
                while not all([await channel.get_by_text(one, exact=True).count() for one in words]):
                    await window.open("/tenant/riverton/work")

        await shows("nothing came yet")
        provider.stays_down = Fault(503)
        await write("Hello")
        await shows("sends too slowly", "1 wait to be sent")
        provider.stays_down = None
        await provider.until(1)
        await shows("well", "0 wait to be sent")
        provider.stays_down, before = Fault(hang=True), len(provider.tried)
        await write("Still there?")
        await provider.until_tried(before + 1)
        await shows("sends too slowly", "1 wait to be sent")
        await window.check()
        await window.picture("tenant-channels")


async def test_the_desk_speaks_hindi(chromium: Browser, busy: City) -> None:
    async with screen(chromium, busy, PHONE, locale="hi-IN") as window:
        await window.open(f"/desk/sign-in?code={await busy.code('riverton', 'operator')}")
        await window.click("button", "साइन इन करें")
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("एक नज़र में")
        await window.check()
        for path in _rooms(busy, "operator"):
            await window.open(path)
            found = english(await window.page.content(), "hi", NAMED)
            assert found == set(), path


async def test_somebody_of_an_organisation_signs_in_with_a_passkey(chromium: Browser, busy: City) -> None:
    async with screen(chromium, busy, PHONE) as window:
        session = await window.context.new_cdp_session(window.page)
        await session.send("WebAuthn.enable")
        await session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
        await _signed_in(window, busy, "staff")
        await window.page.get_by_text("Riverton: Places").click()
        await window.page.get_by_role("link", name="Who is let in").last.click()
        await window.page.get_by_label("Call it").fill("Counter 2")
        await window.click("button", "Add a passkey of this device")
        await expect(window.page.get_by_text("Counter 2")).to_be_visible()
        await window.check()
        await window.click("button", "Sign out")
        await window.click("button", "Sign in with a passkey")
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("Overview")
        await window.open("/desk/let-in")
        window.page.on("dialog", lambda asked: asked.accept())
        await window.click("button", "Remove")
        await expect(window.page.get_by_text("Counter 2")).not_to_be_visible()
