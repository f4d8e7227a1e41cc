"""The role in its process: the owner's port, the operator, other tools over HTTP, and nobody else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import openai
import pytest
from indai.client.channels import plain_channel
from indai.node.app import running
from indai.node.auth import new_token
from indai.node.settings import Settings
from indai.protocol.errors import IndaiError, Reason, Refused
from indai.v1 import llm_pb2 as pb
from indai.v1 import owner_pb2
from indai.v1.llm_pb2_grpc import LlmServiceStub
from indai.v1.owner_pb2_grpc import OperatorServiceStub

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.owner_pb2_grpc import OperatorServiceAsyncStub

    from tests.conftest import Database

POLICY = "version: 1\ntimezone: Asia/Kolkata\nrules:\n  - {id: all, allow: meet, with: anyone}\n"
LOCAL = "127.0.0.1:0"


@dataclass
class Node:
    """A running node with two owners."""

    addresses: dict[str, str]
    tokens: dict[str, str]
    stack: contextlib.AsyncExitStack

    def llm(self, who: str) -> LlmServiceAsyncStub:
        channel = plain_channel(self.addresses["owner"], token=self.tokens[who])
        self.stack.push_async_callback(channel.close)
        return LlmServiceStub(channel)


@pytest.fixture
async def node(tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setenv("INDAI_DATABASE_URL", database.dsn)
    monkeypatch.setenv("INDAI_DATABASE_ADMIN_URL", database.admin_dsn)
    settings = Settings(data=tmp_path, listen={"openai": LOCAL, "owner": LOCAL, "peer": LOCAL})

    async def enrol(*_: Any) -> None:
        """This node is in no record."""

    async with contextlib.AsyncExitStack() as stack:
        info = await stack.enter_async_context(running(settings, enrol))
        operator = (tmp_path / "operator.token").read_text().strip()
        channel = plain_channel(info.addresses["owner"], token=operator)
        stack.push_async_callback(channel.close)
        stub: OperatorServiceAsyncStub = OperatorServiceStub(channel)
        tokens = {"operator": operator, "nobody": new_token().text}
        for handle in ("ind.ai/alice", "ind.ai/eve"):
            made = await stub.CreateAgent(owner_pb2.CreateAgentRequest(handle=handle, policy_yaml=POLICY))
            tokens[handle] = made.token
        yield Node(info.addresses, tokens, stack)


def request(text: str = "hello", **scope: str) -> pb.GenerateRequest:
    message = pb.ChatMessage(role=pb.MESSAGE_ROLE_USER, text=text)
    return pb.GenerateRequest(scope=pb.LlmScope(**scope), messages=[message])


async def chat(node: Node, **body: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {node.tokens['ind.ai/alice']}"}
    address = f"http://{node.addresses['openai']}/v1/chat/completions"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(address, json={"messages": [{"role": "user", "content": "hello"}], **body}) as response,
    ):
        if response.content_type == "text/event-stream":
            return response.status, (await response.text()).strip().split("\n\n")
        return response.status, await response.json()


async def test_an_owner_acts_for_themselves_only(node: Node) -> None:
    alice, eve, operator = (node.llm(who) for who in ("ind.ai/alice", "ind.ai/eve", "operator"))
    # Whatever the request says, the scope is the caller's own.
    asked = request(tenant="acme", binding="desk", owner="ind.ai/eve")
    events = [event async for event in alice.Generate(asked)]
    assert events[-1].done.finish == pb.FINISH_STOP
    (call,) = (await alice.ListCalls(pb.ListCallsRequest())).calls
    assert (call.scope.tenant, call.scope.binding, call.scope.owner) == ("personal", "", "ind.ai/alice")
    asked_for_alice = pb.ListCallsRequest(scope=pb.LlmScope(tenant="personal", owner="ind.ai/alice"))
    assert not (await eve.ListCalls(asked_for_alice)).calls
    assert (await operator.ListCalls(asked_for_alice)).calls == [call]

    limit = pb.SpendingLimit(
        tenant="personal",
        key=pb.LIMIT_KEY_OWNER,
        subject="ind.ai/alice",
        period=pb.LIMIT_PERIOD_DAY,
        limit_micros=5,
    )
    with pytest.raises(Refused) as refused:
        await alice.SetSpendingLimit(pb.SetSpendingLimitRequest(limit=limit))
    assert refused.value.reason is Reason.PERMISSION_DENIED
    await operator.SetSpendingLimit(pb.SetSpendingLimitRequest(limit=limit))
    assert (await alice.ListSpendingLimits(pb.ListSpendingLimitsRequest())).limits == [limit]
    assert not (await eve.ListSpendingLimits(pb.ListSpendingLimitsRequest())).limits
    with pytest.raises(IndaiError) as stranger:
        await node.llm("nobody").ListModels(pb.ListModelsRequest())
    assert stranger.value.reason is Reason.UNAUTHENTICATED


async def test_other_tools_speak_openais_format(node: Node) -> None:
    status, whole = await chat(node, model="default")
    assert (status, whole["model"]) == (200, "local")
    assert whole["choices"][0]["message"]["content"].startswith("Hello!")
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["total_tokens"] > 0

    tool = {"name": "meet", "parameters": {"type": "object", "properties": {"with": {"type": "string"}}}}
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "meet with bob"}]
    functions = [{"type": "function", "function": tool}]
    status, lines = await chat(
        node, messages=asked, tools=functions, stream=True, stream_options={"include_usage": True}
    )
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert lines[-1] == "data: [DONE]"
    (call,) = [
        call
        for chunk in chunks
        for choice in chunk["choices"]
        for call in choice["delta"].get("tool_calls", ())
    ]
    assert call["function"] == {"name": "meet", "arguments": '{"with": "bob"}'}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    told = [
        *asked,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{k: call[k] for k in ("id", "type", "function")}],
        },
        {"role": "tool", "tool_call_id": call["id"], "content": "Bob was asked."},
    ]
    _, answer = await chat(node, messages=told, tools=functions)
    assert answer["choices"][0]["message"]["content"] == "Bob was asked."

    calls = (await node.llm("ind.ai/alice").ListCalls(pb.ListCallsRequest())).calls
    assert {each.scope.owner for each in calls} == {"ind.ai/alice"}


async def test_the_published_client_of_openai_works_with_it(node: Node) -> None:
    base = f"http://{node.addresses['openai']}/v1"
    meet = {"name": "meet", "parameters": {"type": "object", "properties": {"with": {"type": "string"}}}}
    tools: Any = [{"type": "function", "function": meet}]
    async with openai.AsyncOpenAI(
        base_url=base, api_key=node.tokens["ind.ai/alice"], max_retries=0
    ) as client:
        assert "auto" in [each.id async for each in client.models.list()]
        hello = await client.chat.completions.create(
            model="auto", messages=[{"role": "user", "content": "hello"}]
        )
        assert str(hello.choices[0].message.content).startswith("Hello!")
        assert hello.usage is not None
        assert hello.usage.total_tokens > 0
        asked: Any = [{"role": "user", "content": "meet with bob"}]
        # The client itself puts the pieces of a streamed call together.
        async with client.chat.completions.stream(model="default", messages=asked, tools=tools) as stream:
            whole = (await stream.get_final_completion()).choices[0]
        assert whole.finish_reason == "tool_calls"
        (call,) = list(whole.message.tool_calls or [])
        assert json.loads(call.function.arguments) == {"with": "bob"}
        told = [
            *asked,
            whole.message.model_dump(include={"role", "content", "tool_calls"}),
            {"role": "tool", "tool_call_id": call.id, "content": "Bob was asked."},
        ]
        said = ""
        async for chunk in await client.chat.completions.create(
            model="default", messages=told, tools=tools, stream=True
        ):
            said += "".join(each.delta.content or "" for each in chunk.choices)
        assert said == "Bob was asked."
        found = await client.embeddings.create(model="e5", input=["a meeting on Monday"])
        assert len(found.data[0].embedding) == 384
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="gpt-9", messages=asked)
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="indai_x").models.list()


async def test_texts_are_embedded_by_the_model_that_the_memory_uses(node: Node) -> None:
    headers = {"Authorization": f"Bearer {node.tokens['ind.ai/alice']}"}
    address = f"http://{node.addresses['openai']}/v1/embeddings"
    body = {"model": "e5", "input": ["a meeting on Monday", "सोमवार को मीटिंग", "the price of onions"]}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(address, json=body) as response,
    ):
        answer = await response.json()
    assert response.status == 200, answer
    meeting, same, other = (each["embedding"] for each in answer["data"])
    assert len(meeting) == 384

    def likeness(one: list[float], two: list[float]) -> float:
        return sum(a * b for a, b in zip(one, two, strict=True))

    assert likeness(meeting, same) > likeness(meeting, other)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"messages": "x"}, 400, "invalid_request_error"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "invalid_request_error"),
        ({"model": "gpt-9"}, 404, "api_error"),
        ({"messages": [{"role": "user", "content": "My Aadhaar is 2999 2849 6545"}]}, 403, "api_error"),
    ],
)
async def test_what_tools_ask_wrongly_is_said_in_that_format(
    node: Node, body: dict[str, Any], status: int, kind: str
) -> None:
    found, answer = await chat(node, **body)
    assert (found, answer["error"]["type"]) == (status, kind)


async def test_pages_and_strangers_are_kept_out_of_the_endpoint(node: Node) -> None:
    address = f"http://{node.addresses['openai']}/v1/models"
    token = {"Authorization": f"Bearer {node.tokens['ind.ai/alice']}"}
    async with aiohttp.ClientSession() as session:
        for headers, status in (
            (token, 200),
            ({}, 401),
            ({"Authorization": "Bearer indai_x"}, 401),
            ({"Authorization": f"Bearer {node.tokens['operator']}"}, 401),
            ({**token, "Origin": "https://evil.example"}, 403),
        ):
            async with session.get(address, headers=headers) as response:
                assert response.status == status, headers
                body = await response.json()
        assert "error" in body
        async with session.get(address, headers=token) as response:
            names = [each["id"] for each in (await response.json())["data"]]
    assert names == ["auto", "default", "cheap", "multilingual", "voice", "local", "e5"]


async def test_the_endpoint_is_never_opened_to_other_machines(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDAI_DATABASE_URL", database.dsn)
    monkeypatch.setenv("INDAI_DATABASE_ADMIN_URL", database.admin_dsn)
    settings = Settings(data=tmp_path, listen={"openai": "0.0.0.0:0"})

    async def enrol(*_: Any) -> None:
        """This node is in no record."""

    with pytest.raises(Refused) as refused:
        async with running(settings, enrol):
            pass
    assert refused.value.reason is Reason.INSECURE
