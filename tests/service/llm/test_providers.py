"""The real clients of each provider against a server that speaks its wire format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from indai.v1 import llm_pb2 as pb

from tests.service.llm.conftest import KEY, MEET, SCOPE, MakeGateway, MakeUpstream, configuration, said
from tests.service.llm.upstream import Reply, Seen

KINDS = ["anthropic", "gemini", "sarvam", "openai"]
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
async def test_text_streams_and_tokens_are_counted_and_priced(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(usage=(1000, 20, 600, 0)))
    asking = await gateway(configuration(server))
    events = await asking.events(max_output_tokens=77)
    assert "".join(event.text for event in events) == "Hello there"
    done = events[-1].done
    assert (done.finish, done.attempts) == (pb.FINISH_STOP, 1)
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.cache_hit_tokens) == (1000, 20, 600)
    # 400 fresh at 3, 600 read at 0.3, 20 out at 15, each for a million.
    assert done.cost_micros == 400 * 3 + 180 + 20 * 15
    assert _limit(server.seen[0].body, kind) == 77


async def test_what_is_written_to_the_cache_has_its_own_price(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    # Only Anthropic says and prices what it writes.
    server = await upstream("anthropic", Reply(usage=(1000, 0, 0, 800)))
    _, done = await (await gateway(configuration(server))).answer()
    assert done.usage.cache_write_tokens == 800
    assert done.cost_micros == 200 * 3 + 800 * 375 // 100


@each_kind
async def test_the_key_goes_in_the_providers_own_header_and_nowhere_else(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind)
    asking = await gateway(configuration(server))
    await asking.answer()
    await asking.answer()
    headers = {"gemini": "x-goog-api-key", "sarvam": "api-subscription-key"}
    name = headers.get(kind, "authorization")
    seen = server.seen[0]
    assert seen.headers[name].removeprefix("Bearer ") == KEY
    assert [each for each, value in seen.headers.items() if KEY in value] == [name]
    assert KEY not in seen.path
    assert KEY.encode() not in seen.raw
    assert asking.references == ["vault:k1"]


@each_kind
async def test_a_tool_call_and_its_result_travel_there_and_back(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    call = ("propose_meet", '{"with": "bob", "minutes": 30}')
    server = await upstream(kind, Reply(text=(), call=call), Reply())
    asking = await gateway(configuration(server))
    events = await asking.events(tools=[MEET])
    found = next(event.tool_call for event in events if event.HasField("tool_call"))
    assert (found.name, json.loads(found.arguments_json)) == ("propose_meet", {"with": "bob", "minutes": 30})
    assert found.problem == ""
    assert events[-1].done.finish == pb.FINISH_TOOL_CALLS
    result = pb.ToolResult(call_id=found.id, name=found.name, content='{"ok": true}')
    history = [
        said("hello"),
        pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, tool_calls=[found]),
        pb.ChatMessage(role=pb.MESSAGE_ROLE_TOOL, tool_results=[result]),
    ]
    text, _ = await asking.answer(messages=history, tools=[MEET])
    assert text == "Hello there"
    assert _exchange(server.seen[1].body, kind) == _EXCHANGES[kind](found.id)


@each_kind
async def test_the_bytes_above_the_cache_boundary_are_the_same_from_turn_to_turn(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind)
    asking = await gateway(configuration(server))
    other = pb.ToolSpec(name="notify", description="Tell — घंटी", arguments_schema_json='{"type":"object"}')
    for turn in range(2):
        system = [
            pb.SystemBlock(text="You are Asha."),
            pb.SystemBlock(text="Never a discount.", cache_boundary=True),
            pb.SystemBlock(text=f"It is {turn} o'clock."),
        ]
        await asking.answer(f"turn {turn}", system=system, tools=[MEET, other])
    first, second = (_above(seen, kind) for seen in server.seen)
    assert first == second
    assert b"Never a discount." in first
    assert b"propose_meet" in first
    assert b"o'clock" not in first
    assert server.seen[0].raw != server.seen[1].raw
    if kind != "anthropic":  # whose cache goes by tools, system, messages, however the fields are ordered
        assert server.seen[0].raw.startswith(first)
        assert first.index(b"propose_meet") < first.index(b"You are Asha.")


@each_kind
async def test_a_changed_tool_list_changes_the_bytes_above_the_boundary(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind)
    asking = await gateway(configuration(server))
    system = [pb.SystemBlock(text="You are Asha.", cache_boundary=True)]
    await asking.answer(system=system, tools=[MEET])
    await asking.answer(system=system)
    assert _above(server.seen[0], kind) != _above(server.seen[1], kind)


@each_kind
async def test_an_answer_that_is_cut_by_its_limit_says_so(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(finish="length"))
    _, done = await (await gateway(configuration(server))).answer()
    assert done.finish == pb.FINISH_LENGTH


@pytest.mark.parametrize("kind", ["gemini", "openai"])
async def test_texts_are_embedded_in_their_order(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind)
    config = configuration(server).replace(
        "models:", "models:\n  e: {provider: p1, model: emb, embeds: true}"
    )
    asking = await gateway(config)
    request = pb.EmbedRequest(scope=SCOPE, texts=["a", "b"], kind=pb.EMBEDDING_KIND_QUERY)
    context: Any = None
    answer = await asking.service.Embed(request, context)
    assert [each.values[1] for each in answer.embeddings] == [0.0, 1.0]
    assert (answer.model, answer.width) == ("e", 2)
    (row,) = await asking.rows()
    assert (row.model, row.why, row.finish) == ("e", "embeddings", pb.FINISH_STOP)


def _limit(body: dict[str, Any], kind: str) -> int:
    found = body["generationConfig"]["maxOutputTokens"] if kind == "gemini" else body["max_tokens"]
    return int(found)


def _above(seen: Seen, kind: str) -> bytes:
    """The raw bytes above the cache boundary: for Anthropic the tools' and the marked block's, for the others
    the beginning of the body."""
    if kind == "anthropic":
        return _field(seen.raw, b'"tools":') + _field(seen.raw, b'"system":[')
    end = seen.raw.find(b"Never a discount.")
    end = seen.raw.index(b"You are Asha.") if end < 0 else end + len(b"Never a discount.")
    return seen.raw[:end]


def _field(raw: bytes, name: bytes) -> bytes:
    at = raw.find(name)
    if at < 0:
        return b""
    _, end = json.JSONDecoder().raw_decode(raw[at + len(name) :].decode())
    return raw[at : at + len(name)] + raw[at + len(name) :].decode()[:end].encode()


def _exchange(body: dict[str, Any], kind: str) -> list[Any]:
    messages = body["contents"] if kind == "gemini" else body["messages"]
    return list(messages[-2:])


def _anthropic_exchange(identifier: str) -> list[Any]:
    use = {
        "type": "tool_use",
        "id": identifier,
        "name": "propose_meet",
        "input": {"with": "bob", "minutes": 30},
    }
    result = {"type": "tool_result", "tool_use_id": identifier, "content": '{"ok": true}', "is_error": False}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def _gemini_exchange(_: str) -> list[Any]:
    call = {"name": "propose_meet", "args": {"with": "bob", "minutes": 30}}
    response = {"name": "propose_meet", "response": {"ok": True}}
    return [
        {"role": "model", "parts": [{"functionCall": call, "thoughtSignature": "c2lnbmVk"}]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]


def _openai_exchange(identifier: str) -> list[Any]:
    function = {"name": "propose_meet", "arguments": '{"with": "bob", "minutes": 30}'}
    call = {"id": identifier, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": identifier, "content": '{"ok": true}'},
    ]


_EXCHANGES = {
    "anthropic": _anthropic_exchange,
    "gemini": _gemini_exchange,
    "sarvam": _openai_exchange,
    "openai": _openai_exchange,
}
