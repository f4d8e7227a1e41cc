"""The gateway with the built-in provider: nothing but a database."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from indai.llm.config import BUILT_IN
from indai.llm.servicer import LlmService
from indai.protocol.errors import InvalidInput, NotFound
from indai.v1 import llm_pb2 as pb

from tests.service.llm.conftest import CONTEXT, MEET, SCOPE, MakeGateway, said


@pytest.fixture
async def service(gateway: MakeGateway) -> LlmService:
    return (await gateway(BUILT_IN)).service


async def ask(service: LlmService, **fields: Any) -> list[pb.GenerateResponse]:
    request = pb.GenerateRequest(**{"scope": SCOPE, **fields})
    return [event async for event in service.Generate(request, CONTEXT)]


async def test_an_answer_comes_in_order_and_leaves_a_row(service: LlmService) -> None:
    events = await ask(service, messages=[said("hello")], tokens_by_tier={"agent": 7}, stage_ms={"recall": 3})
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["accepted", "started", "text", "done"]
    assert events[1].started.model == "local"
    assert "rule" in events[1].started.why
    assert events[-1].done.finish == pb.FINISH_STOP
    (call,) = (await service.ListCalls(pb.ListCallsRequest(scope=SCOPE), CONTEXT)).calls
    assert call.generation_id == events[0].accepted.generation_id
    assert (call.provider, call.cost_micros, call.finish) == ("local", 0, pb.FINISH_STOP)
    assert call.usage.input_tokens > 0
    assert dict(call.tokens_by_tier) == {"agent": 7}
    assert set(call.stage_ms) == {"recall", "llm_ttft", "llm_total"}


async def test_a_request_for_a_meeting_calls_the_tool_and_its_result_is_phrased(service: LlmService) -> None:
    asked = said("Set up 30 min with bob this week")
    events = await ask(service, messages=[asked], tools=[MEET])
    call = next(event.tool_call for event in events if event.HasField("tool_call"))
    assert (call.name, call.problem) == ("propose_meet", "")
    assert call.arguments_json == '{"with": "bob", "minutes": 30}'
    assert events[-1].done.finish == pb.FINISH_TOOL_CALLS
    result = pb.ToolResult(
        call_id=call.id, name=call.name, content='{"summary": "Asked bob for 30 minutes."}'
    )
    events = await ask(
        service,
        messages=[
            asked,
            pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, tool_calls=[call]),
            pb.ChatMessage(role=pb.MESSAGE_ROLE_TOOL, tool_results=[result]),
        ],
        tools=[MEET],
    )
    assert "".join(event.text for event in events) == "Asked bob for 30 minutes."


async def test_what_is_missing_is_asked_for(service: LlmService) -> None:
    events = await ask(service, messages=[said("schedule a meeting")], tools=[MEET])
    assert "".join(event.text for event in events) == "With whom?"


async def test_costs_are_summed_by_binding_and_day(service: LlmService) -> None:
    for _ in range(2):
        await ask(service, messages=[said("hello")])
    (day,) = (await service.ListCosts(pb.ListCostsRequest(scope=SCOPE), CONTEXT)).costs
    assert (day.tenant, day.binding, day.day, day.calls, day.failed) == ("acme", "desk", "2026-11-23", 2, 0)


async def test_another_tenant_or_owner_sees_no_call(service: LlmService, pool: asyncpg.Pool) -> None:
    await ask(service, messages=[said("hello")])
    for other in (pb.LlmScope(tenant="other"), pb.LlmScope(tenant="acme", owner="ind.ai/eve")):
        assert not (await service.ListCalls(pb.ListCallsRequest(scope=other), CONTEXT)).calls
    async with pool.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM llm.calls") == 0


async def test_calls_come_in_pages(service: LlmService) -> None:
    for _ in range(3):
        await ask(service, messages=[said("hello")])
    first = await service.ListCalls(pb.ListCallsRequest(scope=SCOPE, page_size=2), CONTEXT)
    rest = await service.ListCalls(
        pb.ListCallsRequest(scope=SCOPE, page_size=2, page_token=first.next_page_token), CONTEXT
    )
    assert (len(first.calls), len(rest.calls), rest.next_page_token) == (2, 1, "")
    assert len({call.id for call in (*first.calls, *rest.calls)}) == 3


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [said(" ")]}, "messages[0].text"),
        ({"messages": [said("x")], "scope": pb.LlmScope(tenant="No Slug")}, "scope.tenant"),
        ({"messages": [pb.ChatMessage(text="x")]}, "messages[0].role"),
        (
            {"messages": [said("x"), pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, text="y")]},
            "messages[1].role",
        ),
        ({"messages": [said("x")], "tools": [pb.ToolSpec(name="a b")]}, "tools[0].name"),
        (
            {"messages": [said("x")], "tools": [pb.ToolSpec(name="a", arguments_schema_json='{"type":3}')]},
            "tools[0].arguments_schema_json",
        ),
        ({"messages": [said("x")], "deadline_ms": 700_000}, "deadline_ms"),
        ({"messages": [said("x")], "generation_id": b"short"}, "generation_id"),
    ],
)
async def test_a_wrong_request_is_the_callers_mistake(
    service: LlmService, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        await ask(service, **fields)
    assert list(raised.value.fields) == [path]


async def test_an_unknown_model_is_not_found(service: LlmService) -> None:
    with pytest.raises(NotFound):
        await ask(service, messages=[said("hello")], model="gpt")
