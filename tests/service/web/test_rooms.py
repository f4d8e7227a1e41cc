"""The rooms of the owner's desk do what they say, on two nodes that really deal with each other."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from aiohttp import ClientResponse
from indai.client.audit import audit
from indai.client.channels import plain_channel
from indai.node.manners import Manners
from indai.protocol import drill
from indai.storage.pool import transaction
from indai.tools.values import Caller, Status, unheard
from indai.v1 import desk_pb2, memory_pb2, owner_pb2
from indai.v1.memory_pb2_grpc import MemoryServiceStub

from tests.service.node.world import Owner, now_ms
from tests.service.web.conftest import BOBS, HOUR_MS, Browser, Desks, Page

ROOMS = (
    "/desk",
    "/desk/more",
    "/desk/threads",
    "/desk/commitments",
    "/desk/calendar",
    "/desk/calendar?week=2026-W48",
    "/desk/rules",
    "/desk/rules?template=personal",
    "/desk/people",
    "/desk/shared",
    "/desk/goals",
    "/desk/memory",
    "/desk/spend",
    "/desk/access",
    "/desk/settings",
    "/desk/pause",
)


async def test_every_room_opens_for_an_owner_and_for_nobody_else(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as bob, desks.browser(desks.b) as nobody:
        for room in ROOMS:
            page = await bob.get(room)
            assert (page.status, page.path) == (200, room), page.text
            assert len(page.text.encode()) < 100_000
            assert (await nobody.get(room)).path.startswith("/desk/sign-in")


async def test_yes_makes_the_agreement_with_its_due_date_its_event_and_its_receipt(desks: Desks) -> None:
    thread, action = await desks.asked(title="Budget review")
    async with desks.browser(desks.b, desks.bob) as bob:
        page = await bob.post(f"/desk/approvals/{action}", answer="yes")
        assert page.path == f"/desk/threads/{thread}?said=approved"
        agreed = owner_pb2.Thread()
        async for seen in desks.bob.stub.WatchThread(owner_pb2.WatchThreadRequest(thread_id=thread)):
            agreed = seen.thread
            if agreed.state == owner_pb2.THREAD_STATE_COMMITTED and agreed.in_calendar:
                break
        replay = unescape((await bob.get(f"/desk/threads/{thread}")).text)
        for said in ("PROPOSE", "HOLD", "OFFER", "ACCEPT", "RECEIPT", "asks you", "ed25519:"):
            assert said in replay, said
        assert "Budget review" in (await bob.get("/desk/commitments")).text
        month = time.strftime("%Y-%m", time.gmtime(agreed.start_time.seconds + 5 * 3600 + 1800))
        assert "Budget review" in (await bob.get(f"/desk/calendar?month={month}")).text
        receipt = await bob.get(f"/desk/threads/{thread}/receipt.proof")
        assert receipt.text.startswith("c2sp.org/tlog-proof")
        assert "attachment" in receipt.answer.headers["Content-Disposition"]
        kept = await bob.post(f"/desk/threads/{thread}/dispute", sentence="Not so")
        assert "One side objects" in kept.text


async def test_what_a_tool_would_do_waits_in_the_inbox_and_is_done_once(desks: Desks) -> None:
    bob = "ind.ai/bob"
    caller = Caller("personal", "b", bob, "s", bob, "private", "web", True, now_ms=now_ms(), turn="t")
    asking = replace(caller, approvals=frozenset({"meet"}))
    wanted = {"with": "alice", "when": "next week", "title": "By a tool"}
    asked = await desks.tools.toolbox.call(asking, ("meet",), "meet", wanted, unheard)
    assert asked.status is Status.NEEDS_APPROVAL
    async with desks.browser(desks.b, desks.bob) as browser:
        page = await browser.get("/desk")
        assert "Ask ind.ai/alice for 30 minutes" in page.text
        found = re.search(r"/desk/tool-approvals/([0-9a-f]{64})", page.text)
        assert found is not None
        done = await browser.post(f"/desk/tool-approvals/{found[1]}", answer="yes")
        assert done.status == 200, done.text
        assert "By a tool" in (await browser.get("/desk/threads")).text
        again = await browser.post(f"/desk/tool-approvals/{found[1]}", answer="yes")
        assert again.status == 404
        assert (await browser.post(f"/desk/tool-approvals/{found[1]}", answer="maybe")).status == 400


async def test_another_time_goes_out_on_the_same_conversation_once_and_is_proved(
    desks: Desks, tmp_path: Path
) -> None:
    thread, action = await desks.asked(title="Too early")
    async with desks.browser(desks.b, desks.bob) as bob:
        await bob.get(f"/desk/counter/{action}")
        refused = await bob.post(
            f"/desk/counter/{action}", first="2030-01-07", last="2030-01-08", minutes="600"
        )
        assert refused.status == 403
        assert "Your own rules do not allow that" in refused.text
        assert action in (await bob.get("/desk")).text  # nothing was sent
        assert (await bob.post(f"/desk/counter/{action}", way="never")).status == 400
        page = await bob.post(f"/desk/counter/{action}", way="week")
        assert page.path == f"/desk/threads/{thread}?said=asked", page.text
        for again in (
            await bob.post(f"/desk/counter/{action}", way="day"),
            await bob.get("/desk/counter/" + "0" * 64),
        ):
            assert again.status == 404
        assert (await bob.post(f"/desk/approvals/{action}", answer="yes")).status in (404, 409)
        agreed = await desks.bob.rest(thread)
        replay = unescape((await bob.get(f"/desk/threads/{thread}")).text)
    assert agreed.state == owner_pb2.THREAD_STATE_COMMITTED
    moves = re.findall(r'class="move">(\w+)<', replay)
    assert moves == ["PROPOSE", "HOLD", "COUNTER", "OFFER", "ACCEPT", "RECEIPT"]
    assert "You asked for it yourself" in await _journal(desks.bob)
    paths = []
    for owner in (desks.alice, desks.bob):
        paths.append(tmp_path / f"{owner.handle[-3:]}.jsonl")
        parts = owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest())
        paths[-1].write_bytes(b"".join([part.lines async for part in parts]))
    report = audit(paths, await desks.world.mirror(tmp_path / "registry.jsonl"), desks.world.policy.policy)
    verdicts = {one.mid: one.verdict.name for one in report.commitments}
    assert verdicts[agreed.commitment_mid] == "VALID"


async def _journal(owner: Owner) -> str:
    entries = (await owner.stub.ListJournal(owner_pb2.ListJournalRequest())).entries
    return "\n".join(one.words for one in entries)


async def test_rules_are_tried_on_the_last_month_before_they_are_saved(desks: Desks) -> None:
    _, action = await desks.asked(title="Seen again")
    shorter = BOBS.replace("ask: meet", "deny: meet")
    async with desks.browser(desks.b, desks.bob) as bob:
        await bob.get("/desk/rules")
        broken = await bob.post("/desk/rules/preview", yaml="version: 1\nrules: [{allow: nothing}]\n")
        assert "can't be used" in unescape(broken.text)
        seen = await bob.post("/desk/rules/preview", yaml=shorter)
        assert re.search(r"[1-9]\d* of \d+ decisions would have been others", seen.text), seen.text
        before = await desks.bob.stub.GetActivePolicy(owner_pb2.GetActivePolicyRequest())
        assert "ask: meet" in before.version.yaml
        assert (await bob.post("/desk/rules/save", yaml=shorter)).path == "/desk/rules?said=saved"
        after = await desks.bob.stub.GetActivePolicy(owner_pb2.GetActivePolicyRequest())
        assert "ask: meet" not in after.version.yaml
        await bob.post("/desk/rules/save", yaml=BOBS)
        await bob.post(f"/desk/approvals/{action}", answer="no")


async def test_a_peer_is_put_into_a_circle_and_out_again(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as bob:
        await bob.get("/desk/people")

        async def put(handle: str, way: str, circle: str = "friends") -> Page:
            return await bob.post("/desk/people/circle", way=way, handle=handle, circle=circle)

        assert "ind.ai/dave" in (await put("ind.ai/dave", "in")).text
        assert "ind.ai/dave" not in (await put("ind.ai/dave", "out")).text
        assert (await put("ind.ai/x]\nrules: []", "in")).status == 400
        assert (await put("ind.ai/dave", "in", "foes")).status == 400
    now = await desks.bob.stub.GetActivePolicy(owner_pb2.GetActivePolicyRequest())
    assert now.version.yaml == BOBS


async def test_people_are_counted_as_their_conversations_are(desks: Desks) -> None:
    """By triggers, so that the page need not read all that was ever said."""
    now = now_ms()
    await desks.alice.meet("ind.ai/bob", title="One", from_ms=now + HOUR_MS, until_ms=now + 500 * HOUR_MS)
    async with transaction(desks.pool, ("ind.ai/bob",)) as connection:
        counted = await connection.fetch(
            "SELECT owner, peer, threads, agreed, first_ms, last_ms FROM node.peers"
        )
        told = await connection.fetch(
            "SELECT owner, peer, count(*) AS threads, count(*) FILTER (WHERE phase = 'COMMITTED') AS agreed,"
            " min(created_ms) AS first_ms, max(created_ms) AS last_ms FROM node.threads GROUP BY owner, peer"
        )
    assert sorted(map(tuple, counted)) == sorted(map(tuple, told))
    assert {(row["owner"], row["agreed"] > 0) for row in counted} == {("ind.ai/bob", True)}
    async with desks.browser(desks.b, desks.bob) as bob:
        page = await bob.get("/desk/people")
    (row,) = [row for row in counted if row["peer"] == "ind.ai/alice"]
    assert f"{row['threads']} conversations, {row['agreed']} agreed" in page.text


async def test_a_paused_agent_settles_nothing_alone_until_it_is_let_work_again(desks: Desks) -> None:
    now = time.time_ns() // 1_000_000
    times = {"from_ms": now + HOUR_MS, "until_ms": now + 20 * 24 * HOUR_MS}
    async with desks.browser(desks.b, desks.bob) as bob:
        await bob.get("/desk/pause")
        assert "is paused" in (await bob.post("/desk/pause/on", way="ask")).text
        held = await desks.alice.meet("ind.ai/bob", title="While away", **times)
        assert held.state == owner_pb2.THREAD_STATE_ON_HOLD
        assert "Paused: everything waits for my word" in (await bob.get("/desk")).text
        for language, meeting in (("hi", "मिनट की मुलाक़ात"), ("ta", "நிமிட சந்திப்பு")):
            await bob.post("/desk/settings/language", language=language)
            card = (await bob.get("/desk")).text
            assert f"ind.ai/alice{' से 30' if language == 'hi' else ' உடன் 30'} {meeting}" in card
            assert '"While away"' in unescape(card)
            assert "Asks you" not in card
        await bob.post("/desk/settings/language", language="en")
        await bob.post("/desk/pause/on", way="refuse")
        refused = await desks.alice.meet("ind.ai/bob", title="While refusing", **times)
        assert refused.state == owner_pb2.THREAD_STATE_REJECTED
        assert "works again" in (await bob.post("/desk/pause/off")).text
        agreed = await desks.alice.meet("ind.ai/bob", title="Back again", **times)
        assert agreed.state == owner_pb2.THREAD_STATE_COMMITTED


async def test_the_language_goes_with_its_owner_and_the_tone_into_what_the_agent_is_told(
    desks: Desks,
) -> None:
    manners = Manners(desks.pool)
    async with desks.browser(desks.b, desks.bob) as phone, desks.browser(desks.b, desks.bob) as laptop:
        page = await phone.get("/desk/settings")
        for code in ("hi", "ta", "ur", "mni", "sat"):
            assert f'value="{code}"' in page.text
            assert f'<span lang="{code}">' in page.text
        assert (await phone.post("/desk/settings/language", language="ur")).path.endswith("?said=saved")
        for browser in (phone, laptop):
            page = await browser.get("/desk/threads")
            assert '<html lang="ur" dir="rtl"' in page.text
            assert "گفتگو" in page.text
        assert (await phone.post("/desk/settings/language", language="tlh")).status == 400
        await phone.post("/desk/settings/language", language="en")
        assert '<html lang="en" dir="ltr"' in (await laptop.get("/desk/threads")).text

        assert await manners.sentence("ind.ai/bob") == ""
        await phone.post("/desk/settings/tone", tone=str(int(desk_pb2.TONE_FORMAL)))
        assert "formal" in await manners.sentence("ind.ai/bob")
        assert await manners.sentence("ind.ai/zoe") == ""
        for wrong in ("9", "formal", "-1"):
            assert (await phone.post("/desk/settings/tone", tone=wrong)).status == 400
        await phone.post("/desk/settings/tone", tone="0")


async def test_the_owners_day_is_set_at_the_desk_and_holds_for_what_is_agreed_next(desks: Desks) -> None:
    """Notice and hours decide what alice gets next; the rules keep every letter but the zone's. Far ahead,
    where no other test has agreed on anything."""
    carol = await desks.b.agent("ind.ai/carol", BOBS)
    usual = {"on_change": "1", "remind": "15", "morning": "08:00"}

    def morning(days: int) -> dict[str, int]:
        """From 4 to 9 in Berlin, so many days from now."""
        there = datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(days=days)
        first, last = (there.replace(hour=hour, minute=0, second=0, microsecond=0) for hour in (4, 9))
        return {"from_ms": int(first.timestamp()) * 1000, "until_ms": int(last.timestamp()) * 1000}

    async with desks.browser(desks.b, carol) as browser:
        page = await browser.get("/desk/settings")
        assert 'value="Asia/Kolkata"' in page.text
        saved = await browser.post("/desk/settings/zone", zone="Europe/Berlin")
        assert saved.path.endswith("?said=saved"), saved.text
        rules = await carol.stub.GetActivePolicy(owner_pb2.GetActivePolicyRequest())
        assert rules.version.yaml == BOBS.replace("Asia/Kolkata", "Europe/Berlin")
        hours = {f"hours-{row}-day": str(row + 1) for row in range(7)}
        hours |= {f"hours-{row}-from": "06:10" for row in range(7)}
        hours |= {f"hours-{row}-until": "06:50" for row in range(7)}
        form = usual | hours | {"notice": str(31 * 24 * 60), "most": "1", "before": "5", "after": "10"}
        assert (await browser.post("/desk/settings/meetings", None, **form)).path.endswith("?said=saved")
        agreed = await desks.alice.meet("ind.ai/carol", title="Under his hours", **morning(35))
        start = datetime.fromtimestamp(agreed.start_time.seconds, ZoneInfo("Europe/Berlin"))
        assert (start.hour, start.minute) == (6, 15), agreed.words
        for title, minutes, days in (("too soon", 30, 28), ("too long", 45, 36), ("one is enough", 15, 35)):
            other = await desks.alice.meet("ind.ai/carol", title=title, minutes=minutes, **morning(days))
            assert other.state == owner_pb2.THREAD_STATE_REJECTED, title
        page = await browser.get("/desk/settings")
        assert page.text.count('value="06:10"') == 7
        assert 'name="before" min="0" max="1440" value="5"' in page.text

        bad: tuple[dict[str, str], ...] = (
            {"notice": "-1"},
            {"before": "1441"},
            {"morning": "25:00"},
            {"on_change": "9"},
            {"hours-0-day": "8"},
            {"hours-0-until": "06:10"},
            {"hours-0-until": ""},
        )
        for wrong in bad:
            refused = await browser.post("/desk/settings/meetings", None, **(form | wrong))
            assert refused.status == 400, wrong
            assert "That did not work" in refused.text
        assert (await browser.get("/desk/settings")).text.count('value="06:10"') == 7
        assert (await browser.post("/desk/settings/zone", zone="Mars/Olympus")).status == 400

        quiet = {"from": "22:30", "until": "06:15", "most": "2"}
        assert (await browser.post("/desk/settings/quiet", None, **quiet)).path.endswith("?said=saved")
        assert "from 22:30 to 06:15" in (await browser.get("/desk/goals")).text
        for wrong in ({"most": "0"}, {"most": "51"}, {"from": "24:00"}):
            assert (await browser.post("/desk/settings/quiet", None, **(quiet | wrong))).status == 400
        acts = await desks.service(desks.b, carol.token).ListActs(desk_pb2.ListActsRequest())
        done = {(act.act, act.outcome) for act in acts.acts}
        for act in ("zone", "meetings", "quiet"):
            assert (f"/desk/settings/{act}", "done") in done
            assert (f"/desk/settings/{act}", "INVALID_ARGUMENT") in done


async def test_goals_are_added_held_back_and_removed_at_the_desk(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as bob, desks.browser(desks.b, desks.bob) as laptop:
        page = await bob.get("/desk/goals")
        goal = {"id": _found(r'name="id" value="([0-9a-f-]{36})"', page.text), "every": "2", "unit": "168"}
        goal |= {"kind": "1", "person": "ind.ai/dave", "words": "Catch up", "minutes": "25"}
        assert (await bob.post("/desk/goals/consent", way="off")).path.endswith("?said=saved")
        for _ in range(2):  # the same form twice
            page = await bob.post("/desk/goals/add", None, **goal)
        assert len(set(re.findall(r"/desk/goals/([0-9a-f-]{36})/act", page.text))) == 1
        assert "Nothing is done unasked" in page.text
        at = _found(r"/desk/goals/([0-9a-f-]{36})/pause", page.text)
        async with asyncio.timeout(60):
            while "You have stopped it." not in (page := await laptop.get("/desk/goals")).text:
                await asyncio.sleep(0.05)
        assert page.text.count("Meet ind.ai/dave every 2 weeks") == 2  # the goal, and why nothing is done
        assert "asks by itself" in (await bob.post(f"/desk/goals/{at}/act")).text
        assert "tells you" in (await bob.post(f"/desk/goals/{at}/tell")).text
        assert f"/desk/goals/{at}/resume" in (await bob.post(f"/desk/goals/{at}/pause")).text
        assert f"/desk/goals/{at}/pause" in (await bob.post(f"/desk/goals/{at}/resume")).text
        for wrong in ({"every": "0"}, {"every": "x"}, {"kind": "7"}, {"unit": "5"}, {"person": "ind.ai/bob"}):
            refused = await bob.post("/desk/goals/add", None, **(goal | {"id": str(uuid.uuid4())} | wrong))
            assert refused.status == 400, wrong
        assert (await bob.post("/desk/goals/consent", way="perhaps")).status == 400
        assert at not in (await bob.post(f"/desk/goals/{at}/remove")).text
        stale = await laptop.post(f"/desk/goals/{at}/pause")
        assert stale.status == 404
        assert "That did not work" in stale.text
        await bob.post("/desk/goals/consent", way="on")


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


async def test_memory_is_seen_corrected_forgotten_and_taken_along(desks: Desks) -> None:
    channel = plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token)
    memory = MemoryServiceStub(channel)
    fact = memory_pb2.Fact(key="preference.food", value_json='"<b>idli</b>"')
    await memory.Remember(memory_pb2.RememberRequest(facts=[fact]))
    async with desks.browser(desks.b, desks.bob) as bob:
        page = await bob.get("/desk/memory?about=preference")
        assert "&lt;b&gt;idli" in page.text
        found = re.search(r"/desk/memory/([0-9A-Za-z-]{8,64})/correct", page.text)
        assert found is not None
        assert "dosa" in (await bob.post(f"/desk/memory/{found[1]}/correct", value="dosa")).text
        export = await bob.get("/desk/memory/export.jsonl")
        assert "dosa" in export.text
        assert export.answer.headers["Transfer-Encoding"] == "chunked"  # and never whole in memory
        assert export.answer.headers["X-Content-Type-Options"] == "nosniff"
        page = await bob.get("/desk/memory?about=preference")
        found = re.search(r"/desk/memory/([0-9A-Za-z-]{8,64})/forget", page.text)
        assert found is not None
        assert "dosa" not in (await bob.post(f"/desk/memory/{found[1]}/forget")).text


async def test_a_drill_shows_who_holds_the_rotation_key_and_takes_no_other(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as bob:
        page = await bob.get("/desk/access")
        found = re.search(r"drill-[0-9a-f]{16}", page.text)
        assert found is not None
        for key, works in (("ind.ai/bob", True), ("ind.ai/alice", False)):
            signed = drill.sign(desks.world.rotation[key], "ind.ai/bob", found[0])
            line = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
            answer = await bob.post("/desk/access/drill", signature=line)
            assert (answer.status == 200) is works, answer.text
        other = drill.sign(desks.world.rotation["ind.ai/bob"], "ind.ai/bob", "drill-0000000000000000")
        line = base64.urlsafe_b64encode(other).decode()
        assert (await bob.post("/desk/access/drill", signature=line)).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/desk/calendar?month=2026-13",
        "/desk/calendar?month=0001-01",
        "/desk/calendar?week=9999-W52",
        "/desk/threads?page=x",
        "/desk/access?page=-1",
        "/desk/rules?template=../personal",
        "/desk/people?page=-1",
        "/desk/shared?peer=%3Cscript%3E",
    ],
)
async def test_addresses_made_by_hand_are_answered_with_words(desks: Desks, path: str) -> None:
    async with desks.browser(desks.b, desks.bob) as bob:
        page = await bob.get(path)
    assert page.status in (400, 404), page.text
    assert "That did not work" in page.text
    assert "error id" not in page.text


async def test_an_open_desk_hears_of_what_changed_and_no_other_owners_does(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as bob, desks.browser(desks.a, desks.alice) as alice:
        async with bob.http.get(f"{bob.base}/desk/live") as stream:
            assert stream.content_type == "text/event-stream"
            await _event(stream)  # what waits now
            await desks.asked(title="Live")
            assert await _event(stream) == "changed"
            await _sign_out_everywhere(desks, bob)
        async with alice.http.get(f"{alice.base}/desk/live") as stream:
            assert await _event(stream) == "changed"


async def test_ten_thousand_conversations_are_paged_and_no_page_is_heavy(desks: Desks) -> None:
    zoe = await desks.b.agent("ind.ai/zoe", BOBS)
    async with transaction(desks.pool, ("ind.ai/zoe",)) as connection:
        await connection.execute(
            "INSERT INTO node.threads (owner, thread, peer, side, outgoing, phase, kind, title, words,"
            " created_ms, updated_ms) SELECT 'ind.ai/zoe', decode(md5(n::text), 'hex'), 'ind.ai/p' || n, '',"
            " false, 'REJECTED', 'meet', repeat('x', 200), 'refused', $1::bigint - n, $1::bigint - n"
            " FROM generate_series(1, 10000) n",
            now_ms(),
        )
    async with desks.browser(desks.b, zoe) as browser:
        for path in ("/desk", "/desk/threads", "/desk/people"):
            assert len((await browser.get(path)).text.encode()) < 100_000, path
        page = unescape((await browser.get("/desk/people")).text)
        older = re.search(r'href="(/desk/people\?page=[^"]+)"', page)
        assert older is not None
        assert "ind.ai/p1<" in page
        assert "ind.ai/p41<" in (await browser.get(older[1])).text
        seen: set[str] = set()
        path = "/desk/threads"
        for _ in range(3):
            page = unescape((await browser.get(path)).text)
            rows = set(re.findall(r'href="/desk/threads/([0-9a-f]{32})"', page))
            assert len(rows) == 50
            assert not rows & seen
            seen |= rows
            found = re.search(r'href="(/desk/threads\?page=[^"]+)"', page)
            assert found is not None
            path = found[1]


async def _event(stream: ClientResponse) -> str:
    while True:
        line = (await stream.content.readline()).decode().strip()
        assert line or not stream.content.at_eof()
        if line.startswith("event: "):
            return line.removeprefix("event: ")


async def _sign_out_everywhere(desks: Desks, browser: Browser) -> None:
    await browser.get("/desk")
    await browser.post("/desk/sign-out")
