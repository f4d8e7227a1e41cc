"""The engine without a key: espeak-ng and PocketSphinx as they are installed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from indai.language import say
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.voice.audio import HEARING, Audio
from indai.voice.local import VOICES, LocalSpeech
from indai.voice.ngram_model import arpa, sentences

needs_espeak = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng is not installed: apt-get install espeak-ng"
)
loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[LocalSpeech]:
    speech = LocalSpeech()
    yield speech
    await speech.close()


@needs_espeak
@loop
async def test_it_speaks_every_language_it_says_it_speaks(local: LocalSpeech) -> None:
    for language in VOICES:
        audio = await local.say(say("not_understood", language), language)
        assert audio.seconds > 1, language
        assert np.abs(audio.samples()).max() > 3_000, language


@needs_espeak
@loop
async def test_what_is_said_is_data(local: LocalSpeech, tmp_path: Path) -> None:
    for text in (
        "--version",
        "-f /etc/passwd",
        f"; touch {tmp_path}/x",
        "<speak><audio src='/etc/passwd'/></speak>",
        "\0",
    ):
        assert (await local.say(text, "en")).rate > 0
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


@needs_espeak
@loop
async def test_a_spoken_request_is_understood(local: LocalSpeech) -> None:
    clear = LocalSpeech(voices={"en": "en-us+klatt4"})
    audio = await clear.say("I would like to meet Bob for half an hour", "en")
    assert (await local.hear(audio, "en")).text == "i would like to meet bob for half an hour"


@needs_espeak
@loop
async def test_what_is_no_request_is_not_taken_for_one(local: LocalSpeech) -> None:
    clear = LocalSpeech(voices={"en": "en-us+klatt4"})
    for sentence in ("The train was two hours late", "My washing machine is leaking again"):
        assert (await local.hear(await clear.say(sentence, "en"), "en")).text == ""


@loop
async def test_nothing_is_heard_in_silence(local: LocalSpeech) -> None:
    assert len((await local.hear(Audio(b"\0\0" * HEARING, HEARING), "en")).text.split()) <= 1


@loop
async def test_a_recogniser_that_was_killed_is_started_again(local: LocalSpeech) -> None:
    quiet = Audio(b"\0\0" * HEARING, HEARING)
    await local.hear(quiet, "en")
    assert local._worker is not None
    first = local._worker.pid
    local._worker.kill()
    await local._worker.wait()
    await local.hear(quiet, "en")
    assert local._worker.pid != first


@loop
async def test_an_answer_that_nobody_waits_for_is_not_given_to_the_next(local: LocalSpeech) -> None:
    chance = np.random.default_rng(0).normal(0, 3_000, HEARING * 20).astype(np.int16).tobytes()
    long = Audio(chance, HEARING)
    running, waiting = (asyncio.create_task(local.hear(long, "en")) for _ in range(2))
    while not local._turn.locked() or len(local._running) < 2:
        await asyncio.sleep(0)
    assert local._worker is not None
    before = local._worker.pid
    for task in (running, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len((await local.hear(Audio(b"\0\0" * HEARING, HEARING), "en")).text.split()) <= 1
    assert local._worker.pid == before, "to start another takes seconds"
    assert not local._running


async def test_other_languages_are_refused() -> None:
    with pytest.raises(InvalidInput) as unheard:
        await LocalSpeech().hear(Audio(b"", HEARING), "hi")
    with pytest.raises(InvalidInput) as unspoken:
        await LocalSpeech().say("ᱡᱚᱦᱟᱨ", "sat")
    assert unheard.value.reason is unspoken.value.reason is Reason.UNSUPPORTED


async def test_a_missing_program_is_named() -> None:
    missing = LocalSpeech(program="no-such-program")
    with pytest.raises(InvalidInput, match="apt-get install espeak-ng"):
        await missing.say("hello", "en")
    health = await missing.check()
    assert not health.usable
    assert "espeak-ng" in health.words


@pytest.mark.parametrize("script", ["exit 1", "echo no sound"])
def test_a_program_that_fails_is_an_error(tmp_path: Path, script: str) -> None:
    program = tmp_path / "espeak"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\n{script}\n")
    program.chmod(0o700)
    with pytest.raises(IndaiError):
        asyncio.run(LocalSpeech(program=str(program)).say("hello", "en"))


def test_the_language_model_is_always_the_same_and_sums_to_one() -> None:
    texts = sentences()
    assert texts == sentences.__wrapped__()
    lines = arpa(["yes please", "yes", "no"]).splitlines()
    unigrams = lines[lines.index("\\1-grams:") + 1 : lines.index("\\2-grams:") - 1]
    chances = [10 ** float(line.split()[0]) for line in unigrams]
    assert abs(sum(chances) - 1) < 1e-3
