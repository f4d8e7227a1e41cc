"""What protects a visitor: forms of our own, headers on every answer, no script out of a field, limits."""

from __future__ import annotations

import asyncio
import re
import uuid
from contextlib import AsyncExitStack
from dataclasses import fields
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from indai.client.channels import plain_channel
from indai.desk.calls import Calls
from indai.desk.owner import OwnerDesk
from indai.node.web_role import place_at
from indai.protocol.errors import IndaiError, Reason
from indai.storage.pool import transaction
from indai.v1 import commerce_pb2, desk_pb2, goals_pb2, memory_pb2, owner_pb2
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.goals_pb2_grpc import GoalServiceStub
from indai.v1.memory_pb2_grpc import MemoryServiceStub
from indai.web.guards import Limit, check_origin
from indai.web.live import Live
from indai.web.site import ACTS_A_MINUTE, Place, Site

from tests.service.node.lives import until
from tests.service.node.world import now_ms
from tests.service.web.conftest import BOBS, HOUR_MS, Desks

SCRIPT = "<script>alert(1)</script>"
QUERIES = {
    "/desk": "page said",
    "/desk/threads": "page only",
    "/desk/commitments": "page",
    "/desk/calendar": "month week",
    "/desk/rules": "template",
    "/desk/people": "page",
    "/desk/shared": "peer page",
    "/desk/goals": "page",
    "/desk/memory": "about page",
    "/desk/access": "page",
    "/desk/start": "to",
    "/desk/sign-in": "code next",
}


async def test_every_answer_forbids_inline_script_frames_and_other_sites(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        pages = [
            await browser.get(path)
            for path in ("/desk", "/desk/sign-in", "/desk/threads", "/desk/threads/" + "a" * 32)
        ]
    for page in pages:
        policy = page.answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.answer.headers["X-Content-Type-Options"] == "nosniff"
        assert page.answer.headers["Cache-Control"] == "no-store"
        assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=|javascript:", page.text)
        assert len(page.text.encode()) < 100_000
    assert pages[3].status == 404


async def test_the_sessions_cookie_is_out_of_reach_of_scripts_and_of_other_sites_forms(desks: Desks) -> None:
    async with desks.browser(desks.b) as browser:
        await browser.get("/desk/sign-in")
        code = await desks.code(desks.b, desks.bob)
        answer = await browser.http.post(
            f"{browser.base}/desk/sign-in", data={"csrf": browser.csrf, "code": code}, allow_redirects=False
        )
    (cookie,) = [text for text in answer.headers.getall("Set-Cookie") if text.startswith("indai-desk=")]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/" in cookie


@pytest.mark.parametrize("wrong", ["", "0" * 64, "another visitor's"])
async def test_a_form_that_was_not_made_for_its_sender_does_nothing(desks: Desks, wrong: str) -> None:
    _, action = await desks.asked(title=f"Forged {wrong[:3]}")
    async with desks.browser(desks.b) as stranger, desks.browser(desks.b, desks.bob) as browser:
        await stranger.get("/desk/sign-in")
        token = stranger.csrf if wrong.startswith("another") else wrong
        page = await browser.post(f"/desk/approvals/{action}", csrf=token, answer="yes")
        assert page.status == 403
        assert action in (await browser.get("/desk")).text


async def test_a_form_sent_by_another_site_does_nothing(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        for headers in (
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "null"},
        ):
            page = await browser.post("/desk/sign-out", headers=headers)
            assert page.status == 403
        assert (await browser.get("/desk")).path == "/desk"
        ours = {"Origin": browser.base, "Sec-Fetch-Site": "same-origin"}
        await browser.post("/desk/sign-out", headers=ours)
        assert (await browser.get("/desk")).path.startswith("/desk/sign-in")


def test_the_site_is_known_by_its_own_names_alone() -> None:
    place = place_at("", "127.0.0.1:7406", tls=False)
    check_origin({"Origin": "http://localhost:7406"}, place.hosts)
    check_origin({"Origin": "http://127.0.0.1:7406"}, place.hosts)
    for other in ("http://localhost:7407", "http://localhost", "http://localhost:7406.evil.example"):
        with pytest.raises(IndaiError):
            check_origin({"Origin": other}, place.hosts)
    public = place_at("https://node.example", "127.0.0.1:7406", tls=False)
    assert public.tls
    with pytest.raises(IndaiError):
        check_origin({"Origin": "http://localhost:7406"}, public.hosts)


def test_the_desk_is_not_served_in_the_clear_to_other_machines() -> None:
    assert not place_at("", "192.0.2.1:7406", tls=False).secure
    assert not place_at("http://node.example", "192.0.2.1:7406", tls=False).secure
    assert place_at("", "192.0.2.1:7406", tls=True).secure
    assert place_at("https://node.example", "192.0.2.1:7406", tls=False).secure


async def test_script_in_what_a_peer_writes_is_text_on_every_page(desks: Desks) -> None:
    thread, _ = await desks.asked(title=SCRIPT)
    async with desks.browser(desks.b, desks.bob) as bob, desks.browser(desks.a, desks.alice) as alice:
        pages = [await bob.get("/desk"), await bob.get("/desk/threads")]
        pages += [await bob.get(f"/desk/threads/{thread}"), await alice.get(f"/desk/threads/{thread}")]
        for page in pages:
            assert page.status == 200
            assert SCRIPT not in page.text
            assert "&lt;script&gt;" in page.text
        said = await bob.get(f"/desk?said={SCRIPT}&page={SCRIPT}")
        assert said.status == 400
        assert SCRIPT not in said.text
        code = await bob.get(f'/desk/sign-in?code="{SCRIPT}')
        assert SCRIPT not in code.text


async def test_another_owners_things_look_as_if_they_did_not_exist(desks: Desks) -> None:
    thread, action = await desks.asked(title="Of these two")
    carol = await desks.b.agent("ind.ai/carol", "version: 1\ntimezone: UTC\nrules: []\n")
    async with desks.browser(desks.b, carol) as other:
        await other.get("/desk")
        for path in (f"/desk/threads/{thread}", f"/desk/threads/{thread}/receipt.proof"):
            assert (await other.get(path)).status == 404, path
        for act in ("withdraw", "cancel", "fulfil", "dispute", "erase"):
            assert (await other.post(f"/desk/threads/{thread}/{act}")).status == 404, act
        page = await other.post(f"/desk/approvals/{action}", answer="yes")
        assert page.status == 404
        assert "no longer wait for you" in page.text
        assert action not in (await other.get("/desk")).text
    async with desks.browser(desks.b, desks.bob) as bob:
        assert action in (await bob.get("/desk")).text


async def test_an_answer_counts_once_and_a_stale_page_is_answered_with_words(desks: Desks) -> None:
    _, action = await desks.asked(title="Only once")
    async with desks.browser(desks.b, desks.bob) as phone, desks.browser(desks.b, desks.bob) as laptop:
        await phone.get("/desk")
        await laptop.get("/desk")
        first = await phone.post(f"/desk/approvals/{action}", answer="no")
        assert "You said no" in first.text
        second = await laptop.post(f"/desk/approvals/{action}", answer="yes")
        assert second.status in (400, 404, 409)
        assert "<h1>That did not work</h1>" in second.text
        assert "refused" in (await laptop.get(f"/desk/threads/{first.path.split('/')[-1][:32]}")).text


async def test_of_several_who_answer_at_once_one_is_heard(desks: Desks) -> None:
    thread, action = await desks.asked(title="All at once")
    ways = [(f"/desk/approvals/{action}", answer, "") for answer in ("yes", "no", "yes")]
    ways.append((f"/desk/counter/{action}", "", "week"))
    async with AsyncExitStack() as stack:
        open_desks = [await stack.enter_async_context(desks.browser(desks.b, desks.bob)) for _ in ways]
        await asyncio.gather(*(desk.get("/desk") for desk in open_desks))
        pages = await asyncio.gather(
            *(
                desk.post(path, answer=answer, way=way)
                for desk, (path, answer, way) in zip(open_desks, ways, strict=True)
            )
        )
    heard = [page for page in pages if page.status == 200]
    # Who says again what was heard before hears it again; nobody hears anything else.
    assert len({page.path for page in heard}) == 1, [(page.status, page.path) for page in pages]
    assert heard[0].path.startswith(f"/desk/threads/{thread}?said=")
    assert all("<h1>That did not work</h1>" in page.text for page in pages if page.status != 200)


async def test_what_was_taken_back_meanwhile_cannot_be_approved(desks: Desks) -> None:
    thread, action = await desks.asked(title="Taken back")
    async with desks.browser(desks.b, desks.bob) as stale:
        await stale.get("/desk")
        await desks.alice.stub.WithdrawThread(owner_pb2.WithdrawThreadRequest(thread_id=thread))
        await until(desks.bob, thread, lambda each: each.state == owner_pb2.THREAD_STATE_WITHDRAWN)
        for path in (f"/desk/approvals/{action}", f"/desk/counter/{action}"):
            page = await stale.post(path, answer="yes", way="day")
            assert page.status in (404, 409), page.text
            assert "<h1>That did not work</h1>" in page.text
        assert "withdrawn" in (await stale.get(f"/desk/threads/{thread}")).text


async def test_a_field_too_long_and_a_body_too_large_are_refused(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        await browser.get("/desk")
        page = await browser.post("/desk/sign-in", code="x" * 1_000)
        assert page.status == 400
        assert (await browser.post("/desk/sign-in", code="x" * 300_000)).status == 413


def test_too_many_acts_of_one_are_refused_and_cost_nobody_else() -> None:
    limit = Limit(ACTS_A_MINUTE, 60_000)
    for _ in range(ACTS_A_MINUTE):
        limit.check("one", 0)
    with pytest.raises(IndaiError) as refused:
        limit.check("one", 59_999)
    assert refused.value.reason is Reason.RATE_LIMITED
    limit.check("another", 59_999)
    limit.check("one", 60_000)


def rooms() -> list[tuple[str, str]]:
    """Method and address of everything in the owner's desk."""
    nothing: Any = None
    site = Site(nothing, nothing, b"s" * 32, lambda: 0, lambda: Place("http://localhost", secure=True), {})
    calls = Calls(*[nothing] * len(fields(Calls)))
    app = web.Application()
    app.add_routes(OwnerDesk(site, calls, Live(site), nothing, nothing).routes())
    found = [(route.method, route.resource) for route in app.router.routes()]
    return [(method, where.canonical) for method, where in found if where is not None and method != "HEAD"]


async def _belongings(desks: Desks) -> dict[str, str]:
    """Something of bob's for each name in an address."""
    thread, action = await desks.asked(title="Secret plan")
    memory = MemoryServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    fact = memory_pb2.Fact(key="preference.drink", value_json='"chai"')
    await memory.Remember(memory_pb2.RememberRequest(facts=[fact]))
    facts = await memory.ListFacts(memory_pb2.ListFactsRequest(key_prefix="preference.drink"))
    commerce = CommerceServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    wanted = commerce_pb2.Mandate(
        payee="ind.ai/alice", max_amount_minor=1, currency="INR", period=commerce_pb2.MANDATE_PERIOD_MONTH
    )
    wanted.expire_time.FromMilliseconds(now_ms() + 24 * HOUR_MS)
    request = commerce_pb2.AddMandateRequest(request_id=str(uuid.uuid4()), mandate=wanted)
    made = await commerce.AddMandate(request)
    goals = GoalServiceStub(plain_channel(desks.b.info.addresses["owner"], token=desks.bob.token))
    wish = goals_pb2.Goal(kind=goals_pb2.GOAL_KIND_REMIND, words="Secret plan", every_hours=24)
    goal = await goals.CreateGoal(goals_pb2.CreateGoalRequest(request_id=str(uuid.uuid4()), goal=wish))
    key = "ab" * 32
    async with transaction(desks.pool, ("ind.ai/bob",)) as connection:
        await connection.execute(
            "INSERT INTO web.passkeys (credential_sha256, credential_id, scope, account, public_key,"
            " sign_count, name, created_ms) SELECT $1, 'x', scope, id, 'x', 0, 'bobs', 0 FROM web.accounts"
            " WHERE scope = 'ind.ai/bob' ON CONFLICT DO NOTHING",
            bytes.fromhex(key),
        )
    sessions = await desks.service(desks.b, desks.bob.token).ListDeskSessions(
        desk_pb2.ListDeskSessionsRequest(scope="")
    )
    return {
        "thread": thread,
        "hash": action,
        "goal": goal.goal.goal_id,
        "way": "pause",
        "fact": facts.facts[0].id,
        "mandate": made.mandate.mandate_id,
        "key": key,
        "session": sessions.sessions[0].session_id,
        "form": "proof",
    }


async def test_no_address_of_the_desk_opens_or_changes_what_is_another_owners(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as bob:
        belongings = await _belongings(desks)
        mallory = await desks.b.agent("ind.ai/mallory", BOBS)
        tried = 0
        async with desks.browser(desks.b, mallory) as other:
            await other.get("/desk")
            for method, address in rooms():
                if "{" not in address:
                    continue
                path = address.format(**belongings)  # a new name has no value here
                answer = {"answer": "yes", "way": "day", "value": "hers", "sentence": "no"}
                page = await (other.get(path) if method == "GET" else other.post(path, None, **answer))
                assert page.status == 404, (method, path, page.text)
                assert "Secret plan" not in page.text
                tried += 1
            for peer in ("ind.ai/alice", "ind.ai/bob"):
                assert "Secret plan" not in (await other.get(f"/desk/shared?peer={peer}")).text
        assert tried >= 15
        home = unescape((await bob.get("/desk")).text)
        assert belongings["hash"] in home
        assert "chai" in (await bob.get("/desk/memory?about=preference.drink")).text
        access = (await bob.get("/desk/access")).text
        assert "bobs" in access
        assert belongings["session"] in access
        assert f"/desk/goals/{belongings['goal']}/pause" in (await bob.get("/desk/goals")).text


async def test_script_in_every_field_and_address_stays_text(desks: Desks) -> None:
    belongings = await _belongings(desks)
    sentence = f"version: 1\nrules:\n  - id: x\n    say: '{SCRIPT}'\n    allow: meet\n    with: anyone\n"
    fields_of = {
        "/desk/rules/preview": {"yaml": sentence},
        "/desk/rules/save": {"yaml": SCRIPT},
        "/desk/people/circle": {"handle": "ind.ai/x", "circle": SCRIPT},
        "/desk/memory/forget-person": {"person": SCRIPT},
        "/desk/memory/{fact}/correct": {"value": SCRIPT},
        "/desk/access/drill": {"signature": SCRIPT},
        "/desk/counter/{hash}": {"first": SCRIPT, "last": SCRIPT, "minutes": SCRIPT},
        "/desk/threads/{thread}/dispute": {"sentence": SCRIPT},
        "/desk/threads/{thread}/cancel": {"sentence": SCRIPT},
        "/desk/settings/meetings": {"on_change": "1", "hours-0-from": SCRIPT, "hours-0-until": SCRIPT},
        "/desk/settings/quiet": {"from": SCRIPT, "until": SCRIPT, "most": SCRIPT},
        "/desk/settings/zone": {"zone": SCRIPT},
        "/desk/goals/add": {
            "kind": "3",
            "unit": "24",
            "every": "1",
            "words": SCRIPT,
            "id": str(uuid.uuid4()),
        },
    }
    names = ("answer", "way", "language", "tone", "page", "to", "peer", "title", "name", "value", "handle")
    wordless = ("end", "remove", "revoke", "forget", "withdraw", "erase", "off")
    async with desks.browser(desks.b, desks.bob) as bob:
        for method, address in rooms():
            if method != "POST" or address.endswith(wordless):
                continue
            for given in (fields_of.get(address, {}), dict.fromkeys(names, SCRIPT)):
                page = await bob.post(address.format(**belongings), None, **given)
                assert page.status < 500, (address, page.text)
                assert SCRIPT not in page.text, address
                assert "/sign-in" not in page.path, address  # nobody is signed out by it
        for room, queries in QUERIES.items():
            for name in queries.split():
                page = await bob.get(f"{room}?{name}={quote(SCRIPT)}")
                assert page.status < 500, (room, name)
                assert SCRIPT not in page.text, (room, name)
        # What was kept of it is shown as text.
        kept = await bob.get("/desk/memory?about=preference.drink")
        assert "&lt;script&gt;" in kept.text
        assert "&lt;script&gt;" in (await bob.get("/desk/goals")).text
