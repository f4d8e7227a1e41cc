"""The bench measures the service: over a real database, the same turns come back in the same order."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from indai.memory.bench_format import BenchTurn, Conversation, load
from indai.memory.bench_run import Scope
from indai.memory.embedding import LocalEmbedder
from indai.memory.interfaces import Hit
from indai.memory.queue import Job, Task
from indai.memory.ranking import rank, weights_for
from indai.memory.servicer import MemoryService
from indai.memory.work import Work
from indai.v1 import memory_pb2 as pb

SET = Path(__file__).parents[3] / "bench" / "memory" / "set.json"
OWNER = pb.Access(tenant="ind.ai/alice", door=pb.DOOR_PRIVATE)
TURNS = 40
NO_CONTEXT: Any = None


def conversation() -> Conversation:
    """The start of a conversation in three languages."""
    found = next(one for one in load(SET) if one.group == "score")
    return replace(found, turns=found.turns[:TURNS])


async def told(pool: Any, embedder: LocalEmbedder, turns: list[pb.Turn], now: int) -> MemoryService:
    """The service after it was told every turn, and after its jobs."""
    service = MemoryService(pool, lambda: now, embedder)
    await service.Remember(pb.RememberRequest(access=OWNER, turns=turns, skip_extraction=True), NO_CONTEXT)
    handlers = Work(pool, None, embedder, lambda: now).handlers
    for row in await pool.fetch("SELECT entrypoint, payload FROM memory.pgqueuer ORDER BY id"):
        job = Job.parse(row["entrypoint"], row["payload"])
        if job.task is Task.EMBED:
            await handlers[job.task](job)
    return service


def as_sent(turn: BenchTurn) -> pb.Turn:
    """A turn of the set as a caller would send it."""
    return pb.Turn(
        source_id=turn.id,
        session=turn.session,
        speaker=turn.speaker,
        role=pb.SPEAKER_ROLE_PERSON,
        text=turn.text,
        said_time=Timestamp(seconds=turn.said_ms // 1000),
    )


async def test_the_service_and_the_bench_order_alike(database: Any) -> None:
    talk = conversation()
    with contextlib.closing(LocalEmbedder()) as embedder:
        turns = [as_sent(turn) for turn in talk.turns]
        service = await told(database.pool, embedder, turns, max(turn.said_ms for turn in talk.turns))
        passages = await embedder.embed([turn.text for turn in talk.turns], query=False)
        scope = Scope(talk, np.asarray(passages, dtype=np.float32))
        for question in talk.questions[:8]:
            (vector,) = await embedder.embed([question.text], query=True)
            candidates = scope.candidates(question.text, np.asarray(vector, dtype=np.float32))
            ours = rank(candidates, scope.wanted(question), weights_for(embedder.model))[:20]
            request = pb.RecallRequest(
                access=OWNER,
                query=question.text,
                limit=20,
                budget_tokens=100_000,
                kinds=[pb.MEMORY_KIND_TURN],
            )
            theirs = (await service.Recall(request, NO_CONTEXT)).hits
            assert [hit.score for hit in theirs] == pytest.approx([hit.score for hit in ours], abs=1e-3)
            assert _apart([(hit.source_id, hit.score) for hit in theirs]) == _apart(_named(talk, ours))


def _named(talk: Conversation, hits: list[Hit]) -> list[tuple[str, float]]:
    return [(talk.turns[hit.candidate.id.int].id, hit.score) for hit in hits]


def _apart(hits: list[tuple[str, float]]) -> list[str]:
    """The order, without those whose scores are too close to be told apart by two ways of adding."""
    scores = [score for _, score in hits]
    return [name for name, score in hits[:-1] if sum(abs(score - other) < 2e-3 for other in scores) == 1]


@pytest.mark.parametrize(
    "question", ["Where does my brother live?", "mera bhai kahan rehta hai", "मेरा भाई कहाँ रहता है?"]
)
async def test_a_question_in_any_of_three_languages_finds_the_hindi_memory(
    database: Any, question: str
) -> None:
    said = [
        "मेरा भाई पुणे में रहता है",
        "मुझे अदरक वाली चाय पसंद है",
        "कल बिजली तीन घंटे नहीं थी",
        "The lift in our building is broken again",
        "Office mein aaj bahut kaam tha",
    ]
    turns = [
        pb.Turn(source_id=str(i), session="s", speaker="Asha", role=pb.SPEAKER_ROLE_PERSON, text=text)
        for i, text in enumerate(said)
    ]
    with contextlib.closing(LocalEmbedder()) as embedder:
        service = await told(database.pool, embedder, turns, 1_760_000_000_000)
        answer = await service.Recall(pb.RecallRequest(access=OWNER, query=question), NO_CONTEXT)
    assert answer.hits[0].text == said[0]
