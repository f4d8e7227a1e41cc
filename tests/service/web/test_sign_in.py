"""Who gets in, who does not, and what is kept of it."""

from __future__ import annotations

import asyncio
import re
import socket
from uuid import uuid4

import pytest
from aiohttp import ClientSession, CookieJar, TCPConnector
from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.rows import seeing
from indai.v1 import conversation_pb2, desk_pb2, owner_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub, OwnerServiceStub
from indai.web.sign_in import CODES_SENT, CODES_TO_STRANGERS

from tests.service.node.world import Node
from tests.service.web.conftest import BOBS, Browser, Desks


def _cookie(page_cookies: dict[str, str]) -> str:
    return page_cookies["indai-desk"]


async def test_a_code_signs_in_once(desks: Desks) -> None:
    code = await desks.code(desks.b, desks.bob)
    async with desks.browser(desks.b) as first, desks.browser(desks.b) as second:
        inbox = await first.sign_in(code.lower().replace("-", " "))
        assert (inbox.status, inbox.path) == (200, "/desk")
        assert "ind.ai/bob" in inbox.text
        again = await second.sign_in(code)
        assert again.status == 401
        assert "ten minutes" in again.text


async def test_two_who_use_a_code_at_once_are_one(desks: Desks) -> None:
    code = await desks.code(desks.b, desks.bob)
    async with desks.browser(desks.b) as first, desks.browser(desks.b) as second:
        await asyncio.gather(first.get("/desk/sign-in"), second.get("/desk/sign-in"))
        pages = await asyncio.gather(*(each.post("/desk/sign-in", code=code) for each in (first, second)))
    assert sorted(page.status for page in pages) == [200, 401]


async def test_a_code_that_was_sent_works_in_the_browser_that_asked_and_strangers_use_up_none_of_the_owners(
    desks: Desks,
) -> None:
    await _writes_on_whatsapp(desks, "ind.ai/bob")
    async with desks.browser(desks.b, desks.bob) as known, desks.browser(desks.b) as stranger:
        await known.get("/desk")
        await known.post("/desk/sign-out")
        for browser in (known, stranger):
            await browser.get("/desk/sign-in")
        for _ in range(CODES_SENT):
            assert (await stranger.post("/desk/send-code", handle="ind.ai/bob")).status == 200
        refused = await stranger.post("/desk/send-code", handle="ind.ai/bob")
        assert refused.status == 429
        assert "signed in with before" in refused.text
        asked = await known.post("/desk/send-code", handle="ind.ai/bob")
        assert (asked.status, asked.path) == (200, "/desk/sign-in?said=sent")
        *_, to_stranger, code = await _sent(desks, "ind.ai/bob")
        assert (await stranger.post("/desk/sign-in", code=code)).status == 401
        assert (await known.post("/desk/sign-in", code=to_stranger)).status == 401
        assert (await known.post("/desk/sign-in", code=code)).path == "/desk"
        # The same answer for somebody who is not here, to whom nothing is sent.
        nobody = await stranger.post("/desk/send-code", handle="ind.ai/nobody")
        assert (nobody.status, nobody.path) == (200, "/desk/sign-in?said=sent")
    assert len(await _sent(desks, "ind.ai/bob")) == CODES_SENT + 1


async def test_however_many_strangers_ask_an_owner_who_writes_to_their_agent_gets_a_code(
    desks: Desks,
) -> None:
    """From four addresses strangers have the owner's messenger full of codes; their own way stays open."""
    owner = await desks.b.agent("ind.ai/besieged", BOBS)
    telephone = conversation_pb2.Identity(
        channel="whatsapp", kind="phone", value="+919800077001", verified=True
    )

    async def writes(text: str, sender: conversation_pb2.Identity = telephone) -> str:
        message = conversation_pb2.InboundMessage(sender=sender, account="+911100000000", text=text)
        stream = desks.talks.stub.SendMessage(conversation_pb2.SendMessageRequest(message=message))
        said = [each.event async for each in stream if each.HasField("event")]
        assert said[-1].HasField("finished"), said
        return str(said[-1].finished.reply.text)

    me = conversation_pb2.Identity(channel="web", kind="handle", value=owner.handle, verified=True)
    link = await desks.talks.stub.CreateLinkCode(conversation_pb2.CreateLinkCodeRequest(identity=me))
    await writes(f"link {link.code}")
    for place in range(2, 6):
        source = TCPConnector(local_addr=(f"127.0.0.{place}", 0), family=socket.AF_INET)
        async with ClientSession(cookie_jar=CookieJar(unsafe=True), connector=source) as http:
            stranger = Browser(desks.base(desks.b), http)
            await stranger.get("/desk/sign-in")
            for _ in range(CODES_SENT):
                assert (await stranger.post("/desk/send-code", handle=owner.handle)).status == 200
    async with desks.browser(desks.b) as new:
        await new.get("/desk/sign-in")
        refused = await new.post("/desk/send-code", handle=owner.handle)
        assert refused.status == 429
        assert "write `sign in` to your own agent" in refused.text
        before = await _sent(desks, owner.handle)
        assert len(before) == CODES_TO_STRANGERS
        answer = await writes("Sign in")
        assert "follows in a message of its own" in answer, answer
        (code,) = (await _sent(desks, owner.handle))[len(before) :]
        assert (await new.post("/desk/sign-in", code=code)).path == "/desk"
    acts = (await desks.service(desks.b, owner.token).ListActs(desk_pb2.ListActsRequest())).acts
    assert ("CreateSignInCode", "whatsapp") in {(act.act, act.target) for act in acts}

    # Nobody else's telephone gets one, at whosever door it writes; nor does anybody read it.
    other = conversation_pb2.Identity(channel="whatsapp", kind="phone", value="+919800077002", verified=True)
    for sender in (other, conversation_pb2.Identity(channel="web", kind="web_session", value="x" * 64)):
        message = conversation_pb2.InboundMessage(
            sender=sender, account="y", handle=owner.handle, text="sign in"
        )
        stream = desks.talks.stub.SendMessage(conversation_pb2.SendMessageRequest(message=message))
        last = [each.event async for each in stream if each.HasField("event")][-1]
        assert "follows in a message" not in last.finished.reply.text
    assert len(await _sent(desks, owner.handle)) == len(before) + 1
    async with seeing(desks.pool, [owner.handle]) as connection:
        texts = await connection.fetch("SELECT text FROM runtime.messages WHERE owner = $1", owner.handle)
    assert texts
    assert not [row["text"] for row in texts if code in row["text"]]


async def _writes_on_whatsapp(desks: Desks, handle: str) -> None:
    """As if the owner had written to their own agent there last: the session that is left behind."""
    person = uuid4()
    async with seeing(desks.pool, [handle], people=[person]) as connection:
        await connection.execute("INSERT INTO runtime.users (id) VALUES ($1)", person)
        await connection.execute(
            "INSERT INTO runtime.sessions (id, owner, tenant, binding, handle, door, person, scope_person,"
            " channel, segment) VALUES ($1, $2, '', '', $2, 'private', $1, $1, 'whatsapp', $1)",
            person,
            handle,
        )


async def _sent(desks: Desks, owner: str) -> list[str]:
    """Codes that wait to be handed to the owner's messenger, the oldest first."""
    async with seeing(desks.pool, [owner]) as connection:
        rows = await connection.fetch(
            "SELECT reply FROM runtime.outbound WHERE owner = $1 ORDER BY place", owner
        )
    texts = [conversation_pb2.Reply.FromString(row["reply"]).text for row in rows]
    return [found[0] for text in texts if (found := re.search(r"[2-9A-Z]{5}-[2-9A-Z]{5}", text))]


async def test_a_link_alone_signs_nobody_in(desks: Desks) -> None:
    code = await desks.code(desks.b, desks.bob)
    async with desks.browser(desks.b) as browser:
        page = await browser.get(f"/desk/sign-in?code={code}")
        assert code in page.text
        assert (await browser.get("/desk")).path.startswith("/desk/sign-in")


async def test_pages_behind_the_sign_in_lead_there_and_back(desks: Desks) -> None:
    async with desks.browser(desks.b) as browser:
        page = await browser.get("/desk/threads")
        assert page.path == "/desk/sign-in?next=/desk/threads"
        code = await desks.code(desks.b, desks.bob)
        assert (await browser.post("/desk/sign-in", code=code, next="/desk/threads")).path == "/desk/threads"


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "/desk\\@evil", "/logs"])
async def test_nobody_is_sent_to_another_site_after_signing_in(desks: Desks, elsewhere: str) -> None:
    async with desks.browser(desks.b) as browser:
        await browser.get("/desk/sign-in")
        code = await desks.code(desks.b, desks.bob)
        assert (await browser.post("/desk/sign-in", code=code, next=elsewhere)).path == "/desk"


async def test_signing_out_ends_the_session_for_the_rpcs_too(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        token = _cookie({one.key: one.value for one in browser.http.cookie_jar})
        stub = OwnerServiceStub(plain_channel(desks.b.info.addresses["owner"], token=token))
        await stub.ListInbox(owner_pb2.ListInboxRequest())
        await browser.post("/desk/sign-out")
        with pytest.raises(IndaiError) as refused:
            await stub.ListInbox(owner_pb2.ListInboxRequest())
        assert refused.value.reason is Reason.UNAUTHENTICATED


async def test_a_session_is_its_owners_and_no_operators(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        token = _cookie({one.key: one.value for one in browser.http.cookie_jar})
    channel = plain_channel(desks.b.info.addresses["owner"], token=token)
    with pytest.raises(IndaiError):
        await OperatorServiceStub(channel).GetNode(owner_pb2.GetNodeRequest())
    desk = desks.service(desks.b, token)
    for call in (
        desk.GrantAccount(desk_pb2.GrantAccountRequest(scope="*", role="operator", name="bob")),
        desk.ListAccounts(desk_pb2.ListAccountsRequest(scope="*")),
        desk.ListActs(desk_pb2.ListActsRequest(scope="ind.ai/alice")),
        desk.CreateSignInCode(desk_pb2.CreateSignInCodeRequest(scope="*", name="x")),
    ):
        try:
            answer = await call
        except IndaiError as error:
            assert error.reason is Reason.PERMISSION_DENIED, error  # noqa: PT017 - one of four
        else:
            assert answer.account.name == "ind.ai/bob"  # a code is the owner's own, whatever they ask for


async def test_another_nodes_session_opens_nothing(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        token = _cookie({one.key: one.value for one in browser.http.cookie_jar})
    stub = OwnerServiceStub(plain_channel(desks.a.info.addresses["owner"], token=token))
    with pytest.raises(IndaiError):
        await stub.ListInbox(owner_pb2.ListInboxRequest())


async def test_an_operator_of_the_node_has_the_operators_rpcs_until_they_are_let_in_no_more(
    desks: Desks,
) -> None:
    token = await _let_in(desks, desks.b, "*", "operator", "ops")
    stub = OperatorServiceStub(plain_channel(desks.b.info.addresses["owner"], token=token))
    assert (await stub.GetNode(owner_pb2.GetNodeRequest())).handle == "ind.ai/node-b"
    await desks.operator(desks.b).RevokeAccount(desk_pb2.RevokeAccountRequest(scope="*", name="ops"))
    with pytest.raises(IndaiError):
        await stub.GetNode(owner_pb2.GetNodeRequest())


async def test_a_tenants_people_have_neither_the_nodes_rpcs_nor_another_tenants(desks: Desks) -> None:
    token = await _let_in(desks, desks.b, "acme", "operator", "asha")
    admin = await _let_in(desks, desks.b, "acme", "admin", "boss")
    await desks.operator(desks.b).GrantAccount(
        desk_pb2.GrantAccountRequest(scope="globex", role="staff", name="zoe")
    )
    with pytest.raises(IndaiError):
        await OperatorServiceStub(plain_channel(desks.b.info.addresses["owner"], token=token)).GetNode(
            owner_pb2.GetNodeRequest()
        )
    with pytest.raises(IndaiError):
        await OwnerServiceStub(plain_channel(desks.b.info.addresses["owner"], token=token)).ListInbox(
            owner_pb2.ListInboxRequest()
        )
    mine = await desks.service(desks.b, admin).ListAccounts(desk_pb2.ListAccountsRequest())
    assert {one.name for one in mine.accounts} == {"asha", "boss"}
    for scope in ("globex", "*", "ind.ai/bob"):
        with pytest.raises(IndaiError):
            await desks.service(desks.b, admin).ListAccounts(desk_pb2.ListAccountsRequest(scope=scope))
        with pytest.raises(IndaiError):
            await desks.service(desks.b, admin).CreateSignInCode(
                desk_pb2.CreateSignInCodeRequest(scope=scope, name="zoe")
            )
    with pytest.raises(IndaiError):  # an operator of a tenant lets nobody in
        await desks.service(desks.b, token).GrantAccount(
            desk_pb2.GrantAccountRequest(scope="acme", role="admin", name="asha2")
        )


async def test_an_admins_desk_lets_people_of_their_tenant_in_and_out(desks: Desks) -> None:
    operator = desks.operator(desks.b)
    for role, name in (("admin", "the chief"), ("staff", "hand")):
        await operator.GrantAccount(desk_pb2.GrantAccountRequest(scope="initech", role=role, name=name))
    made = await operator.CreateSignInCode(
        desk_pb2.CreateSignInCodeRequest(scope="initech", name="the chief")
    )
    async with desks.browser(desks.b) as head, desks.browser(desks.b) as hand:
        home = (await head.sign_in(made.code)).path
        assert home != "/desk"
        assert (await head.get("/desk")).path == home
        assert "hand" in (await head.get("/desk/let-in")).text
        assert (await head.get("/desk/threads")).status == 403
        page = await head.post("/desk/let-in/code", name="hand")
        found = re.search(r"[2-9A-Z]{5}-[2-9A-Z]{5}", page.text)
        assert found is not None
        await hand.sign_in(found[0])
        assert "the chief" not in (await hand.get("/desk/let-in")).text  # staff see nobody else
        assert (await hand.post("/desk/let-in/grant", name="x", role="admin")).status == 403
        assert "ops2" in (await head.post("/desk/let-in/grant", name="ops2", role="operator")).text
        assert (await head.post("/desk/let-in/grant", name="ind.ai/bob", role="owner")).status == 400
        assert (await head.post("/desk/let-in/code", name="ind.ai/bob")).status == 404
        await head.post("/desk/let-in/revoke", name="hand")
        assert (await hand.get("/desk")).path.startswith("/desk/sign-in")


async def test_the_operator_makes_no_code_for_an_owner(desks: Desks) -> None:
    for scope in ("ind.ai/bob", "*"):
        with pytest.raises(IndaiError):
            await desks.operator(desks.b).CreateSignInCode(
                desk_pb2.CreateSignInCodeRequest(scope=scope, name="ind.ai/bob")
            )


async def test_an_owner_sees_their_sessions_and_ends_one(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as first, desks.browser(desks.b, desks.bob) as second:
        token = _cookie({one.key: one.value for one in first.http.cookie_jar})
        mine = desks.service(desks.b, token)
        listed = (await mine.ListDeskSessions(desk_pb2.ListDeskSessionsRequest())).sessions
        (current,) = [one for one in listed if one.current]
        newest = listed[0]
        assert newest.session_id != current.session_id
        await mine.RevokeDeskSession(desk_pb2.RevokeDeskSessionRequest(session_id=newest.session_id))
        assert (await second.get("/desk")).path.startswith("/desk/sign-in")
        assert (await first.get("/desk")).path == "/desk"


async def test_acts_stand_in_the_audit_log_also_those_that_were_refused(desks: Desks) -> None:
    async with desks.browser(desks.b, desks.bob) as browser:
        await browser.post(f"/desk/approvals/{'0' * 64}", answer="yes")
    acts = (await desks.service(desks.b, desks.bob.token).ListActs(desk_pb2.ListActsRequest())).acts
    assert any(one.act.startswith("/desk/approvals/") and one.outcome == "NOT_FOUND" for one in acts)
    assert any(one.act == "sign-in" and one.outcome == "done" for one in acts)


async def _let_in(desks: Desks, node: Node, scope: str, role: str, name: str) -> str:
    """Somebody signed in with a role; their session's token."""
    operator = desks.operator(node)
    await operator.GrantAccount(desk_pb2.GrantAccountRequest(scope=scope, role=role, name=name))
    made = await operator.CreateSignInCode(desk_pb2.CreateSignInCodeRequest(scope=scope, name=name))
    async with desks.browser(node) as browser:
        await browser.get("/desk/sign-in")
        await browser.http.post(
            f"{browser.base}/desk/sign-in",
            data={"csrf": browser.csrf, "code": made.code},
            allow_redirects=False,
        )
        return _cookie({one.key: one.value for one in browser.http.cookie_jar})
