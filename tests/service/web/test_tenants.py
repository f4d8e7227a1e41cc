"""An organisation's desk: its people see and answer their own conversations, and nothing of others'."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import asking_pb2, conversation_pb2, desk_pb2, tiers_pb2
from indai.v1 import tenant_pb2 as pb
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.conversation_pb2_grpc import ConversationServiceStub
from indai.v1.desk_pb2_grpc import DeskServiceStub
from indai.v1.tenant_pb2_grpc import LendingServiceStub, TenantDeskServiceStub
from indai.v1.tiers_pb2_grpc import TierServiceStub

from tests.service.web.roles import INSIDE, METHODS, SERVICES, admitted, contract, passes, tokens
from tests.service.web.tenants import SHOP, City, city

__all__ = ["city"]


def read_methods(tenant: str, session: str) -> dict[str, Any]:
    """Everything that reads or does something in a tenant."""
    return {
        "GetDeskTenant": pb.GetDeskTenantRequest(tenant=tenant),
        "GetTenantFigures": pb.GetTenantFiguresRequest(tenant=tenant),
        "ListTenantConversations": pb.ListTenantConversationsRequest(tenant=tenant),
        "GetTenantConversation": pb.GetTenantConversationRequest(tenant=tenant, session_id=session),
        "TakeOverConversation": pb.TakeOverConversationRequest(tenant=tenant, session_id=session),
        "HandBackConversation": pb.HandBackConversationRequest(tenant=tenant, session_id=session),
        "AnswerConversation": pb.AnswerConversationRequest(
            tenant=tenant, session_id=session, text="x", request_id=str(uuid.uuid4())
        ),
        "ListGuardrailEvents": pb.ListGuardrailEventsRequest(tenant=tenant),
        "GetStageTimes": pb.GetStageTimesRequest(tenant=tenant),
        "ListTenantUsage": pb.ListTenantUsageRequest(tenant=tenant),
        "ListTenantWork": pb.ListTenantWorkRequest(tenant=tenant),
        "ReplayTenantWork": pb.ReplayTenantWorkRequest(
            tenant=tenant, source="tool", job_id=str(uuid.uuid4())
        ),
        "ListTenantChannels": pb.ListTenantChannelsRequest(tenant=tenant),
        "ReplayTenantLetters": pb.ReplayTenantLettersRequest(tenant=tenant, channel="c"),
        "ListBoard": pb.ListBoardRequest(tenant=tenant),
        "MoveRequest": pb.MoveRequestRequest(
            tenant=tenant, office="ind.ai/office", thread_id="ab", stage="x"
        ),
    }


async def reason(call: Any) -> Reason | None:
    """What is refused; None for what is done."""
    try:
        await call
    except IndaiError as error:
        return error.reason
    return None


async def test_a_tenant_sees_its_own_conversations_and_none_of_another_s(city: City) -> None:
    await city.says("riverton.example", "Hello")
    theirs = city.session
    await city.says("acme.example", "Hello")
    riverton, acme = await city.desk("riverton", "operator"), await city.desk("acme", "operator")
    for desk, own, other in ((riverton, theirs, city.session), (acme, city.session, theirs)):
        found = (await desk.ListTenantConversations(pb.ListTenantConversationsRequest())).conversations
        assert own in [one.session.session_id for one in found]
        assert other not in [one.session.session_id for one in found]
        for name, request in read_methods("", other).items():
            if "session_id" in request.DESCRIPTOR.fields_by_name:
                assert await reason(getattr(desk, name)(request)) is Reason.NOT_FOUND, name
    for name, request in read_methods("acme", city.session).items():
        assert await reason(getattr(riverton, name)(request)) is Reason.PERMISSION_DENIED, name


async def test_nobody_s_private_talk_is_a_tenant_s(city: City) -> None:
    await city.says("ind.ai/office", "Hello, my own agent")
    private = city.session
    root = city.stub(TenantDeskServiceStub, city.root)
    assert set((await root.ListDeskTenants(pb.ListDeskTenantsRequest())).tenants) == {"riverton", "acme"}
    personal = pb.ListTenantConversationsRequest(tenant="personal")
    assert await reason(root.ListTenantConversations(personal)) is Reason.PERMISSION_DENIED
    # The office is lent to riverton: its requests and public talk, never what its owner says to it.
    for tenant in ("riverton", "acme"):
        asked = pb.GetTenantConversationRequest(tenant=tenant, session_id=private)
        assert await reason(root.GetTenantConversation(asked)) is Reason.NOT_FOUND
    owner = city.stub(TenantDeskServiceStub, city.office.token)
    assert await reason(owner.ListDeskTenants(pb.ListDeskTenantsRequest())) is Reason.UNAUTHENTICATED


async def test_the_operator_of_the_node_sees_what_tenants_do_and_nobody_s_own_talk(city: City) -> None:
    await city.says("ind.ai/office", "My PIN is 4711")
    private = city.session
    await city.says("riverton.example", "Hello")
    theirs = city.session
    mine = city.stub(ConversationServiceStub, city.office.token)
    turn = (
        (await mine.ListSessionMessages(conversation_pb2.ListSessionMessagesRequest(session_id=private)))
        .messages[0]
        .turn_id
    )
    async with city.person("*", "operator") as browser:
        session = next(one.value for one in browser.http.cookie_jar if one.key == "indai-desk")
    for token in (city.root, session):
        talks = city.stub(ConversationServiceStub, token)
        listed = (await talks.ListSessions(conversation_pb2.ListSessionsRequest(page_size=200))).sessions
        assert theirs in [one.session_id for one in listed]
        assert {one.door for one in listed} == {"distribution"}
        for name, request in {
            "ListSessionMessages": conversation_pb2.ListSessionMessagesRequest(session_id=private),
            "GetTurn": conversation_pb2.GetTurnRequest(turn_id=turn),
            "TakeOverSession": conversation_pb2.TakeOverSessionRequest(session_id=private),
            "HandBackSession": conversation_pb2.HandBackSessionRequest(session_id=private),
            "SendAsHuman": conversation_pb2.SendAsHumanRequest(session_id=private, text="x", request_id="r"),
        }.items():
            assert await reason(getattr(talks, name)(request)) is Reason.NOT_FOUND, name
    assert (await mine.GetTurn(conversation_pb2.GetTurnRequest(turn_id=turn))).session_id == private


async def test_every_method_of_the_contract_admits_exactly_its_callers(city: City) -> None:
    """Each role calls each method there is; a method without a row in the table of callers fails."""
    services = contract()
    methods = [each for one in services if one.name not in INSIDE for each in one.methods]
    assert {one.name for one in services} == INSIDE | set(SERVICES)
    assert set(METHODS) <= {f"{each.containing_service.name}.{each.name}" for each in methods}
    address = city.b.info.addresses["owner"]
    channels = {who: plain_channel(address, token=token) for who, token in (await tokens(city)).items()}

    async def wrong(who: str) -> list[str]:
        found = []
        for method in methods:
            expected = who in admitted(method)
            if await passes(channels[who], method, expected=expected) is not expected:
                name = f"{method.containing_service.name}.{method.name}"
                found.append(f"{name}: {who} {'refused' if expected else 'let in'}")
        return found

    found = [each for some in await asyncio.gather(*map(wrong, channels)) for each in some]
    assert not found, "\n".join(found)


async def test_a_conversation_is_taken_over_answered_and_handed_back(city: City) -> None:
    await city.says("riverton.example", "Hello")
    session = city.session
    desk = await city.desk("riverton", "staff")
    await desk.TakeOverConversation(pb.TakeOverConversationRequest(session_id=session))
    await city.says("riverton.example", "Is anybody there?")
    (first,) = (
        await desk.ListTenantConversations(pb.ListTenantConversationsRequest(status="handed_off"))
    ).conversations
    assert (first.session.session_id, first.taken_by) == (session, "staff")
    assert first.waiting_since.seconds
    colleague = await city.desk("riverton", "admin")
    again = pb.TakeOverConversationRequest(session_id=session)
    assert await reason(colleague.TakeOverConversation(again)) is Reason.ILLEGAL_MOVE
    answer = pb.AnswerConversationRequest(session_id=session, text="I am.", request_id=str(uuid.uuid4()))
    await desk.AnswerConversation(answer)
    await desk.AnswerConversation(answer)
    found = await desk.GetTenantConversation(pb.GetTenantConversationRequest(session_id=session))
    assert not found.conversation.HasField("waiting_since")
    said = [(one.by_human, one.text) for one in found.messages if one.outgoing]
    assert said.count((True, "I am.")) == 1
    assert any("staff" in text for _, text in said), said  # the visitor was told who it is
    figures = await desk.GetTenantFigures(pb.GetTenantFiguresRequest())
    assert (figures.taken, figures.waiting) == (1, 0)
    await desk.HandBackConversation(pb.HandBackConversationRequest(session_id=session))
    assert (await city.says("riverton.example", "Hello")).finished.reply.text
    talks = city.stub(ConversationServiceStub, city.office.token)
    mine = conversation_pb2.ListSessionMessagesRequest(session_id=session, person=conversation_pb2.Identity())
    seen = (await talks.ListSessionMessages(mine)).messages
    assert "I am." in [one.text for one in seen]
    acts = await city.stub(DeskServiceStub, city.root).ListActs(desk_pb2.ListActsRequest(scope="riverton"))
    done = [act.act for act in acts.acts if act.target == session]
    assert {"TakeOverConversation", "GetTenantConversation", "HandBackConversation"} <= set(done)


async def test_numbers_are_sums_of_what_happened(city: City) -> None:
    desk = await city.desk("acme", "operator")
    before = await desk.GetTenantFigures(pb.GetTenantFiguresRequest())
    await city.says("acme.example", "This is terrible, I want to complain")
    await city.says("acme.example", "What do you sell?")
    after = await desk.GetTenantFigures(pb.GetTenantFiguresRequest())
    assert sum(one.count for one in after.days) == sum(one.count for one in before.days) + 2
    for shares in (after.topics, after.moods, after.endings):
        assert sum(one.count for one in shares) == sum(one.count for one in after.days)
    assert sum(one.count for one in after.days) == sum(one.count for one in after.bindings)
    assert {one.name for one in after.zones} == {"Asia/Kolkata"}
    assert {one.name for one in after.regions} == {"India"}
    assert sum(one.count for one in after.places) == sum(one.count for one in after.days)
    times = (await desk.GetStageTimes(pb.GetStageTimesRequest())).stages
    assert {"perceive", "total"} <= {one.stage for one in times}
    assert all(0 <= one.p50_ms <= one.p95_ms for one in times)
    usage = await desk.ListTenantUsage(pb.ListTenantUsageRequest())
    assert {one.binding for one in usage.usage} == {"shop"}
    assert usage.time_zone == "Asia/Kolkata"
    assert {"human", "team", "agent"} <= set(usage.usage[0].tokens_by_tier)
    assert {one.tier: one.ceiling_tokens for one in usage.sizes}["team"] == 1_200
    await city.says("acme.example", "And at what price?")
    after = await desk.ListTenantUsage(pb.ListTenantUsageRequest())
    assert sum(one.calls for one in after.usage) > sum(one.calls for one in usage.usage)
    elsewhere = await city.desk("riverton", "operator")
    assert not (await elsewhere.ListTenantUsage(pb.ListTenantUsageRequest())).usage
    too_far = pb.GetTenantFiguresRequest(days=91)
    assert await reason(desk.GetTenantFigures(too_far)) is Reason.INVALID_ARGUMENT


async def test_a_tenant_says_where_it_is_and_how_long_people_may_wait(city: City) -> None:
    tiers, desk = city.stub(TierServiceStub, city.root), await city.desk("acme", "staff")
    plain = await desk.GetDeskTenant(pb.GetDeskTenantRequest())
    assert (plain.name, plain.time_zone, plain.answer_minutes) == ("Acme", "Asia/Kolkata", 30)
    text = SHOP.format(slug="acme", name="Acme").replace("kind: tenant\n", "kind: tenant\n{}\n")
    bad = text.replace("{}", "time_zone: Mars/Olympus")
    wrong = tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant="acme", yaml=bad))
    assert await reason(wrong) is Reason.INVALID_ARGUMENT
    moved = text.replace("{}", "time_zone: Pacific/Auckland\nanswer_minutes: 5")
    moved = moved.replace("door: distribution", "door: distribution\nregion: Old town")
    await tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant="acme", yaml=moved))
    await city.says("acme.example", "Hello")
    await desk.TakeOverConversation(pb.TakeOverConversationRequest(session_id=city.session))
    await city.says("acme.example", "Is anybody there?")
    listed = pb.ListTenantConversationsRequest(status="handed_off")
    (first,) = (await desk.ListTenantConversations(listed)).conversations
    assert first.due_time.seconds - first.waiting_since.seconds == 300
    await desk.HandBackConversation(pb.HandBackConversationRequest(session_id=city.session))
    today = datetime.now(ZoneInfo("Pacific/Auckland")).date().isoformat()
    figures = await desk.GetTenantFigures(pb.GetTenantFiguresRequest())
    assert figures.time_zone == "Pacific/Auckland"
    assert [one.name for one in figures.regions] == ["Old town"]
    assert today in [one.name for one in figures.days]
    back = text.replace("{}", "time_zone: Asia/Kolkata")
    await tiers.ApplyTiers(tiers_pb2.ApplyTiersRequest(tenant="acme", yaml=back))


async def test_what_a_guardrail_stopped_leads_to_its_turn_and_to_no_other_tenant(city: City) -> None:
    told = (await city.says("acme.example", "Blue swifts yesterday seven?")).finished.reply.text
    assert "did not understand" not in told
    desk, other = await city.desk("acme", "auditor"), await city.desk("riverton", "auditor")
    (newest, *_) = (await desk.ListGuardrailEvents(pb.ListGuardrailEventsRequest(page_size=1))).events
    assert (newest.rule_id, newest.tier, newest.blocked) == ("no-shrug", "TEAM", True)
    assert "did not understand" in newest.sentence
    asked = pb.GetTenantConversationRequest(session_id=newest.session_id, turn_id=newest.turn_id)
    found = await desk.GetTenantConversation(asked)
    assert found.messages[-1].turn_id == newest.turn_id
    assert newest.sentence in [one.sentence for one in found.events if one.turn_id == newest.turn_id]
    theirs = (await other.ListGuardrailEvents(pb.ListGuardrailEventsRequest())).events
    assert newest.session_id not in [one.session_id for one in theirs]
    assert await reason(other.GetTenantConversation(asked)) is Reason.NOT_FOUND


async def test_a_desk_hears_that_somebody_waits(city: City) -> None:
    await city.says("acme.example", "Hello")
    desk = await city.desk("acme", "staff")
    stream = aiter(desk.WatchTenant(pb.WatchTenantRequest()))
    async with asyncio.timeout(60), contextlib.aclosing(stream):
        assert (await anext(stream)).waiting == 0
        await desk.TakeOverConversation(pb.TakeOverConversationRequest(session_id=city.session))
        await anext(stream)
    await desk.HandBackConversation(pb.HandBackConversationRequest(session_id=city.session))


async def test_a_department_works_on_what_a_citizen_filed(city: City) -> None:
    thread = await city.files("Street light dark")
    desk, other = await city.desk("riverton", "staff"), await city.desk("acme", "admin")
    board = await desk.ListBoard(pb.ListBoardRequest())
    card = next(one for one in board.cards if one.request.thread_id == thread)
    assert (card.office, card.request.department, card.overdue) == ("ind.ai/office", "electric", False)
    assert not (await other.ListBoard(pb.ListBoardRequest())).cards
    move = pb.MoveRequestRequest(office="ind.ai/office", thread_id=thread, stage="A crew is on its way.")
    assert await reason(other.MoveRequest(move)) is Reason.NOT_FOUND
    assert (await desk.MoveRequest(move)).card.request.stage == "A crew is on its way."
    asking = city.stub(AskingServiceStub, city.citizen.token, city.a)
    polled = await asking.PollRequest(asking_pb2.PollRequestRequest(request=thread))
    assert polled.request.stage == "A crew is on its way."
    done = pb.MoveRequestRequest(office="ind.ai/office", thread_id=thread, outcome="The lamp was replaced.")
    assert (await desk.MoveRequest(done)).card.request.state == "FULFILLED"
    async with asyncio.timeout(60):
        while True:
            mine = await asking.ListRequests(asking_pb2.ListRequestsRequest(all=True))
            if [one.outcome for one in mine.requests if one.thread_id == thread] == [
                "The lamp was replaced."
            ]:
                break
            await asyncio.sleep(0.05)
    lending = city.stub(LendingServiceStub, city.office.token)
    await lending.LendHandle(pb.LendHandleRequest(tenant="riverton", lend=False))
    assert not (await desk.ListBoard(pb.ListBoardRequest(all=True))).cards
    assert await reason(desk.MoveRequest(move)) is Reason.NOT_FOUND
    await lending.LendHandle(pb.LendHandleRequest(tenant="riverton", lend=True))
    assert [one.tenant for one in (await lending.ListLendings(pb.ListLendingsRequest())).lendings] == [
        "riverton"
    ]


async def test_behind_an_organisations_host_is_its_own_agent_by_name(city: City) -> None:
    """Where nobody is routed nobody is shown."""
    talks = city.stub(ConversationServiceStub, city.office.token)
    for host in ("riverton.example", "acme.example"):
        asked = conversation_pb2.GetPublicProfileRequest(handle=host)
        profile = await talks.GetPublicProfile(asked)
        name = host.partition(".")[0]
        assert (profile.handle, profile.display_name, profile.intents) == ("", "Ann", []), host
        assert name in profile.about.lower()
    request = conversation_pb2.GetPublicProfileRequest(handle="nobody.example")
    assert await reason(talks.GetPublicProfile(request)) == Reason.NOT_FOUND


async def test_an_organisations_host_is_a_page_of_its_own_agent(city: City) -> None:
    """Under its own name in the address bar too; another site's form is refused there as everywhere."""
    ours = {"Host": "riverton.example"}
    async with city.browser() as visitor:
        assert (await visitor.get("/", Host="other.example")).path.startswith("/desk/sign-in")
        page = await visitor.get("/", **ours)
        assert (page.status, page.path) == (200, "/riverton.example")
        for words in ("Ann", "Hello from Riverton", "speaks for who runs riverton.example"):
            assert words in page.text, words
        for words in ("Verified handle", "/-/meet", "data-voice"):
            assert words not in page.text, words
        for origin, status in (("https://riverton.example", 200), ("https://evil.example", 403)):
            headers = {"Host": "riverton.example", "Origin": origin}
            said = await visitor.post("/riverton.example/-/say", headers, text=f"From {origin}")
            assert said.status == status, origin
        page = await visitor.get("/riverton.example", **ours)
        assert "From https://riverton.example" in page.text
        assert "evil" not in page.text
        unknown = {"Host": "unknown.example", "Origin": "https://unknown.example"}
        assert (await visitor.post("/riverton.example/-/say", unknown, text="x")).status == 403
        assert (await visitor.get("/nobody.example")).status == 404
