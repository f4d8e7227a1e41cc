"""Sarvam and Bhashini over their documented wire, and the order in which engines are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.voice import http
from indai.voice.audio import HEARING, Audio
from indai.voice.bhashini import Bhashini
from indai.voice.config import engines, parse_config
from indai.voice.sarvam import Sarvam
from indai.voice.speech import Chain, Heard

from tests.unit.voice.providers import SOUND, Provider, provider, secret_of


@dataclass
class Room:
    server: Provider
    session: aiohttp.ClientSession

    def sarvam(self, key: str = "vault:sarvam") -> Sarvam:
        return Sarvam(self.session, secret_of, key, base_url=self.server.url)

    def bhashini(self, key: str = "vault:ulca") -> Bhashini:
        url = f"{self.server.url}/ulca/apis/v0/model/getModelsPipeline"
        return Bhashini(self.session, secret_of, "user", key, config_url=url)


@pytest_asyncio.fixture
async def room() -> AsyncIterator[Room]:
    async with provider() as server, aiohttp.ClientSession() as session:
        yield Room(server, session)


async def test_sarvam_hears_and_speaks(room: Room) -> None:
    sarvam = room.sarvam()
    assert await sarvam.hear(SOUND.at(8_000), "hi") == Heard("मुझे कल मिलना है", "hi")
    assert await sarvam.say("ନମସ୍କାର", "or") == SOUND
    assert room.server.asked[0] == ("hear", ("saarika:v2.5", "hi-IN", SOUND.seconds))
    said = room.server.asked[1][1]
    assert (said["text"], said["target_language_code"], said["speech_sample_rate"]) == (
        "ନମସ୍କାର",
        "od-IN",
        HEARING,
    )
    assert (await sarvam.check()).usable


async def test_sarvam_finds_a_language_out(room: Room) -> None:
    assert (await room.sarvam().hear(SOUND, "")).language == "hi"
    assert room.server.asked[0][1][1] == "unknown"


async def test_bhashini_asks_for_its_pipeline_once(room: Room) -> None:
    bhashini = room.bhashini()
    assert await bhashini.hear(SOUND, "hi") == Heard("मुझे कल मिलना है", "hi")
    assert await bhashini.hear(SOUND, "hi") == Heard("मुझे कल मिलना है", "hi")
    assert room.server.configured == 1
    assert await bhashini.say("नमस्ते", "hi") == SOUND
    task = room.server.asked[-1][1]["pipelineTasks"][0]
    assert (task["taskType"], task["config"]["serviceId"]) == ("tts", "ai4bharat/tts")


async def test_bhashini_chains_tasks_in_one_call(room: Room) -> None:
    assert await room.bhashini().hear_in(SOUND, "hi", "en") == Heard("me tomorrow", "en")
    tasks = room.server.asked[0][1]["pipelineTasks"]
    assert [task["taskType"] for task in tasks] == ["asr", "translation"]
    assert tasks[1]["config"]["language"] == {"sourceLanguage": "hi", "targetLanguage": "en"}
    assert await room.bhashini().translate("मुझे", "hi", "en") == "me tomorrow"


async def test_a_compute_key_that_has_changed_is_asked_for_again(room: Room) -> None:
    bhashini = room.bhashini()
    await bhashini.say("नमस्ते", "hi")
    room.server.compute_key = "compute-2"
    assert await bhashini.say("नमस्ते", "hi") == SOUND
    assert room.server.configured == 2


async def test_a_language_without_a_pipeline_is_said_so(room: Room) -> None:
    with pytest.raises(IndaiError) as refused:
        await room.bhashini().hear(SOUND, "sat")
    assert refused.value.reason is Reason.PROVIDER_FAILED
    with pytest.raises(InvalidInput) as unsupported:
        await room.bhashini().hear(SOUND, "fr")
    assert unsupported.value.reason is Reason.UNSUPPORTED


FAULTS: list[tuple[int | str, Reason]] = [
    (401, Reason.PROVIDER_REFUSED),
    (403, Reason.PROVIDER_REFUSED),
    (422, Reason.PROVIDER_FAILED),
    (429, Reason.RATE_LIMITED),
    (500, Reason.PROVIDER_FAILED),
    ("slow", Reason.DEADLINE_EXCEEDED),
    ("html", Reason.PROVIDER_FAILED),
    ("empty", Reason.PROVIDER_FAILED),
    ("elsewhere", Reason.PROVIDER_FAILED),
]


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
async def test_a_fault_is_an_error_of_ours_that_repeats_nothing(
    room: Room, fault: int | str, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_TIMEOUT", aiohttp.ClientTimeout(total=0.3))
    room.server.fault = fault
    for engine in (room.sarvam(), room.bhashini()):
        for call in (engine.hear(SOUND, "hi"), engine.say("नमस्ते", "hi")):
            with pytest.raises(IndaiError) as failed:
                await call
            assert failed.value.reason is reason
            assert "sk-sarvam" not in str(failed.value)
        assert fault in (401, 403) or isinstance(engine, Bhashini) or not (await engine.check()).usable


async def test_too_large_an_answer_is_not_read(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER", 1_000)
    with pytest.raises(IndaiError, match="too much"):
        await room.sarvam().say("नमस्ते", "hi")


async def test_a_server_that_is_away_is_unreachable(room: Room) -> None:
    away = Sarvam(room.session, secret_of, "vault:sarvam", base_url="http://127.0.0.1:9")
    with pytest.raises(IndaiError) as failed:
        await away.say("नमस्ते", "hi")
    assert failed.value.reason is Reason.UNREACHABLE


async def test_secrets_are_not_sent_in_the_clear(room: Room) -> None:
    abroad = Sarvam(room.session, secret_of, "vault:sarvam", base_url="http://api.sarvam.ai")
    with pytest.raises(InvalidInput, match="in the clear"):
        await abroad.say("नमस्ते", "hi")


async def test_the_next_engine_is_asked_when_one_fails(room: Room) -> None:
    away = Sarvam(room.session, secret_of, "vault:sarvam", base_url="http://127.0.0.1:9")
    chain = Chain([away, room.bhashini()])
    assert (await chain.hear(SOUND, "hi")).text == "मुझे कल मिलना है"
    assert await chain.say("नमस्ते", "hi") == SOUND
    with pytest.raises(IndaiError) as failed:
        await Chain([away]).say("नमस्ते", "hi")
    assert failed.value.reason is Reason.UNREACHABLE
    with pytest.raises(InvalidInput) as unsupported:
        await chain.hear(SOUND, "fr")
    assert unsupported.value.reason is Reason.UNSUPPORTED
    with pytest.raises(InvalidInput) as long:
        await chain.hear(Audio(b"\0\0" * 8_000 * 121, 8_000), "hi")
    assert long.value.reason is Reason.TOO_LARGE


def test_the_configuration_names_engines_in_order_and_the_local_one_is_last() -> None:
    text = """
version: 1
engines:
  - {kind: bhashini, user_id: u, api_key: "vault:ulca"}
  - {kind: sarvam, api_key: "vault:sarvam"}
numbers:
  "+918012345678": {handle: ind.ai/alice, auth_token: "vault:twilio", language: kn}
"""
    config = parse_config(text)
    session: aiohttp.ClientSession = None  # type: ignore[assignment] # not used before a call
    assert [engine.name for engine in engines(config, session, secret_of).engines] == [
        "bhashini",
        "sarvam",
        "local",
    ]
    assert [engine.name for engine in engines(parse_config(""), session, secret_of).engines] == ["local"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('version: 1\nengines: [{kind: sarvam, api_key: "sk-live-1"}]', "engines.0.sarvam.api_key"),
        ('version: 1\nengines: [{kind: sarvam, api_key: "vault:a", base_url: "http://x.y"}]', "base_url"),
        ("version: 2", "version"),
        ("version: 1\nnumbers: {'12': {}}", "numbers"),
        ("version: 1\nmore: 1", "more"),
        ("[", "YAML"),
        ("- 1", "beginning"),
    ],
)
def test_a_wrong_configuration_is_named_without_its_secrets(text: str, where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_config(text)
    assert where in str(refused.value)
    assert "sk-live-1" not in repr(refused.value.fields) + str(refused.value)
