"""Extraction by a language model: once one is configured, and only what fits the schema."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from indai.memory.interfaces import ExtractionContext, Fact, Role, Turn
from indai.memory.llm_extraction import CHECKED_MS, LlmExtractor, parse
from indai.memory.llm_summary import LlmSummariser
from indai.memory.queue import Job
from indai.memory.work import Work
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.protocol.errors import Unavailable
from indai.v1 import llm_pb2 as pb
from indai.v1 import llm_pb2_grpc, memory_pb2

from tests.service.memory.rooms import DAY, Room, private

SAID = Turn("1", "asha", Role.PERSON, "I love filter coffee", 1)
GOOD = {"key": "preference.like", "value": "filter coffee", "confidence": 0.9, "language": "en"}


class Scripted:
    """The part of a gateway that extraction needs; its one model says what it is told to."""

    def __init__(self, kind: str, answer: str, finish: Any = pb.FINISH_STOP) -> None:
        self.kind, self.answer, self.finish = kind, answer, finish
        self.asked: list[pb.GenerateRequest] = []

    async def ListModels(self, request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:  # noqa: N802
        return pb.ListModelsResponse(providers=[pb.ProviderInfo(name="one", kind=self.kind)])

    async def Generate(  # noqa: N802
        self, request: pb.GenerateRequest, context: Any
    ) -> AsyncIterator[pb.GenerateResponse]:
        self.asked.append(request)
        for start in range(0, len(self.answer), 7):
            yield pb.GenerateResponse(text=self.answer[start : start + 7])
        yield pb.GenerateResponse(done=pb.GenerationDone(finish=self.finish))


def _add(gateway: Any, server: Any) -> None:
    """What the generated function does; methods that are missing would be called by nobody."""
    whole: Any = type("Whole", (llm_pb2_grpc.LlmServiceServicer,), {})
    whole.__abstractmethods__ = frozenset()
    servicer = whole()
    servicer.ListModels, servicer.Generate = gateway.ListModels, gateway.Generate
    llm_pb2_grpc.add_LlmServiceServicer_to_server(servicer, server)


def extractor(gateway: Scripted, clock: Any = lambda: 0) -> LlmExtractor:
    services = [Service(_add, gateway)]
    return LlmExtractor(llm_pb2_grpc.LlmServiceStub(local_channel(services)), clock)


async def test_a_configured_model_is_asked_for_one_turn_with_what_is_known() -> None:
    gateway = Scripted("anthropic", json.dumps([GOOD]))
    known = [Fact("home.city", "Pune", 0.9)]
    context = ExtractionContext(owner="ind.ai/asha", known=known)
    found = await extractor(gateway).extract(SAID, context)
    assert found == [Fact("preference.like", "filter coffee", 0.9, "en")]
    (request,) = gateway.asked
    assert request.scope.owner == "ind.ai/asha"
    assert request.model_class == pb.MODEL_CLASS_CHEAP
    told = json.loads(request.messages[0].text)
    assert told["known_facts"] == [{"key": "home.city", "value": "Pune"}]
    assert told["last_turn"]["text"] == SAID.text


async def test_until_a_provider_is_configured_it_is_done_without_a_model() -> None:
    gateway, now = Scripted("local", "[]"), [0]
    reader = extractor(gateway, lambda: now[0])
    found = await reader.extract(SAID, ExtractionContext())
    assert "coffee" in str(found)
    assert not gateway.asked
    gateway.kind = "openai"
    now[0] = CHECKED_MS
    assert await reader.extract(SAID, ExtractionContext()) == []
    assert gateway.asked


@pytest.mark.parametrize("finish", [pb.FINISH_DEGRADED, pb.FINISH_LENGTH, pb.FINISH_INTERRUPTED])
async def test_an_answer_that_was_not_finished_is_asked_for_again(finish: Any) -> None:
    with pytest.raises(Unavailable):
        await extractor(Scripted("openai", "[]", finish)).extract(SAID, ExtractionContext())


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Sure! Here are the facts.",
        "{}",
        '[{"key": "a"}]',
        json.dumps([GOOD | {"more": 1}]),
        json.dumps([GOOD | {"key": "DROP TABLE"}]),
        json.dumps([GOOD | {"confidence": 2}]),
        json.dumps([GOOD | {"confidence": True}]),
        json.dumps([GOOD | {"value": [["deep"]]}]),
        json.dumps([GOOD | {"value": None}]),
        json.dumps([GOOD | {"value": "a\0b"}]),
        json.dumps([GOOD | {"language": "English!"}]),
        json.dumps([GOOD] * 33),
        "[" * 5_000,
    ],
)
def test_an_answer_that_is_not_of_the_schema_is_no_fact(answer: str) -> None:
    with pytest.raises(Unavailable):
        parse(answer)


def test_an_answer_in_a_code_block_is_read() -> None:
    assert parse(f"```json\n{json.dumps([GOOD])}\n```") == [
        Fact("preference.like", "filter coffee", 0.9, "en")
    ]


async def test_an_idle_session_is_summarised_by_the_quality_model_and_without_one_from_its_own_words(
    room: Room,
) -> None:
    texts = [f"we talked about the garden and plant {n}" for n in range(24)]
    await room.remember(private(), *texts)
    row = await room.pool.fetchrow("SELECT payload FROM memory.pgqueuer WHERE entrypoint = 'consolidate'")
    job = Job.parse("consolidate", row["payload"])
    room.now += 2 * DAY
    gateway = Scripted("openai", "24 plants were discussed for the garden.")
    stub = llm_pb2_grpc.LlmServiceStub(local_channel([Service(_add, gateway)]))

    def work(at_ms: int) -> Work:
        return Work(room.pool, None, None, lambda: room.now, LlmSummariser(stub, lambda: at_ms))

    gateway.finish = pb.FINISH_DEGRADED
    with pytest.raises(Unavailable):  # an excuse is no summary: the job comes again
        await work(0).consolidate(job)
    gateway.finish = pb.FINISH_STOP
    await work(0).consolidate(job)
    assert gateway.asked[-1].model_class == pb.MODEL_CLASS_DEFAULT
    found = await room.recall(private(), "garden plants", kinds=[memory_pb2.MEMORY_KIND_SUMMARY])
    assert [each.text for each in found.hits] == [gateway.answer]
    forgotten = await room.forget(private(), id=found.hits[0].id, dry_run=True)
    assert list(forgotten.sources) == []  # a summary was told by nobody
    gateway.kind = "local"  # none configured: the caller has an extractive one
    assert await LlmSummariser(stub, lambda: 0).summarise("ind.ai/asha", []) is None
