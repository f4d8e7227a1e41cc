"""What every engine of speech can do, and in what order engines are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.voice.audio import Audio

LONGEST_TEXT = 1_000
"""Characters said at once: a sentence. Longer is cut by who calls."""
LONGEST_S = 120
"""Seconds recognised at once."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Heard:
    """What was said: "" when no word was recognised. `language` is BCP 47; `confidence` 0 to 1, 0 when the
    engine doesn't say."""

    text: str
    language: str
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an engine can be used now, in words."""

    engine: str
    usable: bool
    words: str


class Speech(Protocol):
    """An engine. Languages are BCP 47 tags without region, as `indai.language` names them.

    Both calls MUST raise an IndaiError and nothing else: UNSUPPORTED for a language it doesn't have,
    PROVIDER_FAILED, UNREACHABLE or DEADLINE_EXCEEDED for what may succeed later or elsewhere.
    """

    @property
    def name(self) -> str:
        """As people and logs call it."""

    def hears(self, language: str) -> bool:
        """Whether it recognises that language."""

    def speaks(self, language: str) -> bool:
        """Whether it has a voice for it."""

    async def hear(self, audio: Audio, language: str) -> Heard:
        """What is said in a piece of sound of at most LONGEST_S."""

    async def say(self, text: str, language: str) -> Audio:
        """A sentence of at most LONGEST_TEXT characters, spoken."""

    async def check(self) -> Health:
        """Whether it can be used, by asking it."""

    async def close(self) -> None:
        """Ends what it runs."""


class Chain:
    """Engines in order: the first that has the language, and when it fails the next."""

    name = "chain"

    def __init__(self, engines: Sequence[Speech]) -> None:
        self.engines = tuple(engines)

    def hears(self, language: str) -> bool:
        """Whether any does."""
        return any(engine.hears(language) for engine in self.engines)

    def speaks(self, language: str) -> bool:
        """Whether any does."""
        return any(engine.speaks(language) for engine in self.engines)

    async def hear(self, audio: Audio, language: str) -> Heard:
        """By the first engine that succeeds; raises what the last one raised."""
        if audio.seconds > LONGEST_S:
            raise InvalidInput(
                Reason.TOO_LARGE, f"The sound is {audio.seconds:.0f} s long.", hint=f"at most {LONGEST_S} s"
            )
        failed: IndaiError | None = None
        for engine in self.engines:
            if engine.hears(language):
                try:
                    return await engine.hear(audio, language)
                except IndaiError as error:
                    failed = self._failed(engine, error)
        raise failed or no_such_language("understands", language)

    async def say(self, text: str, language: str) -> Audio:
        """By the first engine that succeeds; raises what the last one raised."""
        failed: IndaiError | None = None
        for engine in self.engines:
            if engine.speaks(language):
                try:
                    return await engine.say(text[:LONGEST_TEXT], language)
                except IndaiError as error:
                    failed = self._failed(engine, error)
        raise failed or no_such_language("speaks", language)

    async def check(self) -> Health:
        """Usable if one is."""
        found = [await engine.check() for engine in self.engines]
        return Health(self.name, any(each.usable for each in found), "; ".join(each.words for each in found))

    async def close(self) -> None:
        """Closes all."""
        for engine in self.engines:
            await engine.close()

    @staticmethod
    def _failed(engine: Speech, error: IndaiError) -> IndaiError:
        _log.warning("speech engine failed", engine=engine.name, reason=error.reason.name)
        return error


def no_such_language(verb: str, language: str) -> InvalidInput:
    """For a language that no engine has."""
    return InvalidInput(
        Reason.UNSUPPORTED,
        f"No engine here {verb} the language {language or 'und'!r}.",
        hint="Bhashini and Sarvam have Indian languages: see docs/voice.md",
    )


def failed(engine: str, what: str, reason: Reason = Reason.PROVIDER_FAILED) -> Unavailable:
    """An engine's fault, in our words: what it says may quote what it was sent."""
    return Unavailable(reason, f"The speech engine {engine} {what}.")
