"""A local server that speaks the outbound APIs of all providers, and misbehaves as told."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.web_request import FileField

Json = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """An answer in the place of the usual one; `hang` never answers."""

    status: int = 503
    body: Any = ""
    headers: tuple[tuple[str, str], ...] = ()
    hang: bool = False


@dataclass
class Provider:
    """`sent` are the messages that were accepted, `signs` reads and typing, `uploads` files that were brought
    before their message (as what, named how, and what is in them), `faults` the next answers."""

    sent: list[Json] = field(default_factory=list)
    tried: list[Json] = field(default_factory=list)
    signs: list[Json] = field(default_factory=list)
    uploads: list[Json] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    stays_down: Fault | None = None
    down_for: str = ""  # only requests with this in their path find it down
    files: dict[str, bytes] = field(default_factory=dict)
    says: dict[str, Fault] = field(
        default_factory=dict
    )  # to questions about the account, by their path's end
    address: str = ""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[Provider]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def until(self, count: int, *, signs: int = 0) -> list[Json]:
        """Waits for so many messages; gives them."""
        async with asyncio.timeout(60), self.news:
            await self.news.wait_for(lambda: len(self.sent) >= count and len(self.signs) >= signs)
        return self.sent

    async def until_tried(self, count: int) -> None:
        """Waits for so many attempts."""
        async with asyncio.timeout(60), self.news:
            await self.news.wait_for(lambda: len(self.tried) >= count)

    def texts(self) -> list[str]:
        """The words of what was sent."""
        return [words(each) for each in self.sent]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        asks = ("/getFile", "/auth.test", "/getMe", "/setWebhook", "/getWebhookInfo")
        if (said := next((each for end, each in self.says.items() if path.endswith(end)), None)) is not None:
            return web.json_response(said.body, status=said.status, headers=dict(said.headers))
        if request.method == "GET" or path.endswith(asks):
            return await self._told(request)
        if path.startswith("/upload/"):
            await self._note(self.uploads, {"path": path, "content": await request.read()})
            return web.Response(text=f"OK - {len(self.uploads[-1]['content'])}")
        fields = await request.post() if "form" in request.content_type else await request.json()
        body: Json = {name: _part(value) for name, value in fields.items()}
        sign = body.get("status") == "read" or path.endswith(("/sendChatAction", "/answerCallbackQuery"))
        if sign or "/reactions." in path:
            await self._note(self.signs, body | {"path": path})
            return web.json_response({"ok": True, "success": True})
        self.times.append(asyncio.get_running_loop().time())
        await self._note(self.tried, body)
        fault = self.faults.pop(0) if self.faults else self.stays_down if self.down_for in path else None
        if fault is not None:
            if fault.hang:
                await asyncio.Event().wait()
            text = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
            return web.Response(status=fault.status, text=text, headers=dict(fault.headers))
        if path.endswith(("/media", "/files.getUploadURLExternal")):
            return web.json_response(await self._upload(path, body))
        await self._note(self.sent, body)
        return web.json_response(_accepted(path, body, next(self._numbers)))

    async def _upload(self, path: str, body: Json) -> Json:
        """Where a file is brought to, or that it is here."""
        number = next(self._numbers)
        if path.endswith("/media"):
            await self._note(self.uploads, body)
            return {"id": f"media-{number}"}
        return {"ok": True, "upload_url": f"{self.address}/upload/v1/{number}", "file_id": f"F{number}"}

    async def _note(self, where: list[Json], what: Json) -> None:
        async with self.news:
            where.append(what)
            self.news.notify_all()

    async def _told(self, request: web.Request) -> web.Response:
        """Files, and questions about the account."""
        if (stored := self.files.get(request.path)) is not None:
            return web.Response(body=stored)
        if request.path.endswith("/getWebhookInfo"):
            hooks = [each["url"] for each in self.signs if each["path"].endswith("/setWebhook")]
            return web.json_response({"ok": True, "result": {"url": hooks[-1] if hooks else ""}})
        if request.path.endswith("/getFile"):
            file_id = (await request.json())["file_id"]
            return web.json_response({"ok": True, "result": {"file_path": f"voice/{file_id}"}})
        if request.path.startswith("/106540352242922"):
            good = request.headers["authorization"] == "Bearer EAAG-token"
            return web.json_response(
                {"id": "1"} if good else {"error": {"code": 190}}, status=200 if good else 401
            )
        if f"/file{request.path}" in self.files:
            url = f"{self.address}/file{request.path}"
            return web.json_response({"url": url, "mime_type": "audio/ogg", "id": request.path[1:]})
        if request.method == "GET":
            return web.json_response({"error": {"code": 100}}, status=404)
        await self._note(self.signs, {"path": request.path, **(await request.json())})
        return web.json_response({"ok": True, "result": True})


def _part(value: Any) -> Any:
    """A part of a form: of a file, what is said of it and what is in it."""
    if not isinstance(value, FileField):
        return value
    return {"name": value.filename, "type": value.content_type, "content": value.file.read()}


def words(payload: Json) -> str:
    """What a message says, whoever's form it has."""
    message = json.loads(payload["message"]) if "message" in payload else payload
    text = message.get("text")
    inner = message.get("interactive", message.get("content", {}))
    return str(text["body"] if isinstance(text, dict) else text or inner.get("body", inner).get("text", ""))


def _accepted(path: str, body: Json, number: int) -> Json:
    if path.endswith(("/sendMessage", "/sendDocument", "/sendPhoto")):
        return {"ok": True, "result": {"message_id": number, "chat": {"id": int(body["chat_id"])}}}
    if path.endswith("/chat.postMessage"):
        return {"ok": True, "channel": body["channel"], "ts": f"1795408300.{number:06}"}
    if path.endswith("/files.completeUploadExternal"):
        return {"ok": True, "files": [{"id": each["id"]} for each in body["files"]]}
    if "/wa/api/v1/" in path:
        return {"status": "submitted", "messageId": f"gs-{number}"}
    to = body.get("to", body.get("recipient", ""))
    return {
        "messaging_product": "whatsapp",
        "contacts": [{"input": to, "wa_id": to}],
        "messages": [{"id": f"wamid.out{number}"}],
    }
