"""Speech without a key: espeak-ng, a package of the distribution, speaks; PocketSphinx understands English.

espeak-ng gets its text on standard input, never as an argument, and its markup is off. Its voices are robotic
and clear. PocketSphinx hears requests like those in `requests.txt` and little else; docs/voice.md has the
figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import shutil
import struct
import sys
from collections.abc import Mapping

from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.voice.audio import HEARING, Audio, from_wav
from indai.voice.speech import LONGEST_TEXT, Health, Heard, failed, no_such_language

NAME = "local"
_PROGRAM = "espeak-ng"
_WORDS_A_MINUTE = "150"
_SAY_S, _START_S, _HEAR_S = 20.0, 60.0, 60.0
_LONGEST_SOUND = 16 * 1024 * 1024
# Voices of espeak-ng by our names of languages. Those without one are not among its voices, or only nearly.
_AS_OURS = ("as", "bn", "gu", "hi", "kn", "kok", "ml", "mr", "ne", "or", "pa", "sd", "ta", "te", "ur")
VOICES: Mapping[str, str] = {**{each: each for each in _AS_OURS}, "en": "en-us"}


class LocalSpeech:
    """The engine of last resort, and of first use."""

    name = NAME

    def __init__(self, program: str = _PROGRAM, voices: Mapping[str, str] = VOICES) -> None:
        self._program, self._voices = program, voices
        self._worker: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Heard | None]] = set()

    def hears(self, language: str) -> bool:
        """English."""
        return language == "en"

    def speaks(self, language: str) -> bool:
        """Sixteen languages."""
        return language in self._voices

    async def say(self, text: str, language: str) -> Audio:
        """A sentence by espeak-ng."""
        voice = self._voices.get(language)
        if voice is None:
            raise no_such_language("speaks", language)
        path = shutil.which(self._program)
        if path is None:
            raise not_installed()
        process = await asyncio.create_subprocess_exec(
            path, "--stdin", "--stdout", "-b", "1", "-v", voice, "-s", _WORDS_A_MINUTE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_SAY_S):
                sound, _ = await process.communicate(text[:LONGEST_TEXT].encode())
        except TimeoutError:
            raise failed(NAME, f"took longer than {_SAY_S:.0f} s", Reason.DEADLINE_EXCEEDED) from None
        finally:
            await _ended(process)
        if process.returncode or len(sound) > _LONGEST_SOUND:
            raise failed(NAME, f"did not speak: {_PROGRAM} ended with {process.returncode}")
        return from_wav(sound)

    async def hear(self, audio: Audio, language: str) -> Heard:
        """An English request by PocketSphinx; one at a time, the others wait."""
        if not self.hears(language):
            raise no_such_language("understands", language)
        pcm = (await asyncio.to_thread(audio.at, HEARING)).pcm
        wanted = asyncio.Event()
        wanted.set()
        # Whoever stops waiting leaves the recogniser its turn: it answers one after the other, and to start
        # another takes seconds. What hasn't begun then, never does.
        task = asyncio.create_task(self._recognised(pcm, wanted))
        self._running.add(task)
        task.add_done_callback(self._over)
        try:
            heard = await asyncio.shield(task)
        finally:
            wanted.clear()
        assert heard is not None  # noqa: S101 - it was wanted all the time
        return heard

    async def check(self) -> Health:
        """Says a word."""
        try:
            await self.say("ok", "en")
        except IndaiError as error:
            return Health(NAME, usable=False, words=str(error))
        words = "espeak-ng speaks"
        if importlib.util.find_spec("pocketsphinx") is None:
            return Health(
                NAME, usable=True, words=f"{words}; pocketsphinx is not installed, nothing is heard"
            )
        return Health(NAME, usable=True, words=f"{words}; PocketSphinx hears English")

    async def close(self) -> None:
        """Ends the recogniser."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._stop()

    async def _recognised(self, pcm: bytes, wanted: asyncio.Event) -> Heard | None:
        async with self._turn:
            if not wanted.is_set():
                return None
            try:
                async with asyncio.timeout(_HEAR_S):
                    answer = await self._asked(pcm)
            except (TimeoutError, OSError, ValueError) as error:
                await self._stop()
                raise failed(NAME, f"did not recognise: {type(error).__name__}") from None
            return Heard(str(answer.get("text", "")), "en")

    def _over(self, task: asyncio.Task[Heard | None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even if nobody waits for it any more

    async def _asked(self, pcm: bytes) -> dict[str, object]:
        worker = self._worker
        if worker is None or worker.returncode is not None:
            worker = await self._started()
        assert worker.stdin is not None  # noqa: S101 - both are pipes
        assert worker.stdout is not None  # noqa: S101
        worker.stdin.write(struct.pack(">I", len(pcm)) + pcm)
        await worker.stdin.drain()
        line = await worker.stdout.readline()
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("no answer")
        return found

    async def _started(self) -> asyncio.subprocess.Process:
        if importlib.util.find_spec("pocketsphinx") is None:
            raise InvalidInput(
                Reason.UNSUPPORTED,
                "The local engine can't understand speech: PocketSphinx is not installed.",
                hint="pip install pocketsphinx",
            )
        self._worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "indai.voice.recogniser",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert self._worker.stdout is not None  # noqa: S101 - a pipe
        if not await self._worker.stdout.readline():
            raise ValueError("it ended at once")
        return self._worker

    async def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await _ended(worker)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kills what still runs, and waits for its end."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await process.wait()


def not_installed() -> InvalidInput:
    """Names the package. Asking again doesn't help."""
    return InvalidInput(
        Reason.UNSUPPORTED,
        "The local engine can't speak: espeak-ng is not installed.",
        hint="apt-get install espeak-ng, or configure Bhashini or Sarvam: see docs/voice.md",
    )
