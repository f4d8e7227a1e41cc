"""Faults of providers, and what follows: retries, fallbacks, the polite answer, and the rows of each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from indai.protocol.errors import NotFound, Reason
from indai.v1 import llm_pb2 as pb

from tests.service.llm.conftest import (
    CONTEXT,
    IMPATIENT,
    LIMITS,
    MEET,
    SCOPE,
    Asking,
    MakeGateway,
    MakeUpstream,
    configuration,
    said,
)
from tests.service.llm.upstream import Reply, Upstream

KINDS = ["anthropic", "gemini", "sarvam", "openai"]
each_kind = pytest.mark.parametrize("kind", KINDS)
BAD = Reply(status=500)


async def outcome(asking: Asking, **fields: Any) -> tuple[str, pb.GenerationDone, list[tuple[str, bool]]]:
    """Text, end, and (model, failed) of each attempt."""
    text, done = await asking.answer(**fields)
    return text, done, [(row.model, row.finish == pb.FINISH_UNSPECIFIED) for row in await asking.rows()]


@each_kind
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(Reply(status=500), id="500"),
        pytest.param(Reply(status=503), id="503"),
        pytest.param(Reply(status=429), id="429"),
        pytest.param(Reply(status=429, headers=(("retry-after", "0.01"),)), id="429-soon"),
        pytest.param(Reply(raw_event=True), id="no-json"),
        pytest.param(Reply(cut_after=1), id="cut-before-text"),
        pytest.param(Reply(text=(), error_event="overloaded_error"), id="error-before-text"),
        pytest.param(Reply(text=()), id="empty"),
    ],
)
async def test_a_first_failure_is_repeated_once_and_a_second_leads_to_the_next_model(
    kind: str, bad: Reply, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    recovering, failing, spare = [
        await upstream(kind, *replies) for replies in ((bad, Reply()), (bad,), (Reply(),))
    ]
    text, done, attempts = await outcome(await gateway(configuration(recovering, spare)))
    assert (text, done.answered_by.model) == ("Hello there", "m1")
    assert attempts == [("m1", True), ("m1", False)]
    scope = pb.LlmScope(tenant="second")
    asking = await gateway(configuration(failing, spare))
    text, done = await asking.answer(scope=scope)
    assert (text, done.answered_by.model, done.attempts) == ("Hello there", "m2", 3)
    rows = await asking.rows(scope)
    assert [(row.model, bool(row.error)) for row in rows] == [("m1", True), ("m1", True), ("m2", False)]
    assert "fallback 1" in rows[2].why
    assert len(done.problems) == 2
    assert len(failing.seen) == 2


@pytest.mark.parametrize("kind", ["anthropic", "openai"])  # the chain's own doing; two clients are enough
async def test_silence_is_a_fault_and_fewer_tokens_are_asked_for_after_it(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(hang_at=0), Reply())
    asking = await gateway(configuration(server, limits=IMPATIENT))
    _, done = await asking.answer(max_output_tokens=800)
    assert (done.finish, list(done.problems)) == (pb.FINISH_STOP, ["p1 said nothing for too long."])
    assert [seen.body["max_tokens"] for seen in server.seen] == [800, 400]
    await asyncio.wait_for(server.aborted.wait(), 60)


@each_kind
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_not_tried_again_and_the_owner_is_told(
    kind: str, status: int, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    refusing, spare = await upstream(kind, Reply(status=status)), await upstream(kind)
    asking = await gateway(configuration(refusing, spare))
    _, done, attempts = await outcome(asking)
    assert attempts == [("m1", True), ("m2", False)]
    assert len(refusing.seen) == 1
    assert await asking.notices() == ["PROVIDER_KEY_REFUSED"]
    assert f"p1 refused the key ({status})." in done.problems
    # The client was dropped: a corrected key is read without a restart.
    refusing.replies = [Reply()]
    await asking.answer()
    assert asking.references.count("vault:k1") == 2


@each_kind
@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_rejected_request_goes_to_the_next_model_at_once_and_blames_nobody(
    kind: str, status: int, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    rejecting, spare = await upstream(kind, Reply(status=status)), await upstream(kind)
    asking = await gateway(configuration(rejecting, spare))
    for _ in range(6):
        await asking.answer()
    assert len(rejecting.seen) == 6


@each_kind
async def test_a_long_retry_after_is_honoured_by_asking_elsewhere_until_then(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    busy = await upstream(kind, Reply(status=429, headers=(("retry-after", "60"),)))
    spare = await upstream(kind)
    asking = await gateway(configuration(busy, spare))
    for _ in range(3):
        _, done = await asking.answer()
        assert done.answered_by.model == "m2"
    assert len(busy.seen) == 1
    listed = await asking.service.ListModels(pb.ListModelsRequest(), CONTEXT)
    assert {each.name: each.available for each in listed.providers} == {
        "local": True,
        "p1": False,
        "p2": True,
    }


@each_kind
async def test_the_breaker_keeps_a_failing_provider_out(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    failing, spare = await upstream(kind, BAD), await upstream(kind)
    asking = await gateway(configuration(failing, spare))
    for _ in range(5):
        _, done = await asking.answer()
    assert len(failing.seen) == 5
    assert done.attempts == 1
    assert any("p1 is kept out" in problem for problem in done.problems)


@each_kind
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(Reply(cut_after=6, text=("one", " two", " three", " four", " five")), id="cut"),
        pytest.param(Reply(error_event="overloaded_error"), id="error"),
    ],
)
async def test_a_stream_that_breaks_after_its_first_text_ends_there(
    kind: str, bad: Reply, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    broken, spare = await upstream(kind, bad), await upstream(kind)
    asking = await gateway(configuration(broken, spare))
    text, done, attempts = await outcome(asking)
    assert text.startswith(("one", "Hello"))
    assert done.finish == pb.FINISH_INTERRUPTED
    assert attempts == [("m1", False)]
    (row,) = await asking.rows()
    assert row.error
    # What was counted at the beginning, if anything, and the text that was given out.
    assert row.usage.input_tokens > 0
    assert row.usage.output_tokens > len(text) // 4
    assert row.cost_micros > 0
    assert not spare.seen


async def test_a_stream_that_falls_silent_ends_there(gateway: MakeGateway, upstream: MakeUpstream) -> None:
    server = await upstream("anthropic", Reply(hang_at=4))
    text, done = await (await gateway(configuration(server, limits=IMPATIENT))).answer()
    assert (text, done.finish) == ("Hello", pb.FINISH_INTERRUPTED)
    assert list(done.problems) == ["p1 fell silent for too long."]


@each_kind
async def test_a_broken_stream_with_a_tool_call_calls_no_tool(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    call = ("propose_meet", '{"with": "bob"}')
    # The last event is missing, so nobody knows whether the arguments were whole.
    whole = list(Upstream(kind)._events(Reply(call=call)))
    server = await upstream(kind, Reply(call=call, cut_after=len(whole) - (1 if kind == "gemini" else 3)))
    events = await (await gateway(configuration(server))).events(tools=[MEET])
    assert not any(event.HasField("tool_call") for event in events)
    assert events[-1].done.finish == pb.FINISH_INTERRUPTED


@each_kind
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("transfer_money", '{"to": "eve"}'), 'There is no tool "transfer_money"; there are: propose_meet.'),
        (("propose_meet", '{"minutes": 30}'), "The arguments do not fit: 'with' is a required property."),
        (("propose_meet", '{"with": 7}'), "The arguments do not fit at with: 7 is not of type 'string'."),
    ],
)
async def test_a_call_that_cannot_be_run_says_why(
    kind: str, call: tuple[str, str], words: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(text=(), call=call))
    events = await (await gateway(configuration(server))).events(tools=[MEET])
    (found,) = [event.tool_call for event in events if event.HasField("tool_call")]
    assert found.problem == words


@pytest.mark.parametrize("kind", ["anthropic", "openai"])  # Gemini sends objects, never text
async def test_arguments_that_are_no_json_are_told_to_the_model_and_survive_the_way_back(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(text=(), call=("propose_meet", '{"with": bob')), Reply())
    asking = await gateway(configuration(server))
    events = await asking.events(tools=[MEET])
    (call,) = [event.tool_call for event in events if event.HasField("tool_call")]
    assert call.problem == "The arguments are no JSON."
    result = pb.ToolResult(call_id=call.id, name=call.name, content=call.problem, failed=True)
    history = [
        said("hello"),
        pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, tool_calls=[call]),
        pb.ChatMessage(role=pb.MESSAGE_ROLE_TOOL, tool_results=[result]),
    ]
    text, _ = await asking.answer(messages=history, tools=[MEET])
    assert text == "Hello there"


async def test_when_all_fail_the_answer_is_polite_marked_and_free(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    servers = [await upstream(kind, BAD) for kind in KINDS]
    asking = await gateway(configuration(*servers))
    text, done = await asking.answer(degraded_text="Gonna be back soon, yaar.")
    assert text == "Gonna be back soon, yaar."
    assert (done.finish, done.cost_micros, done.attempts) == (pb.FINISH_DEGRADED, 0, 8)
    assert not done.HasField("answered_by")
    rows = await asking.rows()
    assert [row.model for row in rows] == ["m1", "m1", "m2", "m2", "m3", "m3", "m4", "m4", ""]
    assert sum(row.cost_micros for row in rows) == 0
    assert await asking.notices() == ["ALL_MODELS_FAILED"]


async def test_nobody_listening_is_a_fault_like_another(gateway: MakeGateway, upstream: MakeUpstream) -> None:
    gone, lost = (Upstream(kind, address="http://127.0.0.1:9") for kind in ("openai", "anthropic"))
    asking = await gateway(configuration(gone, lost, fallback="local"))
    _, done = await asking.answer()
    assert done.answered_by.model == "local"
    assert set(done.problems) == {"p1 can't be reached.", "p2 can't be reached."}


async def test_one_deadline_spans_the_chain(gateway: MakeGateway, upstream: MakeUpstream) -> None:
    servers = [await upstream(kind, Reply(hang_at=0)) for kind in KINDS]
    asking = await gateway(configuration(*servers))
    _, done = await asking.answer(deadline_ms=1000)
    assert (done.finish, done.attempts) == (pb.FINISH_DEGRADED, 1)
    assert not servers[1].seen


async def test_the_deadline_also_ends_a_stream_that_goes_on_too_long(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai", Reply(hang_at=3))
    text, done = await (await gateway(configuration(server))).answer(deadline_ms=1500)
    assert (text, done.finish) == ("Hello", pb.FINISH_INTERRUPTED)


async def test_without_a_deadline_the_configurations_holds(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai", Reply(hang_at=0))
    limits = LIMITS.replace("{", "{deadline_ms: 150, ")
    _, done = await (await gateway(configuration(server, limits=limits))).answer()
    assert done.finish == pb.FINISH_DEGRADED


@each_kind
@pytest.mark.parametrize("hang_at", [0, 6], ids=["before-text", "in-the-middle"])
async def test_stopping_aborts_the_providers_stream(
    kind: str, hang_at: int, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(hang_at=hang_at, text=("one",) * 9))
    asking = await gateway(configuration(server))
    identifier = bytes.fromhex("0194f3a1c0007000800000000000000a")
    running = asyncio.ensure_future(asking.answer(generation_id=identifier))
    await asyncio.wait_for(server.asked.wait(), 60)
    stop = pb.StopGenerationRequest(scope=SCOPE, generation_id=identifier)
    other = pb.StopGenerationRequest(
        scope=pb.LlmScope(tenant="acme", owner="ind.ai/eve"), generation_id=identifier
    )
    assert not (await asking.service.StopGeneration(other, CONTEXT)).stopped
    assert (await asking.service.StopGeneration(stop, CONTEXT)).stopped
    _, done = await running
    assert done.finish == pb.FINISH_STOPPED
    await asyncio.wait_for(server.aborted.wait(), 60)
    (row,) = await asking.rows()
    assert row.finish == pb.FINISH_STOPPED
    assert not (await asking.service.StopGeneration(stop, CONTEXT)).stopped


@pytest.mark.parametrize("when", ["while the class is found", "when it was accepted"])
async def test_stopping_before_a_model_is_asked_asks_none(
    when: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    cheap, strong = await upstream("openai", Reply(hang_at=0)), await upstream("gemini")
    config = configuration(cheap, strong).replace("default: [m1, m2]", "default: [m2], cheap: [m1]")
    asking = await gateway(config)
    identifier = bytes.fromhex("0194f3a1c0007000800000000000000b")
    stop = pb.StopGenerationRequest(scope=SCOPE, generation_id=identifier)
    finding = when == "while the class is found"
    request = pb.GenerateRequest(
        scope=SCOPE,
        messages=[said("is it?")],
        generation_id=identifier,
        model_class=pb.MODEL_CLASS_UNSPECIFIED if finding else pb.MODEL_CLASS_DEFAULT,
        strategy=pb.ROUTING_STRATEGY_HYBRID,
    )
    events = aiter(asking.service.Generate(request, CONTEXT))
    first = asyncio.ensure_future(anext(events))
    if finding:
        await asyncio.wait_for(cheap.asked.wait(), 60)
    else:
        assert (await first).HasField("accepted")
    assert (await asking.service.StopGeneration(stop, CONTEXT)).stopped
    assert (await first).HasField("accepted")
    (done,) = [each.done async for each in events]
    assert done.finish == pb.FINISH_STOPPED
    assert strong.seen == []
    if finding:
        await asyncio.wait_for(cheap.aborted.wait(), 60)


@each_kind
async def test_a_caller_who_leaves_aborts_the_providers_stream_and_leaves_a_row(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream(kind, Reply(hang_at=6, text=("one",) * 9))
    asking = await gateway(configuration(server))
    request = pb.GenerateRequest(scope=SCOPE, messages=[said("hello")], model_class=pb.MODEL_CLASS_DEFAULT)
    async with contextlib.aclosing(asking.service.Generate(request, CONTEXT)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.text:
                break
    await asyncio.wait_for(server.aborted.wait(), 60)
    await asking.service.close()
    (row,) = await asking.rows()
    assert (row.finish, row.error) == (pb.FINISH_STOPPED, "The caller left.")


async def test_a_silent_first_model_of_the_voice_class_gets_company(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    silent, quick = await upstream("anthropic", Reply(hang_at=0)), await upstream("gemini")
    asking = await gateway(configuration(silent, quick))
    text, done, attempts = await outcome(asking, model_class=pb.MODEL_CLASS_VOICE)
    assert (text, done.answered_by.model) == ("Hello there", "m2")
    assert attempts == [("m1", False), ("m2", False)]
    rows = await asking.rows()
    assert rows[0].error == "m2 answered first."
    assert rows[0].cost_micros == 0
    await asyncio.wait_for(silent.aborted.wait(), 60)


async def test_a_quick_first_model_of_the_voice_class_is_alone(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    quick, second = await upstream("openai"), await upstream("gemini")
    asking = await gateway(
        configuration(quick, second, limits=LIMITS.replace("hedge_ms: 20", "hedge_ms: 9000"))
    )
    _, done = await asking.answer(model_class=pb.MODEL_CLASS_VOICE)
    assert (done.answered_by.model, len(second.seen)) == ("m1", 0)


async def test_a_model_that_is_named_is_tried_first(gateway: MakeGateway, upstream: MakeUpstream) -> None:
    first, second = await upstream("openai"), await upstream("gemini")
    asking = await gateway(configuration(first, second))
    _, done = await asking.answer(model="m2")
    assert done.answered_by.model == "m2"
    assert "named in the request" in done.answered_by.why
    assert not first.seen


async def test_a_classifier_chooses_the_class_when_the_strategy_says_so(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    cheap, strong = await upstream("openai", Reply(text=("com", "plex"))), await upstream("gemini")
    config = configuration(cheap, strong).replace("default: [m1, m2]", "default: [m2], cheap: [m1]")
    asking = await gateway(config)
    fields: dict[str, Any] = {
        "model_class": pb.MODEL_CLASS_UNSPECIFIED,
        "strategy": pb.ROUTING_STRATEGY_HYBRID,
    }
    _, done = await asking.answer("is it?", **fields)
    assert (done.answered_by.model, done.attempts) == ("m2", 2)
    assert "classifier: complex" in done.answered_by.why
    calm = "Tell me a little about the weather in Chennai this week, please."
    _, done = await asking.answer(calm, **fields)
    assert (done.answered_by.model, done.attempts) == ("m1", 1)


async def test_a_key_that_cannot_be_read_is_told_and_others_answer(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai")
    missing = NotFound(Reason.NOT_FOUND, "There is no secret k1.")
    asking = await gateway(configuration(server, fallback="local"), missing)
    _, done = await asking.answer()
    assert done.answered_by.model == "local"
    assert list(done.problems) == ["The key of p1 (vault:k1) can't be read: There is no secret k1."]
    assert await asking.notices() == ["PROVIDER_KEY_REFUSED"]
    assert not server.seen
