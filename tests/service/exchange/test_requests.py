"""Requests between a citizen's agent and an office's: filed, polled, resolved."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio
from indai.node.kinds.served import SERVED
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import asking_pb2, intents_pb2, owner_pb2, sharing_pb2

from tests.service.exchange.neighbours import DAY, Neighbours
from tests.service.node.world import now_ms

COMMITTED, REJECTED = owner_pb2.THREAD_STATE_COMMITTED, owner_pb2.THREAD_STATE_REJECTED
DEPARTMENTS = (
    asking_pb2.Department(
        name="electric", title="Street lighting", service_minutes=7 * 1440, categories=["street-lights"]
    ),
    asking_pb2.Department(
        name="water", title="Water", service_minutes=2880, keywords=["pipe", "leaking", "tap"]
    ),
)


@pytest_asyncio.fixture(loop_scope="session")
async def office(near: Neighbours) -> None:
    await near.office.asking.SetDepartments(asking_pb2.SetDepartmentsRequest(departments=DEPARTMENTS))


async def filed(near: Neighbours, thread: owner_pb2.Thread) -> asking_pb2.FiledRequest:
    """What alice's list says of it."""
    found = (await near.alice.asking.ListRequests(asking_pb2.ListRequestsRequest(all=True))).requests
    return next(one for one in found if one.thread_id == thread.thread_id)


async def test_a_request_is_filed_polled_and_resolved(near: Neighbours, office: None, tmp_path: Path) -> None:
    thread = await near.alice.files(
        "ind.ai/office", "Street light dark", "For a week.", category="street-lights"
    )
    assert thread.state == COMMITTED, thread
    mine = await filed(near, thread)
    assert (mine.department, mine.incoming, mine.state) == ("electric", False, "COMMITTED")
    days = (mine.due_time.ToMilliseconds() - mine.create_time.ToMilliseconds()) / 86_400_000
    assert 6.9 < days < 7.1
    stage = asking_pb2.SetRequestStageRequest(request=mine.reference, stage="A crew is on its way.")
    await near.office.asking.SetRequestStage(stage)
    polled = await near.alice.asking.PollRequest(asking_pb2.PollRequestRequest(request=mine.reference))
    assert (polled.request.state, polled.request.stage) == ("COMMITTED", "A crew is on its way.")
    done = asking_pb2.ResolveRequestRequest(request=mine.reference, outcome="The lamp was replaced.")
    assert (await near.office.asking.ResolveRequest(done)).request.outcome == "The lamp was replaced."
    async with asyncio.timeout(60):
        while (told := await filed(near, thread)).state != "FULFILLED":
            await asyncio.sleep(0.05)
    assert told.outcome == "The lamp was replaced."
    still = (await near.alice.asking.ListRequests(asking_pb2.ListRequestsRequest())).requests
    assert thread.thread_id not in [one.thread_id for one in still]
    report = await near.audited(tmp_path, near.alice, near.office)
    assert report.exit_status == 0, report.to_json()["findings"]


async def test_only_the_office_resolves_and_only_the_parties_poll(near: Neighbours, office: None) -> None:
    thread = await near.alice.files("ind.ai/office", "A tap", "It is leaking.", category="complaint")
    mine = await filed(near, thread)
    assert mine.department == "water"
    with pytest.raises(IndaiError) as caught:
        await near.alice.asking.ResolveRequest(
            asking_pb2.ResolveRequestRequest(request=mine.reference, outcome="Done.")
        )
    assert caught.value.reason is Reason.ILLEGAL_MOVE
    with pytest.raises(IndaiError, match="NOT_FOUND"):
        await near.mallory.sharing.QueryPeer(
            sharing_pb2.QueryPeerRequest(peer="ind.ai/office", commitment=thread.commitment_mid)
        )


async def test_what_no_department_does_is_refused(near: Neighbours, office: None) -> None:
    assert (await near.alice.files("ind.ai/office", "A poem", category="poetry")).state == REJECTED


async def test_a_pitch_waits_for_the_owner_whatever_is_permitted(near: Neighbours, office: None) -> None:
    thread = await near.mallory.files("ind.ai/office", "Buy my lamps", "Cheap.", category="pitch")
    assert thread.state == owner_pb2.THREAD_STATE_ON_HOLD
    (asked,) = await near.office.inbox()
    assert "A pitch: ind.ai/mallory" in asked.why
    assert "Buy my lamps" in asked.terms


async def test_anybody_learns_what_an_agent_does_and_friends_alone_a_few_times(near: Neighbours) -> None:
    asked = sharing_pb2.QueryPeerRequest(peer="ind.ai/bob", capabilities=True)
    assert tuple((await near.mallory.sharing.QueryPeer(asked)).kinds) == SERVED
    within = intents_pb2.Window(start_ms=now_ms(), end_ms=now_ms() + 14 * DAY)
    times = sharing_pb2.QueryPeerRequest(peer="ind.ai/bob", within=within, duration_minutes=30)
    found = (await near.alice.sharing.QueryPeer(times)).windows
    assert 1 <= len(found) <= 3
    with pytest.raises(IndaiError, match="POLICY_DENIED"):
        await near.mallory.sharing.QueryPeer(times)
