"""The rooms of an organisation's desk, without JavaScript: what they show, what they do, whom they refuse."""

from __future__ import annotations

import csv
import io

import pytest
from indai.v1 import tenant_pb2 as pb

from tests.service.web.tenants import City, city

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


@pytest.mark.parametrize("page", [*PAGES, "/costs.csv", "/times.csv", "/figures.csv", "/live"])
async def test_another_tenant_s_address_is_no_page(city: City, page: str) -> None:
    async with city.person("riverton", "admin") as desk:
        assert (await desk.get(f"/tenant/acme{page}")).status == 404
    async with city.browser() as nobody:
        assert "/desk/sign-in" in (await nobody.get(f"/tenant/acme{page}")).path


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


async def test_numbers_can_be_taken_away_as_a_table(city: City) -> None:
    await city.says("riverton.example", "What do you offer?")
    async with city.person("riverton", "auditor") as desk:
        for name, header in (
            ("figures", "what,name,count"),
            ("costs", "day,binding,calls"),
            ("times", "stage,turns,p50_ms,p95_ms"),
        ):
            table = await desk.get(f"/tenant/riverton/{name}.csv")
            assert table.text.startswith(header)
            assert len(list(csv.reader(io.StringIO(table.text)))) > 1, name
            assert "attachment" in table.answer.headers["Content-Disposition"]
        costs = (await desk.get("/tenant/riverton/costs")).text
        assert 'class="plot"' in costs
        assert "1200" in costs  # the team's ceiling
        assert "<svg" in (await desk.get("/tenant/riverton")).text


async def test_the_operator_of_the_node_chooses_an_organisation(city: City) -> None:
    async with city.person("*", "operator") as desk:
        page = await desk.get("/tenant")
        assert "/tenant/acme" in page.text
        assert "/tenant/personal" not in page.text
        assert (await desk.get("/tenant/acme")).status == 200
        assert (await desk.get("/tenant/personal/talks")).status == 403
        assert (await desk.get("/tenant/nowhere")).status == 404
