"""The owner's desk in a real browser, at phone and desktop size, on what two nodes really agreed."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.channels import plain_channel
from indai.protocol.drill import sign
from indai.v1 import memory_pb2, owner_pb2
from indai.v1.memory_pb2_grpc import MemoryServiceStub
from playwright.async_api import Browser, ViewportSize, expect

from tests.service.node.conftest import Jump, jump
from tests.service.node.world import Owner
from tests.service.web.conftest import BOBS, HOUR_MS, Desks
from tests.service.web.test_guards import rooms
from tests.web.conftest import DESKTOP, PHONE, Screen, screen
from tests.web.english import english
from tests.web.household import DEVS, Household, household

__all__ = ["household", "jump"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
"""A device's lock, as the browser plays it."""
ROOMS = {
    "/desk": "inbox",
    "/desk/more": "more",
    "/desk/threads": "conversations",
    "/desk/commitments": "agreements",
    "/desk/calendar": "calendar",
    "/desk/rules": "rules",
    "/desk/people": "people",
    "/desk/shared": "shared",
    "/desk/goals": "goals",
    "/desk/memory": "memory",
    "/desk/spend": "spending",
    "/desk/access": "access",
    "/desk/settings": "settings",
    "/desk/pause": "pause",
}
NAMED = (
    *("Design review", "Coffee", "All hands", "Quarterly planning", "Lamp", "email", "city", "friends"),
    *("Meetings of up to 30 minutes with friends", "Ask me about meetings of up to an hour", "bobs", "bob"),
    *("preference.food", "vegetarian", "near Indiranagar metro", "Meera", "profile/", "/nobody", "unlink"),
    "Chrome · Linux",
    *("ACCEPT", "OFFER", "PROPOSE", "RECEIPT", "REJECT", "HOLD", "COUNTER", "POLICY_DENIED"),
    *("tlog-proof", "COSE", "CSV", "UTC", "JSON", "YAML", "English", "K7QF2-9M3XA"),
)
"""What people have called things here, and names of the protocol."""
WRONG_RULES = (
    "rules: [",
    "rules:\n  - { alow: meet, with: foes, duration: { max: soon }, hours: '25:00-26:00' }\n",
    "rules:\n  - { id: a, allow: pay, with: anyone }\n"
    "  - { id: a, allow: meet, with: nobody-known, weekdays: soon }\n",
    "circles: { foes: [ind.ai/eve] }\nrules:\n  - { id: a, allow: pay, with: anyone }\n"
    "  - { id: b, deny: pay, with: anyone }\n",
)
FONTS = {
    "as bn": "Bengali",
    "brx doi hi kok mai mr ne sa": "Devanagari",
    "gu": "Gujarati",
    "kn": "Kannada",
    "ks ur": "Nastaliq",
    "sd": "Naskh",
    "ml": "Malayalam",
    "mni": "Meetei",
    "or": "Oriya",
    "pa": "Gurmukhi",
    "sat": "Ol Chiki",
    "ta": "Tamil",
    "te": "Telugu",
}
"""What draws each scheduled language's own script, of Debian's fonts-noto-core and fonts-noto-extra."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy(desks: Desks) -> AsyncIterator[Desks]:
    """Agreed, refused and waiting matters, and something remembered."""
    now = time.time_ns() // 1_000_000
    times = {"from_ms": now + HOUR_MS, "until_ms": now + 9 * 24 * HOUR_MS}
    for title in ("Design review", "Coffee", "विक्रेता से बात"):
        await desks.alice.meet("ind.ai/bob", title=title, **times)
    await desks.alice.meet("ind.ai/bob", title="All hands", minutes=120, **times)
    await desks.asked(45, "Quarterly planning")
    memory = MemoryServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    since = Timestamp(seconds=now // 1000)
    await memory.Remember(
        memory_pb2.RememberRequest(
            facts=[
                memory_pb2.Fact(key=key, value_json=f'"{value}"', valid_from_time=since)
                for key, value in (
                    ("preference.food", "vegetarian"),
                    ("preference.meeting.place", "near Indiranagar metro"),
                    ("family.daughter.name", "Meera"),
                )
            ]
        )
    )
    yield desks


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=("phone", "desktop"))
async def test_an_owner_sees_what_was_told_paid_spent_and_handed_on(
    chromium: Browser, desks: Desks, household: Household, size: ViewportSize
) -> None:
    dev = household.dev
    async with screen(chromium, desks, size) as window:
        await _signed_in(window, desks, dev)
        page = window.page
        await window.open("/desk/people")
        await page.get_by_role("listitem").filter(has_text="ind.ai/asha").get_by_role("link").first.click()
        told = page.locator("section").filter(has_text="Told outside of conversations")
        rows = [await row.inner_text() for row in await told.locator("tbody tr").all()]
        counts = {tuple(row.split("\t")[:3]) for row in rows}
        assert counts == {
            ("ind.ai/asha", "profile/email", "2"),
            ("ind.ai/asha", "profile/city", "1"),
        }
        assert await page.get_by_text("in force", exact=True).count() == 3
        await window.check()
        await window.picture("shared-real")

        await window.open("/desk/spend")
        cost = await page.locator("section").first.inner_text()
        spent = re.search(r"₹([0-9]+\.[0-9]{2}) for ([0-9]+) calls, 0 failed", cost)
        assert spent is not None, cost
        assert (float(spent[1]) > 0, int(spent[2])) == (True, 2)
        limit = (await page.get_by_role("row").filter(has_text="credit").inner_text()).split("\t")
        assert limit == ["You", f"₹{spent[1]}", "₹250 credit", f"₹{250 - float(spent[1]):.2f}"]
        mandate = await page.get_by_role("row").filter(has_text="ind.ai/asha").inner_text()
        assert "₹2,500.50" in mandate
        assert "₹3,000 a month" in mandate
        await window.check()
        await window.picture("spending-real")

        below = page.get_by_role("listitem").filter(has_text="ind.ai/dev/shopping")
        async with asyncio.timeout(60):  # until the node has heard of it from the registry
            await window.open("/desk/access")
            while not await below.count():
                await asyncio.sleep(0.2)
                await window.open("/desk/access")
        await expect(below).to_contain_text("Payment")
        await expect(below).to_contain_text("1,000.00")
        drill = await page.locator("pre").inner_text()
        challenge = drill.split()[-1]
        for key in ("ind.ai/bob", "ind.ai/dev"):
            signed = sign(desks.world.rotation[key], "ind.ai/dev", challenge)
            line = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
            await page.get_by_label("The line").fill(line)
            await window.click("button", "Check it")
            if key == "ind.ai/bob":
                await expect(page.get_by_role("heading", level=1)).to_have_text("That did not work")
                window.errors.clear()  # the console names the status of that answer
                await page.go_back()
        await expect(page.get_by_text("You hold this handle's rotation key number 1")).to_be_visible()
        await window.check()
        await window.picture("drilled")


async def _signed_in(window: Screen, desks: Desks, owner: Owner | None = None) -> None:
    await window.open(f"/desk/sign-in?code={await desks.code(desks.b, owner or desks.bob)}")
    await window.click("button", "Sign in")
    await expect(window.page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize(
    ("size", "scheme"),
    [(PHONE, "light"), (DESKTOP, "light"), (DESKTOP, "dark")],
    ids=("phone", "desktop", "dark"),
)
async def test_every_room_is_accessible_and_fits_the_screen(
    chromium: Browser, busy: Desks, size: ViewportSize, scheme: str
) -> None:
    async with screen(chromium, busy, size, color_scheme=scheme) as window:
        await window.open("/desk/sign-in")
        await window.check()
        if scheme == "light":
            await window.picture("sign-in")
        await _signed_in(window, busy)
        for path, name in ROOMS.items():
            await window.open(path)
            await window.check()
            if scheme == "light":
                await window.picture(name)
            elif name in ("inbox", "calendar"):
                await window.picture(f"{name}-dark")
        await window.open("/desk/threads")
        await window.page.get_by_text("Quarterly planning").first.click()
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("Quarterly planning")
        await window.check()
        if scheme == "light":
            await window.picture("conversation")


async def test_the_desk_speaks_the_visitors_language(chromium: Browser, busy: Desks) -> None:
    async with screen(chromium, busy, PHONE, locale="hi-IN") as window:
        await window.open(f"/desk/sign-in?code={await busy.code(busy.b, busy.bob)}")
        await window.click("button", "साइन इन करें")
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("इनबॉक्स")
        await window.check()
        await window.picture("inbox-hindi")
        await window.open("/desk/more")
        await window.page.get_by_label("भाषा").select_option("en")
        await window.page.get_by_label("रूप").select_option("dark")
        await window.click("button", "बदलें")
        await expect(window.page.locator("html[lang=en][data-theme=dark]")).to_have_count(1)


async def test_who_has_chosen_hindi_meets_no_english_sentence_of_ours(
    busy: Desks, household: Household
) -> None:
    """Every room, every conversation, every act that goes wrong, rules good, doubtful and wrong."""
    gone = {"hash": "a" * 64, "thread": "a" * 32, "key": "a" * 64, "fact": "x" * 8, "way": "pause"}
    gone |= dict.fromkeys(("goal", "mandate", "session"), str(uuid.UUID(int=7)))
    others = (
        "/bob",
        "/nobody",
        "/audit",
        "/log",
        "/desk/sign-in",
        "/desk/start?to=x",
        "/desk/threads?page=x",
    )
    for owner in (busy.bob, household.dev):
        async with busy.browser(busy.b, owner) as browser:
            await browser.post("/desk/look", language="hi", theme="", back="/desk")
            listed = (await browser.get("/desk/threads")).text
            pages = [await browser.get(at) for at in set(re.findall(r"/desk/threads/[0-9a-f]{32}", listed))]
            asked = re.findall(r"/desk/counter/[0-9a-f]{64}", (await browser.get("/desk")).text)
            pages += [await browser.get(path) for path in {*ROOMS, *others, *asked}]
            wrong = (f"version: 1\ntimezone: UTC\n{text}" for text in WRONG_RULES)
            for text in (BOBS, DEVS, BOBS.replace("max: 30m", "max: 20m"), *wrong):
                pages.append(await browser.post("/desk/rules/preview", yaml=text))
            for method, address in rooms():
                if method == "POST" and address != "/desk/passkey/offer":  # which answers a script
                    pages.append(await browser.post(address.format(**gone), yaml="x", way="x"))
        found = [(page.path, said) for page in pages if (said := english(page.text, "hi", NAMED))]
        assert found == []
        assert all(len(page.text.encode()) < 100_000 for page in pages)
        assert {page.status for page in pages} >= {200, 400, 404}


async def test_every_scheduled_language_is_drawn_in_its_own_script_and_runs_its_own_way(
    chromium: Browser, busy: Desks
) -> None:
    async with screen(chromium, busy, PHONE) as window:
        await _signed_in(window, busy)
        await window.open("/desk/settings")
        session = await window.context.new_cdp_session(window.page)
        await session.send("DOM.enable")
        await session.send("CSS.enable")
        root = (await session.send("DOM.getDocument"))["root"]["nodeId"]
        drawn: dict[str, set[str]] = {}
        for languages in FONTS:
            for language in languages.split():
                where = {"nodeId": root, "selector": f"span[lang={language}] .title"}
                node = (await session.send("DOM.querySelector", where))["nodeId"]
                fonts = await session.send("CSS.getPlatformFontsForNode", {"nodeId": node})
                drawn[language] = {font["familyName"] for font in fonts["fonts"]}
        if not any("Ol Chiki" in name for name in drawn["sat"]):
            pytest.skip("there are no fonts for every script: apt-get install fonts-noto-core")
        for languages, family in FONTS.items():
            for language in languages.split():
                assert any(family in name for name in drawn[language]), (language, drawn[language])
        for language, path in (("sat", "/desk"), ("ur", "/desk/threads")):
            await window.open("/desk/settings")
            await window.page.locator(f"input[value={language}]").check()
            await window.page.locator("form[action$=language] button").click()
            await window.open(path)
            await window.check()
        assert await window.page.locator("html[lang=ur][dir=rtl]").count() == 1
        await window.open("/desk")
        await window.picture("inbox-urdu")
        await window.open("/desk/settings")
        await window.page.locator("input[value=en]").check()
        await window.page.locator("form[action$=language] button").click()


async def test_the_narrowest_phone_needs_no_scrolling_sideways(chromium: Browser, busy: Desks) -> None:
    async with screen(chromium, busy, {"width": 320, "height": 640}) as window:
        await _signed_in(window, busy)
        for path in ROOMS:
            await window.open(path)
            width = await window.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 320, path


async def test_rules_are_changed_with_a_look_at_the_last_month(chromium: Browser, busy: Desks) -> None:
    async with screen(chromium, busy, DESKTOP) as window:
        await _signed_in(window, busy)
        await window.open("/desk/rules")
        text = window.page.get_by_label("The text")
        await text.fill((await text.input_value()).replace("max: 30m", "max: 20m"))
        await window.click("button", "Show what this would mean")
        await expect(window.page.get_by_role("heading", name="The last 30 days again")).to_be_visible()
        await window.check()
        await window.picture("rules-preview")


async def test_a_question_arrives_on_an_open_page_and_goes_when_it_is_answered_elsewhere(
    chromium: Browser, busy: Desks
) -> None:
    async with screen(chromium, busy, PHONE) as phone, busy.browser(busy.b, busy.bob) as elsewhere:
        await _signed_in(phone, busy)
        _, action = await busy.asked(45, "Came while I looked")
        card = phone.page.get_by_text("Came while I looked")
        await expect(card).to_be_visible()
        await elsewhere.get("/desk")
        await elsewhere.post(f"/desk/approvals/{action}", answer="no")
        await expect(card).not_to_be_visible()
        await expect(phone.page.get_by_role("heading", name="Answered lately")).to_be_visible()
        await expect(phone.page.get_by_text("you declined").first).to_be_visible()
        await phone.page.get_by_role("heading", name="Answered lately").evaluate("it => it.scrollIntoView()")
        await phone.check()
        await phone.picture("inbox-answered")
        assert phone.errors == []


async def test_one_press_proposes_the_next_day_on_the_same_conversation(
    chromium: Browser, busy: Desks
) -> None:
    thread, _ = await busy.asked(45, "Better tomorrow")
    async with screen(chromium, busy, PHONE) as window:
        await _signed_in(window, busy)
        card = window.page.get_by_role("article").filter(has_text="Better tomorrow")
        await card.get_by_role("button", name="The next day", exact=True).click()
        await expect(window.page.get_by_role("status")).to_contain_text("Asked")
        assert thread in window.page.url
        await expect(window.page.get_by_text("COUNTER", exact=True)).to_be_visible()
        await expect(window.page.get_by_text("RECEIPT", exact=True)).to_be_visible()
        await expect(window.page.get_by_text("stands", exact=True).first).to_be_visible()
        await window.check()
        await window.picture("counter")


async def test_everything_works_without_scripts(chromium: Browser, busy: Desks) -> None:
    await busy.asked(45, "Without scripts")
    options: dict[str, Any] = {"java_script_enabled": False}
    async with screen(chromium, busy, PHONE, **options) as window:
        await window.open(f"/desk/sign-in?code={await busy.code(busy.b, busy.bob)}")
        await window.click("button", "Sign in")
        card = window.page.get_by_role("article").filter(has_text="Without scripts")
        await card.get_by_role("button", name="Decline", exact=True).click()
        await expect(window.page.get_by_text("You said no")).to_be_visible()


async def test_the_desk_is_used_with_the_keyboard_alone(chromium: Browser, busy: Desks) -> None:
    await busy.asked(45, "By keyboard")
    async with screen(chromium, busy, DESKTOP) as window:
        await window.open(f"/desk/sign-in?code={await busy.code(busy.b, busy.bob)}")
        await window.page.get_by_role("button", name="Sign in", exact=True).focus()
        await window.page.keyboard.press("Enter")
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("Inbox")
        await window.page.keyboard.press("Tab")
        assert await window.page.evaluate("document.activeElement.className") == "skip"
        await window.page.keyboard.press("Enter")
        reached = set()
        for _ in range(12):
            await window.page.keyboard.press("Tab")
            reached.add(await window.page.evaluate("document.activeElement.textContent.trim()"))
        assert {"Approve", "Decline"} <= reached


async def test_a_passkey_is_added_and_signs_in(chromium: Browser, busy: Desks) -> None:
    async with screen(chromium, busy, DESKTOP) as window:
        session = await window.context.new_cdp_session(window.page)
        await session.send("WebAuthn.enable")
        await session.send(
            "WebAuthn.addVirtualAuthenticator",
            {"options": AUTHENTICATOR},
        )
        await _signed_in(window, busy)
        await window.open("/desk/access")
        await window.page.get_by_label("Call it").fill("Bob's laptop")
        await window.click("button", "Add a passkey of this device")
        await expect(window.page.get_by_text("Bob's laptop")).to_be_visible()
        await window.page.get_by_role("navigation").get_by_role("button", name="Sign out").click()
        await expect(window.page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
        await window.click("button", "Sign in with a passkey")
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("Inbox")
        await window.open("/desk/access")
        await window.click("button", "Remove")


async def test_a_question_whose_time_ran_out_on_an_open_page_is_answered_with_words(
    chromium: Browser, busy: Desks, jump: Jump
) -> None:
    """The last of this file: from here on every clock of it is ahead."""
    thread, action = await busy.asked(45, "Too late for this")
    options: dict[str, Any] = {"java_script_enabled": False}  # so that the page stays as it was
    async with screen(chromium, busy, PHONE, **options) as window:
        await _signed_in(window, busy)
        card = window.page.get_by_role("article").filter(has_text="Too late for this")
        (waiting,) = [
            one
            for one in (await busy.bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
            if one.action_hash == action
        ]
        jump(waiting.expire_time.ToMilliseconds() + 1_000)
        await card.get_by_role("button", name="Approve", exact=True).click()
        await expect(window.page.get_by_role("heading", level=1)).to_have_text("That did not work")
        await expect(window.page.get_by_text("its time ran out")).to_be_visible()
        await expect(window.page.get_by_text("nothing was signed")).to_be_visible()
        await window.open("/desk")
        await expect(window.page.get_by_text("Nothing waits for you.")).to_be_visible()
        await window.open(f"/desk/threads/{thread}")
        await expect(window.page.get_by_text("lapsed", exact=True).first).to_be_visible()
