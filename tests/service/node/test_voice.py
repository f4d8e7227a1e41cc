"""A sentence that was really spoken ends in a commitment on two nodes, and is answered with sound."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import pytest_asyncio
from indai.client.channels import plain_channel
from indai.desk.pause import LAYER, paused
from indai.v1 import conversation_pb2, desk_pb2, owner_pb2
from indai.v1.conversation_pb2_grpc import ConversationServiceStub
from indai.v1.desk_pb2_grpc import DeskServiceStub
from indai.voice.audio import HEARING, Audio, wav
from indai.voice.local import LocalSpeech

from tests.service.node.world import Node, Owner, world
from tests.service.web.conftest import ALICES, BOBS, Browser

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        shutil.which("espeak-ng") is None, reason="espeak-ng is not installed: apt-get install espeak-ng"
    ),
]


@dataclass
class Town:
    """alice on a node that people reach over HTTP, bob on another."""

    a: Node
    alice: Owner
    bob: Owner

    @property
    def url(self) -> str:
        return self.a.info.addresses["desk"].removesuffix("/desk")

    @contextlib.asynccontextmanager
    async def signed_in(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Alice's browser, signed in at her desk by a code from her own terminal."""
        stub = DeskServiceStub(plain_channel(self.a.info.addresses["owner"], token=self.alice.token))
        code = (await stub.CreateSignInCode(desk_pb2.CreateSignInCodeRequest())).code
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            assert (await Browser(self.url, http).sign_in(code)).path == "/desk"
            yield http


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    base: Path = tmp_path_factory.mktemp("voice")
    async with contextlib.AsyncExitStack() as stack:
        registry = await stack.enter_async_context(world(base))
        a = await stack.enter_async_context(registry.node("node-a", "127.0.0.1:0", "llm", "memory", "edge"))
        b = await stack.enter_async_context(registry.node("node-b"))
        alice, bob = await a.agent("ind.ai/alice", ALICES), await b.agent("ind.ai/bob", BOBS)
        yield Town(a, alice, bob)


async def spoken(sentence: str) -> Audio:
    """By the clearest voice of espeak-ng, with a pause behind it."""
    audio = await LocalSpeech(voices={"en": "en-us+klatt4"}).say(sentence, "en")
    hush = np.random.default_rng(0).normal(0, 12, HEARING).astype(np.int16).tobytes()
    return Audio(hush[: HEARING // 2] + audio.at(HEARING).pcm + hush, HEARING)


async def talked(socket: aiohttp.ClientWebSocketResponse, sentence: str) -> list[Any]:
    """What comes back for a spoken sentence: messages, and seconds of sound."""
    audio = await spoken(sentence)
    for at in range(0, len(audio.pcm), 6_400):
        await socket.send_bytes(audio.pcm[at : at + 6_400])
    heard: list[Any] = []
    async with asyncio.timeout(90):
        while not heard or not isinstance(heard[-1], dict) or heard[-1]["type"] not in ("finished", "error"):
            message = await socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                heard.append(Audio(message.data, HEARING).seconds)
            else:
                heard.append(json.loads(message.data))
    return heard


async def test_a_spoken_sentence_ends_in_a_commitment_on_both_nodes(town: Town) -> None:
    async with (
        town.signed_in() as http,
        http.ws_connect(f"{town.url}/voice/ind.ai/alice", headers={"Origin": town.url}) as socket,
    ):
        await socket.send_json({"type": "start", "language": "en", "time_zone": "Asia/Kolkata"})
        assert (await socket.receive_json())["type"] == "ready"
        heard = await talked(socket, "Set up a meeting with Bob for half an hour this week")
        assert heard[0]["text"] == "set up a meeting with bob for half an hour this week"
        assert "bob" in heard[-1]["text"]
        assert sum(each for each in heard if isinstance(each, float)) > 1, "nothing was said"
    for party in (town.alice, town.bob):
        threads = (await party.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
        assert [each.state for each in threads] == [owner_pb2.THREAD_STATE_COMMITTED]


async def test_a_caller_who_is_not_signed_in_stands_at_the_public_door(town: Town) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{town.url}/voice/ind.ai/alice") as socket,
    ):
        await socket.send_json({"type": "start", "language": "en"})
        await socket.receive_json()
        heard = await talked(socket, "What can you do")
        assert heard[0]["text"] == "what can you do"
        assert heard[-1]["type"] == "finished"
    sessions = await _sessions(town.a, town.alice)
    assert {each.door for each in sessions if "voice" in each.channels} == {"private", "public"}


async def test_a_caller_hears_that_an_agent_is_paused_and_its_owner_is_still_answered(town: Town) -> None:
    layer = owner_pb2.ActivatePolicyRequest(yaml=paused("", "refuse"), layer=LAYER)
    await town.alice.stub.ActivatePolicy(layer)
    async with town.signed_in() as hers, aiohttp.ClientSession() as strangers:
        said = []
        for http in (strangers, hers):
            async with http.ws_connect(
                f"{town.url}/voice/ind.ai/alice", headers={"Origin": town.url}
            ) as socket:
                await socket.send_json({"type": "start", "language": "en"})
                await socket.receive_json()
                heard = await talked(socket, "What can you do")
                assert sum(each for each in heard if isinstance(each, float)) > 1, "nothing was said"
                said.append(heard[-1]["text"])
    assert "takes no messages at the moment" in said[0]
    assert "takes no messages" not in said[1]
    await town.alice.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml="", layer=LAYER))


async def test_nobody_is_called_who_does_not_live_here(town: Town) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{town.url}/voice/ind.ai/nobody") as socket,
    ):
        await socket.send_json({"type": "start", "language": "en"})
        await socket.receive_json()
        heard = await talked(socket, "What can you do")
        assert heard[-1]["type"] == "error"
        assert heard[-1]["reason"] == "NOT_FOUND"


async def test_a_voice_note_is_a_message(town: Town, tmp_path: Path) -> None:
    from indai.edge.media import Transcribe
    from indai.node.voice_role import VoiceRole
    from indai.voice.config import engines, parse_config

    async with aiohttp.ClientSession() as session:
        speech = engines(parse_config(""), session, _no_secret)
        transcribe: Transcribe = VoiceRole(speech, ()).transcribe
        try:
            note = wav(await spoken("Cancel my meeting with Priya"))
            assert await transcribe(note, "audio/ogg", "en") == "cancel my meeting with priya"
        finally:
            await speech.close()


async def _no_secret(_: str) -> str:
    raise AssertionError("the local engine needs none")


async def _sessions(node: Node, owner: Owner) -> list[conversation_pb2.Session]:
    stub = ConversationServiceStub(plain_channel(node.info.addresses["owner"], token=owner.token))
    return list(
        (await stub.ListSessions(conversation_pb2.ListSessionsRequest(handle="ind.ai/alice"))).sessions
    )
