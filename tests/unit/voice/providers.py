"""Servers that speak Sarvam's and Bhashini's documented wire, for tests, with their faults."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from indai.voice.audio import HEARING, Audio, from_wav, wav

SOUND = Audio(b"\1\0" * 1600, HEARING)
KEYS = {"vault:sarvam": "sk-sarvam", "vault:ulca": "ulca-key"}


async def secret_of(reference: str) -> str:
    return KEYS[reference]


@dataclass
class Provider:
    """One server for both. `fault`: what calls answer instead: a status, or a word of `_broken`."""

    url: str = ""
    fault: int | str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    compute_key: str = "compute-1"
    configured: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def _broken(self) -> web.StreamResponse | None:
        match self.fault:
            case int(status):
                return web.json_response({"error": {"message": "the key sk-sarvam is bad"}}, status=status)
            case "slow":
                await self.closing.wait()
            case "html":
                return web.Response(text="<html>", content_type="text/html")
            case "empty":
                return web.json_response({})
            case "elsewhere":
                return web.Response(status=302, headers={"Location": "http://127.0.0.1:9/"})
        return None

    async def sarvam_hear(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        seconds = from_wav(file.file.read()).seconds
        self.asked.append(("hear", (form["model"], form["language_code"], seconds)))
        if request.headers.get("api-subscription-key") != KEYS["vault:sarvam"]:
            return web.json_response({"error": {"code": "invalid_api_key_error"}}, status=403)
        return await self._broken() or web.json_response(
            {"request_id": "20241115", "transcript": " मुझे कल मिलना है ", "language_code": "hi-IN"}
        )

    async def sarvam_say(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(("say", await request.json()))
        if request.headers.get("api-subscription-key") != KEYS["vault:sarvam"]:
            return web.json_response({"error": {"code": "invalid_api_key_error"}}, status=403)
        sound = base64.b64encode(wav(SOUND)).decode()
        return await self._broken() or web.json_response({"request_id": "20241115", "audios": [sound]})

    async def bhashini_config(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("userID") != "user" or request.headers.get("ulcaApiKey") != KEYS["vault:ulca"]:
            return web.json_response({"message": "invalid"}, status=401)
        body = await request.json()
        self.configured += 1
        tasks = body["pipelineTasks"]
        found = [
            {"taskType": each["taskType"],
             "config": [{"serviceId": f"ai4bharat/{each['taskType']}", "modelId": "1", **each["config"]}]}
            for each in tasks
        ]  # fmt: skip
        if any(each["config"]["language"]["sourceLanguage"] == "sat" for each in tasks):
            return web.json_response({"pipelineResponseConfig": []})
        place = {
            "callbackUrl": f"{self.url}/services/inference/pipeline",
            "inferenceApiKey": {"name": "Authorization", "value": self.compute_key},
            "isMultilingualEnabled": True,
            "isSyncApi": True,
        }
        return web.json_response({"pipelineResponseConfig": found, "pipelineInferenceAPIEndPoint": place})

    async def bhashini_compute(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != self.compute_key:
            return web.json_response({"detail": "Invalid API key"}, status=401)
        body = await request.json()
        self.asked.append(("compute", body))
        if (broken := await self._broken()) is not None:
            return broken
        answers: list[dict[str, Any]] = []
        for task in body["pipelineTasks"]:
            kind = task["taskType"]
            output = {
                "asr": {"source": "मुझे कल मिलना है"},
                "translation": {"source": "मुझे", "target": "me tomorrow"},
            }
            audio = [{"audioContent": base64.b64encode(wav(SOUND)).decode(), "audioUri": None}]
            answers.append(
                {
                    "taskType": kind,
                    "config": None,
                    "output": [output[kind]] if kind in output else None,
                    "audio": audio if kind == "tts" else None,
                }
            )
        return web.json_response({"pipelineResponse": answers})


@contextlib.asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    served = Provider()
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.add_routes(
        [
            web.post("/speech-to-text", served.sarvam_hear),
            web.post("/text-to-speech", served.sarvam_say),
            web.post("/ulca/apis/v0/model/getModelsPipeline", served.bhashini_config),
            web.post("/services/inference/pipeline", served.bhashini_compute),
        ]
    )
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        served.closing.set()
        await runner.cleanup()
