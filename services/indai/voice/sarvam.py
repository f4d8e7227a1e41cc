"""Sarvam's speech: `speech-to-text` and `text-to-speech`, with the header `api-subscription-key`.

https://docs.sarvam.ai/api-reference-docs (read in November 2026). Sound travels as WAV, in a form one way and
in base64 the other.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import aiohttp
from indai.protocol.errors import IndaiError
from indai.voice.audio import HEARING, Audio, from_wav, wav
from indai.voice.http import SecretOf, post
from indai.voice.speech import Health, Heard, failed, no_such_language

NAME = "sarvam"
BASE_URL = "https://api.sarvam.ai"
# Its codes by our names of languages; Odia is "od" there.
_CODES: Mapping[str, str] = {
    "bn": "bn-IN", "en": "en-IN", "gu": "gu-IN", "hi": "hi-IN", "kn": "kn-IN", "ml": "ml-IN", "mr": "mr-IN",
    "or": "od-IN", "pa": "pa-IN", "ta": "ta-IN", "te": "te-IN",
}  # fmt: skip
_OURS = {code: language for language, code in _CODES.items()}
_ANY = "unknown"  # it finds the language out


class Sarvam:
    """The engine; `key` is the reference of the subscription key."""

    name = NAME

    def __init__(
        self,
        session: aiohttp.ClientSession,
        secret_of: SecretOf,
        key: str,
        *,
        base_url: str = BASE_URL,
        hearing_model: str = "saarika:v2.5",
        speaking_model: str = "bulbul:v2",
        speaker: str = "anushka",
    ) -> None:
        self._session, self._secret_of, self._key = session, secret_of, key
        self._base, self._speaker = base_url.rstrip("/"), speaker
        self._hearing_model, self._speaking_model = hearing_model, speaking_model

    def hears(self, language: str) -> bool:
        """Eleven languages, and "" for any of them."""
        return language in _CODES or not language

    def speaks(self, language: str) -> bool:
        """Eleven languages."""
        return language in _CODES

    async def hear(self, audio: Audio, language: str) -> Heard:
        """Recognise."""
        if not self.hears(language):
            raise no_such_language("understands", language)
        form = aiohttp.FormData()
        form.add_field("file", wav(audio.at(HEARING)), filename="speech.wav", content_type="audio/wav")
        form.add_field("model", self._hearing_model)
        form.add_field("language_code", _CODES.get(language, _ANY))
        answer = await post(
            self._session, NAME, f"{self._base}/speech-to-text", await self._headers(), data=form
        )
        text, code = answer.get("transcript"), answer.get("language_code")
        if not isinstance(text, str):
            raise failed(NAME, "answered without a transcript")
        return Heard(text.strip(), _OURS.get(str(code), language))

    async def say(self, text: str, language: str) -> Audio:
        """Speak."""
        if language not in _CODES:
            raise no_such_language("speaks", language)
        body = {
            "text": text,
            "target_language_code": _CODES[language],
            "model": self._speaking_model,
            "speaker": self._speaker,
            "speech_sample_rate": HEARING,
        }
        answer = await post(
            self._session, NAME, f"{self._base}/text-to-speech", await self._headers(), json=body
        )
        sounds = answer.get("audios")
        try:
            return from_wav(base64.b64decode(sounds[0], validate=True))  # type: ignore[index]
        except (TypeError, IndexError, KeyError, binascii.Error, IndaiError):
            raise failed(NAME, "answered without sound") from None

    async def check(self) -> Health:
        """Says a word."""
        try:
            await self.say("ok", "en")
        except IndaiError as error:
            return Health(NAME, usable=False, words=str(error))
        return Health(NAME, usable=True, words="sarvam speaks")

    async def close(self) -> None:
        """Nothing runs."""

    async def _headers(self) -> dict[str, str]:
        return {"api-subscription-key": await self._secret_of(self._key)}
