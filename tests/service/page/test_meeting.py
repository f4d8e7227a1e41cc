"""Meetings asked for on a page: by strangers under the owner's rules, by those whose agent takes over."""

from __future__ import annotations

import re
from typing import Any

import pytest
from indai.client.channels import plain_channel
from indai.v1 import owner_pb2, tools_pb2
from indai.v1.tools_pb2_grpc import ApprovalServiceStub

from tests.service.page.conftest import visiting
from tests.service.web.conftest import BOBS, Desks, Page

FORM = {"name": "Meera <b>", "contact": "meera@example.org", "minutes": "30", "when": "next week", "time": ""}
STRANGERS = """\
  - id: strangers
    {way}: meet
    with: anyone
    door: public
    duration: {{ max: 30m }}
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
    (file,) = (desks.b.data / "calendars").glob(f"*{name}.ics")
    return file.read_text("utf-8")


async def test_what_the_rules_permit_is_booked_and_the_visitor_gets_an_invitation(
    desks: Desks,
) -> None:
    await _rules(desks, "allow")
    async with visiting(desks) as visitor, visiting(desks) as other:
        page = await _asked(desks, visitor, title="Garden <script>")
        assert page.status == 200
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
