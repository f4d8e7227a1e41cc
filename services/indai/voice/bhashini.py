"""Bhashini, the public service for India's languages (ULCA pipelines).

Two calls (https://bhashini.gitbook.io/bhashini-apis): the *pipeline configuration* with the user's id and key
answers which service does each task in each language, and the address and key for *compute* calls. That is
kept for an hour, and asked for again when the compute key is refused. Tasks chain: speech to text to another
language's text in one call.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from indai.language.scripts import SCRIPT_OF
from indai.protocol.errors import IndaiError, Refused
from indai.voice.audio import HEARING, Audio, from_wav, wav
from indai.voice.http import SecretOf, checked_url, post
from indai.voice.speech import Health, Heard, failed, no_such_language

NAME = "bhashini"
CONFIG_URL = "https://meity-auth.ulcacontrib.org/ulca/apis/v0/model/getModelsPipeline"
PIPELINE = "64392f96daac500b55c543cd"
"""The pipeline of the Ministry's, as the documentation gives it."""
# The scheduled languages and English; which of them a task really has, the configuration says.
_LANGUAGES = frozenset(SCRIPT_OF)
_CODES = {"kok": "gom"}
_KEEP_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Compute:
    """Where a task is done, and by what."""

    url: str
    header: str
    key: str = field(repr=False)
    service: str
    until: float


class Bhashini:
    """The engine; `key` is the reference of the ULCA API key."""

    name = NAME

    def __init__(
        self,
        session: aiohttp.ClientSession,
        secret_of: SecretOf,
        user: str,
        key: str,
        *,
        config_url: str = CONFIG_URL,
        pipeline: str = PIPELINE,
        gender: str = "female",
    ) -> None:
        self._session, self._secret_of = session, secret_of
        self._user, self._key, self._gender = user, key, gender
        self._url, self._pipeline = config_url, pipeline
        self._known: dict[tuple[str, str, str], _Compute] = {}

    def hears(self, language: str) -> bool:
        """As far as is known before it is asked."""
        return language in _LANGUAGES

    def speaks(self, language: str) -> bool:
        """As far as is known before it is asked."""
        return language in _LANGUAGES

    async def hear(self, audio: Audio, language: str) -> Heard:
        """Task `asr`."""
        return Heard(_text(await self._heard(audio, language, "")), language)

    async def hear_in(self, audio: Audio, language: str, wanted: str) -> Heard:
        """Tasks `asr` and `translation` in one call: what was said, in another language."""
        return Heard(_text(await self._heard(audio, language, wanted)), wanted)

    async def say(self, text: str, language: str) -> Audio:
        """Task `tts`."""
        sound = {"gender": self._gender, "samplingRate": HEARING}
        answer = await self._done([("tts", language, "", sound)], {"input": [{"source": text}]})
        try:
            return from_wav(base64.b64decode(answer[-1]["audio"][0]["audioContent"], validate=True))
        except (TypeError, IndexError, KeyError, binascii.Error, IndaiError):
            raise failed(NAME, "answered without sound") from None

    async def translate(self, text: str, language: str, wanted: str) -> str:
        """Task `translation`."""
        return _text(await self._done([("translation", language, wanted, {})], {"input": [{"source": text}]}))

    async def check(self) -> Health:
        """Asks for the configuration of speaking Hindi."""
        try:
            await self._computes([("tts", "hi", "", {})], fresh=True)
        except IndaiError as error:
            return Health(NAME, usable=False, words=str(error))
        return Health(NAME, usable=True, words="bhashini gives a pipeline")

    async def close(self) -> None:
        """Nothing runs."""

    async def _heard(self, audio: Audio, language: str, wanted: str) -> list[dict[str, Any]]:
        tasks: list[_Task] = [("asr", language, "", {"audioFormat": "wav", "samplingRate": HEARING})]
        if wanted:
            tasks.append(("translation", language, wanted, {}))
        sound = base64.b64encode(wav(audio.at(HEARING))).decode()
        return await self._done(tasks, {"audio": [{"audioContent": sound}]})

    async def _done(self, tasks: Sequence[_Task], data: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What each task answers. A refused compute key is asked for anew, once."""
        try:
            return await self._computed(tasks, data, await self._computes(tasks))
        except Refused:
            return await self._computed(tasks, data, await self._computes(tasks, fresh=True))

    async def _computed(
        self, tasks: Sequence[_Task], data: Mapping[str, Any], computes: Sequence[_Compute]
    ) -> list[dict[str, Any]]:
        pipeline = [
            {"taskType": task, "config": {**_languages(language, wanted), "serviceId": each.service, **more}}
            for (task, language, wanted, more), each in zip(tasks, computes, strict=True)
        ]
        body = {"pipelineTasks": pipeline, "inputData": data}
        first = computes[0]
        answer = await post(self._session, NAME, first.url, {first.header: first.key}, json=body)
        found = answer.get("pipelineResponse")
        if (
            not isinstance(found, list)
            or len(found) != len(tasks)
            or not all(isinstance(x, dict) for x in found)
        ):
            raise failed(NAME, "answered without what was asked")
        return found

    async def _computes(self, tasks: Sequence[_Task], *, fresh: bool = False) -> list[_Compute]:
        for _, language, wanted, _ in tasks:
            if language not in _LANGUAGES or (wanted and wanted not in _LANGUAGES):
                raise no_such_language("has", language)
        names = [task[:3] for task in tasks]
        kept = [self._known.get(name) for name in names]
        now = time.monotonic()
        if not fresh and all(each is not None and each.until > now for each in kept):
            return [each for each in kept if each is not None]
        body = {
            "pipelineTasks": [
                {"taskType": task, "config": _languages(language, wanted)} for task, language, wanted in names
            ],
            "pipelineRequestConfig": {"pipelineId": self._pipeline},
        }
        headers = {"userID": self._user, "ulcaApiKey": await self._secret_of(self._key)}
        answer = await post(self._session, NAME, self._url, headers, json=body)
        found = _configured(answer, len(tasks), now + _KEEP_S)
        self._known.update(zip(names, found, strict=True))
        return found


_Task = tuple[str, str, str, Mapping[str, Any]]
"""Type, language, language wanted ("" but for translations), further configuration."""


def _languages(language: str, wanted: str) -> dict[str, Any]:
    pair = {"sourceLanguage": _CODES.get(language, language)}
    if wanted:
        pair["targetLanguage"] = _CODES.get(wanted, wanted)
    return {"language": pair}


def _configured(answer: Mapping[str, Any], count: int, until: float) -> list[_Compute]:
    try:
        place = answer["pipelineInferenceAPIEndPoint"]
        key = place["inferenceApiKey"]
        services = [str(each["config"][0]["serviceId"]) for each in answer["pipelineResponseConfig"]]
        url, header, value = str(place["callbackUrl"]), str(key["name"]), str(key["value"])
    except (TypeError, IndexError, KeyError):
        raise failed(NAME, "answered without a pipeline for this language") from None
    if len(services) != count:
        raise failed(NAME, "answered without a pipeline for this language")
    return [_Compute(checked_url(url), header, value, service, until) for service in services]


def _text(answer: Sequence[Mapping[str, Any]]) -> str:
    """The last task's words."""
    try:
        said = answer[-1]["output"][0]
        return str(said.get("target") or said["source"]).strip()
    except (TypeError, IndexError, KeyError, AttributeError):
        raise failed(NAME, "answered without words") from None
