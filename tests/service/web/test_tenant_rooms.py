"""The rooms of an organisation's desk, without JavaScript: what they show, what they do, whom they refuse."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.v1 import channels_pb2, desk_pb2, tiers_pb2
from indai.v1 import tenant_pb2 as pb
from indai.v1.channels_pb2_grpc import ChannelServiceStub
from indai.v1.desk_pb2_grpc import DeskServiceStub
from indai.v1.tiers_pb2_grpc import TierServiceStub
from indai.web.accounts import TENANT_ROLES

from tests.service.edge.provider import Fault, Provider
from tests.service.web.addresses import RAW, filled, is_file, is_stream
from tests.service.web.conftest import Browser, Page
from tests.service.web.tenants import City, city
from tests.unit.edge.accounts import ACCOUNTS, signed
from tests.unit.edge.webhooks import wa, wa_message

__all__ = ["city"]

PAGES = ("", "/talks", "/board", "/guardrails", "/costs", "/work", "/log")
MAX_BYTES = 100_000


async def test_every_room_opens_small_and_names_no_other_tenant(city: City) -> None:
    await city.says("riverton.example", "<script>alert(1)</script>")
    await city.says("acme.example", "Hello")
    async with city.person("riverton", "operator") as desk:
        assert (await desk.get("/tenant")).path == "/tenant/riverton"
        for page in PAGES:
            shown = await desk.get(f"/tenant/riverton{page}")
            assert shown.status == 200, (page, shown.text)
            assert len(shown.text.encode()) < MAX_BYTES
            assert "acme" not in shown.text
            assert "<script>alert" not in shown.text


async def test_every_address_is_made_by_the_site_with_its_guards(city: City) -> None:
    made = {(one.method, one.path) for one in city.pages.site.made}
    served = {(one.method, one.path) for one in city.pages.routes}
    assert served - made == RAW
    assert made <= served
    assert len(made) > 60


async def test_every_page_is_small_guarded_and_for_its_own_roles_alone(city: City) -> None:
    """Each address there is, as the one whom it is for, as somebody with another role, and as somebody whose
    session has ended."""
    await city.says("riverton.example", "Hello")
    values = {"tenant": "riverton", "session": city.session}
    async with contextlib.AsyncExitStack() as stack:
        people = {
            role: await stack.enter_async_context(city.person("riverton", role)) for role in TENANT_ROLES
        }
        people["owner"] = await stack.enter_async_context(city.owner())
        gone = await stack.enter_async_context(city.person("riverton", "admin"))
        await gone.post("/desk/sign-out")
        opened = 0
        for one in city.pages.site.made:
            if one.method != "GET":
                continue
            path = filled(one.path, values)
            if one.roles is not None:
                assert (await gone.get(path)).path.startswith("/desk/sign-in"), path
                for other in set(people) - set(one.roles):
                    page = await people[other].get(path)
                    assert page.status == 403 or page.path != path, (other, path)  # or their own home
            if is_stream(one):
                continue
            page = await people[(one.roles or ("owner",))[0]].get(path)
            opened += page.status == 200
            assert page.status in ((200, 400, 404) if one.roles else (200, 400, 403, 404)), (
                path,
                page.status,
            )
            assert len(page.text.encode()) < MAX_BYTES, path
            headers = page.answer.headers
            assert "default-src 'none'" in headers["Content-Security-Policy"], path
            assert "unsafe" not in headers["Content-Security-Policy"], path
            assert headers["X-Content-Type-Options"] == "nosniff", path
            assert headers["Cache-Control"] == "no-store", path
            assert not re.search(
                r"<script(?![^>]*\ssrc=)|<[^>]*\s(style|on[a-z]+)=|javascript:", page.text
            ), path
        assert opened > 35


async def test_every_act_needs_a_form_of_ours_and_the_right_role_and_stands_in_the_audit_log(
    city: City,
) -> None:
    """Each act there is: without its token, from another site, and by somebody whom it is not for."""
    acts = [one for one in city.pages.site.made if one.method == "POST"]
    everybody = ("owner", *TENANT_ROLES)
    async with contextlib.AsyncExitStack() as stack:
        people = {
            role: await stack.enter_async_context(city.person("riverton", role)) for role in TENANT_ROLES
        }
        people["owner"] = await stack.enter_async_context(city.owner())
        for role, browser in people.items():
            await browser.get("/desk/more" if role == "owner" else "/desk/let-in")
        stranger = await stack.enter_async_context(city.browser())
        tried: dict[str, Counter[str]] = {"owner": Counter(), "tenant": Counter()}
        before = await _rows(city)
        for one in acts:
            path = filled(one.path)
            roles = one.roles or everybody
            theirs = people[roles[0]]
            foreign = await theirs.post(path, headers={"Origin": "https://evil.example"})
            assert foreign.status == 403, path
            if one.roles is None:
                assert (await stranger.post(path, csrf="0" * 64)).status == 403, path
                continue
            assert (await theirs.post(path, csrf="0" * 64)).status == 403, path
            tried["owner" if roles[0] == "owner" else "tenant"][one.path] += 2
            for other in [role for role in everybody if role not in roles][:1]:
                assert (await people[other].post(path)).status == 403, (other, path)
                tried["owner" if other == "owner" else "tenant"][one.path] += 1
            assert (await stranger.post(path)).path.startswith("/desk/sign-in"), path
        after = await _rows(city)
    for scope, counts in tried.items():
        assert {path: after[scope][path] - before[scope][path] for path in counts} == dict(counts), scope


async def _rows(city: City) -> dict[str, Counter[str]]:
    """How often each act stands in the audit logs of the office's owner and of the tenant."""
    found: dict[str, Counter[str]] = {}
    for name, token, scope in (("owner", city.office.token, ""), ("tenant", city.root, "riverton")):
        acts: Counter[str] = Counter()
        request = desk_pb2.ListActsRequest(scope=scope, page_size=500)
        while True:
            page = await city.stub(DeskServiceStub, token).ListActs(request)
            acts.update(one.act for one in page.acts)
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        found[name] = acts
    return found


async def test_another_tenant_s_address_is_no_page(city: City) -> None:
    """Each address of a tenant's desk, with another tenant in it."""
    async with city.person("riverton", "admin") as desk:
        await desk.get("/desk/let-in")
        for one in city.pages.site.made:
            if "{tenant" in one.path and "admin" in (one.roles or ()):
                path = filled(one.path, {"tenant": "acme"})
                page = await (desk.get(path) if one.method == "GET" else desk.post(path, text="x", to="over"))
                assert page.status == 404, path
    async with city.browser() as nobody:
        assert "/desk/sign-in" in (await nobody.get("/tenant/acme/talks")).path


async def test_another_tenant_s_conversation_is_not_found_and_its_acts_are_refused(city: City) -> None:
    await city.says("acme.example", "Hello")
    session = city.session
    async with city.person("riverton", "operator") as desk:
        await desk.get("/tenant/riverton/talks")
        for tenant in ("riverton", "acme"):
            talk = f"/tenant/{tenant}/talks/{session}"
            assert (await desk.get(talk)).status == 404
            for act in ("take", "back", "say"):
                done = await desk.post(f"{talk}/{act}", text="x", request_id="r")
                assert done.status == 404, (tenant, act)
    desk_of_acme = await city.desk("acme", "auditor")
    found = await desk_of_acme.GetTenantConversation(pb.GetTenantConversationRequest(session_id=session))
    assert not found.conversation.taken_by


async def test_a_person_takes_over_answers_and_hands_back(city: City) -> None:
    await city.says("riverton.example", "Hello")
    talk = f"/tenant/riverton/talks/{city.session}"
    async with city.person("riverton", "staff") as desk, city.person("riverton", "auditor") as auditor:
        await desk.get(talk)
        assert (await desk.post(f"{talk}/take", csrf="0" * 64)).status == 403
        taken = await desk.post(f"{talk}/take")
        assert "You answer now" in taken.text
        said = await desk.post(f"{talk}/say", text="Meera here: <b>how can I help?</b>", request_id="one")
        assert "&lt;b&gt;how can I help?" in said.text
        watched = await auditor.get(talk)
        assert "staff answers" in watched.text
        assert "/back" not in watched.text
        assert (await auditor.post(f"{talk}/back")).status == 403
        assert (await desk.get("/tenant/riverton/costs")).status == 403
        assert "answers again" in (await desk.post(f"{talk}/back")).text
        assert "Your answer" not in (await desk.get(talk)).text


async def test_what_a_citizen_files_is_worked_on_at_the_board(city: City) -> None:
    thread = await city.files("A <i>dark</i> lamp")
    async with city.person("riverton", "staff") as desk:
        board = await desk.get("/tenant/riverton/board")
        assert "A &lt;i&gt;dark&lt;/i&gt; lamp" in board.text
        act = f"/tenant/riverton/board/{thread}/move"
        moved = await desk.post(act, office="ind.ai/office", to="working", words="Measured.")
        assert "Measured." in moved.text
        over = await desk.post(act, office="ind.ai/office", to="over", words="Replaced.")
        assert over.status == 200
        assert "Replaced." in over.text
        assert (await desk.post(act, office="ind.ai/citizen", to="over", words="x")).status == 404


async def test_whatever_a_room_shows_can_be_taken_away(city: City) -> None:
    await city.says("riverton.example", "Blue swifts yesterday seven?")
    await city.files("=cmd|' /C calc'!A0")
    files = [one for one in city.pages.site.made if "{tenant" in one.path and is_file(one)]
    assert len(files) == 20
    header: list[str] = []
    async with city.person("riverton", "auditor") as desk:
        for one in files:
            page = await desk.get(filled(one.path))
            assert page.status == 200, one.path
            assert "attachment" in page.answer.headers["Content-Disposition"]
            name, _, kind = one.path.rpartition("/")[2].partition(".")
            if kind == "json":
                rows = json.loads(page.text)
                assert [list(row) for row in rows] == [header] * len(rows), one.path
            else:
                header, *rows = list(csv.reader(io.StringIO(page.text)))
                assert all(len(row) == len(header) for row in rows), one.path
            assert rows or name in ("jobs", "channels"), one.path
        board = await desk.get("/tenant/riverton/board.csv")
        assert "'=cmd" in board.text
        assert "acme" not in board.text
        acts = json.loads((await desk.get("/tenant/riverton/acts.json")).text)
        taken = [one["target"] for one in acts if one["act"] == "download"]
        assert taken[0] == "riverton board"
        assert {"riverton costs", "riverton guardrails"} <= set(taken)
        costs = (await desk.get("/tenant/riverton/costs")).text
        assert 'class="plot"' in costs
        assert "1,200" in costs  # the team's ceiling
        assert "<svg" in (await desk.get("/tenant/riverton")).text
    async with city.person("riverton", "staff") as desk:
        assert (await desk.get("/tenant/riverton/costs.json")).status == 403


async def test_the_operator_of_the_node_chooses_an_organisation(city: City) -> None:
    async with city.person("*", "operator") as desk:
        page = await desk.get("/tenant")
        assert "/tenant/acme" in page.text
        assert "/tenant/personal" not in page.text
        assert (await desk.get("/tenant/acme")).status == 200
        assert (await desk.get("/tenant/personal/talks")).status == 403
        assert (await desk.get("/tenant/nowhere")).status == 404


LINE = """
kind: binding
slug: line
human: ann
team: sales
agent: a
door: distribution
channels: [whatsapp]
routing_keys: ["+15550783881"]
"""


@contextlib.asynccontextmanager
async def line(city: City, provider: Provider) -> AsyncIterator[Callable[[str], Any]]:
    """A WhatsApp number of riverton's; what it gives lets Asha write to it."""
    account = ACCOUNTS["whatsapp-cloud"]
    secrets = Secrets(city.b.data, open_keystore(city.b.data, {}), {})
    for name, value in account.secrets.items():
        secrets.set(f"{account.name}-{name}", value)
    references = {name: f"vault:{account.name}-{name}" for name in account.secrets}
    settings = {**account.settings, **references, "api": provider.address, "pair_every_s": "0.001"}
    channel = channels_pb2.Channel(
        name=account.name,
        tenant="riverton",
        provider=account.provider,
        account=account.account,
        settings=settings,
    )
    tiers, channels = city.stub(TierServiceStub, city.root), city.stub(ChannelServiceStub, city.root)
    await tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant="riverton", yaml=LINE))
    await channels.PutChannel(channels_pb2.PutChannelRequest(channel=channel))

    async def write(text: str) -> None:
        said = wa_message("text", {"body": text}, f"wamid.{text}", timestamp=str(int(time.time())))
        raw = signed("whatsapp-cloud", wa(said), now_s=int(time.time()))
        url = f"http://{city.b.info.addresses['http']}/channels/{account.name}"
        async with (
            aiohttp.ClientSession() as http,
            http.post(url, data=raw.body, headers=dict(raw.headers)) as answer,
        ):
            assert answer.status == 200

    yield write
    await channels.RemoveChannel(channels_pb2.RemoveChannelRequest(name=account.name))


async def _shows(desk: Browser, words: str) -> Page:
    """The room, once it says so."""
    async with asyncio.timeout(60):
        while words not in (page := await desk.get("/tenant/riverton/work")).text:
            assert page.status == 200
            await asyncio.sleep(0.05)
    return page


async def test_a_message_that_a_provider_refused_is_sent_again_from_the_room_of_its_own_tenant(
    city: City,
) -> None:
    act = "/work/channels/wa/replay"
    async with (
        Provider().serving() as provider,
        line(city, provider) as write,
        city.person("riverton", "operator") as desk,
        city.person("riverton", "auditor") as auditor,
        city.person("acme", "operator") as elsewhere,
    ):
        await _shows(desk, "nothing came yet")
        provider.faults = [Fault(400, {"error": {"code": 131026}})]
        await write("Hello")
        page = await _shows(desk, "1 not sent")
        assert "whatsapp-131026" in page.text
        assert "Ask the person to write first" in page.text
        assert "Hello from Riverton" in page.text
        found = re.search(r'name="letter" value="(\d+)"', page.text)
        assert found
        # Who may only read has no button, and another tenant neither the letter nor the channel.
        watched = await auditor.get("/tenant/riverton/work")
        assert "1 not sent" in watched.text
        assert 'name="letter"' not in watched.text
        assert (await auditor.post(f"/tenant/riverton{act}", letter=found[1])).status == 403
        assert "Hello from Riverton" not in (await elsewhere.get("/tenant/acme/work")).text
        for tenant in ("riverton", "acme"):
            assert (await elsewhere.post(f"/tenant/{tenant}{act}", letter=found[1])).status == 404
        assert provider.sent == []
        again = await desk.post(f"/tenant/riverton{act}", letter=found[1])
        assert again.status == 200
        (sent,) = await provider.until(1)
        assert "Hello from Riverton" in sent["text"]["body"]
        await _shows(desk, '<span class="tag good">well')
        assert (await desk.post(f"/tenant/riverton{act}", letter=found[1])).status == 404  # once
        acts = (await desk.get("/tenant/riverton/log")).text
        assert "Let messages be sent again" in acts
        assert "{tenant" not in acts
        # Where the credentials are refused it says so, what came waits, and goes once they are good.
        provider.stays_down = Fault(401, {"error": {"code": 190}})
        await write("Thanks")
        page = await _shows(desk, "cannot send")
        assert "whatsapp-190" in page.text
        assert "make one of a system user" in page.text
        assert "1 wait to be sent" in page.text
        assert "cannot send" not in (await elsewhere.get("/tenant/acme/work")).text
        provider.stays_down = None
        tested = channels_pb2.TestChannelRequest(name="wa")
        assert (await city.stub(ChannelServiceStub, city.root).TestChannel(tested)).accepted
        await provider.until(2)
        await _shows(desk, '<span class="tag good">well')


async def test_an_organisation_s_pages_are_in_its_language_unless_somebody_chose_one(city: City) -> None:
    tiers, own = city.stub(TierServiceStub, city.root), "kind: tenant\nslug: acme\nname: Acme\n"
    await city.says("acme.example", "Hello")
    for language, marks in (("hi", ("अभिवादन", "बातचीत", "भारत")), ("ta", ("உரையாடல்கள்", "இந்தியா"))):
        request = tiers_pb2.ApplyTiersRequest(tenant="acme", yaml=f"{own}language: {language}\n")
        await tiers.ApplyTiers(request)
        async with city.person("acme", "operator") as desk, city.person("riverton", "operator") as other:
            page = await desk.get("/tenant/acme")
            assert f'<html lang="{language}"' in page.text
            assert [mark for mark in marks if mark not in page.text] == []
            assert '<html lang="en"' in (await other.get("/tenant/riverton")).text
            people = (await desk.get("/desk/let-in")).text
            assert f'<html lang="{language}"' in people
            assert "Asia/Kolkata" in people  # as its times are: somebody's code is good until one of them
            await desk.post("/desk/look", language="en", theme="", back="/tenant/acme")
            page = await desk.get("/tenant/acme")
            assert '<html lang="en"' in page.text
            assert "Greetings" in page.text
    await tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant="acme", yaml=own))
